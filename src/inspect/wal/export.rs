//! Records, blocks and images as files of rows, for databases and programs that ask their own questions.
//!
//! WAL is read twice, whatever the tables: first as `stats` reads it, which says where it ends and where redo points
//! lie, then group by group of segments, each of which becomes a file of each table. So every row stands for a record that
//! `stats` counts. Threads write rows of records and blocks as they read; why an image was written is known only in order,
//! so rows of images are written by the thread that takes up the groups.

use std::io::{self, Write};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

use super::counting::{Counting, Reading, RunStep};
use super::images::{FoundImage, ImageCauses, ImageHeads, cause_facts, redo_in_control};
use super::names::NameLookup;
use super::own::{OwnRequest, OwnSegments};
use super::request::{WalRequest, WatchWal, Watched};
use super::source::{ReadWal, WalSource};
use super::stats::WalCounts;
use crate::analysis::in_order::in_order;
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::analysis::wal::cause_facts::{CauseFacts, FactsFold, SegmentFacts};
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::segment::{Visitor, read_segment};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::cluster::open::AccessError;
use crate::cluster::wal::WalSet;
use crate::inspect::error::InspectError;
use crate::output::export::rows::{ImageOfRow, RowFacts, RowMaker};
use crate::output::export::{Cell, ExportedFile, FileFormat, Table, TableFile};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::end::EndReason;
use crate::parsers::wal::record::Record;
use crate::repair::export::{ExportDir, NewFile};
use crate::types::Lsn;

/// What is written, and where.
#[derive(Clone, Debug)]
pub(crate) struct ExportRequest {
    pub wal: WalRequest,
    /// At least one; each once.
    pub tables: Vec<Table>,
    /// Records that start elsewhere become no rows; `None`: all do.
    pub own: Option<OwnRequest>,
    pub format: FileFormat,
    /// Where: a directory that is empty or does not exist.
    pub directory: PathBuf,
    pub group: u32,
}

#[derive(Debug)]
pub(crate) struct Export {
    pub files: Vec<ExportedFile>,
    /// What `stats` counts of the same WAL; of own segments, where there are others.
    pub counts: WalCounts,
    pub own: Option<OwnSegments>,
    /// Start of the first record that was read, own or not.
    pub read_from: Option<Lsn>,
    /// Names of the `.partial` files that were read.
    pub partial_segments: Vec<String>,
    pub wal: ReadWal,
    directory: ExportDir,
}

/// Name of the file that is written last.
const MANIFEST: &str = "_manifest.json";

impl Export {
    /// Says that all files of a table are whole, by writing the last one: `text` says what is in them. `below`: the directory
    /// of the table, where there are several.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn seal(&self, below: Option<&str>, text: &str) -> Result<(), InspectError> {
        let Some(below) = below else { return Ok(self.directory.write_new(MANIFEST, text.as_bytes()).map(drop)?) };
        let mut new = self.directory.begin(&[below], MANIFEST)?;
        let path = new.path().to_owned();
        new.write_all(text.as_bytes()).map_err(|source| AccessError::io("write", &path, source))?;
        Ok(new.finish().map(drop)?)
    }
}

/// The file of some segments, of which nothing is written yet.
fn file_of(set: &WalSet, request: &ExportRequest, table: Table, known: &[Known]) -> ExportedFile {
    let size = set.geometry().wal_segment_size;
    let segment = |known: Option<&Known>| known.map(|known| set.segments()[known.index].segment);
    let name = |known| segment(known).and_then(|segment| segment.file_name(size)).unwrap_or_default();
    let timeline = segment(known.first()).map_or(set.timeline(), |segment| segment.tli);
    let (first_segment, last_segment) = (name(known.first()), name(known.last()));
    // Without the timeline, which the directory above names.
    let [first, last] = [&first_segment, &last_segment].map(|name| name.get(8..).unwrap_or(name));
    let below = if request.tables.len() > 1 { format!("{}/", table.name()) } else { String::new() };
    let ending = request.format.ending();
    ExportedFile {
        table,
        path: format!("{below}timeline={timeline}/segments={first}-{last}/part-0.{ending}"),
        timeline,
        first_lsn: known.iter().find_map(|known| known.first_lsn),
        end_lsn: known.iter().rev().find_map(|known| known.end_lsn),
        records: known.iter().fold(0, |sum, known| sum.saturating_add(known.tally.records)),
        rows: 0,
        bytes: 0,
        first_segment,
        last_segment,
    }
}

