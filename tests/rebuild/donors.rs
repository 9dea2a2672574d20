//! `--donor`: pages of older copies of the cluster, on clusters of a real server with the truth about each page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::rebuild::{PAGE, RebuildCase, overwrite, page_of};
use crate::common::{Ran, arg, dwbinspect, edit_control};

/// Runs a command on the cluster with its donor and its archive.
fn with_donor(case: &RebuildCase, command: &[&str]) -> Ran {
    let (cluster, archive, donor) = (case.cluster(), case.archive(), case.donor());
    let mut words = command.to_vec();
    words.extend([arg(&cluster), "--wal", arg(&archive), "--donor", arg(&donor)]);
    dwbinspect(&words)
}

fn check(case: &RebuildCase) -> Ran {
    with_donor(case, &["check", "--format", "ndjson"])
}

/// Verdicts by file and block.
fn verdicts(ran: &Ran) -> BTreeMap<(String, u64), Value> {
    let rows = ran.of_type("page").into_iter();
    rows.map(|row| ((row["path"].as_str().unwrap().to_owned(), row["block"].as_u64().unwrap()), row)).collect()
}

/// The candidate from a donor.
fn of_donor(row: &Value) -> &Value {
    let mut candidates = row["candidates"].as_array().unwrap().iter();
    candidates.find(|one| one["source"] == "donor").unwrap_or_else(|| panic!("no donor: {row}"))
}

/// Codes of the evidence about a candidate.
fn codes(candidate: &Value) -> Vec<&str> {
    candidate["evidence"].as_array().unwrap().iter().map(|step| step["code"].as_str().unwrap()).collect()
}

/// Pages of database 5 that no byte of which differs between the donor and the cluster many checkpoints later, up to
/// `most` of each file.
fn unchanged(case: &RebuildCase, most: usize) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(case.donor().join("base/5")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let path = format!("base/5/{name}");
        let Ok(own) = fs::read(case.cluster().join(&path)) else { continue };
        let other = fs::read(case.donor().join(&path)).unwrap();
        let same = own.chunks_exact(PAGE).zip(other.chunks_exact(PAGE)).enumerate();
        let same = same.filter(|(_, (own, other))| own == other && own.iter().any(|byte| *byte != 0));
        found.extend(same.take(most).map(|(block, _)| (path.clone(), block as u64)));
    }
    found.sort();
    found
}

