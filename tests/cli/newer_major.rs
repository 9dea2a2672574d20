//! Clusters of a major that is newer than every row of facts: what is not known is said, and never read as the newest major
//! that is. Real clusters of 19devel are made newer in `PG_VERSION`, in the version of `pg_control`, whose CRC is set, and
//! in the magic of every WAL page.

use crate::common::edit::ClusterCopy;
use crate::common::{Ran, arg, run};
use serde_json::Value;

/// One past the newest magic that is known, as the next change of the WAL format takes it.
const NEWER_MAGIC: [u8; 2] = [0x23, 0xD1];
const MAGIC_OF_19: [u8; 2] = [0x1B, 0xD1];
const NEWER_CONTROL: u32 = 2001;

/// The crash in a checkpoint that leaves pages of which images are proven, so that there is something to lose.
fn crashed() -> ClusterCopy {
    ClusterCopy::of("checkpoint")
}

fn set_pg_version(copy: &ClusterCopy) {
    copy.write("PG_VERSION", b"20\n");
}

/// The CRC is that of the layout of 19: that of a layout which is not known cannot be right by knowledge either.
fn set_control_version(copy: &ClusterCopy) {
    let mut control = copy.read("global/pg_control");
    control[8..12].copy_from_slice(&NEWER_CONTROL.to_le_bytes());
    let crc = crc32c::crc32c(&control[..304]);
    control[304..308].copy_from_slice(&crc.to_le_bytes());
    copy.write("global/pg_control", &control);
}

fn set_wal_magic(copy: &ClusterCopy) {
    let changed = set_wal_magic_of(copy, |_| true);
    assert!(changed > 1000, "only {changed} WAL pages were changed");
}

/// The same in some segments, chosen by their numbers. How many pages were changed.
fn set_wal_magic_of(copy: &ClusterCopy, is_chosen: impl Fn(u64) -> bool) -> usize {
    let mut changed = 0;
    for name in copy.names_in("pg_wal").into_iter().filter(|name| name.len() == 24) {
        if !is_chosen(u64::from_str_radix(&name[16..], 16).unwrap()) {
            continue;
        }
        let name = format!("pg_wal/{name}");
        let mut segment = copy.read(&name);
        for page in segment.chunks_exact_mut(8192).filter(|page| page[..2] == MAGIC_OF_19) {
            page[..2].copy_from_slice(&NEWER_MAGIC);
            changed += 1;
        }
        copy.write(&name, &segment);
    }
    changed
}

/// The summary of a check.
fn summary(copy: &ClusterCopy) -> Value {
    dwbinspect(copy, "check", &[]).of_type("summary").remove(0)
}

/// How a start goes, the codes of the next steps but a copy, and those of the doubts.
fn foreseen(summary: &Value) -> (&str, Vec<&str>, Vec<&str>) {
    let steps = summary["next"].as_array().unwrap().iter().map(|next| next["step"].as_str().unwrap());
    let steps = steps.filter(|step| *step != "copy_first").collect();
    let doubts = summary["doubt_codes"].as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
    (summary["on_start"]["start"].as_str().unwrap(), steps, doubts)
}