/// A segment that was read the first time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) index: usize,
    /// Its records become rows.
    is_own: bool,
    from: usize,
    tally: Tally,
    first_lsn: Option<Lsn>,
    end_lsn: Option<Lsn>,
    run: usize,
}

/// Segments that are read together, and become a file: those of the same timeline whose numbers lie in the same stretch.
fn groups(set: &WalSet, known: &[Known], size: u32) -> Vec<Range<usize>> {
    let of = |known: &Known| {
        let segment = set.segments()[known.index].segment;
        (segment.tli, segment.number / u64::from(size.max(1)), known.is_own)
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for at in 0..known.len() {
        match groups.last_mut().filter(|group| of(&known[group.start]) == of(&known[at])) {
            Some(group) => group.end = at + 1,
            None => groups.push(at..at + 1),
        }
    }
    groups
}

/// The segments that were read the first time, and their runs.
#[derive(Clone, Copy)]
struct Segments<'s> {
    known: &'s [Known],
    runs: &'s [Range<usize>],
}

/// The second reading.
struct Writing<'s> {
    set: &'s WalSet,
    request: &'s ExportRequest,
    /// Those that are made of records as they are read.
    tables: Vec<Table>,
    directory: &'s ExportDir,
    facts: RowFacts<'s>,
    segments: Segments<'s>,
    plan: ScanPlan,
}

/// A group of segments, read the second time.
#[derive(Default)]
struct GroupRead {
    group: Range<usize>,
    files: Vec<ExportedFile>,
    /// Segments that were not the same the second time.
    changed: Vec<String>,
    /// Images of each segment, where they become rows.
    images: Vec<(Known, ImageHeads)>,
}

/// Writes tables of some WAL into a directory. [`Export::seal`] completes it.
pub(crate) fn wal_export(request: &ExportRequest, watch: WatchWal<'_>) -> Result<Export, InspectError> {
    let names = NameLookup::open(request.wal.names.as_deref())?;
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    source.take_names(&names)?;
    let directory = ExportDir::create_empty(&request.directory, &request.wal.protected()?)?;
    // Each byte is read twice.
    let all_bytes = source.total_bytes();
    let first = |done: u64, total: u64| watch(done, total.saturating_mul(2));
    let second = |done: u64, total: u64| match total {
        0 => watch(done, 0),
        total => watch(done.saturating_add(all_bytes), total.saturating_mul(2)),
    };
    let jobs = request.wal.jobs;
    let own = request.own.as_ref().map(|own| own.resolve(source.set.geometry().wal_segment_size)).transpose()?;
    let takes_images = request.tables.contains(&Table::Images);
    let FirstReading { mut counts, facts, known, runs, ended } =
        first_reading(&mut source, own, takes_images, jobs, &first);
    let read_from = counts.from;
    source.coverage.examined = counts.total.records;
    source.note_range_without_wal();
    let mut files = Vec::new();
    let is_interrupted = source.coverage.is_interrupted();
    if let Some(own) = own.filter(|_| !is_interrupted) {
        let (findings, coverage) = (&mut source.findings, &mut source.coverage);
        own.note_missing(&source.set, &known, (ended.as_ref(), counts.to), findings, coverage);
    }
    let to = counts.to;
    if let Some(own) = own {
        counts = of_own(counts, own, &known);
    }
    let written = known.iter().filter(|known| known.is_own).map(|known| &source.set.segments()[known.index]);
    let partial_segments = written.filter(|segment| segment.partial).map(|segment| segment.label.clone()).collect();
    if let Some(to) = to.filter(|_| !is_interrupted) {
        // What a server has written since is left out.
        source.end_at(to);
        let relation = |rel| names.relation(rel);
        let geometry = source.set.geometry();
        let row_facts =
            RowFacts { intervals: &counts.intervals, segment_size: geometry.wal_segment_size, relation: &relation };
        let watched = Watched::new(&second, all_bytes);
        let causes = takes_images.then(|| {
            // Facts need all WAL, including that after the end of the range.
            let facts = facts.unwrap_or_else(|| cause_facts(&source.set, &source.plan(), jobs, &watched));
            ImageCauses::new(facts, geometry.block_size)
        });
        let writing = Writing {
            set: &source.set,
            request,
            tables: request.tables.iter().copied().filter(|table| *table != Table::Images).collect(),
            directory: &directory,
            facts: row_facts,
            segments: Segments { known: &known, runs: &runs },
            plan: source.plan(),
        };
        // `stats --by cause` reports what causes leave open.
        let Written { files: all, changed } = writing.write(causes, &watched)?;
        files = all;
        for label in changed {
            source.coverage.skip_once(SkippedPart::File(label), SkipReason::ChangedWhileRead);
        }
        if watched.is_interrupted() {
            source.coverage.skip(SkippedPart::RestOfWal, SkipReason::Interrupted(Lacking::Counts));
        }
    }
    Ok(Export { files, counts, own, read_from, partial_segments, wal: ReadWal::of(source, names), directory })
}