/// Flips a bit in the middle of the page, where rows are.
fn rot(case: &RebuildCase, path: &str, block: u64) {
    let mut bytes = case.read(path, block);
    bytes[PAGE - 100] ^= 0x10;
    case.write(path, block, &bytes);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_that_nothing_changed_since_come_back_from_the_donor() {
    let case = RebuildCase::sound("pg15_fpwoff");
    let pages = unchanged(&case, 2);
    assert!(pages.len() > 60, "{}", pages.len());
    let before: Vec<Vec<u8>> = pages.iter().map(|(path, block)| case.read(path, *block)).collect();
    pages.iter().for_each(|(path, block)| rot(&case, path, *block));
    let ran = check(&case);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    let rows = verdicts(&ran);
    for (path, block) in &pages {
        let row = &rows[&(path.clone(), *block)];
        assert_eq!(row["verdict"], "restore", "{row}");
        assert_eq!(row["chosen"]["source"], "donor", "{row}");
        assert_eq!(row["chosen"]["redo_lsn"], "0/00C00028", "{row}");
        let donor = of_donor(row);
        assert!(codes(donor).contains(&"donor_holds_earlier_changes"), "{donor}");
    }
    let ran = with_donor(&case, &["repair", "--apply", "--allow-shut-down", "--format", "ndjson"]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    for ((path, block), before) in pages.iter().zip(&before) {
        assert_eq!(&case.read(path, *block), before, "{path} block {block}");
    }
}

/// The truth counts the records of each page since the donor: with any of them the donor is not the page.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_that_records_changed_since_are_never_restored_from_the_donor() {
    for name in ["pg15_fpwoff", "pg15_fpwon_gap"] {
        let case = RebuildCase::of(name);
        let rows = verdicts(&check(&case));
        let mut with_donor_page = 0;
        for page in case.pages() {
            let row = &rows[&(page.path.clone(), page.block)];
            assert!(page.records > 0);
            if (page.path.as_str(), page.block) == ("base/5/1249", 17) {
                // Its only record since is one of hint bits without an image.
                assert_eq!(row["verdict"], "restore", "{name}: {row}");
                continue;
            }
            for donor in row["candidates"].as_array().unwrap().iter().filter(|one| one["source"] == "donor") {
                with_donor_page += 1;
                assert_ne!(donor["outcome"], "safe", "{name}: {row}");
                let lost = donor["lost_lsns"].as_array().unwrap().len() as u64;
                // Segments that are missing hide some; records of hint bits do not count.
                let hints = if (page.path.as_str(), page.block) == ("base/5/16396", 12) { 2 } else { 0 };
                let is_all = lost + hints == page.records;
                assert!(name == "pg15_fpwon_gap" || is_all, "{name}: {lost} of {} {row}", page.records);
            }
        }
        assert!(with_donor_page >= 5, "{name}: {with_donor_page}");
    }
}

/// Zeros where the donor has content are damage, unless the relation was cut off there since.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_overwritten_with_zeros_are_found() {
    let case = RebuildCase::sound("pg15_fpwoff");
    let pages = unchanged(&case, 1);
    let before: Vec<Vec<u8>> = pages.iter().map(|(path, block)| case.read(path, *block)).collect();
    pages.iter().for_each(|(path, block)| case.write(path, *block, &[0; PAGE]));
    let rows = verdicts(&check(&case));
    for (path, block) in &pages {
        let row = &rows[&(path.clone(), *block)];
        assert_eq!((&row["disk"], &row["verdict"]), (&"zeroed".into(), &"restore".into()), "{row}");
    }
    let ran = with_donor(&case, &["repair", "--apply", "--allow-shut-down", "--format", "ndjson"]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    for ((path, block), before) in pages.iter().zip(&before) {
        assert_eq!(&case.read(path, *block), before, "{path} block {block}");
    }
    // Pages that the server had not filled yet are no damage, with the donor as without it.
    assert_eq!(check(&RebuildCase::sound("pg15_fpwoff")).of_type("page").len(), 0);
}

/// Numbers that look like chance, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end.max(1)
    }
}

/// Evidence that goes missing in the donor, or is wrong there, makes no page safe that was not, and none that is written
/// gets other bytes.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn whatever_happens_to_a_file_of_the_donor_makes_nothing_safer() {
    let case = RebuildCase::of("pg15_fpwoff");
    let pages = unchanged(&case, 1);
    pages.iter().step_by(3).for_each(|(path, block)| rot(&case, path, *block));
    let ask = || -> BTreeMap<(String, u64), String> {
        let plan = with_donor(&case, &["repair", "--format", "ndjson"]).of_type("step").into_iter();
        plan.map(|step| {
            let at = (step["path"].as_str().unwrap().to_owned(), step["block"].as_u64().unwrap());
            (at, step["after_crc"].as_str().unwrap().to_owned())
        })
        .collect()
    };
    let whole = ask();
    assert!(whole.len() > 10, "{}", whole.len());
    let never_safer = |what: &str| {
        for (at, crc) in ask() {
            assert_eq!(whole.get(&at), Some(&crc), "{what}: {at:?}");
        }
    };
    let mut numbers = Numbers(15);
    // Each bit of pg_control that says something, with the checksum right again.
    let control = case.donor().join("global/pg_control");
    let good = fs::read(&control).unwrap();
    for _ in 0..20 {
        let (at, bit) = (numbers.below(288), numbers.below(8));
        edit_control(&case.donor(), at, &[good[at] ^ 1 << bit]);
        never_safer(&format!("bit {bit} of byte {at} of pg_control"));
        fs::write(&control, &good).unwrap();
    }
    // The fields that decide: state, checkpoint, its redo point, both timelines, the checksums.
    for (at, length) in [(16, 1), (32, 4), (40, 4), (48, 2), (52, 2), (252, 1)] {
        for (at, bit) in (at..at + length).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            edit_control(&case.donor(), at, &[good[at] ^ 1 << bit]);
            never_safer(&format!("bit {bit} of byte {at} of pg_control"));
            fs::write(&control, &good).unwrap();
        }
    }
    let changed: Vec<&String> = whole.keys().map(|(path, _)| path).collect();
    for number in 0..24 {
        let path = case.donor().join(changed[numbers.below(changed.len())]);
        let bytes = fs::read(&path).unwrap();
        match number % 4 {
            0 => fs::remove_file(&path).unwrap(),
            1 => fs::write(&path, &bytes[..numbers.below(bytes.len())]).unwrap(),
            2 => {
                let mut other = bytes.clone();
                (0..20).for_each(|_| other[numbers.below(bytes.len())] ^= 1);
                fs::write(&path, other).unwrap();
            }
            _ => fs::write(&path, vec![0; bytes.len()]).unwrap(),
        }
        never_safer(&format!("{number}: {}", path.display()));
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(ask(), whole);
}

