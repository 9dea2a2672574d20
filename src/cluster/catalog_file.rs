//! Rows of a catalog read page by page from its segment files, without trusting a byte of them.

use std::path::{Path, PathBuf};

use super::name_gaps::{CatalogPageFault, NameGap};
use super::open::{ReadFile, open_inside};
use super::relation_path::RelationPaths;
use crate::parsers::catalog::RowBytes;
use crate::parsers::checksum::page_checksum;
use crate::parsers::decode::ParseError;
use crate::parsers::heap::{TupleHeader, first_tuple_fault, page_tuples};
use crate::parsers::page::{PageHeader, line_pointer_faults, page_faults};
use crate::parsers::page_kind::PageKind;
use crate::types::{BlockNumber, ForkNumber, RelFileLocator};

/// Most blocks of one catalog that are read: 32 GiB with 8 kB pages. A bound for files made to be endless.
const MAX_BLOCKS: BlockNumber = 1 << 22;

/// Blocks that are passed over at once where they are a hole of the file.
const HOLE_BLOCKS: u32 = 64;

/// Most pages and rows with faults that are listed for one catalog; more are counted.
const MAX_FAULTS: usize = 16;

/// Where the files are and what their pages look like.
#[derive(Debug)]
pub(super) struct CatalogFiles {
    pub(super) data_dir: PathBuf,
    pub(super) paths: RelationPaths,
    pub(super) block_size: u32,
    pub(super) rel_segment_blocks: u32,
    pub(super) checksums_enforced: bool,
}

/// Callback of a scan for every tuple: the tuple, whether the checksum of its page fails, and the list of gaps. An error
/// is a row that cannot be decoded.
pub(super) type OnRow<'a> = dyn FnMut(&RowBytes<'_>, bool, &mut Vec<NameGap>) -> Result<(), ParseError> + 'a;

impl CatalogFiles {
    /// Hands every tuple on a sane page to `on_row`, dead ones included. A page is used as a whole or not at all: where
    /// one tuple is broken, the others may be older. A wrong checksum alone does not make a page unusable: a
    /// name is only a label.
    pub(super) fn for_each_row(
        &self,
        rel: RelFileLocator,
        catalog: &'static str,
        gaps: &mut Vec<NameGap>,
        on_row: &mut OnRow<'_>,
    ) {
        let mut scan = Scan { files: self, catalog, gaps, listed: 0, further: 0, on_row };
        scan.relation(rel);
        if scan.further > 0 {
            let count = scan.further;
            gaps.push(NameGap::FurtherInFile { path: self.segment_path(rel, 0), count });
        }
    }

    fn segment_path(&self, rel: RelFileLocator, rel_segment: u32) -> PathBuf {
        self.data_dir.join(self.paths.segment_file(rel, ForkNumber::Main, rel_segment))
    }
}

/// A scan of one catalog; its faults are listed up to a bound and counted beyond.
struct Scan<'a> {
    files: &'a CatalogFiles,
    catalog: &'static str,
    gaps: &'a mut Vec<NameGap>,
    listed: usize,
    further: u64,
    on_row: &'a mut OnRow<'a>,
}

