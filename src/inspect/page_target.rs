//! The page that a user asks for: its relation and fork, and whether it exists.
//! Also here: how a user names relations: by number or by name.
//! Also here: the name of one page, as a user types or pastes it; the page that a line of a server's log, or
//! of one of its tools, shows.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use super::error::{InspectError, open_data_dir};
use super::examination::Examination;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::pages::select::{PageSelection, RelationPattern, TermError};
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::{RelationFileName, RelationPaths};
use crate::cluster::relation_walk::relations_of;
use crate::types::{BlockNumber, ForkNumber, Geometry, MAX_BLOCK_NUMBER, PageId, RelFileLocator};

/// Refuses a missing page that nothing refers to.
pub(crate) fn demand_page(examined: &Examination, page: PageId) -> Result<(), InspectError> {
    let Some(found) = examined.report.pages.first() else { return Ok(()) };
    let is_absent = matches!(found.disk, Comparison::BeyondEnd | Comparison::MissingFile);
    if !is_absent || found.is_wrong || !found.verdict.candidates.is_empty() {
        return Ok(());
    }
    let title = format!("{} ({})", examined.called(page), examined.path_of(page));
    Err(InspectError::PageNowhere { title, page, has_file: found.disk != Comparison::MissingFile })
}

/// Pages that are built at once, at most.
const MAX_PAGES_AT: u64 = 10_000;

/// The pages that a selection names one by one. A fork that is not named is the main one.
pub(crate) fn named_pages(directory: &DataDir, selection: &PageSelection) -> Result<Vec<PageId>, InspectError> {
    let blocks = selection.blocks.and_then(|blocks| blocks.bounds());
    let (Some((first, last)), false) = (blocks, selection.relations.is_empty()) else {
        return Err(InspectError::AtNeedsPages);
    };
    let files = relations_of(directory).files;
    let mut rels: Vec<RelFileLocator> = Vec::new();
    for pattern in &selection.relations {
        let found = files.iter().map(|file| file.rel).filter(|rel| pattern.matches(*rel));
        let found: Vec<RelFileLocator> = found.chain(pattern.exact()).collect();
        if found.is_empty() {
            let (text, data_dir) = (pattern.to_string(), directory.root().to_owned());
            return Err(InspectError::NoRelationInCluster { text, data_dir });
        }
        rels.extend(found);
    }
    rels.sort_unstable();
    rels.dedup();
    let forks = if selection.forks.is_empty() { &[ForkNumber::Main][..] } else { &selection.forks };
    let blocks = u64::from(last - first) + 1;
    let pages = blocks * (rels.len() * forks.len()) as u64;
    if pages > MAX_PAGES_AT {
        return Err(InspectError::TooManyPagesAt { pages, limit: MAX_PAGES_AT });
    }
    let of_fork = |rel: RelFileLocator, fork: ForkNumber| (first..=last).map(move |block| PageId { rel, fork, block });
    let of_rel = |rel: RelFileLocator| forks.iter().flat_map(move |fork| of_fork(rel, *fork));
    Ok(rels.into_iter().flat_map(of_rel).collect())
}

/// Finds a page by its name. `fork`: instead of that of the name.
///
/// # Errors
/// When the name matches no relation or several, or no page of a relation.
pub fn find_page(data_dir: &Path, name: &PageName, fork: Option<ForkNumber>) -> Result<PageId, InspectError> {
    let directory = open_data_dir(data_dir)?;
    let geometry = directory.control().trusted().map_or(Geometry::USUAL, |control| control.geometry);
    let block = name.block(geometry.rel_segment_blocks).ok_or_else(|| InspectError::NotOnePage(name.clone()))?;
    let (rel, own) = find_relation(&directory, data_dir, name.relation())?;
    Ok(PageId { rel, fork: fork.unwrap_or(own), block })
}

/// Numbers of a relation, and the fork whose suffix follows them: `5/1259_vm`.
fn numbers_and_fork(text: &str) -> Option<(RelationPattern, ForkNumber)> {
    let (numbers, fork) = text.rsplit_once('_')?;
    Some((numbers.parse().ok()?, fork.parse().ok()?))
}

