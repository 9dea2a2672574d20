//! The module map: each module uses only those in the rows above its own.

use std::fs;
use std::path::{Path, PathBuf};

/// Rows of the module map, lowest first. Modules of one row may not use each other.
const ROWS: [&str; 12] = [
    "types", "report", "parsers", "cluster", "analysis", "repair", "rebuild", "salvage", "output", "inspect", "tui",
    "cli",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&root, &mut found);
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

fn row(module: &str) -> usize {
    ROWS.iter().position(|row| *row == module).unwrap_or_else(|| panic!("{module} is not in the module map"))
}

#[test]
fn modules_use_only_the_rows_above() {
    let mut checked = 0;
    for (name, text) in all_sources() {
        let module = name.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        if module == "lib" || module == "bin" {
            continue;
        }
        for used in text.split("crate::").skip(1) {
            let used = used.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap();
            // `::crc32c` and the like name other packages.
            if !ROWS.contains(&used) {
                continue;
            }
            assert!(used == module || row(used) < row(&module), "{name}: {module} may not use {used}");
            checked += 1;
        }
    }
    assert!(checked > 50, "the scan found only {checked} uses");
}

/// Rooms of `analysis`, lowest first; files beside them may be used by all and use none.
const ROOMS: [&str; 8] = ["pages", "wal", "changes", "start", "dwb", "verdict", "plan", "innodb"];

#[test]
fn rooms_of_judgement_use_only_those_before_them() {
    let mut checked = 0;
    for (name, text) in all_sources().into_iter().filter(|(name, _)| name.starts_with("analysis/")) {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let place = name["analysis/".len()..].split_once('/').map(|(room, _)| room);
        let own = place.map(|room| ROOMS.iter().position(|known| *known == room).expect("the room is listed"));
        for used in code.split("crate::analysis::").skip(1) {
            assert!(!used.starts_with('{'), "{name}: one line for each room");
            let used = used.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap();
            let Some(room) = ROOMS.iter().position(|known| *known == used) else { continue };
            assert!(own.is_some_and(|own| room <= own), "{name} may not use {used}");
            checked += 1;
        }
    }
    assert!(checked > 150, "the scan found only {checked} uses");
}

#[test]
fn parsers_touch_no_files_and_no_environment() {
    for (name, text) in
        all_sources().into_iter().filter(|(name, _)| name.starts_with("parsers/") && !name.ends_with("_tests.rs"))
    {
        let text = text.split("#[cfg(test)]").next().unwrap();
        // Examples in the documentation may print.
        let code = |line: &&str| !line.trim_start().starts_with("//");
        let text: String = text.lines().filter(code).flat_map(|line| [line, "\n"]).collect();
        for forbidden in ["std::fs", "std::env", "std::time", "std::io::{", "std::io::std", "println!", "std::process"]
        {
            assert!(!text.contains(forbidden), "{name} uses {forbidden}");
        }
    }
}

#[test]
fn only_repair_and_the_sandbox_may_write() {
    for (name, text) in all_sources() {
        let lifts =
            text.contains("allow(clippy::disallowed_methods") || text.contains("expect(clippy::disallowed_methods");
        let may = ["repair/", "rebuild/sandbox.rs", "rebuild/server.rs", "rebuild/server_tests.rs"]
            .iter()
            .any(|home| name.starts_with(home));
        assert!(!lifts || may, "{name} lifts the ban on writing");
    }
}

