//! `pg_dwbinspect report`: the page says what `check` and `repair` say, runs nothing, and goes nowhere it must not go.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::html::{all, assert_harmless, by_id, parse, table, text_of};
use crate::common::truth::page_of;
use crate::common::{arg, cluster, copy_of, copy_tree, dwbinspect};
use pgforensics::analysis::verdict::judge::Verdict;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A name that is nothing but text.
const HOSTILE: &str = "<script>alert(1)</script>\"&'";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The report of a cluster with these arguments, and the exit status.
fn report(data: &Path, more: &[&str]) -> (String, i32) {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("report.html");
    let ran = dwbinspect(&[&["report", arg(data), "-o", arg(&file)], more].concat());
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.stdout, format!("The report was written to {}.\n", file.display()));
    (fs::read_to_string(file).unwrap(), ran.status)
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&dwbinspect(args).stdout).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What a verdict with this code is called.
fn label_of(code: &str) -> String {
    Verdict::ALL.into_iter().find(|verdict| verdict.name() == code).expect("a verdict").facts().label.to_owned()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn report_says_what_check_and_repair_say() {
    for case in ["checkpoint", "clean", "nochecksums", "reva"] {
        let data = cluster(case);
        let (text, status) = report(&data, &["--pages", "100000"]);
        let page = parse(&text);
        assert_harmless(&page);
        let checked = json(&["check", arg(&data), "--format", "json"]);
        let summary = &checked["summary"];
        assert_eq!(Value::from(status), summary["exit_status"], "{case}");
        let start = by_id(&page, "start");
        assert!(text_of(start).contains(&format!("Exit status {status}.")), "{case}");
        let pages = list(&checked["pages"]);
        if pages.is_empty() {
            assert!(text_of(by_id(&page, "pages")).contains("None was found"), "{case}");
        } else {
            let counted: BTreeSet<(String, u64)> = table(start, "Damaged pages by verdict")[1..]
                .iter()
                .map(|row| (row[0].clone(), row[1].parse().unwrap()))
                .collect();
            let verdicts = summary["verdicts"].as_object().unwrap();
            let expected = verdicts.iter().map(|(code, count)| (label_of(code), count.as_u64().unwrap()));
            assert_eq!(counted, expected.filter(|(_, count)| *count > 0).collect(), "{case}");
            let rows = table(by_id(&page, "pages"), &format!("All {} damaged pages", pages.len()));
            for (row, found) in rows[1..].iter().zip(pages) {
                let word = |name: &str| found[name].as_str().unwrap().to_owned();
                assert_eq!(
                    [&row[2], &row[3], &row[4], &row[6]],
                    [&word("path"), &word("disk"), &word("strength"), &label_of(&word("verdict"))]
                );
                assert!(row[1].ends_with(&found["block"].to_string()), "{row:?}");
            }
            assert_eq!(rows.len(), pages.len() + 1, "{case}");
        }
        assert_eq!(all(by_id(&page, "pages"), "section").len() - 1, pages.len(), "{case}: a sheet each");
        for (index, found) in pages.iter().enumerate() {
            let sheet = by_id(&page, &format!("page-{}", index + 1));
            let words = text_of(sheet);
            let steps = list(&found["candidates"]).iter().flat_map(|candidate| list(&candidate["evidence"]));
            let sentences = steps.map(|step| &step["text"]).chain(list(&found["damage"]));
            for sentence in sentences.map(|sentence| sentence.as_str().unwrap()) {
                assert!(words.contains(sentence), "{case}: {sentence}");
            }
            let cells = all(sheet, "rect").len();
            let sectors = list(&found["tear"]["sectors"]).len();
            assert_eq!(cells, sectors, "{case}: a cell for each sector");
            let disk = page_of(&data, found["path"].as_str().unwrap(), found["block"].as_u64().unwrap() as u32);
            if disk.len() == 8192 {
                let digests = table(sheet, "SHA-256 of the page");
                assert_eq!(digests[1], ["on disk", &sha256(&disk)], "{case}");
            }
        }
        assert_eq!(text.contains("Not checked"), !list(&checked["skipped"]).is_empty(), "{case}");
        let next = text_of(by_id(&page, "next"));
        for step in list(&summary["next"]) {
            assert!(next.contains(step["sentence"].as_str().unwrap()), "{case}: {step}");
            for command in list(&step["commands"]) {
                assert!(next.contains(command.as_str().unwrap()), "{case}: {command}");
            }
        }
        let findings = all(by_id(&page, "findings"), "tr").len().saturating_sub(1);
        assert_eq!(findings, list(&checked["findings"]).len(), "{case}");
        let planned = json(&["repair", arg(&data), "--format", "json"]);
        let plan = by_id(&page, "plan");
        match list(&planned["steps"]).len() {
            0 => assert!(text_of(plan).contains("Nothing would be written."), "{case}"),
            steps => assert_eq!(table(plan, "Pages that would be written").len() - 1, steps, "{case}"),
        }
        let digests = table(by_id(&page, "evidence"), "Files that");
        assert_eq!(digests[1][0], "global/pg_control");
        for row in &digests[1..] {
            let bytes = fs::read(data.join(&row[0])).unwrap();
            assert_eq!([&row[1], &row[2]], [&bytes.len().to_string(), &sha256(&bytes)], "{case}");
        }
        assert_eq!(digests.len() - 2, fs::read_dir(data.join("pg_dwbuf")).unwrap().count(), "{case}");
        let waits = json(&["batches", arg(&data), "--format", "json"]);
        let batches = list(&waits["batches"]);
        if !batches.is_empty() {
            let rows = table(by_id(&page, "buffer"), "Batches");
            let slots: Vec<&str> = rows[1..].iter().map(|row| row[2].as_str()).collect();
            let expected: Vec<String> = batches.iter().map(|batch| batch["slots"].to_string()).collect();
            assert_eq!(slots, expected, "{case}");
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn planned_bytes_are_those_that_a_repair_writes_and_journals_are_seen() {
    let (_keep, data) = copy_of("checkpoint");
    let (text, _) = report(&data, &[]);
    let page = parse(&text);
    let plan = table(by_id(&page, "plan"), "Pages that would be written");
    let planned = json(&["repair", arg(&data), "--format", "json"]);
    let steps = list(&planned["steps"]);
    let bytes = |step: &Value| {
        page_of(&data, step["path"].as_str().unwrap(), u32::try_from(step["block"].as_u64().unwrap()).unwrap())
    };
    assert_eq!((plan.len(), steps.len()), (7, 6));
    for (row, step) in plan[1..].iter().zip(steps) {
        assert_eq!(row[3], sha256(&bytes(step)));
    }
    assert!(text_of(by_id(&page, "journals")).contains("No journal is next to the data directory"));
    assert_eq!(dwbinspect(&["repair", arg(&data), "--apply"]).status, 0);
    for (row, step) in plan[1..].iter().zip(steps) {
        assert_eq!(row[4], sha256(&bytes(step)));
    }
    let journals = |text: &str| text_of(by_id(&parse(text), "journals"));
    let (text, status) = report(&data, &[]);
    assert_eq!(status, 0);
    let wrote =
        "6 as the repair wrote them, 0 as they were before it, 0 changed since by something else, 0 not readable";
    assert!(journals(&text).contains(wrote), "{}", journals(&text));
    // To a copy of the repaired directory the journal is that of another one, though its pages are as the repair wrote them.
    let other = data.with_file_name("other");
    copy_tree(&data, &other);
    let (text, _) = report(&other, &[]);
    assert!(journals(&text).contains("not compared: it belongs to another directory"), "{}", journals(&text));
    assert!(!journals(&text).contains(wrote), "{}", journals(&text));
    fs::remove_dir_all(&other).unwrap();
    let journal = fs::read_dir(data.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("pgforensics_undo_"))
        .unwrap();
    assert_eq!(dwbinspect(&["undo", arg(&data), arg(&journal)]).status, 0);
    let (text, _) = report(&data, &[]);
    assert!(journals(&text).contains("0 as the repair wrote them, 6 as they were before it"), "{}", journals(&text));
    // One that lost its manifest, and one that is none.
    fs::remove_file(journal.join("journal.json")).unwrap();
    fs::create_dir(journal.with_file_name("pgforensics_undo_x")).unwrap();
    let (text, _) = report(&data, &[]);
    assert!(journals(&text).contains("has lost its journal.json"), "{}", journals(&text));
    assert!(journals(&text).contains("has no complete journal"), "{}", journals(&text));
}

#[test]
fn what_was_not_examined_stands_first() {
    let (_keep, data) = copy_of("checkpoint");
    let wal = data.join("pg_wal");
    for entry in fs::read_dir(&wal).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    let (text, status) = report(&data, &[]);
    assert_eq!(status, 2);
    let page = parse(&text);
    let checked = json(&["check", arg(&data), "--format", "json"]);
    let skipped = list(&checked["skipped"]);
    assert!(!skipped.is_empty());
    let main = all(page.root_element(), "main")[0];
    let first = main.children().find(|node| node.is_element()).unwrap();
    assert_eq!(first.attribute("class"), Some("box bad"));
    assert!(text_of(first).starts_with("Not checked"), "{}", text_of(first));
    assert_eq!(all(first, "li").len(), skipped.len());
    for part in skipped {
        assert!(text_of(first).contains(part["reason"].as_str().unwrap()), "{part}");
    }
    // A part only is examined on purpose.
    let (text, status) = report(&cluster("clean"), &["--dwb-only"]);
    let page = parse(&text);
    let main = all(page.root_element(), "main")[0];
    let first = main.children().find(|node| node.is_element()).unwrap();
    assert!(status == 2 && text_of(first).starts_with("Not checked: most pages"), "{}", text_of(first));
}

#[test]
fn names_from_the_disk_are_text_and_nothing_else() {
    let temporary = tempfile::tempdir().unwrap();
    // A path has no slash in it but between names.
    let name = HOSTILE.replace('/', "\u{2215}");
    let data = temporary.path().join(&name);
    copy_tree(&cluster("evict"), &data);
    fs::create_dir(temporary.path().join(format!("pgforensics_undo_{name}"))).unwrap();
    fs::write(data.join("base/5").join(&name), "no relation").unwrap();
    let (text, _) = report(&data, &[]);
    let page = parse(&text);
    assert_harmless(&page);
    assert!(!text.contains("<script") && !text.contains("alert(1)<"));
    let shown = data.display().to_string();
    assert!(text_of(all(page.root_element(), "header")[0]).contains(&shown));
    assert_eq!(text_of(all(page.root_element(), "title")[0]), format!("Crash report: {shown}"));
    assert!(text_of(by_id(&page, "journals")).contains(&name));
}

#[test]
fn nothing_is_written_into_the_data_or_over_a_file() {
    let (keep, data) = copy_of("clean");
    let archive = keep.path().join("archive");
    fs::create_dir(&archive).unwrap();
    fs::copy(
        fs::read_dir(data.join("pg_wal"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.is_file())
            .unwrap(),
        archive.join("x"),
    )
    .ok();
    let segment = fs::read_dir(data.join("pg_wal"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .find(|entry| entry.path().is_file())
        .unwrap();
    fs::rename(archive.join("x"), archive.join(segment.file_name())).unwrap();
    let taken = keep.path().join("taken.html");
    fs::write(&taken, "mine").unwrap();
    let before =
        |data: &Path| -> BTreeSet<PathBuf> { fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let files = before(&data);
    for (file, why) in [
        (data.join("report.html"), "Choose a directory outside the data directory"),
        (data.join("base/../report.html"), "Choose a directory outside the data directory"),
        (archive.join("report.html"), "Choose a directory outside the data directory"),
        (taken.clone(), "File exists"),
        (keep.path().join("none/report.html"), "No such file"),
    ] {
        let ran = dwbinspect(&["report", arg(&data), "--wal", arg(&archive), "-o", arg(&file)]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", file.display());
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    assert_eq!(before(&data), files);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
    let ran = dwbinspect(&["report", arg(&data), "-o", "-"]);
    assert_eq!(ran.status, 0);
    assert_harmless(&parse(&ran.stdout));
}

#[test]
fn pages_beyond_the_first_stand_in_the_table_and_that_is_said() {
    let (text, _) = report(&cluster("checkpoint"), &["--pages", "2"]);
    let page = parse(&text);
    let pages = by_id(&page, "pages");
    let rows = table(pages, "All 7 damaged pages; the first 2 are shown in full below");
    assert_eq!((rows.len(), all(pages, "h3").len()), (8, 2));
}
