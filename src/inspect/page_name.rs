//! The name of one page, as a user types or pastes it.

use std::path::Path;
use std::str::FromStr;

use super::logged_page::LoggedPage;
use crate::cluster::relation_path::RelationPaths;
use crate::types::{BlockNumber, ForkNumber, MAX_BLOCK_NUMBER, PageId};

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
}
