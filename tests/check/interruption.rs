//! Work that is broken off says so and calls nothing in order, whatever it had seen by then: a check at each of its stages,
//! `verify`, what reads the double write buffer alone, and everything that reads WAL.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use pgforensics::analysis::skipped::Coverage;
use pgforensics::analysis::verdict::answer::Answer;
use pgforensics::analysis::verdict::check::{Scope, Stage};
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::analysis::wal::group_key::{GroupBy, Grouping};
use pgforensics::inspect::check::{CheckRequest, Watch, check};
use pgforensics::inspect::dwb_source::{DwbSource, batches};
use pgforensics::inspect::error::InspectError;
use pgforensics::inspect::examination::Examination;
use pgforensics::inspect::file_filter::FileFilter;
use pgforensics::inspect::verify::{Verification, VerifyReport, VerifyRequest};
use pgforensics::inspect::wal::chain::{WalChainRequest, wal_chain};
use pgforensics::inspect::wal::images::ImageSelection;
use pgforensics::inspect::wal::source::WalSource;
use pgforensics::inspect::{WalRequest, WalStatsRequest, wal_stats};
use pgforensics::report::Finding;
use serde_json::Value;
use strum::IntoEnumIterator;

use crate::common::{cluster, unpack};

/// Counts the calls, and breaks off at one of them; the first has number 0.
struct BreakAt {
    call: u64,
    calls: AtomicU64,
}

impl BreakAt {
    const fn call(call: u64) -> Self {
        Self { call, calls: AtomicU64::new(0) }
    }

