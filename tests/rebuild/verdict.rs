//! Pages that a server builds by replay, judged and put back: compared with the pages that the server itself wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common;
use crate::common::rebuild::{RebuildCase, TruePage};
use crate::common::{Ran, arg, dwbinspect, unpack};
use pgforensics::analysis::pages::page_mask::differences;
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::cluster::data_dir::DataDir;
use pgforensics::inspect::check::{CheckRequest, check};
use pgforensics::inspect::examination::Examination;
use pgforensics::inspect::rebuild::ReplayOptions;
use pgforensics::rebuild::find_server;
use pgforensics::types::{DEFAULT_TABLESPACE_OID, ForkNumber, PageId, RelFileLocator};

/// False, and said loudly, where no server of the case's major is installed.
fn has_server(case: &RebuildCase) -> bool {
    let major = DataDir::open(&case.cluster()).expect("data directory").major();
    match find_server(major, None, &case.cluster()) {
        Ok(_) => true,
        Err(why) => {
            common::skipped(&why.to_string());
            false
        }
    }
}

fn request(case: &RebuildCase, donor: bool) -> CheckRequest {
    CheckRequest {
        wal: vec![case.archive()],
        donors: donor.then(|| case.donor()).into_iter().collect(),
        rebuild: Some(ReplayOptions::default()),
        jobs: 2,
        ..CheckRequest::of(case.cluster())
    }
}

/// Pages by path and block.
fn truth(case: &RebuildCase) -> BTreeMap<(String, u32), TruePage> {
    let key = |page: &TruePage| (page.path.clone(), u32::try_from(page.block).unwrap());
    case.pages().into_iter().map(|page| (key(&page), page)).collect()
}

/// A page in the database that the fixtures are of.
fn page_id(page: &TruePage) -> PageId {
    let name = page.path.strip_prefix("base/5/").unwrap();
    let (number, fork) = name.strip_suffix("_vm").map_or((name, ForkNumber::Main), |number| (number, ForkNumber::Vm));
    let rel_number = number.parse().unwrap();
    let rel = RelFileLocator { spc_oid: DEFAULT_TABLESPACE_OID, db_oid: 5, rel_number };
    PageId { rel, fork, block: u32::try_from(page.block).unwrap() }
}

/// The verdict on each damaged page. Every page that may be put back must be the true one, outside what may differ.
fn verdicts(
    examined: &Examination,
    truth: &BTreeMap<(String, u32), TruePage>,
    context: &str,
) -> BTreeMap<(String, u32), Verdict> {
    let mut found = BTreeMap::new();
    for report in &examined.report.pages {
        let key = (examined.path_of(report.page), report.page.block);
        let true_page = &truth[&key].bytes;
        if report.verdict.verdict == Verdict::Rebuild {
            let built = &examined.built.bytes[&report.page];
            let differing = differences(report.page, built, true_page);
            assert!(differing.is_empty(), "{context}: {key:?}: {differing:?}");
        }
        found.insert(key, report.verdict.verdict);
    }
    found
}

fn count(found: &BTreeMap<(String, u32), Verdict>, verdict: Verdict) -> usize {
    found.values().filter(|one| **one == verdict).count()
}

#[test]
fn every_page_of_which_all_records_are_there_is_rebuilt() {
    let case = RebuildCase::of("pg15_fpwoff");
    if !has_server(&case) {
        return;
    }
    let examined = check(&request(&case, true), &()).unwrap();
    let found = verdicts(&examined, &truth(&case), "whole");
    let counts = [Verdict::Rebuild, Verdict::Restore, Verdict::Leave].map(|verdict| count(&found, verdict));
    assert_eq!((found.len(), counts), (20, [18, 2, 0]));
    assert!(examined.report.replay.doubts.is_empty() && examined.built.sandbox.is_none());
}

#[test]
fn a_gap_in_the_archive_leaves_four_pages_as_they_are() {
    let case = RebuildCase::of("pg15_fpwon_gap");
    if !has_server(&case) {
        return;
    }
    let examined = check(&request(&case, true), &()).unwrap();
    let found = verdicts(&examined, &truth(&case), "gap");
    let counts = [Verdict::Rebuild, Verdict::Restore, Verdict::Leave].map(|verdict| count(&found, verdict));
    assert_eq!((found.len(), counts), (20, [11, 5, 1]));
    let refused = found.values().filter(|verdict| matches!(verdict, Verdict::NoImage | Verdict::LosesChanges));
    assert_eq!(refused.count(), 3);
}

