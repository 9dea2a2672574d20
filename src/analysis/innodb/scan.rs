//! Every page of every tablespace, judged by itself.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::analysis::in_order::in_order;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::cluster::innodb::doublewrite::Doublewrite;
use crate::cluster::innodb::tablespace::{PageReader, SpaceFile, Tablespace, Tablespaces};
use crate::cluster::open::{AccessError, ReadFile};
use crate::parsers::innodb::checksum::Algorithm;
use crate::parsers::innodb::page_check::{PageHeader, PageState, PageType, Unverifiable};
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};

const CHUNK_BYTES: usize = 1 << 20;

/// Damaged pages that are listed one by one.
pub(crate) const MAX_DAMAGED: usize = 100_000;

/// A damaged page, or another one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundPage {
    pub space: usize,
    pub page_no: u32,
    pub state: PageState,
    pub lsn: InnodbLsn,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    pub pages: u64,
    pub bytes: u64,
    pub sound: u64,
    pub empty: u64,
    pub damaged: u64,
    /// Slots of the doublewrite buffer, which are not data.
    pub slots: u64,
    pub unverifiable: BTreeMap<Unverifiable, u64>,
    pub algorithms: BTreeMap<Algorithm, u64>,
    /// Pages by type as their headers have it, but for damaged ones and those that are all zero.
    pub types: BTreeMap<PageType, u64>,
}

impl PageCounts {
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.pages, other.pages),
            (&mut self.bytes, other.bytes),
            (&mut self.sound, other.sound),
            (&mut self.empty, other.empty),
            (&mut self.damaged, other.damaged),
            (&mut self.slots, other.slots),
        ];
        for (own, other) in pairs {
            *own = own.saturating_add(other);
        }
        add_all(&mut self.unverifiable, &other.unverifiable);
        add_all(&mut self.algorithms, &other.algorithms);
        add_all(&mut self.types, &other.types);
    }

    /// Pages of each kind by the name of their type, the most frequent first.
    pub(crate) fn by_type_name(&self) -> Vec<(&'static str, u64)> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (page_type, count) in &self.types {
            let own = by_name.entry(page_type.name()).or_default();
            *own = own.saturating_add(*count);
        }
        let mut counts: Vec<_> = by_name.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    fn count(&mut self, state: PageState, page_type: PageType, bytes: usize) {
        let count = |field: &mut u64| *field = field.saturating_add(1);
        if matches!(state, PageState::Sound(_) | PageState::Unverifiable(_)) {
            count(self.types.entry(page_type).or_default());
        }
        count(&mut self.pages);
        self.bytes = self.bytes.saturating_add(bytes as u64);
        match state {
            PageState::Empty => count(&mut self.empty),
            PageState::Damaged(_) => count(&mut self.damaged),
            PageState::Sound(algorithm) => {
                count(&mut self.sound);
                count(self.algorithms.entry(algorithm).or_default());
            }
            PageState::Unverifiable(reason) => count(self.unverifiable.entry(reason).or_default()),
        }
    }
}

fn add_all<K: Copy + Ord>(own: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
    for (key, count) in other {
        let own = own.entry(*key).or_default();
        *own = own.saturating_add(*count);
    }
}

#[derive(Debug, Default)]
pub struct ScanReport {
    pub counts: PageCounts,
    pub by_space: Vec<PageCounts>,
    pub newest_lsn: Vec<InnodbLsn>,
    pub found: Vec<FoundPage>,
}

/// Pages next to each other in a file.
struct Chunk<'a> {
    index: usize,
    space: &'a Tablespace,
    file: &'a SpaceFile,
    open: Result<Arc<ReadFile>, AccessError>,
    first: u64,
    count: u64,
}

struct ChunkReport {
    index: usize,
    path: String,
    counts: PageCounts,
    newest_lsn: InnodbLsn,
    found: Vec<FoundPage>,
    failed: Option<SkipReason>,
}

/// Which tablespaces are read, and which undamaged pages are asked for.
pub(crate) struct ScanRequest<'a> {
    pub root: &'a Path,
    pub spaces: &'a Tablespaces,
    /// The doublewrite buffer, whose slots in the system tablespace are not data.
    pub doublewrite: &'a Doublewrite,
    pub takes: &'a (dyn Fn(usize) -> bool + Sync),
    /// Whether an undamaged page is asked for, by its state and the LSN in its header.
    pub wants: &'a WantedPages<'a>,
    pub jobs: usize,
}

pub(crate) type WantedPages<'a> = dyn Fn(InnodbPageId, PageState, InnodbLsn) -> bool + Sync + 'a;

impl ScanRequest<'_> {
    fn taken(&self) -> impl Iterator<Item = (usize, &Tablespace)> + Send {
        self.spaces.all.iter().enumerate().filter(|(index, _)| (self.takes)(*index))
    }
}

