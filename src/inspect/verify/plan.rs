//! Facts about the files before they are read.

use super::replay::HeldPage;
use super::{ChecksumRule, Plan};
use crate::analysis::page_check::{PageCondition, PageDamage};
use crate::analysis::page_scan::PartialPage;
use crate::analysis::verdict::doubt::LsnWitness;
use crate::cluster::relation_walk::RelationFile;
use crate::types::{ForkNumber, PageId};

impl Plan<'_> {
    pub(super) fn path_of(&self, file: usize) -> String {
        self.files.get(file).map_or_else(String::new, |file| file.path.display().to_string())
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.file_bytes().saturating_add(self.wal_bytes)
    }

    pub(super) fn is_unlogged(&self, page: PageId) -> bool {
        self.unlogged.contains(&page.rel) && page.fork != ForkNumber::Init
    }

    /// True where a wrong checksum proves nothing.
    pub(super) fn is_counted(&self) -> bool {
        self.page_rules.checksums == ChecksumRule::Counted
    }

    /// A page of a file as a witness for the end of WAL.
    pub(super) fn witness(&self, page: PageId) -> LsnWitness {
        let rel_segment = page.block.checked_div(self.page_rules.geometry.rel_segment_blocks).unwrap_or_default();
        let holds = |file: &&RelationFile| {
            (file.rel, file.name.fork, file.name.rel_segment) == (page.rel, page.fork, rel_segment)
        };
        let path = self.files.iter().find(holds).map_or_else(String::new, |file| file.path.display().to_string());
        LsnWitness::InFile { path, block: page.block }
    }

    /// File of a page, and its offset there.
    pub(super) fn locate(&self, page: PageId) -> (String, u64) {
        let geometry = self.page_rules.geometry;
        let block = page.block.checked_rem(geometry.rel_segment_blocks).unwrap_or_default();
        let LsnWitness::InFile { path, .. } = self.witness(page) else { return (String::new(), 0) };
        (path, u64::from(block).saturating_mul(u64::from(geometry.block_size)))
    }

    /// The page that a file ends inside of.
    pub(super) fn cut_page(&self, partial: &PartialPage) -> HeldPage {
        let mut bytes = partial.bytes.clone();
        bytes.resize(self.page_rules.geometry.block_size as usize, 0);
        let checksums = self.page_rules.checksums == ChecksumRule::Damage;
        let condition = PageCondition::of(&bytes, partial.page.fork, partial.page.block, checksums);
        let none = PageDamage { checksum: None, faults: Vec::new(), tuple_fault: None, server_rejects: false };
        HeldPage {
            file: partial.file,
            page: partial.page,
            offset: partial.offset,
            damage: condition.damage().cloned().unwrap_or(none),
            have_bytes: Some(partial.have_bytes),
            lsn: HeldPage::lsn_in(&bytes),
            is_zero: condition == PageCondition::Zeroed,
            is_unlogged: self.is_unlogged(partial.page),
        }
    }
}