/// All that a check says, in words.
fn text(copy: &ClusterCopy) -> String {
    let said = run("pg_dwbinspect", &["check", "--width", "1000", arg(copy.data())]);
    said.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every file of the cluster that a repair could have changed.
fn bytes_of_the_torn_pages(copy: &ClusterCopy) -> Vec<Vec<u8>> {
    ["base/5/1249", "base/5/1259", "base/5/2619", "base/5/2662", "base/5/2663", "base/5/2665"]
        .map(|name| copy.read(name))
        .into()
}

fn dwbinspect(copy: &ClusterCopy, command: &str, more: &[&str]) -> Ran {
    run("pg_dwbinspect", &[&[command, arg(copy.data())], more, &["--format", "ndjson"]].concat())
}

fn walfpi(copy: &ClusterCopy, command: &str) -> Ran {
    run("pg_walfpi", &[command, arg(copy.data()), "--format", "ndjson"])
}

/// All commands that judge pages, and those that are to write.
fn judging(copy: &ClusterCopy) -> Vec<(&'static str, Ran)> {
    let journal = copy.beside("journal");
    let rehearsal = vec![
        ("check", dwbinspect(copy, "check", &[])),
        ("check --dwb-only", dwbinspect(copy, "check", &["--dwb-only"])),
        ("page", dwbinspect(copy, "page", &["1663/5/1259", "0"])),
        ("repair", dwbinspect(copy, "repair", &[])),
        ("repair --apply", dwbinspect(copy, "repair", &["--apply", "--journal", arg(&journal)])),
    ];
    assert!(!journal.exists(), "no journal is begun");
    rehearsal
}

/// No page has the verdict `restore`, and no plan names one.
fn assert_nothing_is_restore(command: &str, ran: &Ran) {
    for line in ran.lines() {
        assert_ne!(line["verdict"], "restore", "{command}: {line}");
        assert_ne!(line["type"], "step", "{command}: {line}");
    }
}

/// What a run says that it did not examine.
fn skips(ran: &Ran, subject: &str) -> usize {
    ran.of_type("skipped")
        .iter()
        .filter(|line| line["what"].as_str().is_some_and(|what| what.contains(subject)))
        .count()
}

#[test]
fn the_cluster_that_is_made_newer_has_proven_images_as_it_is() {
    let copy = crashed();
    let proven = dwbinspect(&copy, "check", &[]).of_type("page");
    let proven = proven.iter().filter(|page| page["verdict"] == "restore").count();
    assert_eq!(proven, 6, "truth: 7 torn pages, of which replay builds one anew");
}

#[test]
fn data_directory_of_a_newer_major_is_refused_by_every_command() {
    let copy = crashed();
    set_pg_version(&copy);
    let before = bytes_of_the_torn_pages(&copy);
    let further = ["info", "dump", "batches", "verify"].map(|command| (command, dwbinspect(&copy, command, &[])));
    let counting = ["stats", "list", "verify"].map(|command| (command, walfpi(&copy, command)));
    for (command, ran) in judging(&copy).into_iter().chain(further).chain(counting) {
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{command}");
        assert!(ran.stderr.contains("PG_VERSION says 20"), "{command}: {}", ran.stderr);
    }
    assert_eq!(bytes_of_the_torn_pages(&copy), before);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn control_file_of_an_unknown_version_proves_nothing() {
    let copy = crashed();
    set_control_version(&copy);
    let before = bytes_of_the_torn_pages(&copy);
    for (command, ran) in judging(&copy) {
        assert_eq!(ran.status, 2, "{command}");
        assert_nothing_is_restore(command, &ran);
        let is_refused = command.starts_with("repair");
        assert_eq!(skips(&ran, "pg_control") > 0, !is_refused, "{command}: {}", ran.stdout);
        assert_eq!(ran.stderr.contains("pg_control"), is_refused, "{command}: {}", ran.stderr);
    }
    for command in ["info", "dump", "batches", "verify"] {
        let ran = dwbinspect(&copy, command, &[]);
        assert_eq!(ran.status, 2, "{command}");
        assert!(skips(&ran, "pg_control") > 0, "{command}: {}", ran.stdout);
        // Without the checkpoint no slot is newer than it.
        assert!(!ran.of_type("slot").iter().any(|slot| slot["batch"] == "current"), "{command}");
    }
    // Nothing is read of it but what stands at the same offset in every version.
    let cluster = dwbinspect(&copy, "info", &[]).of_type("cluster");
    assert_eq!(cluster.len(), 1);
    assert!(cluster[0]["control"].is_null() && cluster[0]["state_in_words"].is_null(), "{}", cluster[0]);
    // WAL tells its own version, so it is counted, and the finding says what is not known.
    let stats = walfpi(&copy, "stats");
    let kinds: Vec<_> = stats.of_type("finding").iter().map(|line| line["kind"].clone()).collect();
    assert_eq!((stats.status, kinds), (1, vec![Value::from("wal_control")]));
    assert_eq!(bytes_of_the_torn_pages(&copy), before);
}

#[test]
fn wal_of_an_unknown_format_proves_nothing_and_is_not_counted() {
    let copy = crashed();
    set_wal_magic(&copy);
    let before = bytes_of_the_torn_pages(&copy);
    for (command, ran) in judging(&copy) {
        assert_eq!(ran.status, 2, "{command}: {}", ran.stderr);
        assert_nothing_is_restore(command, &ran);
        assert!(skips(&ran, "pg_wal") > 0, "{command}: {}", ran.stdout);
        assert!(ran.stdout.contains("page magic 0xD123: newer than the versions known here"), "{command}");
    }
    for command in ["stats", "list", "verify"] {
        let ran = walfpi(&copy, command);
        assert_eq!((ran.status, ran.of_type("record").len()), (2, 0), "{command}: {}", ran.stdout);
        assert!(
            ran.stderr.contains("page magic 0xD123: newer than the versions known here"),
            "{command}: {}",
            ran.stderr
        );
    }
    assert_eq!(bytes_of_the_torn_pages(&copy), before);
}

#[test]
fn control_file_and_wal_that_are_both_newer_prove_nothing() {
    let copy = crashed();
    set_control_version(&copy);
    set_wal_magic(&copy);
    for (command, ran) in judging(&copy) {
        assert_eq!(ran.status, 2, "{command}");
        assert_nothing_is_restore(command, &ran);
    }
    assert_eq!(walfpi(&copy, "stats").status, 2);
}

/// The redo point of the cluster is 0/007FB918 and its segments take 1 MiB, so a start reads this segment first.
const REDO_SEGMENT: u64 = 7;

#[test]
fn wal_of_an_unknown_version_is_not_called_missing() {
    let copy = crashed();
    set_wal_magic(&copy);
    let found = summary(&copy);
    let (start, steps, doubts) = foreseen(&found);
    assert_eq!((start, steps), ("unknown", vec!["use_newer_release"]), "{found}");
    assert!(doubts.contains(&"wal_of_unknown_version"), "{doubts:?}");
    for claim in ["no_wal", "no_wal_at_redo", "no_record_at_redo", "segment_missing"] {
        assert!(!doubts.contains(&claim), "{doubts:?}");
    }
    let said = text(&copy);
    assert!(said.contains("of an unknown version, which this program cannot read (page magic 0xD123"), "{said}");
    for claim in ["missing", "Restore", "Copy the"] {
        assert!(!said.contains(claim), "{claim}: {said}");
    }
}

#[test]
fn segment_of_an_unknown_version_that_a_start_reads_first_leaves_it_unknown() {
    let copy = crashed();
    assert!(set_wal_magic_of(&copy, |number| number == REDO_SEGMENT) > 100);
    let found = summary(&copy);
    let (start, steps, doubts) = foreseen(&found);
    assert_eq!((start, steps), ("unknown", vec!["use_newer_release"]), "{found}");
    assert!(doubts.contains(&"wal_of_unknown_version") && !doubts.contains(&"no_wal_at_redo"), "{doubts:?}");
    assert_eq!(found["exit_status"], 2);
    let said = text(&copy);
    assert!(!said.contains("missing"), "{said}");
}

#[test]
fn segments_of_an_unknown_version_after_others_are_not_called_missing() {
    let copy = crashed();
    assert!(set_wal_magic_of(&copy, |number| (REDO_SEGMENT + 2..REDO_SEGMENT + 4).contains(&number)) > 100);
    let found = summary(&copy);
    let (_, steps, doubts) = foreseen(&found);
    assert_eq!(steps.first(), Some(&"use_newer_release"), "{found}");
    assert!(!steps.contains(&"bring_wal") && !steps.contains(&"start"), "{steps:?}");
    assert!(doubts.contains(&"wal_of_unknown_version") && !doubts.contains(&"segment_missing"), "{doubts:?}");
    assert_eq!(found["exit_status"], 2);
    let findings = dwbinspect(&copy, "check", &[]).of_type("finding");
    assert!(findings.iter().all(|finding| finding["kind"] != "wal_gap"), "{findings:?}");
    assert_nothing_is_restore("check", &dwbinspect(&copy, "check", &[]));
}

#[test]
fn wal_that_is_missing_is_missing_whatever_the_version_of_other_wal() {
    let copy = crashed();
    let name = |number: u64| format!("pg_wal/{number:024X}").replacen("000000000", "000000010", 1);
    let before = name(REDO_SEGMENT - 1);
    copy.write(&before, &copy.read(&name(REDO_SEGMENT)));
    assert!(set_wal_magic_of(&copy, |number| number < REDO_SEGMENT) > 100);
    copy.remove(&name(REDO_SEGMENT));
    let found = summary(&copy);
    let (start, steps, doubts) = foreseen(&found);
    assert_eq!((start, steps.first()), ("cannot_begin", Some(&"bring_wal")), "{found}");
    assert!(doubts.contains(&"no_wal_at_redo") && !doubts.contains(&"wal_of_unknown_version"), "{doubts:?}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn control_file_of_a_newer_version_is_not_to_be_replaced() {
    // Its CRC is right; then as a version whose CRC is not found, which does not make it damaged.
    for (is_signed, words) in [(true, "The file is intact"), (false, "probably only newer than this program")] {
        let copy = crashed();
        set_control_version(&copy);
        if !is_signed {
            let mut control = copy.read("global/pg_control");
            control[304] ^= 1;
            copy.write("global/pg_control", &control);
        }
        let found = summary(&copy);
        let (start, steps, doubts) = foreseen(&found);
        assert_eq!((start, steps), ("unknown", vec!["use_newer_release"]), "{found}");
        assert!(doubts.contains(&"control_of_unknown_version"), "{doubts:?}");
        assert!(!doubts.contains(&"control_not_trusted"), "{doubts:?}");
        let said = text(&copy);
        assert!(said.contains(words) && said.contains("version 2001"), "{said}");
        for claim in ["backup", "the checkpoint in pg_control is used"] {
            assert!(!said.contains(claim), "{claim}: {said}");
        }
        let refused = dwbinspect(&copy, "repair", &["--apply", "--journal", arg(&copy.beside("journal"))]);
        assert!(refused.stderr.contains("newer release") && !refused.stderr.contains("backup"), "{}", refused.stderr);
    }
}

#[test]
fn buffer_that_was_never_reset_names_pg_control_only_where_it_can_be_read() {
    for is_known in [true, false] {
        let copy = crashed();
        // The header names no checkpoint: bytes 24 to 32 of 40, and the CRC of the first 32 after them.
        let mut header = copy.read("pg_dwbuf/dwbuf_000");
        header[24..32].fill(0);
        let crc = crc32c::crc32c(&header[..32]);
        header[32..36].copy_from_slice(&crc.to_le_bytes());
        copy.write("pg_dwbuf/dwbuf_000", &header);
        if !is_known {
            set_control_version(&copy);
        }
        let said = run("pg_dwbinspect", &["info", "--width", "1000", arg(copy.data())]).stdout;
        assert!(said.contains("its header does not separate old slots from new ones"), "{said}");
        assert_eq!(said.contains("the checkpoint in pg_control is used"), is_known, "{said}");
    }
}

#[test]
fn version_of_pg_control_that_no_major_will_have_is_damage() {
    let copy = crashed();
    let mut control = copy.read("global/pg_control");
    control[8..12].copy_from_slice(&0x4141_4141_u32.to_le_bytes());
    copy.write("global/pg_control", &control);
    let found = summary(&copy);
    let (start, steps, doubts) = foreseen(&found);
    assert_eq!((start, steps.first()), ("unknown", Some(&"bring_control")), "{found}");
    assert!(doubts.contains(&"control_not_trusted"), "{doubts:?}");
}

#[test]
fn control_file_of_the_other_byte_order_is_for_another_machine() {
    let copy = crashed();
    let mut control = copy.read("global/pg_control");
    control[8..12].reverse();
    copy.write("global/pg_control", &control);
    let found = summary(&copy);
    let (start, steps, doubts) = foreseen(&found);
    assert_eq!((start, steps), ("unknown", vec!["use_same_byte_order"]), "{found}");
    assert!(doubts.contains(&"control_of_other_byte_order"), "{doubts:?}");
}
