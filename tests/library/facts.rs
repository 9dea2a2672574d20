//! What other programs can do with the library alone: no command line is used here, and none is needed to build it.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use pgforensics::analysis::dwb::staleness::BatchVerdict;
use pgforensics::analysis::skipped::{SkipReason, SkippedPart};
use pgforensics::analysis::verdict::answer::Answer;
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::analysis::verdict::outlook::Start;
use pgforensics::inspect::check::{CheckRequest, Scope, check};
use pgforensics::inspect::dwb_source::{DwbSource, batches, info};
use pgforensics::inspect::error::InspectError;
use pgforensics::inspect::examination::Examination;
use pgforensics::inspect::file_filter::FileFilter;
use pgforensics::inspect::finding_rules::rules;
use pgforensics::inspect::page_target::find_page;
use pgforensics::inspect::repair::replay::{ReplayRequest, replay};
use pgforensics::inspect::repair::{RepairRequest, apply, propose};
use pgforensics::inspect::verify::{Verification, VerifyRequest};
use pgforensics::inspect::{WalRequest, WalStatsRequest, unwatched, wal_stats};
use pgforensics::repair::apply::Direction;
use pgforensics::repair::blocker::Overrides;
use pgforensics::types::{ForkNumber, PageId};

use crate::common::truth::{page_of, same_page, torn_writes};
use crate::common::wal as wal_fixture;
use crate::common::{cluster, copy_of, packed_rows, unpack};

/// File and block.
type FileBlock = (String, u32);

/// Torn pages of a case that show it: their checksum is not that of their bytes.
fn visibly_torn(case: &str) -> BTreeSet<FileBlock> {
    let torn = torn_writes(case).into_iter().filter(|torn| !torn.is_invisible && !torn.checksum_fits);
    torn.map(|torn| (torn.file, torn.block)).collect()
}