/// The donor as an archive: the same pages, and no more of them when the archive is cut, damaged or made to deceive.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn archives_give_the_same_pages_or_fewer() {
    let case = RebuildCase::sound("pg15_fpwoff");
    let pages = unchanged(&case, 1);
    pages.iter().step_by(4).for_each(|(path, block)| rot(&case, path, *block));
    let whole: Vec<_> = with_donor(&case, &["repair", "--format", "ndjson"]).of_type("step");
    let backup = tempfile::tempdir().unwrap();
    let path = backup.path().join("base.tar");
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", case.donor()).unwrap();
    let archive = builder.into_inner().unwrap();
    let (cluster, wal) = (case.cluster(), case.archive());
    let ask = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let words = ["repair", arg(&cluster), "--wal", arg(&wal), "--donor", arg(backup.path()), "--format", "ndjson"];
        dwbinspect(&words)
    };
    let crcs = |steps: &[Value]| -> Vec<Value> { steps.iter().map(|step| step["after_crc"].clone()).collect() };
    for packed in [archive.clone(), zstd::encode_all(&archive[..], 1).unwrap()] {
        let ran = ask(&packed);
        assert_eq!(crcs(&ran.of_type("step")), crcs(&whole), "{}", ran.stderr);
        for part in [3, 7, 9] {
            let ran = ask(&packed[..packed.len() * part / 10]);
            assert_eq!((ran.status, ran.of_type("step").len()), (2, 0), "{}", ran.stdout);
        }
        let mut damaged = packed.clone();
        (0..40).for_each(|number| damaged[packed.len() / 41 * (number + 1)] ^= 0x20);
        let found = crcs(&ask(&damaged).of_type("step"));
        assert!(found.iter().all(|crc| crcs(&whole).contains(crc)), "{found:?}");
    }
    // Members that say they are longer than anything.
    for (name, size) in [("base/5/1255", 1 << 50), ("backup_label", 1 << 40), ("global/pg_control", 1 << 45)] {
        let mut header = tar::Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_size(size);
        header.set_cksum();
        let mut bytes = archive[..archive.len() - 1024].to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 2048]);
        let ran = ask(&bytes);
        assert_eq!((ran.status, ran.of_type("step").len()), (2, 0), "{name}: {}", ran.stdout);
    }
}

