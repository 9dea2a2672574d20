//! Images one by one: which ones, in order, and why each was written.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counting::Counting;
use super::request::{WatchWal, Watched};
use super::source::{Notes, WalSource};
use crate::analysis::pages::select::{PageSelection, Span};
use crate::analysis::wal::cause::{Cause, CauseClassifier, OldLsns, OpenCauses};
use crate::analysis::wal::cause_facts::{CauseFacts, FactsFold, SegmentFacts};
use crate::analysis::wal::collect::{collect_run, end_of_part};
use crate::analysis::wal::hidden_redo::{HiddenRedo, RedoInForce};
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::segment::{Visitor, WatchRead, read_segment};
use crate::analysis::wal::since_redo::RedoPoints;
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::unreadable::{Resync, UnreadableImage};
use crate::cluster::wal::{WalReadError, WalSet};
use crate::inspect::wal::rules;
use crate::parsers::image::{BlockImage, ImageError};
use crate::parsers::wal::block::{BlockRef, Keep};
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::record::Record;
use crate::report::Finding;
use crate::types::Lsn;

/// Which images are shown; the default is all of them.
#[derive(Clone, Debug, Default)]
pub struct ImageSelection {
    /// Of which pages.
    pub pages: PageSelection,
    /// LSN of the record; `None`: any.
    pub lsn: Option<Span<Lsn>>,
    /// Why it was written; none: for any reason.
    pub causes: Vec<Cause>,
    /// Reading continues after damage, at the next page that starts a record.
    pub resynchronise: bool,
}

impl ImageSelection {
    fn takes(&self, record: &Record<'_>, block: &BlockRef<'_>, cause: Cause) -> bool {
        self.pages.takes(block.rel, block.fork(), block.block)
            && self.lsn.is_none_or(|span| span.contains(&record.start_lsn))
            && (self.causes.is_empty() || self.causes.contains(&cause))
    }
}

/// One image in its record.
pub struct FoundImage<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The block reference.
    pub block: &'a BlockRef<'a>,
    /// The image; without its bytes where they were not asked for.
    pub image: &'a BlockImage<'a>,
    /// Bytes of the image as stored.
    pub stored_bytes: usize,
    /// Why it was written.
    pub cause: Cause,
    /// LSN that the page had before the record, where that was looked at and could be read.
    pub old_lsn: Option<Lsn>,
}

