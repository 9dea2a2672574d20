//! Crashed clusters of other servers whose double write buffer is rewritten as one with a control file: what the commands print of it, and
//! that nothing of it is ever called proven.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::ring_format::{Control, Slot, batch, crc, sign, write_ring};
use crate::common::{arg, cluster, copy_of, copy_tree, dwbinspect, unpack};
use pgforensics::analysis::dwb::format::open_buffer;
use pgforensics::analysis::start::doubt::Doubt;
use pgforensics::analysis::verdict::candidate::{CandidateOutcome, ImageSource};
use pgforensics::analysis::verdict::evidence::Statement;
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::analysis::verdict::outlook::Start;
use pgforensics::inspect::check::{CheckRequest, check};
use pgforensics::inspect::examination::Examination;
use serde_json::Value;

const PAGES: u32 = 64;
const SENTENCE: &str = "seen on a server built from its published source";

/// The written slots of a crashed cluster, as a server with a control file would have written them.
fn slots_of(case: &str, generation: u64) -> Vec<Slot> {
    let mut slots = Vec::new();
    for file in &open_buffer(&cluster(case), Some(8192)).files {
        let mut scan = file.slots();
        while let Some(slot) = scan.next_slot() {
            let slot = slot.expect("read");
            if slot.is_empty {
                continue;
            }
            let header = &slot.header;
            let mut image = slot.image.to_vec();
            sign(&mut image, header.block);
            let rel = [header.rel.spc_oid, header.rel.db_oid, header.rel.rel_number];
            let fork = header.fork_code;
            slots.push(Slot { rel, fork, ..Slot::new(header.block, header.lsn.0, generation, image) });
        }
    }
    slots
}

/// A copy of a crashed cluster with these slots in a buffer with a control file.
fn cluster_with(case: &str, slots: &[Slot], flags: u32) -> (tempfile::TempDir, PathBuf) {
    let (kept, data) = copy_of(case);
    fs::remove_dir_all(data.join("pg_dwbuf")).expect("remove");
    let files: Vec<Vec<u8>> = (1..)
        .zip(slots.chunks(PAGES as usize))
        .map(|(id, slots)| batch(PAGES, Some(id), slots.len() as u32, slots))
        .collect();
    let control = Control { min_version: 1, batches: files.len() as u32, pages: PAGES, flags, generation: 3 };
    write_ring(&data, Some(&control.bytes()), &files);
    (kept, data)
}

fn examine(data: &Path) -> Examination {
    check(&CheckRequest { jobs: 2, ..CheckRequest::of(data) }, &()).expect("examine")
}

/// Nothing of the buffer is proven; the pages whose best image is from there.
fn unproven_pages(examined: &Examination) -> usize {
    let mut unproven = 0;
    for page in &examined.report.pages {
        for judged in &page.verdict.candidates {
            if matches!(judged.candidate.source, ImageSource::Dwb { .. }) {
                assert_ne!(judged.outcome, CandidateOutcome::Safe, "{:?}", page.page);
                let is_said = |statement: &Statement| *statement == Statement::Doubt(Doubt::LayoutNotSeen);
                assert!(judged.statements(&|_| true).any(is_said), "{:?}", page.page);
            }
        }
        assert_ne!(page.verdict.verdict, Verdict::Restore, "{:?}", page.page);
        let chosen = page.verdict.chosen.and_then(|chosen| page.verdict.candidates.get(chosen));
        let is_of_buffer = chosen.is_some_and(|judged| matches!(judged.candidate.source, ImageSource::Dwb { .. }));
        if is_of_buffer {
            assert_ne!(page.verdict.verdict, Verdict::Restore, "{:?}", page.page);
            unproven += usize::from(page.verdict.verdict == Verdict::RestoreUnproven);
        }
    }
    unproven
}

