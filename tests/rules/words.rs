//! Phrases that no reader should have to read twice: `words.tsv` lists them, and how many are left, which may only fall.
//!
//! Kinds of rows: `A` holds everywhere, `S` in all that users read (string literals, help, manual pages, documents, snapshots),
//! `C` in comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};

const LIST: &str = "tests/rules/words.tsv";
/// Quotes what it warns of.
const STYLE: &str = "docs/style.md";

/// What may stay: the phrase, a text around it, and why.
const ALLOWED: [(&str, &str, &str); 3] = [
    ("whoever / nobody / somebody", "\"nobody", "an account of the system"),
    ("whoever / nobody / somebody", "`nobody`", "an account of the system"),
    ("wants / wanted", "\"wanted\"", "a field in the output of Debug"),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Comment,
    Text,
}

struct Piece {
    path: String,
    line: usize,
    place: Place,
    text: String,
}

struct Row {
    phrase: String,
    regex: Regex,
    better: String,
    kind: char,
    /// The most that may be left, in comments and in texts.
    left: [usize; 2],
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &str, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(directory)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(path.to_str().unwrap(), extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

/// Comments and string literals of a source. Comments of `cli/` that document are the texts of `--help`.
fn of_source(path: &str, text: &str, tokens: &Regex, found: &mut Vec<Piece>) {
    let continued = Regex::new(r"\\\n\s*").unwrap();
    let values = Regex::new(r"\{[a-z_]+\}").unwrap();
    let mut line = 1;
    let mut end = 0;
    for token in tokens.find_iter(text) {
        line += text[end..token.start()].matches('\n').count();
        end = token.start();
        let is_comment = token.as_str().starts_with("//");
        let is_help = path.starts_with("src/cli/") && token.as_str().starts_with("///");
        if is_comment || token.as_str().starts_with(['"', 'r']) {
            let place = if is_comment && !is_help { Place::Comment } else { Place::Text };
            let text = continued.replace_all(token.as_str(), "");
            let text = if is_comment { text.into_owned() } else { values.replace_all(&text, "{}").into_owned() };
            found.push(Piece { path: path.to_owned(), line, place, text });
        }
    }
}

fn pieces() -> Vec<Piece> {
    let tokens = Regex::new(r##"(?s)//[^\n]*|r#".*?"#|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'"##).unwrap();
    let mut found = Vec::new();
    let mut paths = Vec::new();
    files("src", "rs", &mut paths);
    files("docs", "md", &mut paths);
    files("man", "1", &mut paths);
    files("tests", "snap", &mut paths);
    paths.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
    for path in paths {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        if name.ends_with(".rs") {
            of_source(&name, &text, &tokens, &mut found);
        } else if name != STYLE {
            let piece = |(index, line): (usize, &str)| Piece {
                path: name.clone(),
                line: index + 1,
                place: Place::Text,
                text: line.to_owned(),
            };
            // Blocks of code are programs, or output whose texts are in the sources.
            let mut in_code = false;
            let is_prose = |(_, line): &(usize, &str)| {
                let is_fence = name.ends_with(".md") && line.starts_with("```");
                in_code ^= is_fence;
                !in_code && !is_fence
            };
            found.extend(text.lines().enumerate().filter(is_prose).map(piece));
        }
    }
    found
}

fn row(line: &str) -> Row {
    let [phrase, regex, better, kind, comments, texts] = line.split('\t').collect::<Vec<_>>()[..] else {
        panic!("{LIST}: six columns, not: {line}");
    };
    let regex = RegexBuilder::new(regex).case_insensitive(true).multi_line(true).build().unwrap();
    let left = [comments.parse().unwrap(), texts.parse().unwrap()];
    Row { phrase: phrase.to_owned(), regex, better: better.to_owned(), kind: kind.chars().next().unwrap(), left }
}

impl Row {
    fn holds_in(&self, place: Place) -> bool {
        match self.kind {
            'A' => true,
            'S' => place == Place::Text,
            'C' => place == Place::Comment,
            kind => panic!("{LIST}: no kind {kind}"),
        }
    }

    fn hits<'a>(&self, pieces: &'a [Piece]) -> BTreeMap<Place, Vec<&'a Piece>> {
        let mut hits: BTreeMap<Place, Vec<&Piece>> = BTreeMap::new();
        let is_allowed =
            |text: &str| ALLOWED.iter().any(|(phrase, part, _)| *phrase == self.phrase && text.contains(part));
        for piece in pieces.iter().filter(|piece| self.holds_in(piece.place) && !is_allowed(&piece.text)) {
            hits.entry(piece.place).or_default().extend(self.regex.find_iter(&piece.text).map(|_| piece));
        }
        hits
    }
}

/// `UPDATE_WORDS=1` writes the lower counts; nothing raises one.
#[test]
fn phrases_only_become_fewer() {
    let list = fs::read_to_string(root().join(LIST)).unwrap();
    let pieces = pieces();
    assert!(pieces.iter().filter(|piece| piece.place == Place::Comment).count() > 10_000);
    assert!(pieces.iter().filter(|piece| piece.place == Place::Text).count() > 10_000);
    let mut faults = Vec::new();
    let mut written = String::new();
    for line in list.lines() {
        if line.starts_with('#') {
            written.push_str(&format!("{line}\n"));
            continue;
        }
        let row = row(line);
        let hits = row.hits(&pieces);
        let mut counts = row.left;
        for (place, most) in [Place::Comment, Place::Text].into_iter().zip(&mut counts) {
            let found = hits.get(&place).map_or(&[][..], Vec::as_slice);
            if found.len() > *most {
                let shown =
                    found.iter().map(|piece| format!("  {}:{}: {}\n", piece.path, piece.line, piece.text.trim()));
                let shown: String = shown.collect();
                let found = found.len();
                faults.push(format!("{}: {found}, at most {most}; write {}\n{shown}", row.phrase, row.better));
            }
            *most = found.len().min(*most);
        }
        let kept = line.rsplitn(3, '\t').last().unwrap();
        written.push_str(&format!("{kept}\t{}\t{}\n", counts[0], counts[1]));
    }
    if std::env::var_os("UPDATE_WORDS").is_some() {
        fs::write(root().join(LIST), written).unwrap();
    }
    assert!(faults.is_empty(), "{}", faults.concat());
}

/// Words of one sentence; a colon or a semicolon ends it as a period does.
const MAX_WORDS: usize = 25;

/// Made from the code, or quotes what it warns of.
const NOT_BY_HAND: [&str; 5] = ["docs/json.md", "docs/codes.md", "docs/findings.md", "docs/SUMMARY.md", STYLE];

/// Longer texts that are no sentences: a part of the text, and why.
const NO_SENTENCES: [(&str, &str); 5] = [
    ("SQL_ASCII EUC_JP", "names of encodings"),
    ("SELECT ", "a query"),
    ("ff0f01ff", "bytes"),
    ("[tutorial](docs/tutorial.md), ", "names of pages"),
    ("click a tab to open", "keys in the help of the terminal UI, a list"),
];

/// What a sentence is made of.
struct Sentences {
    /// A name in backticks or braces, a link or a path is one word.
    names: Regex,
    ends: Regex,
    word: Regex,
}

impl Sentences {
    fn new() -> Self {
        Self {
            names: Regex::new(r"`[^`]*`|\{[^}]*\}|\]\([^)]*\)").unwrap(),
            ends: Regex::new(r"[.;:!?…]\**(?:\s+|$)|\\n|\n\s*\n|\n  +| {3,}").unwrap(),
            word: Regex::new(r"[A-Za-z][A-Za-z0-9_/.'’-]*").unwrap(),
        }
    }

