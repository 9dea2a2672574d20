//! The name of one page, as a user types or pastes it: path, numbers or name with a block, or a line of the server log.
//! Also here: the page that a line of a server's log, or of one of its tools, shows.

use std::str::FromStr;

use super::page_target::RelationChoice;
use crate::analysis::pages::select::{RelationPattern, TermError};
use crate::cluster::page_source::{RelationFileName, RelationPaths};
use crate::types::{BlockNumber, ForkNumber, MAX_BLOCK_NUMBER, PageId};

/// Words of a person that say what kind of thing follows.
const KINDS: [&str; 8] = ["relation", "rel", "table", "index", "file", "tid", "ctid", "page"];

/// A relation, fork and block: `base/5/1259_vm:0`, `5/1259:0`, `public.note:7`, `public.note block 7`, or a line of the server
/// log; or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageName {
    /// The relation as it was given.
    text: String,
    /// `None`: all pages, or only a block.
    relation: Option<RelationChoice>,
    fork: ForkNumber,
    /// Number of the segment file whose path was given.
    segment: u32,
    block: Option<BlockNumber>,
}

impl PageName {
    const ALL: Self = Self { text: String::new(), relation: None, fork: ForkNumber::Main, segment: 0, block: None };

    /// The name of this page: path of its file and block.
    pub fn of_page(page: PageId, paths: &RelationPaths) -> Self {
        let relation = Some(RelationChoice::Numbers(RelationPattern::of(page.rel)));
        let text = paths.path_and_block(page).0.display().to_string();
        Self { text, relation, fork: page.fork, segment: 0, block: Some(page.block) }
    }

    /// This block of a relation: its name, numbers or path.
    ///
    /// # Errors
    /// Numbers that no relation has.
    pub(crate) fn of_relation(text: &str, block: Option<BlockNumber>) -> Result<Self, TermError> {
        let found = of_file(path(text).unwrap_or(text));
        let (relation, fork, segment) = match found {
            Some((pattern, file)) => (RelationChoice::Numbers(pattern), file.fork, file.rel_segment),
            None => (text.parse()?, ForkNumber::Main, 0),
        };
        Ok(Self { text: text.to_owned(), relation: Some(relation), fork, segment, block })
    }

    /// The first page or relation in a text, as a person writes it; strict is only [`Self::from_str`].
    pub(crate) fn find(text: &str) -> Option<Self> {
        if let Some((relation, block)) = logged_page(text) {
            return Self::of_relation(&relation, Some(block)).ok();
        }
        let words = words_of(text);
        let block = block_of(&words);
        let in_path = words.iter().find_map(|word| {
            let (file, own) = with_block(word.text);
            of_file(path(file)?).and_then(|_| Self::of_relation(file, own.or(block)).ok())
        });
        if in_path.is_some() {
            return in_path;
        }
        let fork = words.iter().find_map(|word| word.text.parse().ok()).unwrap_or(ForkNumber::Main);
        let numbers = words.iter().find_map(|word| {
            let (rel, own) = with_block(word.text);
            let is_numbers = rel.contains('/') || own.is_some();
            of_file(rel).filter(|_| is_numbers).and_then(|_| Self::of_relation(rel, own.or(block)).ok())
        });
        if let Some(found) = numbers {
            return Some(if fork == ForkNumber::Main { found } else { Self { fork, ..found } });
        }
        let (name, own) = name_in(&words)?;
        let (block, relation) = (own.or(block), (!name.is_empty()).then(|| RelationChoice::Name(name.clone())));
        (relation.is_some() || block.is_some()).then_some(Self { text: name, relation, fork, segment: 0, block })
    }

    /// The relation; `None`: all pages, or only a block was given.
    pub const fn relation(&self) -> Option<&RelationChoice> {
        self.relation.as_ref()
    }

    /// The relation as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The fork that was given, else the main one. A name may end with that of another one.
    pub const fn fork(&self) -> ForkNumber {
        self.fork
    }

    /// The block within the fork, if one was given. `rel_segment_blocks`: pages in one segment file.
    pub fn block(&self, rel_segment_blocks: u32) -> Option<BlockNumber> {
        let first = self.segment.checked_mul(rel_segment_blocks)?;
        let block = match self.block {
            // Some tools count from the beginning of the segment file, the server over all of them.
            Some(block) if block < first => block.checked_add(first)?,
            Some(block) => block,
            None => Some(first).filter(|first| *first > 0)?,
        };
        let is_in_segment = self.segment == 0 || (block - first) < rel_segment_blocks;
        (is_in_segment && block <= MAX_BLOCK_NUMBER).then_some(block)
    }