/// The whole way: plan, apply, check, undo.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn rebuilt_pages_are_written_with_a_journal_and_taken_back() {
    let case = RebuildCase::of("pg15_fpwoff");
    if !has_server(&case) {
        return;
    }
    let (cluster, archive, donor) = (case.cluster(), case.archive(), case.donor());
    let journal = cluster.parent().unwrap().join("journal");
    let before: Vec<Vec<u8>> = case.pages().iter().map(|page| case.read(&page.path, page.block)).collect();
    let sources = ["--wal", arg(&archive), "--donor", arg(&donor), "--allow-shut-down"];
    let run = |command: &[&str]| -> Ran { dwbinspect(&[command, &sources[..]].concat()) };
    let shown = run(&["repair", "--rebuild", "--format", "ndjson", arg(&cluster)]);
    assert_eq!(shown.of_type("step").len(), 20, "{}{}", shown.stdout, shown.stderr);
    assert_eq!(case.pages().iter().map(|page| case.read(&page.path, page.block)).collect::<Vec<_>>(), before);
    let without = run(&["repair", "--format", "ndjson", arg(&cluster)]);
    assert_eq!(without.of_type("step").len(), 2, "{}", without.stdout);

    let apply = ["repair", "--rebuild", "--apply", "--journal", arg(&journal), arg(&cluster)];
    let applied = run(&apply);
    assert_eq!(applied.status, 0, "{}{}", applied.stdout, applied.stderr);
    for page in case.pages() {
        let now = case.read(&page.path, page.block);
        let differing = differences(page_id(&page), &now, &page.bytes);
        // Hint bits alone: the record of them has no image.
        assert!(differing.is_empty() || page.records == 1, "{} {}: {differing:?}", page.path, page.block);
    }
    let clean = dwbinspect(&["check", "--format", "ndjson", arg(&cluster)]);
    assert_eq!((clean.status, clean.of_type("page").len()), (0, 0), "{}", clean.stdout);
    let verified = dwbinspect(&["verify", arg(&cluster)]);
    assert_eq!(verified.status, 0, "{}", verified.stdout);

    let undone = dwbinspect(&["undo", arg(&cluster), arg(&journal), "--allow-shut-down"]);
    assert_eq!(undone.status, 0, "{}{}", undone.stdout, undone.stderr);
    assert_eq!(case.pages().iter().map(|page| case.read(&page.path, page.block)).collect::<Vec<_>>(), before);

    // The command that is printed to undo a repair works as it is.
    let journal = cluster.parent().unwrap().join("second");
    let applied = run(&["repair", "--rebuild", "--apply", "--journal", arg(&journal), arg(&cluster)]);
    let command = applied.stdout.lines().find_map(|line| line.split_once("pg_dwbinspect undo ")).unwrap().1;
    let undone = dwbinspect(&["undo"].into_iter().chain(command.split_whitespace()).collect::<Vec<_>>());
    assert_eq!(undone.status, 0, "{command}: {}", undone.stderr);
    assert_eq!(case.pages().iter().map(|page| case.read(&page.path, page.block)).collect::<Vec<_>>(), before);
}

/// Whatever is taken away of archive or donor: no page becomes provable by it, and none is built that is not the true one.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn missing_evidence_never_brings_a_wrong_page() {
    for name in ["pg15_fpwoff", "pg15_fpwon_gap", "pg19rc1_fpwoff"] {
        let case = RebuildCase::of(name);
        if !has_server(&case) {
            continue;
        }
        let truth = truth(&case);
        let is_proven = |verdict: &Verdict| matches!(verdict, Verdict::Rebuild | Verdict::Restore);
        let whole = verdicts(&check(&request(&case, true), &()).unwrap(), &truth, name);
        let mut lost_proofs = 0;
        let mut compare = |examined: &Examination, context: &str| {
            for (key, verdict) in verdicts(examined, &truth, context) {
                assert!(!is_proven(&verdict) || is_proven(&whole[&key]), "{name} {context}: {key:?} is {verdict:?}");
                lost_proofs += usize::from(is_proven(&whole[&key]) && !is_proven(&verdict));
            }
        };
        let mut segments: Vec<PathBuf> =
            fs::read_dir(case.archive()).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.retain(|path| path.file_name().unwrap().len() == 24);
        segments.sort();
        let away = case.cluster().parent().unwrap().join("away");
        for segment in segments.iter().step_by(3) {
            fs::rename(segment, &away).unwrap();
            compare(&check(&request(&case, true), &()).unwrap(), &segment.display().to_string());
            fs::rename(&away, segment).unwrap();
        }
        for page in case.pages() {
            let file = case.donor().join(&page.path);
            if file.exists() {
                fs::rename(&file, &away).unwrap();
                compare(&check(&request(&case, true), &()).unwrap(), &format!("donor without {}", page.path));
                fs::rename(&away, &file).unwrap();
            }
        }
        assert!(lost_proofs > 10, "{name}: {lost_proofs}");
        let control = case.cluster().join("global/pg_control");
        let bytes = fs::read(&control).unwrap();
        for length in [0, 100, 290, 4096] {
            fs::write(&control, &bytes[..length]).unwrap();
            if let Ok(examined) = check(&request(&case, false), &()) {
                let found = examined.report.pages.iter().filter(|report| is_proven(&report.verdict.verdict)).count();
                // The fields and their CRC are the first 296 bytes.
                assert!(found == 0 || length >= 4096, "{name}: {found} pages with {length} bytes of pg_control");
            }
        }
    }
}