/// Fails with the words of an error.
fn ok<T>(result: Result<T, InspectError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_check_finds_the_pages_that_were_torn_and_no_others() {
    for case in ["evict", "wrapped"] {
        let examined = ok(check(&CheckRequest::of(cluster(case)), &()));
        assert_eq!(examined.answer(), Answer::Wrong, "{case}");
        let wrong = examined.report.pages.iter().filter(|page| page.is_wrong);
        let found: BTreeSet<FileBlock> = wrong.map(|page| (examined.path_of(page.page), page.page.block)).collect();
        assert_eq!(found, visibly_torn(case), "{case}");
    }
    let clean = ok(check(&CheckRequest::of(cluster("clean")), &()));
    assert_eq!((clean.answer(), clean.report.pages.len()), (Answer::Fine, 0));
}

#[test]
fn answers_count_what_was_not_examined() {
    let data = cluster("clean");
    let page = Scope::Page(ok(find_page(&data, &"base/5/16399:0".parse().unwrap(), None)));
    let mut whole = ok(check(&CheckRequest::of(&data), &()));
    let mut of_page = ok(check(&CheckRequest { scope: page, ..CheckRequest::of(&data) }, &()));
    let answers = |whole: &Examination, of_page: &Examination| {
        [whole.answer(), whole.answer_without(|_| true), of_page.answer_of_pages()]
    };
    assert_eq!(answers(&whole, &of_page), [Answer::Fine; 3]);
    // A part that a caller leaves out by itself, and of which the verdicts do not know.
    for examined in [&mut whole, &mut of_page] {
        examined.coverage.skip(SkippedPart::RelationNames, SkipReason::NoSuchDatabase);
    }
    assert_eq!(answers(&whole, &of_page), [Answer::Uncertain; 3]);
}

#[test]
fn findings_of_a_check_count_in_its_answer() {
    let mut examined = ok(check(&CheckRequest::of(cluster("clean")), &()));
    let rule = rules().find(|rule| rule.code == "no_dwb").unwrap();
    examined.findings.push(rule.problem("for the test"));
    assert_eq!((examined.answer(), examined.answer_of_pages()), (Answer::Wrong, Answer::Wrong));
}

#[test]
fn a_start_is_foreseen_only_where_all_pages_were_read() {
    let data = cluster("clean");
    let page = Scope::Page(ok(find_page(&data, &"base/5/16399:0".parse().unwrap(), None)));
    for (scope, start, answer) in [
        (Scope::All, Start::WithoutReplay, Answer::Fine),
        (Scope::DwbPages, Start::SomePagesOnly, Answer::Uncertain),
        (page, Start::SomePagesOnly, Answer::Uncertain),
    ] {
        let examined = ok(check(&CheckRequest { scope, ..CheckRequest::of(&data) }, &()));
        assert_eq!((&examined.report.outlook.start, examined.answer()), (&start, answer), "{scope:?}");
        assert_eq!(examined.answer_without(|_| true), answer, "{scope:?}");
    }
}

#[test]
fn verify_finds_the_pages_whose_checksum_does_not_fit() {
    for case in ["clean", "evict", "wrapped"] {
        let request = VerifyRequest { data_dir: cluster(case), files: FileFilter::default(), jobs: 2, replay: None };
        let mut found = BTreeSet::new();
        let report = ok(ok(Verification::open(&request)).run(&|_, _| ControlFlow::Continue(()), &mut |page| {
            found.insert((page.path.to_owned(), page.page.block));
            ControlFlow::Continue(())
        }));
        assert_eq!(found, visibly_torn(case), "{case}");
        assert_eq!(report.answer, if found.is_empty() { Answer::Fine } else { Answer::Wrong }, "{case}");
        let rows = packed_rows(&unpack::fixtures().join(format!("dwb/expected/{case}.relations.tsv.zst")));
        let pages: u64 = rows.iter().map(|row| row["pages"].parse::<u64>().expect("a number")).sum();
        assert_eq!((report.counts.pages, report.files), (pages, rows.len() as u64), "{case}");
    }
}

#[test]
fn info_counts_files_slots_and_relation_files() {
    // From the table of the fixtures.
    for (case, files, slots) in [("clean", 1, 382), ("evict", 1, 1019), ("tablespace", 2, 2547), ("reva", 1, 1018)] {
        let report = ok(info(&[cluster(case)]));
        let found: Vec<u64> = report.dwb.files.iter().map(|file| file.counts.total).collect();
        assert_eq!(found, vec![slots; files], "{case}");
        let rows = packed_rows(&unpack::fixtures().join(format!("dwb/expected/{case}.relations.tsv.zst")));
        let summary = report.cluster.expect("a data directory");
        assert_eq!(summary.relation_files, rows.len() as u64, "{case}");
        assert_eq!(summary.tablespaces, u64::from(case == "tablespace"), "{case}");
    }
    let nothing = tempfile::tempdir().expect("temporary directory");
    let error = info(&[nothing.path().to_owned()]).expect_err("nothing is there");
    assert!(matches!(error, InspectError::NothingToInspect(path) if path == nothing.path()));
}

#[test]
fn the_current_batch_reaches_to_the_slot_worked_out_by_hand() {
    for (case, last) in [("evict", 52), ("aligned", 29), ("nochecksums", 31), ("tablespace", 45), ("wrapped", 63)] {
        let report = ok(batches(&[cluster(case)], &|| ControlFlow::Continue(())));
        let current: Vec<_> = report.batches.iter().filter(|batch| batch.verdict == BatchVerdict::Current).collect();
        assert_eq!(current.len(), 1, "{case}");
        assert_eq!((current[0].first, current[0].last), ((0, 0), (0, last)), "{case}");
    }
}

#[test]
fn a_relation_is_found_by_its_file() {
    let data = cluster("evict");
    for (text, fork) in [("base/5/16399", ForkNumber::Main), ("base/5/16399_vm", ForkNumber::Vm)] {
        let PageId { rel, fork: found, block } = ok(find_page(&data, &format!("{text}:7").parse().unwrap(), None));
        assert_eq!((rel.spc_oid, rel.db_oid, rel.rel_number, found, block), (1663, 5, 16_399, fork, 7), "{text}");
    }
    let page = |name: &str| find_page(&data, &name.parse().unwrap(), None);
    assert_eq!(ok(page("postgres.public.pgbench_accounts:7")), ok(page("base/5/16399:7")));
    let error = page("public.no_such_table:7").expect_err("there is none");
    assert!(matches!(error, InspectError::NoSuchRelation(_) | InspectError::NoRelationInCluster { .. }), "{error:?}");
}

/// The files that a repair of the torn pages touches.
fn torn_files(data: &Path, case: &str) -> Vec<Vec<u8>> {
    let files: BTreeSet<String> = torn_writes(case).into_iter().map(|torn| torn.file).collect();
    files.iter().map(|file| fs::read(data.join(file)).expect("relation file")).collect()
}

#[test]
fn a_repair_is_proposed_applied_and_taken_back() {
    let case = "evict";
    let (keep, data) = copy_of(case);
    let crashed = torn_files(&data, case);
    let request = RepairRequest {
        data_dir: data.clone(),
        jobs: 2,
        journal: Some(keep.path().join("journal")),
        ..RepairRequest::default()
    };

    let proposal = ok(propose(&request, &()));
    assert!(proposal.blockers.is_empty(), "{:?}", proposal.blockers);
    assert_eq!(torn_files(&data, case), crashed, "a proposal writes nothing");
    let restorable = proposal.examined.report.pages.iter().filter(|page| page.verdict.verdict == Verdict::Restore);
    assert_eq!(proposal.plan.steps.len(), restorable.count());

    let repair = ok(apply(&request, &()));
    let written = repair.written.as_ref().expect("pages to be repaired");
    assert_eq!(written.applied.written.len(), proposal.plan.steps.len());
    let mut repaired = 0;
    for torn in torn_writes(case).iter().filter(|torn| !torn.is_invisible && !torn.checksum_fits) {
        let step = repair.plan.steps.iter().find(|step| (&step.path, step.page.block) == (&torn.file, torn.block));
        if step.is_some() {
            let page = page_of(&data, &torn.file, torn.block);
            assert!(same_page(&page, &torn.intended), "{} block {}", torn.file, torn.block);
            repaired += 1;
        }
    }
    assert_eq!((repaired, repair.plan.steps.len()), (8, 8), "the torn pages of pgbench_accounts");

    let back = ReplayRequest {
        data_dir: data.clone(),
        journal: written.journal.directory().to_owned(),
        direction: Direction::Back,
        pages: Vec::new(),
        skip_changed: false,
        allow_old_journal: false,
        overrides: Overrides::default(),
    };
    assert_eq!(ok(replay(&back)).applied.written.len(), 8);
    assert_eq!(torn_files(&data, case), crashed, "every byte is as it was");
}

#[test]
fn counts_of_wal_are_those_of_pg_waldump() {
    for major in 10..=19 {
        let path = unpack::fixtures().join(format!("wal/pg{major}.tar.zst"));
        let request = WalStatsRequest {
            wal: WalRequest::of_paths(vec![path]),
            group: None,
            resynchronise: false,
            relations: Vec::new(),
        };
        let stats = ok(wal_stats(&request, &unwatched));
        let expected = wal_fixture::expected_totals(&wal_fixture::Fixture::load(major).expected("stats.txt"));
        let total = &stats.counts.total;
        let records_bytes = total.combined_bytes() - total.fpi_bytes;
        assert_eq!((total.records, records_bytes, total.fpi_bytes), expected["Total"], "{major}");
        assert_eq!(stats.wal.origin.major.map(|major| major.number()), Some(major));
        assert!(stats.wal.coverage.skipped.is_empty(), "{major}: {:?}", stats.wal.coverage);
    }
}

#[test]
fn slots_that_are_gone_on_the_second_reading_are_counted_for_each_file() {
    let (_kept, data) = copy_of("tablespace");
    let source = ok(DwbSource::open(std::slice::from_ref(&data)));
    let (mut report, _) = source.examine();
    assert_eq!((source.set.files.len(), report.coverage.skipped.len()), (2, 0));
    for file in &source.set.files {
        fs::OpenOptions::new().write(true).open(file.path()).and_then(|open| open.set_len(16_384)).expect("cut");
    }
    let shown = source.visit_slots(&mut report, |_, _| true, |_, _| Ok::<(), ()>(()));
    assert_eq!(shown, Ok(()));
    let counts: Vec<usize> = source
        .set
        .files
        .iter()
        .map(|file| {
            let part = SkippedPart::file(&file.name);
            report.coverage.skipped.iter().filter(|skipped| skipped.what == part).count()
        })
        .collect();
    assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}");
    let before = report.coverage.clone();
    assert_eq!(source.visit_slots(&mut report, |_, _| true, |_, _| Ok::<(), ()>(())), Ok(()));
    assert_eq!(report.coverage, before, "what was counted is not counted again");
}