struct FirstReading {
    counts: WalCounts,
    /// By which causes are told, if images become rows and the range has no end.
    facts: Option<CauseFacts>,
    known: Vec<Known>,
    runs: Vec<Range<usize>>,
    /// Why the last segment ended.
    ended: Option<EndReason>,
}

fn first_reading(
    source: &mut WalSource,
    own: Option<OwnSegments>,
    takes_images: bool,
    jobs: usize,
    watch: WatchWal<'_>,
) -> FirstReading {
    let (watched, plan) = (source.watched(watch), ScanPlan { blocks: true, ..source.plan() });
    let gathers_facts = takes_images && plan.end_lsn == Lsn(u64::MAX);
    let (mut counting, mut facts) = (Counting::new(&plan, false), FactsFold::default());
    let (mut known, mut runs, mut ended) = (Vec::new(), Vec::<Range<usize>>::new(), None);
    let reading = Reading { plan: &plan, keep: Keep::Heads, jobs, watched: &watched };
    let begin = |stretch: &Stretch<'_>, index| {
        (Counter::new(stretch.set, index, &plan, &[]), gathers_facts.then(SegmentFacts::default))
    };
    source.each_segment(&reading, begin, |stretch, step| {
        let (part, end_lsn) = match step {
            RunStep::Segment(part, end_lsn) => (part, end_lsn),
            RunStep::End(_) => {
                facts.end_run();
                return counting.end_run(stretch, &watched);
            }
        };
        if runs.last() != Some(&stretch.run) {
            runs.push(stretch.run.clone());
        }
        let (counter, causes) = &mut part.found;
        known.push(Known {
            index: part.index,
            is_own: own.is_none_or(|own| own.holds(stretch.set.segments()[part.index].segment.number)),
            from: part.from,
            tally: counter.counts.total(),
            first_lsn: part.extent.first_lsn,
            end_lsn: part.extent.last_end_lsn,
            run: runs.len() - 1,
        });
        ended = Some(part.summary.end.reason.clone());
        causes.iter().for_each(|causes| facts.push(causes));
        counting.take(stretch, (part.index, &part.extent), &mut counter.counts, end_lsn, &watched)
    });
    let counts = counting.finish(&mut source.findings);
    let facts = gathers_facts.then(|| facts.finish(redo_in_control(&source.set)));
    FirstReading { counts, facts, known, runs, ended }
}