fn find_relation(
    directory: &DataDir,
    data_dir: &Path,
    text: &str,
) -> Result<(RelFileLocator, ForkNumber), InspectError> {
    let inner = Path::new(text).strip_prefix(directory.root()).unwrap_or(Path::new(text));
    let (wanted, fork) = match numbers_and_fork(text) {
        Some((pattern, fork)) => (RelationChoice::Numbers(pattern), fork),
        None => (text.parse()?, ForkNumber::Main),
    };
    let names = || RelationNames::read(directory).0;
    let mut found: Vec<(RelFileLocator, ForkNumber)> = Vec::new();
    match &wanted {
        RelationChoice::Numbers(pattern) => {
            let files = relations_of(directory).files;
            found.extend(files.iter().filter(|file| pattern.matches(file.rel)).map(|file| (file.rel, fork)));
            if found.is_empty() {
                found.extend(pattern.exact().map(|rel| (rel, fork)));
            }
        }
        RelationChoice::Name(_) if inner.components().count() > 1 => {
            let name = inner.file_name().and_then(|name| RelationFileName::parse(name.to_str()?));
            let files = relations_of(directory).files;
            let same = files.iter().filter(|file| file.path.parent() == inner.parent());
            let wanted = same.filter(|file| name.is_some_and(|name| name.rel_number == file.rel.rel_number));
            found.extend(wanted.map(|file| (file.rel, name.map_or(ForkNumber::Main, |name| name.fork))));
        }
        RelationChoice::Name(_) => {
            let rel = wanted.resolve(Some(&names()))?.exact();
            found.extend(rel.map(|rel| (rel, ForkNumber::Main)));
        }
    }
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [one] => Ok(one),
        [] => Err(InspectError::NoRelationInCluster { text: text.to_owned(), data_dir: data_dir.to_owned() }),
        _ => Err(InspectError::ambiguous(text, &found.iter().map(|(rel, _)| *rel).collect::<Vec<_>>(), &names())),
    }
}

/// One value of `--relation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelationChoice {
    /// `REL`, `DB/REL` or `SPC/DB/REL`.
    Numbers(RelationPattern),
    /// `relation`, `schema.relation` or `database.schema.relation`.
    Name(String),
}

impl FromStr for RelationChoice {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(pattern) = RelationPattern::of_path(text) {
            return Ok(Self::Numbers(pattern));
        }
        if text.chars().all(|c| c.is_ascii_digit() || c == '/') {
            return text.parse().map(Self::Numbers);
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl std::fmt::Display for RelationChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbers(pattern) => pattern.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl RelationChoice {
    /// True when names of relations have to be known.
    pub(crate) fn needs_names(wanted: &[Self]) -> bool {
        wanted.iter().any(|one| matches!(one, Self::Name(_)))
    }

    /// Resolves it. `names`: those of the cluster, if one is given.
    pub(crate) fn resolve(&self, names: Option<&RelationNames>) -> Result<RelationPattern, InspectError> {
        let name = match self {
            Self::Numbers(pattern) => return Ok(*pattern),
            Self::Name(name) => name,
        };
        let Some(names) = names else {
            return Err(InspectError::NamesUnknown(name.clone()));
        };
        match names.find(name)[..] {
            [rel] => Ok(RelationPattern::of(rel)),
            [] => Err(InspectError::NoSuchRelation(name.clone())),
            ref several => Err(InspectError::ambiguous(name, several, names)),
        }
    }

    /// Each with the files that it stands for: those of every relation with one full name, as before and after a rewrite, and
    /// those of a relation whose OID was given where no relation with a name has files of that number.
    ///
    /// # Errors
    /// When a name is that of no relation, or of several with other full names.
    pub fn files_of(
        wanted: &[Self],
        names: Option<&RelationNames>,
    ) -> Result<Vec<(String, Vec<RelationPattern>)>, InspectError> {
        let mut files = Vec::new();
        for one in wanted {
            let of_one: Vec<RelFileLocator> = match (one, names) {
                (Self::Name(name), None) => return Err(InspectError::NamesNotGiven(name.clone())),
                (Self::Name(name), Some(names)) => {
                    let found = names.find(name);
                    let full: BTreeSet<String> =
                        found.iter().filter_map(|rel| names.get(*rel)).map(ToString::to_string).collect();
                    if full.len() == 1 { found } else { Vec::new() }
                }
                (Self::Numbers(pattern), Some(names)) if !names.iter().any(|(rel, _)| pattern.matches(rel)) => {
                    pattern.number_alone().map(|oid| names.of_oid(oid)).unwrap_or_default()
                }
                _ => Vec::new(),
            };
            let patterns = match of_one[..] {
                [] => vec![one.resolve(names)?],
                ref several => several.iter().map(|rel| RelationPattern::of(*rel)).collect(),
            };
            files.push((one.to_string(), patterns));
        }
        Ok(files)
    }

    pub(crate) fn resolve_all(
        wanted: &[Self],
        names: Option<&RelationNames>,
    ) -> Result<Vec<RelationPattern>, InspectError> {
        wanted.iter().map(|one| one.resolve(names)).collect()
    }
}

/// A relation, fork and block: `base/5/1259_vm:0`, `5/1259:0`, `public.note:7`, `public.note block 7`, or a line of the server
/// log; or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageName {
    relation: String,
    block: Option<BlockNumber>,
    /// True when the block counts from the start of the segment file `relation`.
    is_in_file: bool,
}

impl PageName {
    /// The name of this page: path of its file and block.
    pub fn of_page(page: PageId, paths: &RelationPaths) -> Self {
        Self { relation: paths.path_and_block(page).0.display().to_string(), ..Self::of_relation("", page.block) }
    }