    /// True for the word that stands for every page.
    pub const fn is_all(&self) -> bool {
        self.block.is_none()
    }

    /// True when `page` is meant. `name`: the name of its relation, where it is known.
    pub fn matches(&self, page: PageId, paths: &RelationPaths, name: Option<&str>) -> bool {
        let is_relation = match &self.relation {
            None => false,
            Some(RelationChoice::Numbers(pattern)) => pattern.matches(page.rel) && self.fork == page.fork,
            Some(RelationChoice::Name(own)) => {
                let suffix = if page.fork == ForkNumber::Main { String::new() } else { format!("_{}", page.fork) };
                let is_called = |name: &str| {
                    let name = format!("{name}{suffix}");
                    name == *own || name.ends_with(&format!(".{own}"))
                };
                // A question mark follows a name that may be wrong: it is printed, so it may be given, and need not be.
                name.is_some_and(|name| is_called(name.trim_end_matches('?')) || is_called(name))
            }
        };
        is_relation && self.block(paths.rel_segment_blocks()) == Some(page.block)
    }
}

impl std::fmt::Display for PageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.block {
            Some(block) => write!(f, "{}:{block}", self.text),
            None => f.write_str("all"),
        }
    }
}

impl FromStr for PageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::ALL);
        }
        let wrong = || {
            format!(
                "\"{text}\" is not a valid page: expected RELATION:BLOCK, as in base/5/1259:0, or a line of the server log \
                 that shows one page"
            )
        };
        if let Some((relation, block)) = logged_page(text) {
            return Self::of_relation(&relation, Some(block)).map_err(|_| wrong());
        }
        let (relation, block) = text.rsplit_once(':').or_else(|| text.rsplit_once(" block ")).ok_or_else(wrong)?;
        let block = block.parse().ok().filter(|block| *block <= MAX_BLOCK_NUMBER).ok_or_else(wrong)?;
        if relation.is_empty() {
            return Err(wrong());
        }
        Self::of_relation(relation, Some(block)).map_err(|_| wrong())
    }
}

/// The relation and the file of a path below the data directory, of the name of a file, or of numbers with or without the
/// suffix of a fork.
fn of_file(text: &str) -> Option<(RelationPattern, RelationFileName)> {
    let (directory, name) = text.rsplit_once('/').map_or(("", text), |(directory, name)| (directory, name));
    let file = RelationFileName::parse(name)?;
    let relation = format!("{directory}/{}", file.rel_number);
    let relation = relation.trim_start_matches('/');
    Some((RelationPattern::of_path(relation).or_else(|| relation.parse().ok())?, file))
}

/// A word, or all between two quotes.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    is_quoted: bool,
}

fn words_of(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    for (at, part) in text.split('"').enumerate() {
        if at % 2 == 1 {
            words.push(Word { text: part, is_quoted: true });
            continue;
        }
        let plain = part.split_whitespace().map(|word| word.trim_matches([',', ';', '.', '\'', '«', '»']));
        words.extend(plain.filter(|word| !word.is_empty() && *word != ":").map(|text| Word { text, is_quoted: false }));
    }
    words
}

/// `block 7`, `blocks 7..9`, `blk 7`, `block: 7`, `(7,3)`, `:7`.
fn block_of(words: &[Word<'_>]) -> Option<BlockNumber> {
    let named = |names: &'static [&'static str]| {
        words.windows(2).find_map(move |pair| {
            let [name, number] = pair else { return None };
            let is_named = names.contains(&name.text.trim_end_matches(':').to_ascii_lowercase().as_str());
            number_at_start(number.text).filter(|_| is_named && !number.is_quoted)
        })
    };
    let ctid = || {
        words.iter().find_map(|word| {
            let (block, item) = word.text.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
            item.trim().parse::<u16>().ok()?;
            block.trim().parse().ok()
        })
    };
    let alone = || words.iter().find_map(|word| word.text.strip_prefix(':')?.parse().ok());
    named(&["block", "blocks", "blk"]).or_else(ctid).or_else(alone).or_else(|| named(&["page"]))
}

/// `7`, `7..9`, `7:`.
fn number_at_start(text: &str) -> Option<BlockNumber> {
    let text = text.split("..").next()?.trim_end_matches(':');
    text.parse().ok()
}