    fn hear(&self) -> ControlFlow<()> {
        let is_it = self.calls.fetch_add(1, Ordering::Relaxed) == self.call;
        if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Calls there were.
    fn heard(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// The first, the middle and the last of so many calls.
fn some_of(calls: u64) -> Vec<u64> {
    let mut some = vec![0, calls / 2, calls - 1];
    some.dedup();
    some
}

/// Breaks a check off at a call about one stage.
struct AtStage {
    stage: Stage,
    call: BreakAt,
}

impl Watch for AtStage {
    fn at(&self, stage: Stage, _: u64, _: u64) -> ControlFlow<()> {
        if stage == self.stage { self.call.hear() } else { ControlFlow::Continue(()) }
    }
}

/// A check that is broken off at this call about a stage, and how many of them there were.
fn broken_off(data: &Path, scope: Scope, stage: Stage, call: u64) -> (Examination, u64) {
    let watch = AtStage { stage, call: BreakAt::call(call) };
    let request = CheckRequest { jobs: 1, scope, ..CheckRequest::of(data) };
    let examined = check(&request, &watch).unwrap_or_else(|error| panic!("{error}"));
    (examined, watch.call.heard())
}

/// Breaks a check off at every stage and says which stages it came to.
fn stages_broken_off(case: &str, scope: Scope) -> Vec<Stage> {
    let data = cluster(case);
    let mut reached = Vec::new();
    for stage in Stage::iter() {
        let (whole, calls) = broken_off(&data, scope, stage, u64::MAX);
        assert!(!whole.interrupted(), "{case}, {stage:?}: {:?}", whole.coverage);
        if calls == 0 {
            continue;
        }
        reached.push(stage);
        for call in some_of(calls) {
            let (examined, _) = broken_off(&data, scope, stage, call);
            let at = format!("{case}, {stage:?}, call {call} of {calls}");
            assert!(examined.interrupted(), "{at}: {:?}", examined.coverage);
            assert_eq!((examined.answer(), examined.answer().status()), (Answer::Uncertain, 2), "{at}");
            let of_findings = Answer::of_findings(&examined.findings, &examined.coverage);
            assert_eq!(of_findings, Answer::Uncertain, "{at}");
            let safe = examined.report.pages.iter().filter(|page| page.verdict.verdict == Verdict::Restore);
            assert_eq!(safe.count(), 0, "{at}");
        }
    }
    reached
}

/// False for stages that a check comes to only where a server is to replay.
fn is_always(stage: &Stage) -> bool {
    !matches!(stage, Stage::Proof | Stage::Replay)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_check_of_a_crashed_cluster_at_every_stage() {
    let all: Vec<Stage> = Stage::iter().filter(is_always).collect();
    assert_eq!(stages_broken_off("evict", Scope::All), all);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_check_of_a_clean_cluster_at_every_stage() {
    // No page is damaged, so that none is judged.
    let all_but_judging: Vec<Stage> = Stage::iter().filter(is_always).filter(|stage| *stage != Stage::Pages).collect();
    assert_eq!(stages_broken_off("clean", Scope::All), all_but_judging);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_check_of_the_pages_in_the_double_write_buffer_at_every_stage() {
    let reached = stages_broken_off("evict", Scope::DwbPages);
    assert!([Stage::Read, Stage::Slots, Stage::Wal, Stage::Pages].iter().all(|stage| reached.contains(stage)));
}

#[test]
fn without_a_break_the_same_clusters_are_answered() {
    for (case, answer) in [("clean", Answer::Fine), ("evict", Answer::Wrong)] {
        let request = CheckRequest { jobs: 1, ..CheckRequest::of(cluster(case)) };
        let examined = check(&request, &()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((examined.answer(), examined.interrupted()), (answer, false), "{case}");
    }
}

fn verified(data: &Path, watch: &BreakAt) -> VerifyReport {
    let request = VerifyRequest { data_dir: data.to_owned(), files: FileFilter::default(), jobs: 1, replay: None };
    let verification = Verification::open(&request).unwrap_or_else(|error| panic!("{error}"));
    let report = verification.run(&|_, _| watch.hear(), &mut |_| ControlFlow::Continue(()));
    report.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn verify() {
    for (case, answer) in [("clean", Answer::Fine), ("evict", Answer::Wrong)] {
        let (data, whole) = (cluster(case), BreakAt::call(u64::MAX));
        let report = verified(&data, &whole);
        assert_eq!((report.answer, report.coverage.is_interrupted()), (answer, false), "{case}");
        for call in some_of(whole.heard()) {
            let examined = report.coverage.examined;
            let report = verified(&data, &BreakAt::call(call));
            if call + 1 == whole.heard() && report.coverage.examined == examined {
                // Broken off after the last byte: everything was read, and the answer is that of all of it.
                assert_eq!(report.answer, answer, "{case}");
                continue;
            }
            assert!(report.coverage.is_interrupted(), "{case}, call {call}: {:?}", report.coverage);
            assert_eq!((report.answer, report.answer.status()), (Answer::Uncertain, 2), "{case}, call {call}");
        }
    }
}

#[test]
fn verify_by_the_one_who_is_shown_damaged_pages() {
    let data_dir = cluster("evict");
    let request = VerifyRequest { data_dir, files: FileFilter::default(), jobs: 1, replay: None };
    let verification = Verification::open(&request).unwrap_or_else(|error| panic!("{error}"));
    let report = verification.run(&|_, _| ControlFlow::Continue(()), &mut |_| ControlFlow::Break(()));
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.coverage.is_interrupted(), "{:?}", report.coverage);
    assert_eq!(report.answer, Answer::Uncertain);
}

/// Breaks off a reading of WAL, which must be fine when it is not broken off.
fn wal_broken_off(what: &str, read: impl Fn(&BreakAt) -> (Vec<Finding>, Coverage)) {
    let whole = BreakAt::call(u64::MAX);
    let (findings, coverage) = read(&whole);
    assert_eq!(Answer::of_findings(&findings, &coverage), Answer::Fine, "{what}: {findings:?} {coverage:?}");
    for call in some_of(whole.heard()) {
        let (findings, coverage) = read(&BreakAt::call(call));
        let at = format!("{what}, call {call} of {}", whole.heard());
        assert!(coverage.is_interrupted(), "{at}: {coverage:?}");
        assert_eq!(Answer::of_findings(&findings, &coverage).status(), 2, "{at}");
    }
}

fn wal_of_clean() -> WalRequest {
    WalRequest { jobs: 1, ..WalRequest::of_paths(vec![cluster("clean")]) }
}

#[test]
fn counting_of_wal() {
    let by = |by: GroupBy| Some(Grouping::from(by));
    let pair = Some(Grouping::pair(GroupBy::Xid, GroupBy::Checkpoint));
    let groups = [None, by(GroupBy::Cause), by(GroupBy::Relation), by(GroupBy::Rmgr), pair];
    for group in groups {
        wal_broken_off(&format!("stats by {group:?}"), |watch| {
            let request = WalStatsRequest { wal: wal_of_clean(), group, resynchronise: false, relations: Vec::new() };
            let stats = wal_stats(&request, &|_, _| watch.hear()).unwrap_or_else(|error| panic!("{error}"));
            (stats.wal.findings, stats.wal.coverage)
        });
    }
}

#[test]
fn listing_of_images() {
    for (resynchronise, with_bytes) in [(false, false), (true, false), (false, true)] {
        wal_broken_off(&format!("list, {resynchronise} {with_bytes}"), |watch| {
            let mut source = WalSource::open(&wal_of_clean()).unwrap_or_else(|error| panic!("{error}"));
            let selection = ImageSelection { resynchronise, ..ImageSelection::default() };
            let hear = |_, _| watch.hear();
            let ended: Result<(), ()> = if with_bytes {
                source.each_image(&selection, 1, &hear, |_, _| Ok(()))
            } else {
                source.each_image_head(&selection, 1, &hear, |_| Ok(()))
            };
            assert_eq!(ended, Ok(()));
            (source.findings, source.coverage)
        });
    }
}

#[test]
fn checking_of_wal() {
    for resynchronise in [false, true] {
        wal_broken_off(&format!("verify, {resynchronise}"), |watch| {
            let request = WalChainRequest { wal: wal_of_clean(), resynchronise };
            let chain = wal_chain(&request, &|_, _| watch.hear()).unwrap_or_else(|error| panic!("{error}"));
            (chain.wal.findings, chain.wal.coverage)
        });
    }
}

#[test]
fn batches_at_every_pass_over_the_slots() {
    let paths = [cluster("evict")];
    let whole = BreakAt::call(u64::MAX);
    assert!(batches(&paths, &|| whole.hear()).is_ok());
    // 1019 slots, each read twice.
    assert_eq!(whole.heard(), 2 * 1019);
    for call in some_of(whole.heard()) {
        let watch = BreakAt::call(call);
        let broken = batches(&paths, &|| watch.hear());
        assert!(matches!(broken, Err(InspectError::BufferInterrupted)), "call {call}");
    }
}

#[test]
fn a_double_write_buffer_that_was_read_in_part_has_no_findings_of_the_whole() {
    let source = DwbSource::open(&[cluster("evict")]).unwrap_or_else(|error| panic!("{error}"));
    let (whole, _) = source.examine();
    let watch = BreakAt::call(0);
    let (report, findings) = source.examine_slots(1, |_, _| watch.hear());
    assert!(report.coverage.is_interrupted() && !whole.coverage.is_interrupted());
    assert_eq!(Answer::of_findings(&findings, &report.coverage), Answer::Uncertain);
    assert!(findings.iter().all(|finding| finding.rule.code != "all_zero"), "{findings:?}");
}

#[test]
fn a_dump_ends_with_what_it_showed() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pg_dwbinspect"))
        .args(["dump", "--format", "ndjson"])
        .arg(cluster("evict"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("run");
    let mut output = BufReader::new(child.stdout.take().expect("output"));
    let mut text = String::new();
    // The rest does not fit into the pipe, so that it waits.
    output.read_line(&mut text).expect("a line");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
    output.read_to_string(&mut text).expect("the rest");
    assert_eq!(child.wait().expect("end").code(), Some(2));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of_type = |name: &str| lines.iter().filter(|line| line["type"] == name).collect::<Vec<_>>();
    let (slots, skipped, summary) = (of_type("slot").len(), of_type("skipped"), of_type("summary"));
    assert!(slots < 1019, "{slots}");
    assert_eq!((skipped.len(), &skipped[0]["code"]), (1, &"interrupted".into()));
    assert_eq!((&summary[0]["exit_status"], &summary[0]["shown"]), (&2.into(), &slots.into()));
}

/// Where WAL was not read to its end, an image at whose LSN no record was seen to end is not one of another cluster.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn buffer_is_not_called_foreign_by_what_was_not_read() {
    let data = unpack::data_dir("dwb-b/crash").expect("unpack fixture");
    let all = AtStage { stage: Stage::Wal, call: BreakAt::call(u64::MAX) };
    check(&CheckRequest { jobs: 1, ..CheckRequest::of(&data) }, &all).expect("examine");
    assert!(all.call.heard() > 4, "{} calls", all.call.heard());
    for call in 0..all.call.heard() {
        let watch = AtStage { stage: Stage::Wal, call: BreakAt::call(call) };
        let examined = check(&CheckRequest { jobs: 1, ..CheckRequest::of(&data) }, &watch).expect("examine");
        assert!(examined.findings.iter().all(|found| found.rule.code != "ring_of_strangers"), "call {call}");
        assert!(examined.coverage.is_interrupted(), "call {call}");
    }
}