/// The counts of own segments alone, with the intervals of all.
fn of_own(counts: WalCounts, own: OwnSegments, known: &[Known]) -> WalCounts {
    let known: Vec<&Known> = known.iter().filter(|known| known.is_own).collect();
    let mut total = Tally::default();
    known.iter().for_each(|known| total.add(&known.tally));
    let to = known.iter().rev().find_map(|known| known.end_lsn);
    let end = to.map_or(own.start_lsn(), |to| to.min(own.end_lsn()));
    WalCounts {
        total,
        wal_bytes: end.bytes_since(own.start_lsn()).unwrap_or(0),
        from: known.iter().find_map(|known| known.first_lsn),
        to,
        ..counts
    }
}

/// Images of a group that wait for those before it; of segments with more, images are read again.
const MAX_WAITING: usize = 100_000;

#[derive(Default)]
struct Written {
    files: Vec<ExportedFile>,
    changed: Vec<String>,
}

impl Writing<'_> {
    /// Writes a file of each table for each group of own segments. `causes`: those of images, if these become rows.
    fn write(&self, mut causes: Option<ImageCauses>, watched: &Watched<'_>) -> Result<Written, InspectError> {
        let (mut written, takes_images) = (Written::default(), causes.is_some());
        let known = self.segments.known;
        let last_own = known.iter().rposition(|known| known.is_own).map_or(0, |last| last + 1);
        let mut groups = groups(self.set, &known[..last_own], self.request.group);
        // What comes before own segments is needed for causes alone.
        groups.retain(|group| known[group.start].is_own || takes_images);
        let jobs = self.request.wal.jobs.clamp(1, groups.len().max(1));
        let worker = || {
            let mut buffer = Vec::new();
            move |group: Range<usize>| self.read_group(group, takes_images, watched, &mut buffer)
        };
        let mut failed = None;
        in_order(groups.into_iter(), (0..jobs).map(|_| worker()).collect(), |read| {
            let taken = read.and_then(|read| {
                let Some(mut read) = read else { return Ok(false) };
                if let Some(causes) = &mut causes {
                    self.write_images(&mut read, causes, watched)?;
                }
                written.files.extend(read.files);
                written.changed.extend(read.changed);
                Ok(!watched.is_interrupted())
            });
            match taken {
                Ok(true) => return ControlFlow::Continue(()),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
            ControlFlow::Break(())
        });
        failed.map_or(Ok(written), Err)
    }

    fn begin(&self, table: Table, group: &Range<usize>) -> Result<GroupFile, InspectError> {
        let about = file_of(self.set, self.request, table, &self.segments.known[group.clone()]);
        GroupFile::begin(about, self.request, self.directory)
    }

    fn stretch(&self, known: &Known) -> Stretch<'_> {
        self.plan.stretch(self.set, &self.segments.runs[known.run], Keep::Blocks)
    }

    /// Reads a group and writes the rows of its records and blocks; `None` when it was interrupted.
    fn read_group(
        &self,
        group: Range<usize>,
        takes_images: bool,
        watched: &Watched<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<GroupRead>, InspectError> {
        let is_own = self.segments.known[group.start].is_own;
        let tables = if is_own { &self.tables[..] } else { &[] };
        let mut files = tables.iter().map(|table| self.begin(*table, &group)).collect::<Result<Vec<_>, _>>()?;
        let mut maker = RowMaker::new(self.facts);
        let mut read = GroupRead { group: group.clone(), ..GroupRead::default() };
        let (mut waiting, block_size) = (0_usize, self.set.geometry().block_size);
        for known in &self.segments.known[group] {
            let rows = RowVisitor { maker: &mut maker, files: &mut files, records: 0, failed: None };
            let heads = takes_images.then(|| ImageHeads::up_to(MAX_WAITING.saturating_sub(waiting), block_size));
            let watch = |bytes| watched.advance(bytes);
            let label = || self.set.segments()[known.index].label.clone();
            match read_segment(&self.stretch(known), known.index, known.from, (rows, heads), &watch, buffer) {
                Ok(segment) if segment.interrupted => return Ok(None),
                Ok(segment) => {
                    let (RowVisitor { records, failed, .. }, heads) = segment.found;
                    if let Some((at, error)) = failed {
                        return Err(files[at].failed(error));
                    }
                    if records != known.tally.records {
                        read.changed.push(label());
                    }
                    waiting = waiting.saturating_add(heads.as_ref().map_or(0, ImageHeads::len));
                    read.images.extend(heads.map(|heads| (*known, heads)));
                }
                Err(_) => read.changed.push(label()),
            }
        }
        read.files = files.into_iter().map(GroupFile::finish).collect::<Result<_, _>>()?;
        Ok(Some(read))
    }

    /// Tells why the images of a group were written, and writes their rows where the group is an own one.
    fn write_images(
        &self,
        read: &mut GroupRead,
        causes: &mut ImageCauses,
        watched: &Watched<'_>,
    ) -> Result<(), InspectError> {
        let is_own = self.segments.known[read.group.start].is_own;
        let mut file = is_own.then(|| self.begin(Table::Images, &read.group)).transpose()?;
        let (mut maker, mut failed, mut last_lsn) = (RowMaker::new(self.facts), None, None);
        let mut show = |found: &FoundImage<'_>| {
            let FoundImage { record, block, image, stored_bytes, cause, old_lsn } = *found;
            let is_first = last_lsn.replace(record.start_lsn) != Some(record.start_lsn);
            let Some(file) = file.as_mut().filter(|_| failed.is_none()) else { return };
            let of_row = ImageOfRow { block, image, stored_bytes, cause: cause.name(), old_lsn, is_first };
            failed = maker.image(record, of_row, &mut |cells| file.rows.row(cells)).err();
        };
        for (known, heads) in &read.images {
            let watch = |bytes| watched.advance(bytes);
            if causes.take(&self.stretch(known), (known.index, known.from), heads, &watch, &mut show).is_err() {
                read.changed.push(self.set.segments()[known.index].label.clone());
            }
        }
        if let Some((file, error)) = file.as_ref().zip(failed) {
            return Err(file.failed(error));
        }
        read.files.extend(file.map(GroupFile::finish).transpose()?);
        Ok(())
    }
}