/// What the donor is not: each is said, and nothing is examined.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn what_is_not_a_copy_of_the_cluster_is_refused() {
    let refused = |case: &RebuildCase, what: &str| {
        let ran = check(case);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{what}");
        assert!(ran.stderr.contains("is not used as a donor"), "{what}: {}", ran.stderr);
        ran.stderr
    };
    let case = RebuildCase::sound("pg15_fpwoff");
    edit_control(&case.donor(), 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(refused(&case, "system identifier").contains("578437695752307201"));
    let case = RebuildCase::sound("pg15_fpwoff");
    fs::write(case.donor().join("PG_VERSION"), "14\n").unwrap();
    refused(&case, "major");
    let case = RebuildCase::sound("pg15_fpwoff");
    overwrite(&case.donor().join("global/pg_control"), 0, &[0xFF; 300]);
    refused(&case, "pg_control");
    let case = RebuildCase::sound("pg15_fpwoff");
    fs::write(
        case.donor().join("backup_label"),
        "START WAL LOCATION: 0/C00028 (file 00000001000000000000000C)\nCHECKPOINT LOCATION: 0/C00028\n\
         INCREMENTAL FROM LSN: 0/B00028\n",
    )
    .unwrap();
    assert!(refused(&case, "incremental").contains("pg_combinebackup"));
    fs::remove_file(case.donor().join("backup_label")).unwrap();
    fs::write(case.donor().join("base/5/INCREMENTAL.1259"), b"\x64\x6c\xae\xd3").unwrap();
    assert!(refused(&case, "incremental file").contains("pg_combinebackup"));
    let case = RebuildCase::sound("pg15_fpwoff");
    for own in [case.cluster(), case.cluster().join("base")] {
        let ran = dwbinspect(&["check", arg(&case.cluster()), "--donor", arg(&own)]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", own.display());
    }
    let ran = dwbinspect(&["check", arg(&case.cluster()), "--donor", "/nonexistent"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
}

/// A page whose donor has rotted itself, a file that the donor does not have, and one that is too short.
#[test]
fn what_is_wrong_with_the_donors_page_is_said() {
    let case = RebuildCase::sound("pg15_fpwoff");
    let page = "base/5/1255";
    let (rotten, missing, short) = ((page, 10), ("base/5/2618", 3), ("base/5/2609", 5));
    [rotten, missing, short].iter().for_each(|(path, block)| rot(&case, path, *block));
    let path = case.donor().join(page);
    let mut bytes = page_of(&path, 10);
    bytes[PAGE - 50] ^= 1;
    overwrite(&path, 10, &bytes);
    fs::remove_file(case.donor().join(missing.0)).unwrap();
    let short_file = fs::OpenOptions::new().write(true).open(case.donor().join(short.0)).unwrap();
    short_file.set_len(5 * PAGE as u64 + 100).unwrap();
    let rows = verdicts(&check(&case));
    let row = |(path, block): (&str, u64)| &rows[&(path.to_owned(), block)];
    let donor = of_donor(row(rotten));
    assert_eq!((&donor["outcome"], codes(donor).contains(&"breaks_page_rule")), (&"unusable".into(), true), "{donor}");
    let gap = |at| row(at)["donor_gaps"][0]["code"].as_str().unwrap().to_owned();
    assert_eq!((gap(missing), gap(short)), ("donor_has_no_file".to_owned(), "donor_file_ends_before".to_owned()));
    for at in [rotten, missing, short] {
        assert_eq!(row(at)["verdict"], "no_image");
    }
}

/// Hard links and links of tablespaces: a file of the cluster is not a copy of itself.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_link_to_the_file_of_the_cluster_is_not_a_copy() {
    let case = RebuildCase::sound("pg15_fpwoff");
    let name = "base/5/1255";
    rot(&case, name, 10);
    fs::remove_file(case.donor().join(name)).unwrap();
    fs::hard_link(case.cluster().join(name), case.donor().join(name)).unwrap();
    let rows = verdicts(&check(&case));
    let row = &rows[&(name.to_owned(), 10)];
    assert_eq!(row["donor_gaps"][0]["code"], "donor_file_is_of_cluster", "{row}");
}

/// Files of a running server count as far as WAL goes, whatever their pg_control says.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_snapshot_proves_no_page_that_wal_does_not() {
    let case = RebuildCase::sound("pg15_fpwoff");
    rot(&case, "base/5/1255", 10);
    // "In production".
    edit_control(&case.donor(), 16, &6_u32.to_le_bytes());
    let rows = verdicts(&check(&case));
    let row = &rows[&("base/5/1255".to_owned(), 10)];
    let donor = of_donor(row);
    assert_eq!((&row["verdict"], &donor["donor_kind"]), (&"restore_unproven".into(), &"snapshot".into()), "{row}");
    assert!(codes(donor).contains(&"donor_of_one_moment_unknown") && codes(donor).contains(&"wal_since_missing"));
}

/// Without checksums in the donor nothing proves its pages; without WAL from its redo point on nothing proves them complete.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn missing_evidence_takes_the_proof_away() {
    let ask = |case: &RebuildCase| {
        let rows = verdicts(&check(case));
        let row = rows[&("base/5/1255".to_owned(), 10)].clone();
        let found = codes(of_donor(&row)).into_iter().map(str::to_owned).collect::<Vec<_>>();
        (row["verdict"].as_str().unwrap().to_owned(), found)
    };
    let rotten = || {
        let case = RebuildCase::sound("pg15_fpwoff");
        rot(&case, "base/5/1255", 10);
        case
    };
    let has = |codes: &[String], code: &str| codes.iter().any(|one| one == code);
    assert_eq!(ask(&rotten()).0, "restore");
    let case = rotten();
    edit_control(&case.donor(), CHECKSUM_VERSION, &0_u32.to_le_bytes());
    let (verdict, found) = ask(&case);
    assert!(verdict == "restore_unproven" && has(&found, "donor_without_checksum"), "{found:?}");
    // The segment with the donor's checkpoint, and one in between.
    for (segment, code) in [("0C", "donor_checkpoint_missing"), ("15", "wal_since_missing")] {
        let case = rotten();
        fs::remove_file(case.archive().join(format!("0000000100000000000000{segment}"))).unwrap();
        let (verdict, found) = ask(&case);
        assert!(verdict == "restore_unproven" && has(&found, code), "{segment}: {found:?}");
    }
}