/// A program that says that it ran.
fn fake_server(directory: &Path) -> PathBuf {
    let (program, sign) = (directory.join("postgres"), directory.join("it-ran"));
    crate::common::write_script(&program, &format!("#!/bin/sh\necho run >> '{}'\n", sign.display()));
    sign
}

/// The user believes that pages are rebuilt, or proven, where nothing was asked for that starts a server.
#[test]
fn server_that_nothing_starts_is_refused() {
    let data = unpack::data_dir("dwb/checkpoint").unwrap();
    for command in [&["check"][..], &["repair"], &["page", arg(&data), "1663/5/1259", "0"]] {
        let directory: &[&str] = if command.len() == 1 { &[arg(&data)] } else { &[] };
        for option in [&["--pg-bin", "/nonexistent"][..], &["--sandbox", "/nonexistent"], &["--keep-sandbox"]] {
            let ran = dwbinspect(&[command, directory, option].concat());
            assert_eq!(ran.status, 2, "{command:?} {option:?}: {}", ran.stderr);
            assert!(ran.stdout.is_empty() && ran.stderr.contains("--rebuild"), "{}", ran.stderr);
        }
    }
}

#[test]
fn nothing_is_started_unless_a_rebuild_is_asked_for() {
    let root = unpack::data_dir("rebuild/pg15_fpwon_gap").unwrap();
    let (cluster, archive) = (root.join("cluster"), root.join("archive"));
    let temporary = tempfile::tempdir().unwrap();
    let sign = fake_server(temporary.path());
    let path = format!("{}:/usr/bin:/bin", temporary.path().display());
    let run = |args: &[&str]| {
        let mut command = assert_cmd::Command::cargo_bin("pg_dwbinspect").unwrap();
        command.env("PATH", &path).args(args).args(["--wal", arg(&archive), "--format", "ndjson"]).output().unwrap()
    };
    let page = ["page", arg(&cluster), "base/5/16389", "15"];
    for args in
        [&["check", arg(&cluster)][..], &page, &["repair", arg(&cluster)], &["check", "--dwb-only", arg(&cluster)]]
    {
        let ran = run(args);
        assert!(!ran.stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        assert!(!sign.exists(), "{args:?} started a server");
    }
    // Where it is asked for, what is no server is asked for its version, and that is all.
    let ran = run(&["check", "--rebuild", "--pg-bin", arg(temporary.path()), arg(&cluster)]);
    let lines: Vec<Value> =
        String::from_utf8(ran.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Another user need not be able to run it.
    assert!(fs::read_to_string(&sign).is_ok_and(|text| text == "run\n") || !sign.exists());
    let failed: Vec<&Value> = lines.iter().filter(|line| line["build_failure"] == "no_server_program").collect();
    assert_eq!(failed.len(), 11);
    for page in failed {
        assert_eq!(page["verdict"], "loses_changes");
        assert!(page["reason_codes"].as_array().unwrap().contains(&"no_server_program".into()), "{page}");
        assert_eq!(page["rebuildable"]["possible"], true);
    }
    assert!(lines.iter().any(|line| line["type"] == "finding" && line["kind"] == "not_rebuilt"));
    // Pages that only lack a server are not given up.
    let steps: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["next"].as_array())
        .flatten()
        .filter_map(|step| step["step"].as_str())
        .collect();
    assert!(steps.contains(&"rebuild_again") && !steps.contains(&"rebuild_pages"), "{steps:?}");
    assert!(!steps.contains(&"salvage_table"), "{steps:?}");
}