/// Writes the rows of records as they come.
struct RowVisitor<'v, 'm> {
    maker: &'v mut RowMaker<'m>,
    files: &'v mut [GroupFile],
    records: u64,
    /// Index of the file, and why it cannot be written.
    failed: Option<(usize, io::Error)>,
}

impl Visitor for RowVisitor<'_, '_> {
    fn record(&mut self, record: &Record<'_>) {
        self.records = self.records.saturating_add(1);
        for (at, file) in self.files.iter_mut().enumerate() {
            if self.failed.is_some() {
                return;
            }
            let mut write = |cells: &[Cell<'_>]| file.rows.row(cells);
            let written = match file.about.table {
                Table::Records => self.maker.record(record, &mut write),
                Table::Blocks => self.maker.blocks(record, &mut write),
                Table::Images => Ok(()),
            };
            self.failed = written.err().map(|error| (at, error));
        }
    }
}

/// The file of a group, as it is being written.
struct GroupFile {
    rows: TableFile<NewFile>,
    path: PathBuf,
    about: ExportedFile,
}

impl GroupFile {
    fn begin(about: ExportedFile, request: &ExportRequest, directory: &ExportDir) -> Result<Self, InspectError> {
        let mut names: Vec<&str> = about.path.split('/').collect();
        let name = names.pop().unwrap_or_default();
        let new = directory.begin(&names, name)?;
        let path = new.path().to_owned();
        let rows = TableFile::begin(new, request.format, about.table)
            .map_err(|source| AccessError::io("write", &path, source))?;
        Ok(Self { rows, path, about })
    }

    fn failed(&self, source: io::Error) -> InspectError {
        AccessError::io("write", &self.path, source).into()
    }

    fn finish(self) -> Result<ExportedFile, InspectError> {
        let rows = self.rows.rows();
        let new = self.rows.finish().map_err(|source| AccessError::io("write", &self.path, source))?;
        Ok(ExportedFile { rows, bytes: new.finish()?, ..self.about })
    }
}