/// Offset of `data_checksum_version` in `pg_control` of 15.
const CHECKSUM_VERSION: usize = 252;

/// A relation that is unlogged has no WAL that would say what changed since.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_of_unlogged_relations_are_not_taken() {
    let case = RebuildCase::sound("pg15_fpwoff");
    rot(&case, "base/5/1255", 10);
    fs::write(case.donor().join("base/5/1255_init"), b"").unwrap();
    let rows = verdicts(&check(&case));
    let donor = of_donor(&rows[&("base/5/1255".to_owned(), 10)]);
    assert_eq!((&donor["outcome"], codes(donor).contains(&"unlogged_in_donor")), (&"unusable".into(), true), "{donor}");
}

/// `page` and the plan of `repair` take donors, too.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn one_page_and_the_plan() {
    let case = RebuildCase::sound("pg15_fpwoff");
    rot(&case, "base/5/1255", 10);
    let (archive, donor) = (case.archive(), case.donor());
    let more = ["--wal", arg(&archive), "--donor", arg(&donor), "--format", "ndjson"];
    let cluster = case.cluster();
    let ran = dwbinspect(&[&["page", arg(&cluster), "base/5/1255", "10"], &more[..]].concat());
    assert_eq!((ran.status, &ran.of_type("page")[0]["verdict"]), (1, &"restore".into()), "{}", ran.stdout);
    let plan = with_donor(&case, &["repair", "--source", "donor", "--format", "ndjson"]);
    let steps = plan.of_type("step");
    assert_eq!((steps.len(), &steps[0]["source"], &steps[0]["donor"]), (1, &"donor".into(), &arg(&donor).into()));
    assert_eq!(steps[0]["redo_lsn"], "0/00C00028");
    let none = with_donor(&case, &["repair", "--source", "wal", "--format", "ndjson"]);
    assert_eq!(none.of_type("step").len(), 0);
    let told = with_donor(&case, &["check", "--width", "400"]).stdout;
    let command =
        format!("repair {} --wal {} --donor {} --allow-shut-down --apply", arg(&cluster), arg(&archive), arg(&donor));
    assert!(told.contains(&command), "{told}");
    let text = dwbinspect(&[&["page", arg(&cluster), "base/5/1255", "10"], &more[..4]].concat());
    assert!(Path::new(&donor).exists() && text.stdout.contains(arg(&donor)), "{}", text.stdout);
}