impl WalSource {
    /// Shows every image that was selected, in order. An error of `visit` ends it.
    ///
    /// # Errors
    /// What `visit` says.
    pub fn each_image<E>(
        &mut self,
        selection: &ImageSelection,
        jobs: usize,
        watch: WatchWal<'_>,
        mut visit: impl FnMut(&mut Notes<'_>, &FoundImage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.resync = Resync::of(selection.resynchronise);
        let (plan, watched) = (self.plan(), self.watched(watch));
        let facts = cause_facts(&self.set, &plan, jobs, &watched);
        let mut classifier = CauseClassifier::new(facts, self.set.geometry().block_size);
        let mut causes = Vec::new();
        let mut failed = None;
        self.each_record(&plan, &watched, |notes, record| {
            notes.coverage.examined += 1;
            classifier.causes(record, &mut causes);
            let with_image = record.blocks().filter(|block| block.image.is_some());
            for (block, cause) in with_image.zip(&causes) {
                let Some(image) = block.image.filter(|_| selection.takes(record, &block, *cause)) else { continue };
                let stored_bytes = image.bytes.len();
                let found =
                    FoundImage { record, block: &block, image: &image, stored_bytes, cause: *cause, old_lsn: None };
                if let Err(error) = visit(notes, &found) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        self.note_causes(&classifier);
        failed.map_or(Ok(()), Err)
    }

    /// As [`Self::each_image`], without the images' bytes, and read by several threads: what `visit` sees is the same.
    ///
    /// # Errors
    /// What `visit` says.
    pub fn each_image_head<E>(
        &mut self,
        selection: &ImageSelection,
        jobs: usize,
        watch: WatchWal<'_>,
        mut visit: impl FnMut(&FoundImage<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // After damage, where to continue is only known in order.
        if selection.resynchronise {
            return self.each_image(selection, jobs, watch, |_, found| visit(found));
        }
        self.resync = Resync::Off;
        let (plan, watched) = (self.plan(), self.watched(watch));
        let block_size = self.set.geometry().block_size;
        let mut causes = ImageCauses::new(cause_facts(&self.set, &plan, jobs, &watched), block_size);
        let (mut failed, stopped) = (None, AtomicBool::new(false));
        let mut show = |found: &FoundImage<'_>| {
            if failed.is_none() && selection.takes(found.record, found.block, found.cause) {
                failed = visit(found).err();
                stopped.store(failed.is_some(), Ordering::Relaxed);
            }
        };
        self.each_run(
            &watched,
            |set, run, notes| {
                let stretch = plan.stretch(set, run, Keep::Blocks);
                let watch = |bytes| match stopped.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => watched.advance(bytes),
                };
                let begin = |_| ImageHeads::new(block_size);
                let read = collect_run(&stretch, jobs, &watch, begin, |part| {
                    notes.coverage.examined = notes.coverage.examined.saturating_add(part.found.records);
                    causes.take(&stretch, (part.index, part.from), &part.found, &watch, &mut show)
                });
                (read, ())
            },
            |_, _, _, ()| match stopped.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            },
        );
        self.note_causes(&causes.classifier);
        failed.map_or(Ok(()), Err)
    }

    /// Says what the causes that were told leave open.
    pub(super) fn note_causes(&mut self, classifier: &CauseClassifier) {
        for finding in open_findings(classifier) {
            // An image may have been unpacked for its page before.
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }
}

/// What the causes that were told leave open.
pub(super) fn open_findings(classifier: &CauseClassifier) -> Vec<Finding> {
    let OpenCauses { hidden, before_start, hints_so_far, unreadable } = classifier.open();
    let undecoded = classifier.undecoded().iter().map(|error| rules::PAYLOAD.problem(error.to_string()));
    let mut findings: Vec<Finding> = undecoded.chain(unreadable.findings()).collect();
    findings.extend(hidden.points.into_iter().map(rules::hidden_redo));
    if before_start > 0 {
        let what = format!("{before_start} images before the first known redo point are unknown_before_start");
        findings.push(rules::BEFORE_FIRST_REDO.note(what));
    }
    if hints_so_far > 0 {
        let what = format!("{hints_so_far} images are hint_only as far as WAL was read: their interval is not over");
        findings.push(rules::HINTS_SO_FAR.note(what));
    }
    findings
}

/// Images of one segment that are kept until those before them were shown; with more, the segment is read again.
const MAX_HEADS: usize = if cfg!(test) { 5 } else { 10_000 };

/// All about an image but its bytes.
struct ImageHead {
    record: Record<'static>,
    block: BlockRef<'static>,
    image: BlockImage<'static>,
    stored_bytes: usize,
    old_lsn: Option<Lsn>,
    error: Option<Box<ImageError>>,
}

fn heads_of<'r>(record: &'r Record<'_>, old_lsns: &'r mut OldLsns) -> impl Iterator<Item = ImageHead> + 'r {
    record.blocks().filter_map(|block| block.image.map(|image| (block, image))).map(|(block, image)| {
        let (old_lsn, error) = match old_lsns.of(&image) {
            Ok(lsn) => (Some(lsn), None),
            Err(error) => (None, Some(Box::new(error))),
        };
        ImageHead {
            record: Record { bytes: &[], ..*record },
            block: BlockRef { data: &[], image: None, ..block },
            image: BlockImage { bytes: &[], ..image },
            stored_bytes: image.bytes.len(),
            old_lsn,
            error,
        }
    })
}

/// Images of one segment.
pub(super) struct ImageHeads {
    heads: Vec<ImageHead>,
    most: usize,
    records: u64,
    old_lsns: OldLsns,
    is_incomplete: bool,
}

impl ImageHeads {
    pub(super) fn new(block_size: u32) -> Self {
        Self::up_to(MAX_HEADS, block_size)
    }

    /// Keeps at most so many.
    pub(super) fn up_to(most: usize, block_size: u32) -> Self {
        Self { heads: Vec::new(), most, records: 0, old_lsns: OldLsns::new(block_size), is_incomplete: false }
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }
}

impl Visitor for ImageHeads {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.records = self.records.saturating_add(1);
        if record.layout.image_count == 0 || self.is_incomplete {
            return;
        }
        self.heads.extend(heads_of(record, &mut self.old_lsns));
        if self.heads.len() > self.most {
            self.is_incomplete = true;
            self.heads = Vec::new();
        }
    }
}

/// Tells why images were written, as the segments that they are in come in order.
pub(super) struct ImageCauses {
    pub(super) classifier: CauseClassifier,
    block_size: u32,
}

impl ImageCauses {
    pub(super) fn new(facts: CauseFacts, block_size: u32) -> Self {
        Self { classifier: CauseClassifier::new(facts, block_size), block_size }
    }

