//! Records, blocks and images as files of rows, for databases and programs that ask their own questions.
//!
//! WAL is read twice: first as `stats` reads it, which says where it ends and where redo points lie, then group by group
//! of segments, each of which becomes a file. So every row stands for a record that `stats` counts.

use std::io::{self, Write};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::images::{FoundImage, ImageSelection};
use super::names::NameLookup;
use super::own::{OwnRequest, OwnSegments};
use super::read_wal::ReadWal;
use super::request::WalRequest;
use super::source::WalSource;
use super::stats::{WalCounts, count};
use super::watch::{WatchWal, Watched};
use crate::analysis::in_order::in_order;
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::segment::{Visitor, read_segment};
use crate::analysis::wal::tally::Tally;
use crate::cluster::open::AccessError;
use crate::cluster::wal::WalSet;
use crate::inspect::error::InspectError;
use crate::output::export::rows::{ImageOfRow, RowFacts, RowMaker};
use crate::output::export::{Cell, ExportedFile, FileFormat, Table, TableFile};
use crate::parsers::image::BlockImage;
use crate::parsers::wal::block::{BlockRef, Keep};
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
    from: usize,
    tally: Tally,
    first_lsn: Option<Lsn>,
    end_lsn: Option<Lsn>,
    run: usize,
}

/// Segments that become a file: those of the same timeline whose numbers lie in the same stretch.
fn groups(set: &WalSet, known: &[Known], size: u32) -> Vec<Range<usize>> {
    let of = |known: &Known| {
        let segment = set.segments()[known.index].segment;
        (segment.tli, segment.number / u64::from(size.max(1)))
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

struct Survey<'s> {
    set: &'s WalSet,
    request: &'s ExportRequest,
    /// Those that are made of records.
    tables: &'s [Table],
    directory: &'s ExportDir,
    facts: RowFacts<'s>,
    segments: Segments<'s>,
    plan: ScanPlan,
}

struct Written {
    file: ExportedFile,
    /// Segments that were not the same the second time.
    changed: Vec<String>,
}

/// Writes a table of some WAL into a directory. [`Export::seal`] completes it.
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
    let (mut known, mut runs) = (Vec::new(), Vec::<Range<usize>>::new());
    let own = request.own.as_ref().map(|own| own.resolve(source.set.geometry().wal_segment_size)).transpose()?;
    let mut ended = None;
    let watched = source.watched(&first);
    let mut counts = count(&mut source, None, jobs, &watched, |run, part| {
        if runs.last() != Some(run) {
            runs.push(run.clone());
        }
        known.push(Known {
            index: part.index,
            from: part.from,
            tally: part.found.counts.total(),
            first_lsn: part.extent.first_lsn,
            end_lsn: part.extent.last_end_lsn,
            run: runs.len() - 1,
        });
        ended = Some(part.summary.end.reason.clone());
    });
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
        known.retain(|known| own.holds(source.set.segments()[known.index].segment.number));
        counts = of_own(counts, own, &known);
    }
    let partial = known.iter().map(|known| &source.set.segments()[known.index]).filter(|segment| segment.partial);
    let partial_segments = partial.map(|segment| segment.label.clone()).collect();
    if let Some(to) = to.filter(|_| !is_interrupted && !known.is_empty()) {
        // What a server has written since is left out.
        source.end_at(to);
        let relation = |rel| names.relation(rel);
        let geometry = source.set.geometry();
        let facts =
            RowFacts { intervals: &counts.intervals, segment_size: geometry.wal_segment_size, relation: &relation };
        let of_records: Vec<Table> = request.tables.iter().copied().filter(|table| *table != Table::Images).collect();
        let mut written = Vec::new();
        if !of_records.is_empty() {
            let watched = Watched::new(&second, all_bytes);
            let plan = source.plan();
            let segments = Segments { known: &known, runs: &runs };
            let (set, tables) = (&source.set, &of_records[..]);
            let survey = Survey { set, request, tables, directory: &directory, facts, segments, plan };
            written.extend(survey.write(&watched)?);
            if watched.is_interrupted() {
                source.coverage.skip(SkippedPart::RestOfWal, SkipReason::Interrupted(Lacking::Counts));
            }
        }
        if request.tables.contains(&Table::Images) && !source.coverage.is_interrupted() {
            let images = known.iter().map(|known| known.tally.fpi_count).sum();
            written.extend(write_images(&mut source, request, &directory, facts, &known, (&second, images))?);
        }
        for Written { file, changed } in written {
            files.push(file);
            for label in changed {
                source.coverage.skip_once(SkippedPart::File(label), SkipReason::ChangedWhileRead);
            }
        }
    }
    Ok(Export { files, counts, own, read_from, partial_segments, wal: ReadWal::of(source, names), directory })
}

