//! The page that a line of a server's log, or of one of its tools, shows.

use crate::analysis::pages::select::RelationPattern;
use crate::cluster::page_source::RelationFileName;
use crate::types::{BlockNumber, ForkNumber, MAX_BLOCK_NUMBER};

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
