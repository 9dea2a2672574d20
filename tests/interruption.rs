//! A check that is broken off at any stage says so and calls nothing safe, whatever it had seen by then.

mod common;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use pgforensics::analysis::verdict::answer::Answer;
use pgforensics::analysis::verdict::check::Stage;
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::inspect::check::{CheckRequest, Watch, check};
use pgforensics::inspect::examination::Examination;

use common::cluster;

/// Breaks off at the first word of one stage, once.
struct BreakOnce {
    stage: Stage,
    heard: AtomicUsize,
}

impl Watch for BreakOnce {
    fn at(&self, stage: Stage, _: u64, _: u64) -> ControlFlow<()> {
        let is_first = stage == self.stage && self.heard.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn broken_off_at(data: &Path, stage: Stage) -> Examination {
    let watch = BreakOnce { stage, heard: AtomicUsize::new(0) };
    let examined =
        check(&CheckRequest { jobs: 1, ..CheckRequest::of(data) }, &watch).unwrap_or_else(|error| panic!("{error}"));
    assert!(watch.heard.into_inner() > 0, "{stage:?} was never reached");
    examined
}

fn assert_partial(case: &str, stage: Stage) {
    let examined = broken_off_at(&cluster(case), stage);
    assert!(examined.interrupted(), "{case}, {stage:?}: {:?}", examined.coverage);
    assert_eq!(examined.answer(), Answer::Uncertain, "{case}, {stage:?}");
    let safe = examined.report.pages.iter().filter(|page| page.verdict.verdict == Verdict::Restore).count();
    assert_eq!(safe, 0, "{case}, {stage:?}");
}

#[test]
fn while_the_double_write_buffer_is_read() {
    for case in ["clean", "evict"] {
        assert_partial(case, Stage::Read);
    }
}

#[test]
fn while_the_pages_are_read() {
    for case in ["clean", "evict"] {
        assert_partial(case, Stage::Scan);
    }
}

#[test]
fn while_slots_are_compared() {
    for case in ["clean", "evict"] {
        assert_partial(case, Stage::Slots);
    }
}

#[test]
fn while_wal_is_read() {
    for case in ["clean", "evict"] {
        assert_partial(case, Stage::Wal);
    }
}

#[test]
fn while_damaged_pages_are_judged() {
    assert_partial("evict", Stage::Pages);
}

#[test]
fn without_a_break_the_same_clusters_are_answered() {
    for (case, answer) in [("clean", Answer::Fine), ("evict", Answer::Wrong)] {
        let request = CheckRequest { jobs: 1, ..CheckRequest::of(cluster(case)) };
        let examined = check(&request, &()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((examined.answer(), examined.interrupted()), (answer, false), "{case}");
    }
}
