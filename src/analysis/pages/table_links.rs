//! Blocks of tables that an index or a visibility map refers to and that are missing, zero-filled, or older than the map.
//!
//! While all pages are read, only the highest such block is kept of each index and map. Where a table ends before it, or has
//! pages of zeros up to there, the index or map is read again. Most zero-filled pages were never used, and nothing refers to
//! them. Every map is read again: a bit of it is set only with, or after, the mark on the page, and cleared with it. So a
//! map page and a table page that are both older than the redo point agree, also after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use roaring::RoaringBitmap;

use super::page_check::PageCondition;
use super::page_links::{BrokenLink, LinkFault, LinkRole, NamedBy, impossible_blocks};
use super::page_scan::{PageScan, first_block, readable_bytes};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::{RelationName, RelationNames};
use crate::cluster::open::open_inside;
use crate::cluster::relation_walk::RelationFile;
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::parsers::table_pointers::for_each_table_block;
use crate::types::{BlockNumber, ForkNumber, Geometry, Lsn, PageId, RelFileLocator};

/// Blocks that are kept, of all tables together.
const MAX_NAMED: usize = 10_000;

/// Pages of a table that are looked at for its kind.
const MAX_KINDS: BlockNumber = 8;

pub(crate) struct TableLinkInput<'a> {
    pub root: &'a Path,
    pub files: &'a [RelationFile],
    pub geometry: Geometry,
    pub checksums: bool,
    /// The owner of each index, and relations that certainly exist.
    pub names: &'a RelationNames,
    /// Where replay begins: what pages said then was on disk.
    pub redo_lsn: Lsn,
    /// The files are from the same point in time. In a backup only pages that no replay changes are believed: others may be
    /// newer than the table.
    pub is_settled: bool,
    pub only_marks: bool,
    /// The server was shut down cleanly: no change follows the pages.
    pub was_stopped: bool,
}