    /// This block of a relation: its name, numbers or path.
    pub(crate) fn of_relation(relation: &str, block: BlockNumber) -> Self {
        Self { relation: relation.to_owned(), block: Some(block), is_in_file: false }
    }

    /// The relation, and a fork where it is a path with one.
    pub fn relation(&self) -> &str {
        &self.relation
    }

    /// The block within the fork; `None` for `all`. `rel_segment_blocks`: pages in one segment file.
    pub fn block(&self, rel_segment_blocks: u32) -> Option<BlockNumber> {
        let segment = self.relation.rsplit_once('.').and_then(|(_, number)| number.parse::<u32>().ok());
        let before = segment.filter(|_| self.is_in_file).unwrap_or_default().checked_mul(rel_segment_blocks)?;
        self.block?.checked_add(before).filter(|block| *block <= MAX_BLOCK_NUMBER)
    }

    /// True for the word that stands for every page.
    pub const fn is_all(&self) -> bool {
        self.block.is_none()
    }

    /// True when `page` is meant. `name`: the name of its relation, where it is known.
    pub fn matches(&self, page: PageId, paths: &RelationPaths, name: Option<&str>) -> bool {
        let (file, in_file) = paths.path_and_block(page);
        if self.block != Some(if self.is_in_file { in_file } else { page.block }) {
            return false;
        }
        let own = Path::new(&self.relation);
        let suffix = if page.fork == ForkNumber::Main { String::new() } else { format!("_{}", page.fork) };
        let numbers = format!("{}{suffix}", page.rel);
        let is_called = |name: &str| {
            let name = format!("{name}{suffix}");
            name == self.relation || name.ends_with(&format!(".{}", self.relation))
        };
        // A question mark follows a name that may be wrong: it is printed, so it may be given, and need not be.
        let by_name = name.is_some_and(|name| is_called(name.trim_end_matches('?')) || is_called(name));
        let by_numbers = numbers == self.relation || numbers.ends_with(&format!("/{}", self.relation));
        own == file || !self.is_in_file && own == paths.segment_file(page.rel, page.fork, 0) || by_numbers || by_name
    }
}

impl std::fmt::Display for PageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.block {
            Some(block) => write!(f, "{}:{block}", self.relation),
            None => f.write_str("all"),
        }
    }
}

impl FromStr for PageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self { relation: String::new(), block: None, is_in_file: false });
        }
        if let Some(LoggedPage { relation, block, is_in_file }) = LoggedPage::find(text) {
            return Ok(Self { relation, block: Some(block), is_in_file });
        }
        let wrong = || {
            format!(
                "\"{text}\" is not a valid page: expected RELATION:BLOCK, as in base/5/1259:0, or a line of the server log \
                 that shows one page"
            )
        };
        let (relation, block) = text.rsplit_once(':').or_else(|| text.rsplit_once(" block ")).ok_or_else(wrong)?;
        let block = block.parse().ok().filter(|block| *block <= MAX_BLOCK_NUMBER).ok_or_else(wrong)?;
        if relation.is_empty() {
            return Err(wrong());
        }
        Ok(Self::of_relation(relation, block))
    }
}

/// Directories below which relation files are.
const ROOTS: [&str; 3] = ["base/", "global/", "pg_tblspc/"];