impl Scan<'_> {
    fn add(&mut self, gap: NameGap) {
        if self.listed < MAX_FAULTS {
            self.listed = self.listed.saturating_add(1);
            self.gaps.push(gap);
        } else {
            self.further = self.further.saturating_add(1);
        }
    }

    fn relation(&mut self, rel: RelFileLocator) {
        let segment_blocks = self.files.rel_segment_blocks;
        let expected_bytes = u64::from(self.files.block_size).saturating_mul(u64::from(segment_blocks));
        let mut short: Option<(PathBuf, u64)> = None;
        for rel_segment in 0_u32.. {
            let path = self.files.segment_path(rel, rel_segment);
            let first_block = rel_segment.saturating_mul(segment_blocks);
            if first_block >= MAX_BLOCKS {
                if path.symlink_metadata().is_ok() {
                    self.add(NameGap::TooLong { path, block: first_block });
                }
                return;
            }
            let inside = self.files.paths.segment_file(rel, ForkNumber::Main, rel_segment);
            let file = match open_inside(&self.files.data_dir, &inside) {
                Ok(file) => file,
                Err(error) if error.is_not_found() && rel_segment > 0 => return,
                Err(error) => return self.add(error.into()),
            };
            let size_bytes = file.size_bytes();
            // Empty segments may follow after a truncation.
            if let Some((path, size_bytes)) = short.take().filter(|_| size_bytes > 0) {
                self.add(NameGap::Segment { path, size_bytes, expected_bytes });
            }
            if size_bytes > expected_bytes {
                self.add(NameGap::Segment { path, size_bytes, expected_bytes });
            } else if size_bytes < expected_bytes {
                short = Some((path, size_bytes));
            }
            self.segment(&file, first_block);
        }
    }

    fn segment(&mut self, file: &ReadFile, first_block: BlockNumber) {
        let path = || file.path().to_owned();
        let mut page = vec![0; self.files.block_size as usize];
        let mut hole_to = 0;
        for index in 0..self.files.rel_segment_blocks {
            let block = first_block.saturating_add(index);
            if block >= MAX_BLOCKS {
                return self.add(NameGap::TooLong { path: path(), block });
            }
            let offset = u64::from(index).saturating_mul(u64::from(self.files.block_size));
            let ahead = offset.saturating_add(u64::from(HOLE_BLOCKS).saturating_mul(u64::from(self.files.block_size)));
            if index.is_multiple_of(HOLE_BLOCKS) && file.is_hole(offset, ahead) {
                hole_to = ahead;
            }
            if offset < hole_to {
                continue;
            }
            match file.read_at(&mut page, offset) {
                Ok(0) => return,
                Ok(bytes) if bytes < page.len() => {
                    let fault = CatalogPageFault::Partial { bytes };
                    return self.add(NameGap::Page { path: path(), block, fault });
                }
                Ok(_) => {}
                Err(error) => return self.add(error.into()),
            }
            match judge(&page) {
                Ok(Some(header)) => self.page(file.path(), block, offset, &page, &header),
                Ok(None) => {}
                Err(fault) => self.add(NameGap::Page { path: path(), block, fault }),
            }
        }
    }

    fn page(&mut self, path: &Path, block: BlockNumber, offset: u64, page: &[u8], header: &PageHeader) {
        let (found, expected) = (header.checksum, page_checksum(page, block));
        let doubtful = self.files.checksums_enforced && found != expected;
        if doubtful {
            self.add(NameGap::Checksum { path: path.to_owned(), block, found, expected });
        }
        let page_lsn = header.lsn;
        for tuple in page_tuples(header, page) {
            let base = offset.saturating_add(tuple.offset as u64);
            let result = TupleHeader::decode(base, tuple.bytes).and_then(|header| {
                let row = RowBytes { catalog: self.catalog, base, tuple: tuple.bytes, header, page_lsn };
                (self.on_row)(&row, doubtful, self.gaps)
            });
            if let Err(error) = result {
                self.add(NameGap::Row { path: path.to_owned(), block, item: tuple.item, error });
            }
        }
    }
}

/// The header of a sane heap page, `None` for an empty new page.
fn judge(page: &[u8]) -> Result<Option<PageHeader>, CatalogPageFault> {
    let Ok(header) = PageHeader::decode(0, page) else {
        return Err(CatalogPageFault::Partial { bytes: page.len() });
    };
    if let Some(fault) = page_faults(&header, page).into_iter().chain(header.oddities(page.len())).next() {
        return Err(fault.into());
    }
    match PageKind::of(&header, page, ForkNumber::Main) {
        PageKind::New => return Ok(None),
        PageKind::Heap => {}
        other => return Err(CatalogPageFault::NotHeap { found: other.name() }),
    }
    if let Some(fault) = line_pointer_faults(&header, page).first() {
        return Err((*fault).into());
    }
    match first_tuple_fault(&header, page) {
        Some((item, fault)) => Err(CatalogPageFault::Tuple { item, fault }),
        None => Ok(Some(header)),
    }
}