/// A word without the block after its colon.
fn with_block(word: &str) -> (&str, Option<BlockNumber>) {
    match word.rsplit_once(':').map(|(rel, block)| (rel, block.parse().ok())) {
        Some((rel, Some(block))) => (rel, Some(block)),
        _ => (word.trim_end_matches(':'), None),
    }
}

/// A name: after the word for its kind, as that of a TOAST table, or as the first word of a person. Empty: only a block.
fn name_in(words: &[Word<'_>]) -> Option<(String, Option<BlockNumber>)> {
    const PERSON: usize = 4;
    let is_kind = |word: &Word<'_>| KINDS.contains(&word.text.trim_end_matches(':').to_ascii_lowercase().as_str());
    let after_kind = words.windows(2).find_map(|pair| match pair {
        [kind, name] if is_kind(kind) && name.is_quoted => Some(name.text),
        _ => None,
    });
    let toast = || words.iter().map(|word| word.text).find(|text| with_block(text).0.contains("pg_toast_"));
    let is_number = |text: &str| text.starts_with(['(', ':']) || number_at_start(text).is_some();
    let is_other = |word: &&Word<'_>| {
        let is_word = ["block", "blocks", "blk"].contains(&word.text) || word.text.parse::<ForkNumber>().is_ok();
        word.is_quoted || !(is_word || is_number(word.text) || is_kind(word))
    };
    let typed = || {
        let mut others = words.iter().filter(is_other);
        match (words.len() <= PERSON, others.next(), others.next()) {
            (true, Some(only), None) => Some(only.text),
            (true, None, _) => Some(""),
            _ => None,
        }
    };
    let found = after_kind.or_else(toast).or_else(typed)?;
    let (name, block) = with_block(found);
    // `orders(7,3)`: the block is read from the ctid.
    let (name, ctid) = name.split_once('(').unwrap_or((name, ""));
    let of_ctid = ctid.split_once(',').and_then(|(block, _)| block.parse().ok());
    Some((name.to_owned(), block.or(of_ctid)))
}

/// Directories below which relation files are.
const ROOTS: [&str; 3] = ["base/", "global/", "pg_tblspc/"];

/// Relation and block of this line: the path of the file below the data directory, or numbers with the suffix of the fork, and
/// the block as logged. `None` when the line shows no page or several.
///
/// Source: `mdread`, `src/backend/storage/smgr/md.c`; `PageIsVerified` callers in `bufmgr.c`; `report_invalid_page`,
/// `src/backend/access/transam/xlogutils.c`; `xlog_block_info`, `xlogrecovery.c`; `scan_file`, `pg_checksums.c`.
pub(super) fn logged_page(line: &str) -> Option<(String, BlockNumber)> {
    let words: Vec<&str> = line
        .split_whitespace()
        .map(|word| word.trim_matches(|c| ",:;()\"\u{201e}\u{201c}\u{ab}\u{bb}".contains(c)))
        .collect();
    let after = |names: &'static [&str]| {
        let pairs = words.iter().zip(words.iter().skip(1));
        pairs.filter(move |(word, _)| names.contains(word)).map(|(_, next)| *next)
    };
    let mut blocks: Vec<BlockNumber> = after(&["block", "blk", "page"]).filter_map(|word| word.parse().ok()).collect();
    let fork = after(&["fork"]).find_map(|word| word.parse::<ForkNumber>().ok()).unwrap_or(ForkNumber::Main);
    let suffix = if fork == ForkNumber::Main { String::new() } else { format!("_{fork}") };
    let numbers = after(&["rel"]).filter(|word| word.parse::<RelationPattern>().is_ok_and(|it| it.exact().is_some()));
    let mut relations: Vec<String> = numbers.map(|numbers| format!("{numbers}{suffix}")).collect();
    relations.extend(words.iter().filter_map(|word| path(word)).map(str::to_owned));
    blocks.dedup();
    relations.dedup();
    match (&relations[..], &blocks[..]) {
        ([relation], [block]) if *block <= MAX_BLOCK_NUMBER => Some((relation.clone(), *block)),
        _ => None,
    }
}