    /// Shows the images of segment `index` of a run, whose reading began at segment `from`. One with too many is read again.
    pub(super) fn take(
        &mut self,
        stretch: &Stretch<'_>,
        (index, from): (usize, usize),
        found: &ImageHeads,
        watch: WatchRead<'_>,
        visit: &mut impl FnMut(&FoundImage<'_>),
    ) -> Result<(), WalReadError> {
        if found.is_incomplete {
            let (quiet, old_lsns) = (|_| watch(0), OldLsns::new(self.block_size));
            let directly = DirectHeads { old_lsns, show: |head: &ImageHead| self.show(head, visit) };
            read_segment(stretch, index, from, directly, &quiet, &mut Vec::new())?;
        }
        found.heads.iter().for_each(|head| self.show(head, visit));
        Ok(())
    }

    fn show(&mut self, head: &ImageHead, visit: &mut impl FnMut(&FoundImage<'_>)) {
        let ImageHead { record, block, image, stored_bytes, old_lsn, error } = head;
        if let Some(error) = error {
            let (block, record_lsn) = (block.block, record.start_lsn);
            self.classifier.note_unreadable(UnreadableImage { block, record_lsn, error: (**error).clone() });
        }
        let cause = self.classifier.cause(record, block, image, *old_lsn);
        visit(&FoundImage { record, block, image, stored_bytes: *stored_bytes, cause, old_lsn: *old_lsn });
    }
}

struct DirectHeads<S> {
    old_lsns: OldLsns,
    show: S,
}

impl<S: FnMut(&ImageHead)> Visitor for DirectHeads<S> {
    fn record(&mut self, record: &Record<'_>) {
        heads_of(record, &mut self.old_lsns).for_each(|head| (self.show)(&head));
    }
}

/// Facts that causes rest on, from all WAL since the plan's start, also after its end.
pub(super) fn cause_facts(set: &WalSet, plan: &ScanPlan, jobs: usize, watched: &Watched<'_>) -> CauseFacts {
    let mut fold = FactsFold::default();
    read_ahead(set, plan, jobs, watched, |facts: Option<&mut SegmentFacts>| match facts {
        Some(facts) => fold.push(facts),
        None => fold.end_run(),
    });
    fold.finish(redo_in_control(set))
}

/// Redo points of all WAL from the plan's start on, that after its end included, ascending. Those that no record names are
/// said.
pub(super) fn redo_points(
    source: &mut WalSource,
    plan: &ScanPlan,
    jobs: usize,
    watched: &Watched<'_>,
) -> Vec<RedoInForce> {
    let set = &source.set;
    let mut named: Vec<Lsn> = checkpoint_in_control(set).map(|point| point.redo_lsn).into_iter().collect();
    let mut hidden = Vec::new();
    if set.major().is_some_and(|major| major.facts().marks_redo_points) {
        read_ahead(set, plan, jobs, watched, |found: Option<&mut RedoPoints>| {
            named.extend(found.into_iter().flat_map(|found| &found.points));
        });
    } else {
        hidden = hidden_redo_points(set, plan, jobs, watched, &mut named);
    }
    // One that `pg_control` names is known.
    hidden.retain(|point| !named.iter().any(|lsn| *lsn > point.after && *lsn <= point.before));
    for point in &hidden {
        let finding = rules::hidden_redo(*point);
        if !source.findings.contains(&finding) {
            source.findings.push(finding);
        }
    }
    let mut points: Vec<RedoInForce> = named.into_iter().map(RedoInForce::known).collect();
    points.extend(hidden.into_iter().map(RedoInForce::from));
    points.sort_unstable();
    points.dedup();
    points
}

/// Redo points of all WAL that was counted by interval, ascending.
pub(super) fn redo_points_of(set: &WalSet, intervals: &[Interval]) -> Vec<RedoInForce> {
    let of_control = checkpoint_in_control(set).map(|point| point.redo_lsn);
    let named: Vec<Lsn> = intervals.iter().filter_map(|interval| interval.redo_lsn).chain(of_control).collect();
    let is_named = |point: &HiddenRedo| named.iter().any(|lsn| *lsn > point.after && *lsn <= point.before);
    let hidden = intervals.iter().filter_map(|interval| interval.hidden).filter(|point| !is_named(point));
    let mut points: Vec<RedoInForce> = hidden.map(RedoInForce::from).collect();
    points.extend(named.iter().copied().map(RedoInForce::known));
    points.sort_unstable();
    points.dedup();
    points
}

/// Redo points that no record names; those that one does are added to `named`.
fn hidden_redo_points(
    set: &WalSet,
    plan: &ScanPlan,
    jobs: usize,
    watched: &Watched<'_>,
    named: &mut Vec<Lsn>,
) -> Vec<HiddenRedo> {
    let plan = ScanPlan { start_lsn: plan.start_lsn, blocks: true, ..ScanPlan::totals() };
    let mut counting = Counting::new(&plan, false);
    for run in set.runs() {
        // They are read again, and counted then.
        let (stretch, watch) = (plan.stretch(set, &run, Keep::Heads), |_| watched.advance(0));
        let begin = |index| Counter::new(set, index, &plan, &[]);
        let read = collect_run(&stretch, jobs, &watch, begin, |part| {
            let end_lsn = end_of_part(part);
            let counts = &mut part.found.counts;
            named.extend(counts.checkpoints.iter().map(|checkpoint| checkpoint.redo_lsn));
            counting.take(&stretch, (part.index, &part.extent), counts, end_lsn, watched)
        });
        // The walk that follows meets the same errors, and tells them.
        drop(read);
        drop(counting.end_run(&stretch, watched));
    }
    counting.finish(&mut Vec::new()).intervals.into_iter().filter_map(|interval| interval.hidden).collect()
}

/// Reads all WAL from the plan's start on before the walk that counts it, and that tells what cannot be read. `take` gets each
/// segment in order; `None`: what follows does not follow in WAL.
fn read_ahead<V: Visitor + Default + Send>(
    set: &WalSet,
    plan: &ScanPlan,
    jobs: usize,
    watched: &Watched<'_>,
    mut take: impl FnMut(Option<&mut V>),
) {
    let plan = ScanPlan { start_lsn: plan.start_lsn, ..ScanPlan::totals() };
    for run in set.runs() {
        // They are read again, and counted then.
        let watch = |_| watched.advance(0);
        let read = collect_run(
            &plan.stretch(set, &run, Keep::Heads),
            jobs,
            &watch,
            |_| V::default(),
            |part| {
                take(Some(&mut part.found));
                Ok(())
            },
        );
        // The walk that follows meets the same errors, and tells them.
        drop(read);
        take(None);
    }
}

/// Redo point of the checkpoint that `pg_control` names, and whether full-page writes were on.
pub(super) fn redo_in_control(set: &WalSet) -> Option<(Lsn, bool)> {
    checkpoint_in_control(set).map(|point| (point.redo_lsn, point.full_page_writes != 0))
}

/// The checkpoint that `pg_control` names, whose record may be missing here.
fn checkpoint_in_control(set: &WalSet) -> Option<&CheckPoint> {
    let checkpoint = &set.control()?.checkpoint;
    let segment_size = u64::from(set.geometry().wal_segment_size);
    let mut segments = set.segments().iter();
    let holds = segments.any(|file| {
        let offset = checkpoint.redo_lsn.bytes_since(file.start_lsn);
        file.segment.tli == checkpoint.tli && offset.is_some_and(|offset| offset < segment_size)
    });
    holds.then_some(checkpoint)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::inspect::wal::archives;
    use crate::inspect::wal::request::{WalRequest, unwatched};

    /// Words of all images and how many records there were; `threads`: 0 reads in order.
    fn images(archive: &Path, threads: usize) -> (Vec<String>, u64) {
        let mut source = WalSource::open(&WalRequest::of_paths(vec![archive.to_owned()])).unwrap();
        let (selection, mut found) = (ImageSelection::default(), Vec::new());
        let mut add = |image: &FoundImage<'_>| {
            let header = BlockImage { bytes: &[], ..*image.image };
            let block = (image.block.block_id, image.block.rel, image.block.fork_code(), image.block.block);
            let record = (image.record.start_lsn, image.record.end_lsn, image.record.tli, image.record.header);
            found.push(format!("{record:?} {block:?} {header:?} {} {:?}", image.stored_bytes, image.cause));
            Ok::<(), ()>(())
        };
        if threads == 0 {
            source.each_image(&selection, 1, &unwatched, |_, image| add(image)).unwrap();
        } else {
            source.each_image_head(&selection, threads, &unwatched, add).unwrap();
        }
        (found, source.coverage.examined)
    }

    #[test]
    fn segments_with_too_many_images_are_read_again() {
        for (major, archive) in archives(&[10, 13, 16, 18]) {
            let in_order = images(&archive, 0);
            assert!(in_order.0.len() > 5 * MAX_HEADS && in_order.1 > 1000, "{major}: {}", in_order.0.len());
            for threads in [1, 3] {
                assert_eq!(images(&archive, threads), in_order, "{major} {threads}");
            }
        }
    }

    #[test]
    fn error_of_the_visitor_ends_the_walk() {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wal/pg16.tar.zst");
        for limit in [1, 3, 40] {
            let mut source = WalSource::open(&WalRequest::of_paths(vec![archive.clone()])).unwrap();
            let mut seen = 0;
            let ended = source.each_image_head(&ImageSelection::default(), 2, &unwatched, |_| {
                seen += 1;
                if seen < limit { Ok(()) } else { Err("enough") }
            });
            assert_eq!((ended, seen), (Err("enough"), limit));
        }
    }
}