    /// The long ones of a text.
    fn long(&self, text: &str) -> Vec<String> {
        let text = self.names.replace_all(text, "N ");
        let is_long = |one: &&str| self.word.find_iter(one).count() > MAX_WORDS;
        self.ends.split(&text).filter(is_long).map(str::to_owned).collect()
    }
}

/// Paragraphs, items and cells of a document, without its blocks of code.
fn paragraphs(text: &str) -> Vec<String> {
    let begin = Regex::new(r"^\s*(#+|-|\*|\d+\.) ").unwrap();
    let (mut found, mut in_code) = (vec![String::new()], false);
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if line.starts_with('|') {
            found.extend(line.split('|').map(str::to_owned));
            found.push(String::new());
        } else if in_code || line.starts_with("```") || line.starts_with("    ") || line.trim().is_empty() {
            found.push(String::new());
        } else {
            if begin.is_match(line) {
                found.push(String::new());
            }
            let last = found.last_mut().unwrap();
            last.push_str(line.trim());
            last.push(' ');
        }
    }
    found
}

/// Sentences of the programs and of documents that are written by hand.
#[test]
fn sentences_are_short() {
    let sentences = Sentences::new();
    let is_allowed = |text: &str| NO_SENTENCES.iter().any(|(part, _)| text.contains(part));
    let of_programs = pieces()
        .into_iter()
        .filter(|piece| piece.path.starts_with("src/") && piece.place == Place::Text && piece.text.starts_with('"'));
    let mut texts: Vec<(String, String)> =
        of_programs.map(|piece| (format!("{}:{}", piece.path, piece.line), piece.text)).collect();
    assert!(texts.len() > 5_000);
    let mut paths = Vec::new();
    files("docs", "md", &mut paths);
    paths.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
    for path in paths {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        if !NOT_BY_HAND.contains(&name) {
            let text = fs::read_to_string(&path).unwrap();
            texts.extend(paragraphs(&text).into_iter().map(|one| (name.to_owned(), one)));
        }
    }
    let long = texts.iter().filter(|(_, text)| !is_allowed(text)).flat_map(|(place, text)| {
        sentences.long(text).into_iter().map(move |one| format!("{place}: {}\n", one.trim()))
    });
    let long: String = long.collect();
    assert!(long.is_empty(), "more than {MAX_WORDS} words:\n{long}");
    assert_eq!(sentences.long(&"word ".repeat(MAX_WORDS + 1)).len(), 1);
}
