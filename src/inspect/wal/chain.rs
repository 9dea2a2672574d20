//! The chain of WAL records: where it ends and why.

use std::ops::ControlFlow;

use super::names::NameLookup;
use super::request::{WalRequest, WatchWal, Watched};
use super::source::{ReadWal, WalSource};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::segment::{Stretch, Undecoded, Visitor};
use crate::analysis::wal::tail::{ChainVerdict, CheckedRun, RunCounter};
use crate::analysis::wal::unreadable::{HasCompressed, ImageCheck, Resync, UnreadableImages};
use crate::analysis::wal::walk::{Damage, walk_run};
use crate::cluster::wal::WalSet;
use crate::inspect::error::InspectError;
use crate::inspect::wal::rules;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::reader::Aborted;

/// Which chain is checked.
#[derive(Clone, Debug)]
pub struct WalChainRequest {
    /// Which WAL, and how it is read.
    pub wal: WalRequest,
    /// Reading continues after damage, at the next page that starts a record.
    pub resynchronise: bool,
}

/// What was met in the WAL.
#[derive(Debug)]
pub struct WalChain {
    /// Each run of segments that follow each other.
    pub runs: Vec<CheckedRun>,
    /// Damage after which reading continued.
    pub damage: Vec<Damage>,
    /// The WAL that was read.
    pub wal: ReadWal,
}

/// Checks every page header, every record's CRC and every link to the record before.
///
/// # Errors
/// When there is no such WAL, or the range is empty.
pub fn wal_chain(request: &WalChainRequest, watch: WatchWal<'_>) -> Result<WalChain, InspectError> {
    let mut source = WalSource::open_watched(&request.wal, watch)?;
    source.resync = Resync::of(request.resynchronise);
    let (plan, watched) = (source.plan(), source.watched(watch));
    let (mut runs, mut damage, mut records) = (Vec::new(), Vec::new(), 0_u64);
    source.each_run(
        &watched,
        |set, run, notes| {
            let (mut checked, mut has_compressed) = (RunCounter::default(), HasCompressed::default());
            let stretch = plan.stretch(set, run, Keep::Heads);
            let watch = |bytes| watched.advance(bytes);
            let (mut wrong, mut undecoded) = (Undecoded::default(), Vec::new());
            // After damage, where to continue is only known in order.
            let walked = if request.resynchronise {
                walk_run(&stretch, true, &mut { watch }, |record| {
                    checked.record(record);
                    has_compressed.record(record);
                    wrong.record(record);
                    ControlFlow::Continue(())
                })
            } else {
                collect_run(
                    &stretch,
                    request.wal.jobs,
                    &watch,
                    |_| ((RunCounter::default(), HasCompressed::default()), Undecoded::default()),
                    |part| {
                        let ((counted, compressed), wrong) = &mut part.found;
                        checked.append(counted);
                        has_compressed.0 |= compressed.0;
                        undecoded.extend(wrong.0.take());
                        Ok(())
                    },
                )
            };
            undecoded.extend(wrong.0);
            notes.findings.extend(undecoded.into_iter().map(|error| rules::PAYLOAD.problem(error.to_string())));
            if has_compressed.0 && !watched.is_interrupted() {
                let stretch = plan.stretch(set, run, Keep::Blocks);
                notes.findings.extend(unreadable_images(&stretch, request, &watched).findings());
            }
            if let Ok(walked) = &walked {
                let note = |aborted: Aborted| {
                    let Aborted { start_lsn, missing_lsn, have, tot_len, .. } = aborted;
                    rules::ABORTED_RECORD.note(format!(
                        "record at {start_lsn} was cut off at {missing_lsn} and replaced: {have} of {tot_len} bytes were there"
                    ))
                };
                notes.findings.extend(walked.aborted.iter().copied().map(note));
            }
            (walked, checked)
        },
        |set, run, judged, checked| {
            let walked = judged.walked;
            damage.extend_from_slice(&walked.damage);
            records = records.saturating_add(checked.records);
            runs.push(CheckedRun {
                first_segment: segment_name(set, run.clone().next()),
                last_segment: segment_name(set, run.clone().next_back()),
                segments: run.len(),
                extent: walked.extent,
                records: checked.records,
                recovered: checked.recovered,
                timelines: checked.timelines,
                end: walked.end.clone(),
                verdict: ChainVerdict::of(judged.tail.as_ref(), !walked.damage.is_empty()),
            });
            ControlFlow::Continue(())
        },
    );
    source.coverage.examined = source.coverage.examined.saturating_add(records);
    source.note_range_without_wal();
    Ok(WalChain { runs, damage, wal: ReadWal::of(source, NameLookup::default()) })
}

/// Unpacks all compressed images of a stretch. Only where there are some the bytes of images are kept.
fn unreadable_images(stretch: &Stretch<'_>, request: &WalChainRequest, watched: &Watched<'_>) -> UnreadableImages {
    let block_size = stretch.set.geometry().block_size;
    // They were read before, and counted then.
    let watch = |_| watched.advance(0);
    let mut all = ImageCheck::new(block_size);
    let read = if request.resynchronise {
        walk_run(stretch, true, &mut { watch }, |record| {
            all.record(record);
            ControlFlow::Continue(())
        })
    } else {
        let begin = |_| ImageCheck::new(block_size);
        collect_run(stretch, request.wal.jobs, &watch, begin, |part| {
            all.unreadable.append(std::mem::take(&mut part.found.unreadable));
            Ok(())
        })
    };
    // Unreadable files were reported the first time.
    drop(read);
    all.unreadable
}

fn segment_name(set: &WalSet, index: Option<usize>) -> Option<String> {
    set.segments()[index?].segment.file_name(set.geometry().wal_segment_size)
}