/// The path of a relation file below its data directory.
pub(super) fn path(word: &str) -> Option<&str> {
    let starts = ROOTS.iter().filter_map(|root| word.rfind(root));
    let start = starts.filter(|at| *at == 0 || word.get(..*at).is_some_and(|before| before.ends_with('/'))).max()?;
    let path = word.get(start..)?;
    RelationFileName::parse(path.rsplit('/').next()?).map(|_| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::version::Major;
    use crate::types::RelFileLocator;

    fn found(text: &str) -> Option<(String, ForkNumber, Option<BlockNumber>)> {
        let name = PageName::find(text)?;
        let relation = name.relation().map_or_else(String::new, ToString::to_string);
        Some((relation, name.fork(), name.block(131_072)))
    }

    #[test]
    fn pages_are_found_by_path_number_and_name() {
        let paths = RelationPaths::new(Major::V19, 1, 131_072);
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 1259 };
        let page = PageId { rel, fork: ForkNumber::Main, block: 131_073 };
        let map = PageId { fork: ForkNumber::Vm, ..page };
        let is = |text: &str, page| text.parse::<PageName>().unwrap().matches(page, &paths, Some("db.public.note"));
        for text in
            ["base/5/1259", "base/5/1259.1", "5/1259", "1663/5/1259", "1259", "note", "public.note", "db.public.note"]
        {
            assert!(is(&format!("{text}:131073"), page), "{text}");
            assert!(!is(&format!("{text}:131073"), map), "{text}");
            // No block of the first segment is in the second.
            assert_eq!(is(&format!("{text}:1"), page), text.ends_with(".1"), "{text}");
        }
        assert!(is("base/5/1259_vm:131073", map));
        assert!(is("note_vm:131073", map));
        assert!(is("db.public.note block 131073", page));
        let log =
            "WARNING:  checksum verification failed in file \"./base/5/1259.1\", block 1: calculated checksum 1 but 2";
        assert!(is(log, page));
        assert!(!is(&log.replace("1259.1", "1259"), page));
        assert_eq!(log.parse::<PageName>().unwrap().block(131_072), Some(131_073));
        assert!(!is("259:131073", page) && !is("ote:131073", page) && !is("note?:131073", page));
        let doubtful = |text: &str| text.parse::<PageName>().unwrap().matches(page, &paths, Some("db.public.note?"));
        assert!(doubtful("note:131073") && doubtful("note?:131073") && doubtful("db.public.note?:131073"));
    }

    #[test]
    fn wrong_names_are_refused() {
        for text in ["", "1259", ":0", "1259:", "1259:x", "1259:-1", "1259:4294967295"] {
            assert!(text.parse::<PageName>().is_err(), "{text}");
        }
        assert!("all".parse::<PageName>().unwrap().is_all());
    }

    /// Messages of `bufmgr.c`, `md.c`, `xlogutils.c`, `xlogrecovery.c`, `nbtpage.c`, `heaptoast.c`, `pg_checksums.c` and
    /// `pg_amcheck`.
    #[test]
    fn lines_of_servers_and_tools() {
        let main = |rel: &str, block| Some((rel.to_owned(), ForkNumber::Main, block));
        for (line, rel, block) in [
            ("2026-11-27 03:12:01 CET [812] ERROR:  invalid page in block 2 of relation base/5/2662", "1663/5/2662", 2),
            ("WARNING:  invalid page in block 7 of relation \"global/1262\"; zeroing out page", "1664/0/1262", 7),
            ("could not read block 9 in file \"base/5/16384\": read only 0 of 8192 bytes", "1663/5/16384", 9),
            (
                "could not read blocks 131073..131080 in file \"base/5/16384.1\": Input/output error",
                "1663/5/16384",
                131_073,
            ),
            ("WARNING:  page 3 of relation base/5/16384 is uninitialized", "1663/5/16384", 3),
            (
                "CONTEXT:  WAL redo at 0/1F00000 for Heap/INSERT: off: 3; blkref #0: rel 1663/5/16384, blk 7 FPW",
                "1663/5/16384",
                7,
            ),
            (
                "pg_checksums: error: checksum verification failed in file \"/srv/pg/base/5/16384.1\", block 5: calculated \
                 checksum 12 but block contains 34",
                "1663/5/16384",
                131_077,
            ),
            ("ERROR:  index \"orders_customer\" contains unexpected zero page at block 4", "orders_customer", 4),
            ("heap table \"postgres.public.orders\", block 8, offset 3:", "postgres.public.orders", 8),
        ] {
            assert_eq!(found(line), main(rel, Some(block)), "{line}");
        }
        let toast = "ERROR:  missing chunk number 0 for toast value 16401 in pg_toast_16390";
        assert_eq!(found(toast), main("pg_toast_16390", None));
        assert_eq!(found("pg_tblspc/16400/PG_15_202209061/5/16401_vm:1").map(|found| found.1), Some(ForkNumber::Vm));
        for line in
            ["ERROR:  deadlock detected", "LOG:  checkpoint complete: wrote 12 buffers (0.1%); 0 WAL file(s)", ""]
        {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn what_a_person_types() {
        for (typed, rel, block) in [
            ("base/5/2662:2", "1663/5/2662", Some(2)),
            ("base/5/2662 block 2", "1663/5/2662", Some(2)),
            ("base/5/2662", "1663/5/2662", None),
            ("5/2662:2", "5/2662", Some(2)),
            ("2662:2", "2662", Some(2)),
            ("1663/5/2662", "1663/5/2662", None),
            ("orders", "orders", None),
            ("public.orders:7", "public.orders", Some(7)),
            ("orders (7,3)", "orders", Some(7)),
            ("orders(7,3)", "orders", Some(7)),
            ("table orders block 7", "orders", Some(7)),
            ("\"my table\" block 7", "my table", Some(7)),
            ("(7,3)", "", Some(7)),
            (":7", "", Some(7)),
            ("block 7", "", Some(7)),
        ] {
            assert_eq!(found(typed), Some((rel.to_owned(), ForkNumber::Main, block)), "{typed}");
        }
        let vm = found("5/2662 vm:0");
        assert!(vm.is_none() || vm.is_some_and(|(rel, ..)| rel == "5/2662"));
        assert_eq!(found("orders vm block 0"), Some(("orders".to_owned(), ForkNumber::Vm, Some(0))));
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 4_294_967_295 };
        assert_eq!(found("base/5/4294967295"), Some((rel.to_string(), ForkNumber::Main, None)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).{0,200}", segment in proptest::prelude::any::<u32>()) {
            let block = PageName::find(&text).and_then(|name| name.block(segment));
            proptest::prop_assert!(block.is_none_or(|block| block <= MAX_BLOCK_NUMBER));
        }
    }

    /// Lines as servers 10 to 18 and their tools write them.
    #[test]
    fn pages_are_found_in_lines_of_logs() {
        for (line, relation, block) in [
            (
                "2026-11-27 07:20:06 UTC [41] ERROR:  invalid page in block 7 of relation base/16384/16408",
                "base/16384/16408",
                7,
            ),
            (
                "WARNING:  invalid page in block 7 of relation \"base/16384/16408\"; zeroing out page",
                "base/16384/16408",
                7,
            ),
            (
                "ERROR:  could not read block 3 in file \"base/16384/16408.1\": read only 0 of 8192 bytes",
                "base/16384/16408.1",
                3,
            ),
            (
                "WARNING:  page 12 of relation pg_tblspc/16500/PG_15_202209061/5/16501_vm does not exist",
                "pg_tblspc/16500/PG_15_202209061/5/16501_vm",
                12,
            ),
            (
                "WARNING:  checksum verification failed in file \"./base/5/1259.2\", block 9: calculated checksum 1A2B but \
                 expected 3C4D",
                "base/5/1259.2",
                9,
            ),
            (
                "pg_checksums: error: checksum verification failed in file \"/srv/base/pg/global/1262\", block 0: calculated \
                 checksum B21F but block contains 5A40",
                "global/1262",
                0,
            ),
            (
                "CONTEXT:  WAL redo at 0/4028A70 for Heap/INSERT: off: 5; blkref #0: rel 1663/16384/16408, blk 7",
                "1663/16384/16408",
                7,
            ),
            ("blkref #0: rel 1663/5/1259, fork fsm, blk 2 FPW", "1663/5/1259_fsm", 2),
            ("blkref #0: rel 1663/5/1259 fork vm blk 2", "1663/5/1259_vm", 2),
        ] {
            assert_eq!(logged_page(line), Some((relation.to_owned(), block)), "{line}");
        }
    }

    #[test]
    fn lines_with_no_page_or_several_are_refused() {
        for line in [
            "",
            "base/5/1259:0",
            "block 7",
            "FATAL:  could not open file \"base/5/1259\": No such file or directory",
            "invalid page in block 4294967295 of relation base/5/1259",
            "block 7 of relation base/5/pg_filenode.map",
            "block 7 of relation database/5/1259",
            "rel 1663/5/1259, blk 7; rel 1663/5/1260, blk 7",
            "rel 1663/5/1259, blk 7; rel 1663/5/1259, blk 8",
        ] {
            assert_eq!(logged_page(line), None, "{line}");
        }
    }
}