impl TableLinkInput<'_> {
    /// Adds referenced but missing blocks to the links of a finished scan.
    pub(crate) fn add_to(&self, scan: &mut PageScan, coverage: &mut Coverage) {
        if !scan.interrupted {
            let named = self.compare(scan, coverage);
            scan.links.broken.extend(named);
        }
    }

    /// These blocks, each with the first page that names it.
    fn compare(&self, scan: &PageScan, coverage: &mut Coverage) -> Vec<BrokenLink> {
        let mut zeroed: BTreeMap<RelFileLocator, Vec<Range<BlockNumber>>> = BTreeMap::new();
        let owners = self.names.owners();
        let exists = |rel: RelFileLocator| self.names.get(rel).is_some_and(RelationName::is_certain);
        for (rel, blocks) in &scan.zeroed {
            zeroed.entry(*rel).or_default().push(blocks.clone());
        }
        let (mut found, mut seen, mut is_full) = (Vec::new(), BTreeSet::new(), false);
        for ((rel, fork), highest) in &scan.reach {
            let table = if *fork == ForkNumber::Vm { Some(*rel) } else { owners.get(rel).copied() };
            let Some(table) = table.filter(|table| exists(*rel) && exists(*table)) else { continue };
            // A table without any file is a finding of its own.
            let Some(end) = self.end_of(table) else { continue };
            let zeroed = zeroed.get(&table).map_or(&[][..], Vec::as_slice);
            let is_map = *fork == ForkNumber::Vm;
            if self.only_marks && !is_map {
                continue;
            }
            if is_map || u64::from(*highest) >= end || zeroed.iter().any(|blocks| blocks.start <= *highest) {
                let mut named = |link: BrokenLink| {
                    if seen.len() >= MAX_NAMED {
                        is_full |= !seen.contains(&link.page);
                    } else if seen.insert(link.page) {
                        found.push(link);
                    }
                };
                if table != *rel && !self.checksums && !self.has_rows(table) {
                    let error = NameGap::NotATable { table, index: *rel };
                    let reason = SkipReason::NameGap(ErrorWords::of_other(&error));
                    coverage.skip_once(SkippedPart::RelationNames, reason);
                    continue;
                }
                let unmarked = scan.unmarked.get(&table).filter(|_| is_map);
                let table = Table { rel: table, end, zeroed, unmarked };
                self.read_again((*rel, *fork), &table, &mut named, coverage);
            }
        }
        if is_full {
            coverage.skip(SkippedPart::MorePagesNeeded, SkipReason::TooManyMissing { limit: MAX_NAMED });
        } else {
            self.mark_impossible(&mut found);
        }
        found
    }

    /// Marks blocks that cannot have been: see [`BrokenLink::is_impossible`].
    fn mark_impossible(&self, found: &mut [BrokenLink]) {
        let mut beyond: BTreeMap<RelFileLocator, Vec<BlockNumber>> = BTreeMap::new();
        for link in found.iter().filter(|link| link.fault == LinkFault::BeyondEnd) {
            beyond.entry(link.page.rel).or_default().push(link.page.block);
        }
        let file_blocks = self.geometry.rel_segment_blocks;
        for (table, named) in beyond {
            let end = self.end_of(table).unwrap_or_default();
            // Whole files may be gone from there on, of which an index that leaves most rows out names a few pages.
            let may_lack_files = end > 0 && end.checked_rem(u64::from(file_blocks)) == Some(0);
            let far = if may_lack_files { BTreeSet::new() } else { impossible_blocks(named, end, file_blocks) };
            for link in found.iter_mut().filter(|link| link.page.rel == table && far.contains(&link.page.block)) {
                link.is_impossible = true;
            }
        }
    }

    fn files_of(&self, rel: RelFileLocator, fork: ForkNumber) -> &[RelationFile] {
        let key = |file: &RelationFile| (file.rel, file.name.fork);
        let first = self.files.partition_point(|file| key(file) < (rel, fork));
        let after = self.files.partition_point(|file| key(file) <= (rel, fork));
        self.files.get(first..after).unwrap_or_default()
    }

    /// The block that the last file of a table ends before, a block that is there in part included.
    fn end_of(&self, table: RelFileLocator) -> Option<u64> {
        let ends = self.files_of(table, ForkNumber::Main).iter().map(|file| {
            let blocks = readable_bytes(file, self.geometry).div_ceil(u64::from(self.geometry.block_size).max(1));
            if blocks == 0 { 0 } else { first_block(file, self.geometry).saturating_add(blocks) }
        });
        ends.max()
    }

    /// False if all pages of a table according to the catalog belong to something else, as far as they were checked. Without
    /// checksums a page of the catalog may be torn unseen.
    fn has_rows(&self, table: RelFileLocator) -> bool {
        let Some(file) = self.files_of(table, ForkNumber::Main).first() else { return true };
        let Ok(opened) = open_inside(self.root, &file.path) else { return true };
        let block_size = u64::from(self.geometry.block_size);
        let mut buf = vec![0; usize::try_from(block_size).unwrap_or_default()];
        let mut kind_of = |block: BlockNumber| {
            let filled = opened.read_at(&mut buf, u64::from(block).saturating_mul(block_size)).ok()?;
            let is_sound = filled == buf.len()
                && PageCondition::of(&buf, ForkNumber::Main, block, self.checksums) == PageCondition::Sound;
            let header = PageHeader::decode(0, &buf).ok().filter(|_| is_sound)?;
            Some(PageKind::of(&header, &buf, ForkNumber::Main)).filter(|kind| *kind != PageKind::New)
        };
        let kinds: BTreeSet<PageKind> = (0..MAX_KINDS).filter_map(&mut kind_of).collect();
        kinds.is_empty() || kinds.contains(&PageKind::Heap)
    }

    fn read_again(
        &self,
        (rel, fork): (RelFileLocator, ForkNumber),
        table: &Table<'_>,
        named: &mut dyn FnMut(BrokenLink),
        coverage: &mut Coverage,
    ) {
        let role = if fork == ForkNumber::Vm { LinkRole::Visible } else { LinkRole::Row };
        let block_size = u64::from(self.geometry.block_size);
        let mut buf = vec![0; usize::try_from(block_size).unwrap_or_default()];
        for file in self.files_of(rel, fork) {
            let opened = match open_inside(self.root, &file.path) {
                Ok(opened) => opened,
                Err(error) => {
                    coverage.skip_once(SkippedPart::file(file.path.display().to_string()), error);
                    continue;
                }
            };
            let blocks = readable_bytes(file, self.geometry).checked_div(block_size).unwrap_or_default();
            for index in 0..blocks {
                let Ok(block) = BlockNumber::try_from(first_block(file, self.geometry).saturating_add(index)) else {
                    break;
                };
                match opened.read_at(&mut buf, index.saturating_mul(block_size)) {
                    Ok(filled) if filled == buf.len() => {}
                    Ok(_) => break,
                    Err(error) => {
                        coverage.skip_once(SkippedPart::file(file.path.display().to_string()), error);
                        break;
                    }
                }
                let is_sound = PageCondition::of(&buf, fork, block, self.checksums) == PageCondition::Sound;
                let Some(header) = PageHeader::decode(0, &buf).ok().filter(|_| is_sound) else { continue };
                let is_of_redo = header.lsn <= self.redo_lsn;
                if !is_of_redo && !self.is_settled {
                    continue;
                }
                let by = NamedBy { page: PageId { rel, fork, block }, role };
                for_each_table_block(&header, &buf, fork, block, &mut |block| {
                    let Some(fault) = table.fault_of(block) else { return };
                    let is_mark = fault == LinkFault::NotAllVisible;
                    if is_mark && !is_of_redo || !is_mark && self.only_marks {
                        return;
                    }
                    let page = PageId { rel: table.rel, fork: ForkNumber::Main, block };
                    named(BrokenLink {
                        page,
                        by,
                        fault,
                        is_settled: self.was_stopped || is_mark,
                        is_impossible: false,
                    });
                });
            }
        }
    }
}

/// Facts about a table that others refer to.
struct Table<'a> {
    rel: RelFileLocator,
    /// The block that its last file ends before.
    end: u64,
    zeroed: &'a [Range<BlockNumber>],
    /// Pages that are not marked all-visible, where a map is compared with them.
    unmarked: Option<&'a RoaringBitmap>,
}

impl Table<'_> {
    fn fault_of(&self, block: BlockNumber) -> Option<LinkFault> {
        if u64::from(block) >= self.end {
            Some(LinkFault::BeyondEnd)
        } else if self.zeroed.iter().any(|blocks| blocks.contains(&block)) {
            Some(LinkFault::Zeroed)
        } else {
            self.unmarked.filter(|pages| pages.contains(block)).map(|_| LinkFault::NotAllVisible)
        }
    }
}