/// Reads the pages, until `watch`, called with the bytes done and in total, interrupts.
pub fn scan(
    request: &ScanRequest<'_>,
    coverage: &mut Coverage,
    watch: &dyn Fn(u64, u64) -> ControlFlow<()>,
) -> ScanReport {
    let spaces = &request.spaces.all;
    let mut report = ScanReport {
        by_space: vec![PageCounts::default(); spaces.len()],
        newest_lsn: vec![InnodbLsn::default(); spaces.len()],
        ..ScanReport::default()
    };
    let bytes = |space: &Tablespace| space.pages().saturating_mul(space.flags.physical_bytes() as u64);
    let total = request.taken().fold(0_u64, |sum, (_, space)| sum.saturating_add(bytes(space)));
    let mut is_complete = true;
    let mut too_many: u64 = 0;
    let worker = || {
        let mut buf = Vec::new();
        move |chunk: Chunk<'_>| read_chunk(request, chunk, &mut buf)
    };
    in_order(chunks(request), (0..request.jobs.max(1)).map(|_| worker()).collect(), |chunk: ChunkReport| {
        report.counts.add(&chunk.counts);
        if let Some(counts) = report.by_space.get_mut(chunk.index) {
            counts.add(&chunk.counts);
        }
        if let Some(newest) = report.newest_lsn.get_mut(chunk.index) {
            *newest = (*newest).max(chunk.newest_lsn);
        }
        let room = MAX_DAMAGED.saturating_sub(report.found.len());
        too_many = too_many.saturating_add(chunk.found.len().saturating_sub(room) as u64);
        report.found.extend(chunk.found.iter().take(room));
        if let Some(reason) = chunk.failed {
            coverage.skip_once(SkippedPart::file(chunk.path), reason);
        }
        let flow = watch(report.counts.bytes, total);
        is_complete = flow.is_continue();
        flow
    });
    coverage.examined = coverage.examined.saturating_add(report.counts.pages);
    if !is_complete {
        coverage.skip(SkippedPart::RestOfTablespaces, SkipReason::Interrupted(Lacking::Pages));
    }
    if too_many > 0 {
        coverage.skip(SkippedPart::RestOfTablespaces, SkipReason::TooManyDamaged { limit: MAX_DAMAGED });
    }
    report
}

/// The pieces to read, in order; files are opened one after the other.
fn chunks<'a>(request: &'a ScanRequest<'a>) -> impl Iterator<Item = Chunk<'a>> + Send {
    request.taken().flat_map(move |(index, space)| {
        let at_once = CHUNK_BYTES.checked_div(space.flags.physical_bytes()).unwrap_or(1).max(1) as u64;
        space.files.iter().flat_map(move |file| {
            let open = PageReader::new(request.root).file(file);
            let mut open = Some(open);
            let mut first = 0;
            std::iter::from_fn(move || {
                let count = file.pages.saturating_sub(first).min(at_once);
                if count == 0 {
                    return None;
                }
                let start = first;
                first = first.saturating_add(count);
                let handle = match &open {
                    Some(Ok(handle)) => Ok(Arc::clone(handle)),
                    // Said once; there is nothing more to read.
                    Some(Err(_)) => {
                        first = file.pages;
                        open.take()?
                    }
                    None => return None,
                };
                Some(Chunk { index, space, file, open: handle, first: start, count })
            })
        })
    })
}

fn read_chunk(request: &ScanRequest<'_>, chunk: Chunk<'_>, buf: &mut Vec<u8>) -> ChunkReport {
    let Chunk { index, space, file, open, first, count } = chunk;
    let mut report = ChunkReport {
        index,
        path: file.path.display().to_string(),
        counts: PageCounts::default(),
        newest_lsn: InnodbLsn::default(),
        found: Vec::new(),
        failed: None,
    };
    let bytes = space.flags.physical_bytes();
    let offset = first.saturating_mul(bytes as u64);
    let length = usize::try_from(count).unwrap_or_default().saturating_mul(bytes);
    let mut is_hole = false;
    let filled = open.and_then(|open| {
        is_hole = open.is_hole(offset, offset.saturating_add(length as u64));
        buf.resize(if is_hole { 0 } else { length }, 0);
        open.read_at(buf, offset)
    });
    match filled {
        Ok(filled) if filled == buf.len() => {}
        Ok(filled) => {
            buf.truncate(filled);
            report.failed = Some(SkipReason::FileShorter);
        }
        Err(error) => {
            report.failed = Some(error.into());
            return report;
        }
    }
    let start = file.first_page.saturating_add(first);
    // Of a hole there is nothing to read.
    let of_hole = (start..start.saturating_add(count)).filter(|_| is_hole).map(|number| (&[][..], number));
    for (page, number) in of_hole.chain(buf.chunks_exact(bytes).zip(start..)) {
        let Ok(page_no) = u32::try_from(number) else { break };
        if request.doublewrite.is_slot_page(space.id, page_no) {
            report.counts.slots = report.counts.slots.saturating_add(1);
            continue;
        }
        let state = request.doublewrite.state_of(page, space, page_no);
        let header = PageHeader::of(page);
        let (lsn, page_type) = header.map(|header| (header.lsn, header.page_type)).unwrap_or_default();
        report.counts.count(state, page_type, bytes);
        let id = InnodbPageId { space_id: space.id, page_no };
        if state.is_sound() {
            report.newest_lsn = report.newest_lsn.max(lsn);
        }
        if state.is_damaged() || (request.wants)(id, state, lsn) {
            report.found.push(FoundPage { space: index, page_no, state, lsn });
        }
    }
    report
}
