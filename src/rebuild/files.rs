//! Relation files of a sandbox: as long as records need them, with the wanted pages and stand-ins for others in them, and
//! holes everywhere else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::error::RebuildError;
use super::sandbox::{SandboxFile, SandboxRun};
use super::stream::{STREAM_TIMELINE, SegmentSink};
use crate::cluster::open::AccessError;
use crate::cluster::relation_path::RelationPaths;
use crate::parsers::image::{ready_page, set_checksum};
use crate::parsers::page::{LAYOUT_VERSION, PageHeader};
use crate::parsers::wal::timeline::WalSegment;
use crate::types::{BlockNumber, ForkNumber, Geometry, Lsn, PageId, RelFileLocator, TimelineId};

/// Highest block of each fork that records name.
pub(crate) type Extents = BTreeMap<(RelFileLocator, ForkNumber), BlockNumber>;

/// An empty page that a record up to `lsn` leaves alone: redo takes it for one that has the record's change already.
///
/// Some redo functions use a page that a record names without asking whether it is there, and die where it is not.
pub(crate) fn placeholder(geometry: Geometry, lsn: Lsn, block: BlockNumber, checksums: bool) -> Vec<u8> {
    let size = usize::try_from(geometry.block_size).unwrap_or_default();
    let mut page = vec![0; size];
    let end = u16::try_from(size).unwrap_or_default();
    let version = end | LAYOUT_VERSION;
    let lower = u16::try_from(PageHeader::SIZE).unwrap_or_default();
    for (offset, value) in [(12, lower), (14, end), (16, end), (18, version)] {
        if let Some(field) = page.get_mut(offset..offset + 2) {
            field.copy_from_slice(&value.to_le_bytes());
        }
    }
    ready_page(&mut page, lsn, block, checksums);
    page
}

/// A page as it is put into the sandbox: with the checksum that the server requires there.
pub(crate) fn base_page(bytes: &[u8], block: BlockNumber, checksums: bool) -> Vec<u8> {
    let mut page = bytes.to_vec();
    let is_new = PageHeader::decode(0, &page).is_ok_and(|header| header.is_new());
    if checksums && !is_new {
        set_checksum(&mut page, block);
    }
    page
}

/// Makes the files of all forks and writes pages into them, which come in order.
pub(crate) fn write_relations(
    run: &mut SandboxRun,
    paths: &RelationPaths,
    geometry: Geometry,
    extents: &Extents,
    pages: impl Iterator<Item = (PageId, Vec<u8>)>,
) -> Result<(), RebuildError> {
    let block_bytes = u64::from(geometry.block_size);
    let segment_blocks = u64::from(geometry.rel_segment_blocks.max(1));
    let mut pages = pages.peekable();
    for ((rel, fork), last) in extents {
        run.make_directory(&paths.directory(rel.spc_oid, rel.db_oid))?;
        let blocks = u64::from(*last) + 1;
        let segments = blocks.div_ceil(segment_blocks);
        for number in 0..segments {
            let rel_segment = u32::try_from(number).unwrap_or(u32::MAX);
            let path = paths.segment_file(*rel, *fork, rel_segment);
            // A server looks into the next file only when one is full.
            let length = (blocks - number * segment_blocks).min(segment_blocks) * block_bytes;
            let file = run.create(&path, length)?;
            let end = (number + 1) * segment_blocks;
            let own = |page: PageId| page.rel == *rel && page.fork == *fork && u64::from(page.block) < end;
            while let Some((page, bytes)) = pages.next_if(|(page, _)| own(*page)) {
                file.write_at((u64::from(page.block) - number * segment_blocks) * block_bytes, &bytes)?;
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct SegmentFiles<'r> {
    run: &'r SandboxRun,
    segment_bytes: u32,
    open: Option<(u64, SandboxFile)>,
    first: Option<(u64, SandboxFile)>,
}

impl<'r> SegmentFiles<'r> {
    /// None yet.
    pub const fn new(run: &'r SandboxRun, segment_bytes: u32) -> Self {
        Self { run, segment_bytes, open: None, first: None }
    }
}

/// Path of a segment of a sandbox, relative to its data directory.
pub(crate) fn segment_path(number: u64, segment_bytes: u32) -> PathBuf {
    let segment = WalSegment { tli: TimelineId(STREAM_TIMELINE), number };
    // Numbers that have no name lie past the end of all addresses.
    PathBuf::from("pg_wal").join(segment.file_name(segment_bytes).unwrap_or_default())
}

impl SegmentSink for SegmentFiles<'_> {
    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        // The first one is written again at the end.
        let known = [&self.first, &self.open].into_iter().flatten().find(|(number, _)| *number == segment);
        if let Some((_, file)) = known {
            return file.write_at(offset, bytes);
        }
        let path = segment_path(segment, self.segment_bytes);
        let file = self.run.create(&path, u64::from(self.segment_bytes))?;
        file.write_at(offset, bytes)?;
        let slot = if self.first.is_none() { &mut self.first } else { &mut self.open };
        *slot = Some((segment, file));
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(crate) struct CountBytes {
    pub bytes: u64,
}

impl SegmentSink for CountBytes {
    fn write(&mut self, _segment: u64, _offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        Ok(())
    }
}
