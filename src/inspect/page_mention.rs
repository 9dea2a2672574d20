//! A page as a server log, a tool or a person writes it: a whole log line, a path with a block, a ctid, numbers, a name.

use super::page_target::LoggedPage;
use crate::analysis::pages::select::RelationPattern;
use crate::cluster::page_source::RelationFileName;
use crate::types::{BlockNumber, ForkNumber};

/// Words of a person that say what kind of thing follows.
const KINDS: [&str; 8] = ["relation", "rel", "table", "index", "file", "tid", "ctid", "page"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MentionedRelation {
    /// By numbers, or by the path of its file.
    Numbers(RelationPattern),
    Name(String),
    /// Only a block: that of the relation that is open.
    Same,
}

/// A relation, and its block where one is mentioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMention {
    pub relation: MentionedRelation,
    /// The fork; the main one unless another is mentioned.
    pub fork: ForkNumber,
    /// The block, counted over all segment files.
    pub block: Option<BlockNumber>,
}

impl PageMention {
    /// Finds the first mention. `segment_blocks`: pages of one segment file.
    pub fn find(text: &str, segment_blocks: u32) -> Option<Self> {
        if let Some(LoggedPage { relation, block, .. }) = LoggedPage::find(text) {
            return of_file(&relation, Some(block), segment_blocks);
        }
        let words = words_of(text);
        let block = block_of(&words);
        let in_path = words.iter().find_map(|word| in_path(word.text, segment_blocks, block));
        if in_path.is_some() {
            return in_path;
        }
        let fork = words.iter().find_map(|word| word.text.parse().ok()).unwrap_or(ForkNumber::Main);
        let numbers = words.iter().find_map(|word| {
            let (rel, own) = with_block(word.text);
            let is_numbers = rel.contains('/') || own.is_some();
            Some((rel.parse().ok().filter(|_| is_numbers)?, own))
        });
        if let Some((pattern, own)) = numbers {
            return Some(Self { relation: MentionedRelation::Numbers(pattern), fork, block: own.or(block) });
        }
        let (name, own) = name_in(&words)?;
        let relation = if name.is_empty() { MentionedRelation::Same } else { MentionedRelation::Name(name) };
        let block = own.or(block);
        (relation != MentionedRelation::Same || block.is_some()).then_some(Self { relation, fork, block })
    }
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

/// The path of a relation file, also below a data directory: `/srv/pg/base/5/2662_vm.1:7`.
fn in_path(word: &str, segment_blocks: u32, block: Option<BlockNumber>) -> Option<PageMention> {
    let (path, own) = with_block(word);
    let begins = ["base/", "global/", "pg_tblspc/"].iter().filter_map(|root| path.rfind(root));
    of_file(path.get(begins.min()?..)?, own.or(block), segment_blocks)
}

/// A file below the data directory, or three numbers with the suffix of a fork.
fn of_file(path: &str, block: Option<BlockNumber>, segment_blocks: u32) -> Option<PageMention> {
    let (directory, name) = path.rsplit_once('/')?;
    let file = RelationFileName::parse(name)?;
    let relation = format!("{directory}/{}", file.rel_number);
    let pattern = RelationPattern::of_path(&relation).or_else(|| relation.parse().ok())?;
    let first = file.rel_segment.saturating_mul(segment_blocks);
    // Some tools count from the beginning of the segment file, the server over all of them.
    let block = block.map(|block| if block < first { block.saturating_add(first) } else { block });
    let block = block.or((file.rel_segment > 0).then_some(first));
    Some(PageMention { relation: MentionedRelation::Numbers(pattern), fork: file.fork, block })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RelFileLocator;

    fn found(text: &str) -> Option<(String, ForkNumber, Option<BlockNumber>)> {
        let PageMention { relation, fork, block } = PageMention::find(text, 131_072)?;
        let relation = match relation {
            MentionedRelation::Numbers(pattern) => pattern.to_string(),
            MentionedRelation::Name(name) => name,
            MentionedRelation::Same => String::new(),
        };
        Some((relation, fork, block))
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
            drop(PageMention::find(&text, segment));
        }
    }
}