/// One page in a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoggedPage {
    /// Path of the file below the data directory, or numbers with the suffix of the fork.
    pub relation: String,
    pub block: BlockNumber,
    /// True when the block counts from the start of the file: checksum tools log it so.
    pub is_in_file: bool,
}

impl LoggedPage {
    /// The page of this line; `None` when it shows no page or several.
    ///
    /// Source: `mdread`, `src/backend/storage/smgr/md.c`; `PageIsVerified` callers in `bufmgr.c`; `report_invalid_page`,
    /// `src/backend/access/transam/xlogutils.c`; `xlog_block_info`, `xlogrecovery.c`; `scan_file`, `pg_checksums.c`.
    pub fn find(line: &str) -> Option<Self> {
        let words: Vec<&str> = line
            .split_whitespace()
            .map(|word| word.trim_matches(|c| ",:;()\"\u{201e}\u{201c}\u{ab}\u{bb}".contains(c)))
            .collect();
        let after = |names: &'static [&str]| {
            let pairs = words.iter().zip(words.iter().skip(1));
            pairs.filter(move |(word, _)| names.contains(word)).map(|(_, next)| *next)
        };
        let mut blocks: Vec<BlockNumber> =
            after(&["block", "blk", "page"]).filter_map(|word| word.parse().ok()).collect();
        let fork = after(&["fork"]).find_map(|word| word.parse::<ForkNumber>().ok()).unwrap_or(ForkNumber::Main);
        let suffix = if fork == ForkNumber::Main { String::new() } else { format!("_{fork}") };
        let numbers =
            after(&["rel"]).filter(|word| word.parse::<RelationPattern>().is_ok_and(|it| it.exact().is_some()));
        let mut relations: Vec<String> = numbers.map(|numbers| format!("{numbers}{suffix}")).collect();
        relations.extend(words.iter().filter_map(|word| path(word)).map(str::to_owned));
        blocks.dedup();
        relations.dedup();
        let is_in_file = line.contains("checksum verification failed in file");
        match (&relations[..], &blocks[..]) {
            ([relation], [block]) if *block <= MAX_BLOCK_NUMBER => {
                Some(Self { relation: relation.clone(), block: *block, is_in_file })
            }
            _ => None,
        }
    }
}

/// The path of a relation file below its data directory.
fn path(word: &str) -> Option<&str> {
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
            assert!(!is(&format!("{text}:1"), page), "{text}");
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

    /// Lines as servers 10 to 18 and their tools write them.
    #[test]
    fn pages_are_found_in_lines_of_logs() {
        for (line, relation, block, is_in_file) in [
            (
                "2026-11-27 07:20:06 UTC [41] ERROR:  invalid page in block 7 of relation base/16384/16408",
                "base/16384/16408",
                7,
                false,
            ),
            (
                "WARNING:  invalid page in block 7 of relation \"base/16384/16408\"; zeroing out page",
                "base/16384/16408",
                7,
                false,
            ),
            (
                "ERROR:  could not read block 3 in file \"base/16384/16408.1\": read only 0 of 8192 bytes",
                "base/16384/16408.1",
                3,
                false,
            ),
            (
                "WARNING:  page 12 of relation pg_tblspc/16500/PG_15_202209061/5/16501_vm does not exist",
                "pg_tblspc/16500/PG_15_202209061/5/16501_vm",
                12,
                false,
            ),
            (
                "WARNING:  checksum verification failed in file \"./base/5/1259.2\", block 9: calculated checksum 1A2B but \
                 expected 3C4D",
                "base/5/1259.2",
                9,
                true,
            ),
            (
                "pg_checksums: error: checksum verification failed in file \"/srv/base/pg/global/1262\", block 0: calculated \
                 checksum B21F but block contains 5A40",
                "global/1262",
                0,
                true,
            ),
            (
                "CONTEXT:  WAL redo at 0/4028A70 for Heap/INSERT: off: 5; blkref #0: rel 1663/16384/16408, blk 7",
                "1663/16384/16408",
                7,
                false,
            ),
            ("blkref #0: rel 1663/5/1259, fork fsm, blk 2 FPW", "1663/5/1259_fsm", 2, false),
            ("blkref #0: rel 1663/5/1259 fork vm blk 2", "1663/5/1259_vm", 2, false),
        ] {
            let found = LoggedPage { relation: relation.to_owned(), block, is_in_file };
            assert_eq!(LoggedPage::find(line), Some(found), "{line}");
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
            assert_eq!(LoggedPage::find(line), None, "{line}");
        }
    }
}
