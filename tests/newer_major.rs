//! Clusters of a major that is newer than every row of facts: what is not known is said, and never read as the newest major
//! that is. Real clusters of 19devel are made newer in `PG_VERSION`, in the version of `pg_control`, whose CRC is set, and
//! in the magic of every WAL page.

mod common;

use common::edit::ClusterCopy;
use common::{Ran, arg, run};
use serde_json::Value;

/// One past the newest magic that is known, as the next change of the WAL format takes it.
const NEWER_MAGIC: [u8; 2] = [0x1C, 0xD1];
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
    let mut changed = 0;
    for name in copy.names_in("pg_wal").into_iter().filter(|name| name.len() == 24) {
        let name = format!("pg_wal/{name}");
        let mut segment = copy.read(&name);
        for page in segment.chunks_exact_mut(8192).filter(|page| page[..2] == MAGIC_OF_19) {
            page[..2].copy_from_slice(&NEWER_MAGIC);
            changed += 1;
        }
        copy.write(&name, &segment);
    }
    assert!(changed > 1000, "only {changed} WAL pages were changed");
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
        assert!(ran.stdout.contains("page magic 0xD11C: newer than the versions known here"), "{command}");
    }
    for command in ["stats", "list", "verify"] {
        let ran = walfpi(&copy, command);
        assert_eq!((ran.status, ran.of_type("record").len()), (2, 0), "{command}: {}", ran.stdout);
        assert!(
            ran.stderr.contains("page magic 0xD11C: newer than the versions known here"),
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