/// The counts of own segments alone, with the intervals of all.
fn of_own(counts: WalCounts, own: OwnSegments, known: &[Known]) -> WalCounts {
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

impl Survey<'_> {
    /// Writes records or blocks: a file for each group, by several threads.
    fn write(&self, watched: &Watched<'_>) -> Result<Vec<Written>, InspectError> {
        let groups = groups(self.set, self.segments.known, self.request.group);
        let (mut written, mut failed) = (Vec::new(), None);
        let jobs = self.request.wal.jobs.clamp(1, groups.len().max(1));
        let worker = || {
            let mut buffer = Vec::new();
            move |group: Range<usize>| self.write_group(group, watched, &mut buffer)
        };
        in_order(groups.into_iter(), (0..jobs).map(|_| worker()).collect(), |result| match result {
            Ok(Some(ones)) => {
                written.extend(ones);
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Break(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        failed.map_or(Ok(written), Err)
    }

    /// Writes the files of a group, one for each table; `None` when it was interrupted.
    fn write_group(
        &self,
        group: Range<usize>,
        watched: &Watched<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Vec<Written>>, InspectError> {
        let mut files = Vec::new();
        for table in self.tables {
            let about = file_of(self.set, self.request, *table, &self.segments.known[group.clone()]);
            files.push(GroupFile::begin(about, self.request, self.directory)?);
        }
        let mut maker = RowMaker::new(self.facts);
        let mut changed = Vec::new();
        for known in &self.segments.known[group] {
            let stretch = self.plan.stretch(self.set, &self.segments.runs[known.run], Keep::Blocks);
            let visitor = RowVisitor { maker: &mut maker, files: &mut files, records: 0, failed: None };
            let watch = |bytes| watched.advance(bytes);
            let label = || self.set.segments()[known.index].label.clone();
            match read_segment(&stretch, known.index, known.from, visitor, &watch, buffer) {
                Ok(read) if read.interrupted => return Ok(None),
                Ok(read) => {
                    let RowVisitor { records, failed, .. } = read.found;
                    if let Some((at, error)) = failed {
                        return Err(files[at].failed(error));
                    }
                    if records != known.tally.records {
                        changed.push(label());
                    }
                }
                Err(_) => changed.push(label()),
            }
        }
        let written = files.into_iter().map(|file| Ok(Written { file: file.finish()?, changed: changed.clone() }));
        written.collect::<Result<Vec<_>, InspectError>>().map(Some)
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

/// Images that go to a writer together.
const BATCH: usize = 1024;

const WAITING: usize = 4;

/// Threads that write images: one writes the file that is open, the other may still end the one before.
const IMAGE_WRITERS: usize = 2;

/// All about an image but its bytes.
struct ImageHead {
    record: Record<'static>,
    block: BlockRef<'static>,
    image: BlockImage<'static>,
    stored_bytes: usize,
    cause: &'static str,
    old_lsn: Option<Lsn>,
    is_first: bool,
}

enum Batch {
    Rows(Vec<ImageHead>),
    End,
}

/// Writes images. Why each was written is known only in order: threads write what this one finds.
fn write_images(
    source: &mut WalSource,
    request: &ExportRequest,
    directory: &ExportDir,
    facts: RowFacts<'_>,
    known: &[Known],
    (watch, expected): (WatchWal<'_>, u64),
) -> Result<Vec<Written>, InspectError> {
    let size = u64::from(source.set.geometry().wal_segment_size);
    let files: Vec<(ExportedFile, Range<Lsn>)> = groups(&source.set, known, request.group)
        .into_iter()
        .map(|group| {
            let last = known[group.end - 1].index;
            let end = source.set.segments()[last].start_lsn.advanced_by(size);
            let start = source.set.segments()[known[group.start].index].start_lsn;
            (file_of(&source.set, request, Table::Images, &known[group]), start..end)
        })
        .collect();
    // The findings about this WAL were reported the first time.
    let (findings, coverage) = (std::mem::take(&mut source.findings), std::mem::take(&mut source.coverage));
    let written = std::thread::scope(|scope| {
        let (mut queues, mut writers) = (Vec::new(), Vec::new());
        for first in 0..IMAGE_WRITERS {
            let (queue, batches) = sync_channel(WAITING);
            let own: Vec<ExportedFile> =
                files.iter().skip(first).step_by(IMAGE_WRITERS).map(|(about, _)| about.clone()).collect();
            queues.push(queue);
            writers.push(scope.spawn(move || write_image_files(own, request, directory, facts, &batches)));
        }
        let mut spread = Spread { files: &files, queues, at: 0, waiting: Vec::new(), last_lsn: None };
        let selection = ImageSelection::default();
        // When a writer has failed, it says so itself.
        let all_sent = source
            .each_image_head(&selection, request.wal.jobs, watch, |found| spread.image(found))
            .and_then(|()| if source.coverage.is_interrupted() { Err(WriterGone) } else { spread.end() });
        drop(spread);
        let mut written = Vec::new();
        for writer in writers {
            match writer.join() {
                Ok(done) => written.extend(done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, InspectError>((written, all_sent.is_ok()))
    });
    let again = std::mem::replace(&mut source.coverage, coverage);
    source.findings = findings;
    source.coverage.append_once(again);
    let (mut written, is_whole) = written?;
    written.sort_by_key(|file: &ExportedFile| (file.first_lsn, file.first_segment.clone()));
    let rows = written.iter().fold(0_u64, |sum, file| sum.saturating_add(file.rows));
    if is_whole && rows != expected {
        source.coverage.skip(SkippedPart::Wal, SkipReason::ChangedWhileRead);
    }
    Ok(written.into_iter().map(|file| Written { file, changed: Vec::new() }).collect())
}

/// Writes files of images, one after the other; those that are not whole when there are no more batches stay as they are.
fn write_image_files(
    files: Vec<ExportedFile>,
    request: &ExportRequest,
    directory: &ExportDir,
    facts: RowFacts<'_>,
    batches: &Receiver<Batch>,
) -> Result<Vec<ExportedFile>, InspectError> {
    let mut done = Vec::new();
    for about in files {
        let mut file = GroupFile::begin(about, request, directory)?;
        let mut maker = RowMaker::new(facts);
        loop {
            match batches.recv() {
                Ok(Batch::Rows(rows)) => {
                    for head in rows {
                        let ImageHead { record, block, image, stored_bytes, cause, old_lsn, is_first } = &head;
                        let (stored_bytes, old_lsn, is_first) = (*stored_bytes, *old_lsn, *is_first);
                        let found = ImageOfRow { block, image, stored_bytes, cause, old_lsn, is_first };
                        maker
                            .image(record, found, &mut |cells| file.rows.row(cells))
                            .map_err(|error| file.failed(error))?;
                    }
                }
                Ok(Batch::End) => break,
                Err(_) => return Ok(done),
            }
        }
        done.push(file.finish()?);
    }
    Ok(done)
}

/// A writer takes no more: it has failed.
struct WriterGone;

struct Spread<'f> {
    files: &'f [(ExportedFile, Range<Lsn>)],
    queues: Vec<SyncSender<Batch>>,
    /// Index of the file that is open.
    at: usize,
    waiting: Vec<ImageHead>,
    /// Record of the image before.
    last_lsn: Option<Lsn>,
}

impl Spread<'_> {
    fn image(&mut self, found: &FoundImage<'_>) -> Result<(), WriterGone> {
        let FoundImage { record, block, image, stored_bytes, cause, old_lsn } = found;
        while self.files.get(self.at).is_some_and(|(_, own)| own.end <= record.start_lsn) {
            self.next_file()?;
        }
        // Of another segment than those that are written.
        if self.files.get(self.at).is_none_or(|(_, own)| !own.contains(&record.start_lsn)) {
            return Ok(());
        }
        let is_first = self.last_lsn.replace(record.start_lsn) != Some(record.start_lsn);
        self.waiting.push(ImageHead {
            record: Record { bytes: &[], ..**record },
            block: BlockRef { data: &[], image: None, ..**block },
            image: BlockImage { bytes: &[], ..**image },
            stored_bytes: *stored_bytes,
            cause: cause.name(),
            old_lsn: *old_lsn,
            is_first,
        });
        if self.waiting.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), WriterGone> {
        while self.at < self.files.len() {
            self.next_file()?;
        }
        Ok(())
    }

    fn next_file(&mut self) -> Result<(), WriterGone> {
        self.flush()?;
        self.send(Batch::End)?;
        self.at += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), WriterGone> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let rows = std::mem::replace(&mut self.waiting, Vec::with_capacity(BATCH));
        self.send(Batch::Rows(rows))
    }

    fn send(&self, batch: Batch) -> Result<(), WriterGone> {
        let queue = self.queues.get(self.at % IMAGE_WRITERS).ok_or(WriterGone)?;
        queue.send(batch).map_err(|_| WriterGone)
    }
}