/// A number from 0 to `below`, from a sequence that is the same in every run.
fn next(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed % below
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn no_image_of_it_is_ever_called_proven() {
    let mut seed = 0x2545_F491_4F6C_DD1D;
    let mut unproven = 0;
    for case in ["evict", "checkpoint", "wrapped"] {
        let all = slots_of(case, 3);
        for round in 0..4 {
            let mut slots = all.clone();
            for slot in slots.iter_mut().filter(|_| round > 0) {
                match next(&mut seed, 12) {
                    0 => slot.generation = next(&mut seed, 5),
                    1 => slot.flags = 1,
                    2 => slot.meta_off = 1,
                    3 => slot.image_off = 1,
                    4 => slot.lsn = slot.lsn.wrapping_add(next(&mut seed, 3)),
                    5 => slot.image[next(&mut seed, 8192) as usize] ^= 1,
                    _ => {}
                }
            }
            let (_kept, data) = cluster_with(case, &slots, u32::from(round == 3));
            if round == 2 {
                fs::remove_file(data.join("pg_dwb/control")).expect("remove");
            }
            unproven += unproven_pages(&examine(&data));
        }
    }
    assert!(unproven > 50, "{unproven} pages show too little");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn repair_writes_nothing_of_it_unasked() {
    let (_kept, data) = cluster_with("evict", &slots_of("evict", 3), 0);
    let examined = examine(&data);
    let read = |page| {
        let (path, block) = examined.paths.path_and_block(page);
        let bytes = fs::read(data.join(path)).expect("read");
        bytes[8192 * block as usize..][..8192].to_vec()
    };
    let of_buffer: Vec<_> = examined
        .report
        .pages
        .iter()
        .filter(|page| page.verdict.verdict == Verdict::RestoreUnproven && !page.is_cut)
        .map(|page| (page.page, read(page.page)))
        .collect();
    assert!(!of_buffer.is_empty());
    let journal = data.parent().expect("parent").join("journal");
    let ran = dwbinspect(&["repair", arg(&data), "--apply", "--journal", arg(&journal)]);
    assert_ne!(ran.status, 141, "{}", ran.stderr);
    for (page, before) in of_buffer {
        assert!(read(page) == before, "{page:?} was written");
    }
}

#[test]
fn every_command_finds_it_and_says_what_is_known_of_it() {
    let slots = slots_of("evict", 3);
    let (_kept, data) = cluster_with("evict", &slots, 0);
    for command in ["info", "dump", "batches", "check"] {
        let text = dwbinspect(&[command, arg(&data)]);
        let said = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = if command == "check" { "and this is another" } else { SENTENCE };
        assert!(said.contains(expected), "{command}: {}", text.stdout);
        let json = dwbinspect(&[command, arg(&data), "--format", "json"]);
        let document: Value = serde_json::from_str(&json.stdout).expect("JSON");
        let findings = document["findings"].as_array().map_or(&[][..], Vec::as_slice);
        let codes: Vec<&str> = findings.iter().filter_map(|finding| finding["kind"].as_str()).collect();
        assert!(codes.contains(&"ring_start"), "{command}: {codes:?}");
        for (list, expected) in
            [("files", "info"), ("files", "dump"), ("slots", "dump"), ("batches", "batches"), ("rings", "info")]
        {
            if expected == command {
                let items = document[list].as_array().expect(list);
                assert!(!items.is_empty(), "{command} {list}");
                assert!(items.iter().all(|item| item["knowledge"] == "seen_built"), "{command} {list}");
            }
        }
        match command {
            "info" => {
                let ring = &document["rings"][0];
                assert_eq!(
                    (&ring["control"], &ring["generation"], &ring["clean"]),
                    (&Value::from("good"), &Value::from("3"), &Value::from(false))
                );
                assert_eq!(ring["start_in_double_writes"], "applies");
                assert_eq!(ring["start_in_other_modes"], "refuses_pending");
                assert_eq!(ring["slots_that_count"], slots.len().to_string());
            }
            "dump" => {
                let shown = document["slots"].as_array().expect("slots");
                let used = shown.iter().filter(|slot| slot["state"] == "used").count();
                assert_eq!(used, slots.len());
                assert!(shown.iter().all(|slot| slot["slot_id"].is_null()));
                assert!(text.stdout.contains(SENTENCE));
            }
            "check" => {
                let pages = document["pages"].as_array().expect("pages");
                let images = pages.iter().flat_map(|page| page["candidates"].as_array().into_iter().flatten());
                let of_buffer = images.filter(|image| image["source"] == "dwb").collect::<Vec<_>>();
                assert!(of_buffer.iter().any(|image| image["knowledge"] == "seen_built"));
            }
            _ => {}
        }
    }
}

/// `pg_control` of a server built from 18 that keeps such a buffer, made of that of an 18.
fn described_control(old: &[u8], version: u32) -> Vec<u8> {
    let mut new = vec![0; old.len()];
    new[..204].copy_from_slice(&old[..204]);
    new[8..12].copy_from_slice(&version.to_le_bytes());
    let mode = 2_u32.to_le_bytes();
    if version == 1801 {
        new[204..208].copy_from_slice(&mode);
    } else {
        new[176..180].copy_from_slice(&mode);
        new[180..208].copy_from_slice(&old[176..204]);
    }
    new[208..212].copy_from_slice(&old[204..208]);
    new[216..300].copy_from_slice(&old[208..292]);
    let sum = crc(&new[..300]);
    new[300..304].copy_from_slice(&sum.to_le_bytes());
    new
}

#[test]
fn control_files_of_such_servers_are_read_and_prove_nothing_before_1802() {
    let from = unpack::data_dir("names/pg18").expect("unpack fixture");
    for version in [1801, 1802] {
        let kept = tempfile::tempdir().expect("temporary directory");
        let data = kept.path().join("data");
        copy_tree(&from, &data);
        let path = data.join("global/pg_control");
        let old = fs::read(&path).expect("read");
        assert_eq!(old[8..12], 1800_u32.to_le_bytes());
        fs::write(&path, described_control(&old, version)).expect("write");
        let ran = dwbinspect(&["info", "--format", "json", arg(&data)]);
        let document: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let control = &document["clusters"][0]["control"];
        assert_eq!(control["io_torn_pages_protection"], "double_writes", "{control}");
        let before = dwbinspect(&["info", "--format", "json", arg(&from)]);
        let before: Value = serde_json::from_str(&before.stdout).expect("JSON");
        for (name, value) in before["clusters"][0]["control"].as_object().expect("fields") {
            let is_own = ["pg_control_version", "crc"].contains(&name.as_str());
            assert!(is_own || control[name] == *value, "{name}: {} is not {value}", control[name]);
        }
        let findings = document["findings"].as_array().map_or(&[][..], Vec::as_slice);
        let codes: Vec<&str> = findings.iter().filter_map(|finding| finding["kind"].as_str()).collect();
        assert_eq!(codes.contains(&"ring_server_not_seen"), version == 1801, "{codes:?}");
        assert!(!codes.contains(&"control_crc") && !codes.contains(&"versions_disagree"), "{codes:?}");
        let examined = examine(&data);
        // There is no WAL of it.
        let expected = if version == 1801 { Start::Unknown } else { Start::CannotBegin };
        assert_eq!(examined.report.outlook.start, expected);
        assert!(examined.report.pages.iter().all(|page| page.verdict.verdict != Verdict::Restore));
    }
}

#[test]
fn what_stands_in_the_way_is_named() {
    let slots = slots_of("evict", 3);
    let (_kept, data) = cluster_with("evict", &slots, 0);
    let control = data.join("pg_dwb/control");
    fs::remove_file(&control).expect("remove");
    assert!(Command::new("mkfifo").arg(&control).status().expect("mkfifo").success());
    let ran = dwbinspect(&["info", arg(&data), "--format", "json"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stdout.contains("\"control\":\"unreadable\""), "{}", ran.stdout);
    fs::remove_file(&control).expect("remove");
    fs::create_dir(&control).expect("make directory");
    assert_eq!(dwbinspect(&["info", arg(&data)]).status, 2);
    fs::remove_dir(&control).expect("remove");
    symlink("/dev/zero", &control).expect("link");
    assert_eq!(dwbinspect(&["info", arg(&data)]).status, 2);
    fs::remove_file(&control).expect("remove");
    // The server lets the directory be elsewhere.
    let elsewhere = data.parent().expect("parent").join("elsewhere");
    fs::rename(data.join("pg_dwb"), &elsewhere).expect("rename");
    symlink(&elsewhere, data.join("pg_dwb")).expect("link");
    let ran = dwbinspect(&["info", arg(&data), "--format", "json"]);
    assert!(ran.stdout.contains("batch_0000") && ran.stdout.contains("\"control\":\"missing\""), "{}", ran.stdout);
    fs::remove_file(data.join("pg_dwb")).expect("remove");
    symlink("nowhere", data.join("pg_dwb")).expect("link");
    assert_eq!(dwbinspect(&["info", arg(&data)]).status, 2);
    // A copy of the directory alone, and a single file.
    let copy = dwbinspect(&["dump", arg(&elsewhere)]);
    assert!(copy.stdout.contains(SENTENCE), "{}", copy.stderr);
    let single = dwbinspect(&["dump", arg(&elsewhere.join("batch_0000"))]);
    assert!(single.stdout.contains(SENTENCE), "{}", single.stderr);
}