/// Who builds pages asks where nothing may be written, and uses nothing else of what changes clusters.
#[test]
fn rebuild_knows_nothing_of_repair_but_where_not_to_write() {
    let mut checked = 0;
    for (name, text) in all_sources().into_iter().filter(|(name, _)| name.starts_with("rebuild/")) {
        for used in text.split("crate::repair::").skip(1) {
            assert!(used.starts_with("outside::"), "{name} uses repair");
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// What differs between majors is asked of their row of facts: a comparison elsewhere would take something for granted of
/// a major that is added later.
#[test]
fn majors_are_compared_in_the_table_of_facts_only() {
    const HOME: &str = "parsers/wal/records.rs";
    let names = |text: &str| text.split("Major::V1").count() - 1;
    let mut in_home = 0;
    for (name, text) in all_sources() {
        let code = text.split("#[cfg(test)]").next().unwrap();
        if name == HOME {
            in_home += code.split("..=V1").count() - 1;
        } else if !name.ends_with("_tests.rs") && !["parsers/wal/testing.rs", "repair/test_case.rs"].contains(&&*name) {
            assert_eq!(names(code), 0, "{name} names a major: ask for a fact of its row");
        }
    }
    assert!(in_home > 20, "the scan found only {in_home}");
}

/// The layout of checkpoints says how bytes lie, not how new a server is: whoever needs that asks for a fact of its own, which the next
/// format has to answer.
#[test]
fn layout_of_checkpoints_is_not_asked_as_a_version() {
    // What it writes is a checkpoint in that layout.
    const WRITER: &str = "rebuild/control.rs";
    let is_compared =
        |text: &str| ["==", "!=", ">=", "<"].iter().any(|sign| text.contains(&format!("{sign} XlogFormat::")));
    for (name, text) in all_sources() {
        let may = name.starts_with("parsers/") || name == WRITER;
        assert!(may || !is_compared(&text), "{name}: ask for a fact of the row");
        assert!(name != WRITER || is_compared(&text));
    }
}

/// What a record is, is asked of the table of its types, where a new one is a new row.
#[test]
fn types_of_records_are_compared_in_their_table_only() {
    for (name, text) in all_sources() {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let compares =
            ["header.info &", "record.info &", "change.info &", "event.info &", "info & 0xF0", "info & 0x70"];
        let may = name == "parsers/wal/names.rs" || name == "cluster/wal/first_page.rs";
        assert!(may || !compares.iter().any(|way| code.contains(way)), "{name}: ask for the kind of the record");
    }
}

#[test]
fn only_one_module_is_unsafe() {
    let lifted: Vec<_> = all_sources()
        .into_iter()
        .filter(|(_, text)| text.contains("allow(unsafe_code)"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(lifted, ["parsers/cpu_dispatch.rs"]);
}

/// Lines of a file that is one thought. Most have far fewer; a file is split by purpose, not to pass this.
const MAX_LINES: usize = 600;

#[test]
fn files_stay_short() {
    for (name, text) in all_sources() {
        assert!(text.lines().count() <= MAX_LINES, "{name} has {} lines: split it", text.lines().count());
    }
}

/// The string literals of Rust source that are not in comments, doc comments or attributes that take a reason.
fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let tail = &rest[at..];
        if tail.starts_with("//") {
            rest = tail.split_once('\n').map_or("", |(_, after)| after);
        } else if tail.starts_with('"') {
            let mut end = 1;
            let mut is_escaped = false;
            for (index, c) in tail.char_indices().skip(1) {
                end = index;
                if c == '"' && !is_escaped {
                    break;
                }
                is_escaped = c == '\\' && !is_escaped;
            }
            if !rest[..at].ends_with("reason = ") {
                found.push(tail[1..end].to_owned());
            }
            rest = &tail[end + 1..];
        } else {
            // A quotation mark as a character, or a lifetime.
            let is_quote = tail.starts_with("'\"'") || tail.starts_with("'\\\"'");
            rest = &tail[if is_quote { tail[1..].find('\'').unwrap() + 2 } else { 1 }..];
        }
    }
    found
}

/// True for three words or more in a row, placeholders left out.
fn is_sentence(literal: &str) -> bool {
    let is_word = |part: &&str| part.trim_matches([',', '.', ':', ';']).bytes().all(|byte| byte.is_ascii_alphabetic());
    let words: Vec<&str> = literal.split_whitespace().collect();
    words.split(|part| !is_word(part)).any(|run| run.len() >= 3)
}

/// What is found is said where it is found, and read back by nobody: the sentence of a finding is its own. All other judgement has
/// its words in `output/words`.
#[test]
fn judgement_holds_no_sentence_but_of_findings() {
    assert_eq!(literals("a(\"one\"); // \"no\"\nb('\"', \"two \\\" x\", 'c')"), ["one", "two \\\" x"]);
    assert!(is_sentence("the page is gone") && is_sentence("{page} has no file: {why}"));
    assert!(!is_sentence("{rel} {fork} block {block}") && !is_sentence("snake_case"));
    let mut checked = 0;
    let is_judgement = |name: &str| name.starts_with("analysis/") && !name.ends_with("_tests.rs");
    for (name, text) in all_sources().into_iter().filter(|(name, _)| is_judgement(name)) {
        let text = text.split("#[cfg(test)]").next().unwrap();
        // A verdict is called and explained in the row of its facts.
        let is_row = name == "analysis/verdict/facts.rs";
        if is_row || ["rules! {", ".problem(", ".note("].iter().any(|sign| text.contains(sign)) {
            continue;
        }
        let sentences: Vec<String> = literals(text).into_iter().filter(|literal| is_sentence(literal)).collect();
        assert!(sentences.is_empty(), "{name} holds sentences, which belong into output/words: {sentences:?}");
        checked += 1;
    }
    assert!(checked > 70, "the scan found only {checked} files");
}

/// Phrases that an engineer reads two ways, or that say less than they seem to: "behind" is before to one and after to
/// another.
const UNCLEAR: [&str; 6] = ["behind", "held against", "told apart", "not looked at", "is no", "are no"];

/// Where none of them is left: files of `src` by how their names begin, and papers.
const CLEAR_SOURCES: [&str; 4] = ["types.rs", "parsers/", "cluster/", "analysis/"];
const CLEAR_PAPERS: [&str; 2] = ["docs", "README.md"];

/// The unclear phrases in a text. "There is no file" and "is no longer" are clear; parts of names with `_` do not count.
fn unclear(text: &str) -> Vec<String> {
    let words: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let is_clear = |from: usize, to: usize| {
        words[to - 1] == "no"
            && (from > 0 && words[from - 1] == "there" || words.get(to).is_some_and(|word| word == "longer"))
    };
    let mut found = Vec::new();
    for phrase in UNCLEAR {
        let parts: Vec<&str> = phrase.split(' ').collect();
        let at = words.windows(parts.len()).enumerate().filter(|(_, window)| *window == parts.as_slice());
        let at = at.map(|(from, _)| (from, from + parts.len())).filter(|(from, to)| !is_clear(*from, *to));
        found.extend(at.map(|(from, to)| words[from.saturating_sub(4)..words.len().min(to + 4)].join(" ")));
    }
    found
}

#[test]
fn nothing_is_said_in_words_that_read_two_ways() {
    assert_eq!(unclear("The page lies\n/// Behind the end"), ["the page lies behind the end"]);
    assert_eq!(unclear("\"{0}\" is no LSN; there is no file, it is no\n// longer there"), ["0 is no lsn there is no"]);
    assert!(unclear("kind == header_behind, not examined").is_empty());

    let mut texts = all_sources();
    texts.retain(|(name, _)| CLEAR_SOURCES.iter().any(|clear| name.starts_with(clear)));
    for paper in CLEAR_PAPERS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(paper);
        let files = if path.is_dir() {
            fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect()
        } else {
            vec![path]
        };
        for file in files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
            texts.push((file.display().to_string(), fs::read_to_string(file).unwrap()));
        }
    }
    let found: Vec<_> =
        texts.iter().map(|(name, text)| (name, unclear(text))).filter(|(_, found)| !found.is_empty()).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(texts.len() > 150, "only {} texts were read", texts.len());
}

/// Names of files below `fixtures/` in a text.
fn fixtures_in(text: &str) -> impl Iterator<Item = &str> {
    let ends = |letter: char| letter.is_whitespace() || "\"'`(){}".contains(letter);
    let names = text.match_indices("fixtures/").map(move |(at, _)| text[at..].split(ends).next().unwrap());
    names.filter(|name| Path::new(name).extension().is_some())
}

#[test]
fn packed_crate_has_what_sources_and_readme_name_of_fixtures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let list = manifest.split_once("\ninclude = [").and_then(|(_, rest)| rest.split_once("\n]")).unwrap().0;
    let packed: Vec<&str> = list.split('"').filter_map(|name| name.strip_prefix('/')).collect();
    let readme = ("README.md".to_owned(), fs::read_to_string(root.join("README.md")).unwrap());
    let mut named = 0;
    for (file, text) in all_sources().into_iter().chain([readme]) {
        for name in fixtures_in(&text) {
            named += 1;
            assert!(root.join(name).exists(), "{file} names {name}, which is not there");
            let is_packed = packed.iter().any(|entry| Path::new(name).starts_with(entry));
            assert!(is_packed, "{file} names {name}: add it to `include` in Cargo.toml, or read it in tests/");
        }
    }
    assert!(named > 5, "{named}");
}
