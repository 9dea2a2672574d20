//! `pg_dwbinspect innodb` on crashed directories of real servers: each slot and page as an independent reader has it, each injected
//! tear, and what the servers did.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::common::{Ran, arg, copy_tree, dwbinspect, skipped, unpack};

const CASES: [&str; 6] =
    ["mysql97", "mysql97-detect", "mysql56", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"];

fn data_dir(case: &str) -> PathBuf {
    unpack::data_dir(&format!("innodb/{case}")).expect("unpack fixture")
}

fn copy_of(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&data_dir(case), &data);
    (temporary, data)
}

fn innodb(command: &str, data: &Path) -> Ran {
    dwbinspect(&["innodb", command, "--format", "ndjson", arg(data)])
}

fn json_of(case: &str, kind: &str) -> Value {
    let path = unpack::fixtures().join(format!("innodb/{case}.{kind}.json"));
    serde_json::from_slice(&fs::read(path).expect("read")).expect("JSON")
}

fn lines_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// What the independent reader says of a case, as it was kept.
fn expected(case: &str) -> Vec<Value> {
    let path = unpack::fixtures().join(format!("innodb/expected/{case}.ndjson.zst"));
    let mut text = String::new();
    let mut decoder = zstd::Decoder::new(fs::File::open(path).expect("open")).expect("zstd");
    decoder.read_to_string(&mut text).expect("read");
    lines_of(&text)
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

fn page_of(line: &Value) -> (u64, u64) {
    (line["space_id"].as_u64().expect("space"), line["page_no"].as_u64().expect("page"))
}

fn lsn(line: &Value) -> u64 {
    line["page_lsn"].as_str().expect("a string").parse().expect("a number")
}

/// The reader's word in the words of the program. Where the file has no image the program cannot say that a page is torn.
fn word(line: &Value) -> &str {
    match (line["compare"].as_str().expect("a word"), line["kind"].as_str()) {
        ("disk_zero", _) => "zeroed",
        ("no_space", _) if line["space_id"].is_null() => "unknown",
        ("no_space", _) => "no_tablespace",
        ("torn", Some("entry")) => "damaged",
        (other, _) => other,
    }
}

fn assert_slots(case: &str, reader: &[Value], ours: &Ran) {
    let slots = ours.of_type("slot");
    let wanted = of_kind(reader, "slot");
    assert_eq!(slots.len(), wanted.len(), "{case}");
    for (slot, wanted) in slots.iter().zip(wanted) {
        let context = format!("{case}: {wanted}");
        assert_eq!((&slot["file"], &slot["slot_index"]), (&wanted["file"], &wanted["slot_index"]), "{context}");
        assert_eq!(slot["engine"], "innodb");
        if wanted["checksum"] == "empty" {
            assert_eq!((&slot["state"], &slot["page_checksum"]), (&"empty".into(), &Value::Null), "{context}");
            continue;
        }
        for field in ["space_id", "page_no", "page_type", "algorithm", "disk_lsn"] {
            let ours = match field {
                "disk_lsn" if !slot[field].is_null() => slot[field].as_str().unwrap().parse::<u64>().unwrap().into(),
                _ => slot[field].clone(),
            };
            let wanted = wanted.get(field).cloned().unwrap_or_default();
            assert_eq!(ours, wanted, "{field} of {context}");
        }
        assert_eq!(slot["state"], "used", "{context}");
        assert_eq!(slot["page_checksum"], wanted["checksum"], "{context}");
        assert_eq!(lsn(slot), wanted["page_lsn"].as_u64().unwrap(), "{context}");
        assert_eq!(slot["disk"], word(wanted), "{context}");
        if wanted["checksum"] == "good" {
            let age = if wanted["lsn_ge_checkpoint"] == true { "current" } else { "stale" };
            assert_eq!(slot["batch"], age, "{context}");
        }
    }
    let entries = ours.of_type("entry");
    let wanted = of_kind(reader, "entry");
    assert_eq!(entries.len(), wanted.len(), "{case}");
    for (entry, wanted) in entries.iter().zip(wanted) {
        let own = (&entry["file"], &entry["block_index"], &entry["entry_index"], &entry["segment"]);
        assert_eq!(own, (&wanted["file"], &wanted["batch"], &wanted["index"], &wanted["batch_id"]), "{case}");
        assert_eq!((page_of(entry), lsn(entry)), (page_of(wanted), wanted["page_lsn"].as_u64().unwrap()), "{case}");
        assert_eq!(entry["block_checksum"] == "good", wanted["batch_ok"] == true, "{case}");
        assert_eq!(entry["disk"], word(wanted), "{case}: {wanted}");
    }
}

fn assert_pages(case: &str, reader: &[Value], data: &Path) {
    let (verify, check, info) = (innodb("verify", data), innodb("check", data), innodb("info", data));
    let found = |ran: &Ran, of_type| ran.of_type(of_type).iter().map(page_of).collect::<BTreeSet<_>>();
    let wanted = of_kind(reader, "page");
    let bad: BTreeSet<_> = wanted.iter().filter(|page| page["state"] == "bad").map(|page| page_of(page)).collect();
    let all: BTreeSet<_> = wanted.iter().map(|page| page_of(page)).collect();
    assert_eq!(found(&verify, "damaged_page"), bad, "{case}");
    assert_eq!(found(&check, "page"), all, "{case}");
    let (summary, counts) = (verify.of_type("summary").remove(0), of_kind(reader, "summary")[0]);
    for (ours, reader) in [
        ("sound", "page_good"),
        ("zeroed", "page_empty"),
        ("damaged", "page_bad"),
        ("doublewrite_pages", "page_dblwr_area"),
    ] {
        assert_eq!(summary[ours].as_u64().unwrap(), counts[reader].as_u64().unwrap_or(0), "{case}: {ours}");
    }
    let instance = &info.of_type("instance")[0];
    let checkpoint = counts["checkpoint_lsn"].as_u64().unwrap().to_string();
    assert_eq!(instance["checkpoint_lsn"], checkpoint, "{case}");
    assert_eq!(instance["checkpoint_file"], counts["checkpoint_file"], "{case}");
    let spaces: Vec<_> = info.of_type("tablespace").iter().map(|space| space_of(space, "tablespace")).collect();
    let wanted: Vec<_> = of_kind(reader, "space").iter().map(|space| space_of(space, "file")).collect();
    let by_id = |spaces: Vec<(u64, String, u64, u64)>| spaces.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(by_id(spaces), by_id(wanted), "{case}");
}

fn space_of(line: &Value, name: &str) -> (u64, String, u64, u64) {
    let bytes = line.get("page_bytes").or_else(|| line.get("page_size")).and_then(Value::as_u64).unwrap();
    let id = line["space_id"].as_u64().unwrap();
    (id, line[name].as_str().unwrap().to_owned(), bytes, line["pages"].as_u64().unwrap())
}

#[test]
fn slots_and_pages_are_those_of_the_independent_reader() {
    for case in CASES {
        let (data, reader) = (data_dir(case), expected(case));
        assert_slots(case, &reader, &innodb("dump", &data));
        assert_pages(case, &reader, &data);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn kept_answers_of_the_independent_reader_are_what_it_says() {
    let reader = unpack::fixtures().join("oracle/innodb_dwb.py");
    for case in CASES {
        let run = Command::new("python3").arg(&reader).arg(data_dir(case)).output();
        let Ok(run) = run else { return skipped("no python3 here") };
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(lines_of(&String::from_utf8(run.stdout).unwrap()), expected(case), "{case}");
    }
}

/// Pages by their identity.
fn pages(ran: &Ran) -> BTreeMap<(u64, u64), Value> {
    ran.of_type("page").into_iter().map(|page| (page_of(&page), page)).collect()
}

#[test]
fn every_injected_tear_is_found_and_nothing_else() {
    let mut torn = 0;
    for case in CASES {
        let truth = json_of(case, "truth");
        let found = pages(&innodb("check", &data_dir(case)));
        let mut wanted = BTreeSet::new();
        for injected in truth["torn"].as_array().unwrap() {
            let context = format!("{case}: {}", injected["id"]);
            if injected["kind"] == "slot_torn" {
                let dump = innodb("dump", &data_dir(case));
                let bad: Vec<_> =
                    dump.of_type("slot").into_iter().filter(|slot| slot["page_checksum"] == "bad").collect();
                assert_eq!(bad.len(), 1, "{context}");
                assert_eq!(bad[0]["slot_index"], injected["slot_index"], "{context}");
                continue;
            }
            wanted.insert(page_of(injected));
            let page = &found[&page_of(injected)];
            assert_eq!(page["path"], injected["file"], "{context}");
            let offset = format!("{:#X}", injected["offset"].as_u64().unwrap());
            assert_eq!(page["offset"], offset, "{context}");
            let slots = |list: &Value, name: &str| -> BTreeSet<(String, u64, u64)> {
                let of = |slot: &Value| {
                    let lsn = slot[name].as_u64().or_else(|| slot[name].as_str().and_then(|text| text.parse().ok()));
                    let file = slot["file"].as_str().unwrap().to_owned();
                    (file, slot["slot_index"].as_u64().unwrap(), lsn.unwrap())
                };
                list.as_array().unwrap().iter().map(of).collect()
            };
            assert_eq!(slots(&page["candidates"], "page_lsn"), slots(&injected["good_slots"], "lsn"), "{context}");
            let has_slot = !injected["good_slots"].as_array().unwrap().is_empty();
            let (disk, no_image) = match (injected["kind"].as_str().unwrap(), has_slot) {
                ("zeroed", _) => ("zeroed", false),
                (_, true) => ("torn", false),
                (_, false) => ("damaged", true),
            };
            assert_eq!(page["disk"], disk, "{context}");
            assert_eq!(page["holds"] == "no_image", no_image, "{context}");
            torn += 1;
            // Sectors after the payload of a compressed page are left over from others.
            let is_compressed = injected["page_type"].as_u64().unwrap() > 0x8000;
            if disk == "torn" && !is_compressed {
                assert_sector_map(&context, injected, page);
            }
        }
        let natural = truth["natural_zero_pages_with_slot"].as_array().unwrap();
        wanted.extend(natural.iter().map(page_of));
        assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), wanted, "{case}");
    }
    assert_eq!(torn, 88);
}

/// Sectors that the tear did not change are those of the image that the page was before it; those that it changed are not.
fn assert_sector_map(context: &str, injected: &Value, page: &Value) {
    let good = injected["good_slots"].as_array().unwrap();
    let Some(intended) = good.iter().find(|slot| slot["same_as_intended"] == true) else { return };
    let same =
        |candidate: &Value| candidate["file"] == intended["file"] && candidate["slot_index"] == intended["slot_index"];
    let index = page["candidates"].as_array().unwrap().iter().position(same).unwrap();
    let changed: Vec<(u64, u64)> = injected["ranges_changed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|range| (range[0].as_u64().unwrap(), range[1].as_u64().unwrap()))
        .collect();
    let sectors = page["tear"]["sectors"].as_array().unwrap();
    assert_eq!(sectors.len() as u64 * 512, injected["page_bytes"].as_u64().unwrap(), "{context}");
    for (at, sources) in (0_u64..).zip(sectors) {
        let is_changed = changed.iter().any(|(from, to)| (*from..*to).contains(&(at * 512)));
        let is_of_image = sources.as_array().unwrap().iter().any(|source| *source == index);
        assert_eq!(is_of_image, !is_changed, "{context}: sector {at}");
    }
}

#[test]
fn images_are_written_out_as_they_are() {
    let out = tempfile::tempdir().unwrap();
    for case in ["mysql97", "mysql56", "mariadb1011-compressed"] {
        let directory = out.path().join(case);
        let data = data_dir(case);
        let ran = dwbinspect(&["innodb", "dump", "--images", arg(&directory), "--format", "ndjson", arg(&data)]);
        let used = ran.of_type("slot").iter().filter(|slot| slot["state"] == "used").count();
        let written: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(written.len(), used, "{case}");
        let sums: BTreeSet<String> = written
            .iter()
            .map(|path| Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        let truth = json_of(case, "truth");
        let torn = truth["torn"].as_array().unwrap().iter();
        let with_image = torn.filter(|page| {
            page["good_slots"].as_array().is_some_and(|slots| slots.iter().any(|slot| slot["same_as_intended"] == true))
        });
        let mut compared = 0;
        for page in with_image {
            // Bytes after the payload of a compressed page are left over from others.
            if case != "mariadb1011-compressed" {
                assert!(sums.contains(page["intended_sha256"].as_str().unwrap()), "{case}: {}", page["id"]);
            }
            compared += 1;
        }
        assert!(compared > 5, "{case}");
        let again = dwbinspect(&["innodb", "dump", "--images", arg(&directory), "--format", "ndjson", arg(&data)]);
        assert_eq!(again.status, 2, "nothing is overwritten");
        let inside = dwbinspect(&["innodb", "dump", "--images", arg(&data.join("images")), arg(&data)]);
        assert_eq!((inside.status, data.join("images").exists()), (2, false), "{}", inside.stderr);
    }
}

/// Once the pages are as they should be, nothing is left to find.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn whole_directory_has_no_finding() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        let dump = innodb("dump", &data);
        let truth = json_of(case, "truth");
        let mut left = BTreeSet::new();
        for torn in truth["torn"].as_array().unwrap().iter().filter(|torn| torn["kind"] != "slot_torn") {
            let good = torn["good_slots"].as_array().unwrap();
            let Some(intended) = good.iter().find(|slot| slot["same_as_intended"] == true) else {
                left.insert(page_of(torn));
                continue;
            };
            let is_it =
                |slot: &&Value| slot["file"] == intended["file"] && slot["slot_index"] == intended["slot_index"];
            let slot = dump.of_type("slot").iter().find(is_it).cloned().unwrap();
            let from = u64::from_str_radix(slot["offset"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
            let bytes = fs::read(data.join(slot["file"].as_str().unwrap())).unwrap();
            let length = torn["page_bytes"].as_u64().unwrap();
            let image = bytes[from as usize..(from + length) as usize].to_vec();
            let path = data.join(torn["file"].as_str().unwrap());
            let mut file = fs::read(&path).unwrap();
            let at = torn["offset"].as_u64().unwrap() as usize;
            file[at..at + image.len()].copy_from_slice(&image);
            fs::write(&path, file).unwrap();
        }
        let check = innodb("check", &data);
        assert_eq!(pages(&check).keys().copied().collect::<BTreeSet<_>>(), left, "{case}");
        for page in &left {
            let path = truth["torn"]
                .as_array()
                .unwrap()
                .iter()
                .find(|torn| torn["kind"] != "slot_torn" && page_of(torn) == *page);
            let (file, at, length) = path
                .map(|torn| {
                    (
                        torn["file"].as_str().unwrap(),
                        torn["offset"].as_u64().unwrap(),
                        torn["page_bytes"].as_u64().unwrap(),
                    )
                })
                .unwrap();
            let mut bytes = fs::read(data.join(file)).unwrap();
            bytes[at as usize..(at + length) as usize].fill(0);
            fs::write(data.join(file), bytes).unwrap();
        }
        let verify = innodb("verify", &data);
        assert_eq!((verify.status, verify.of_type("damaged_page").len()), (0, 0), "{case}: {}", verify.stdout);
    }
}

#[test]
fn answer_does_not_depend_on_threads() {
    for case in ["mysql97", "mariadb1011-compressed"] {
        for command in ["check", "verify", "dump"] {
            let with = |jobs: &str| {
                dwbinspect(&["innodb", command, "--jobs", jobs, "--format", "ndjson", arg(&data_dir(case))]).stdout
            };
            assert_eq!(with("1"), with("7"), "{case} {command}");
        }
    }
}

#[test]
fn page_and_formats_say_the_same() {
    let data = data_dir("mysql97");
    let check = pages(&innodb("check", &data));
    let wanted = &check[&(2, 163)];
    for name in ["2", "shop/orders", "shop/orders.ibd"] {
        let page = dwbinspect(&["innodb", "page", "--format", "ndjson", arg(&data), name, "163"]);
        assert_eq!(page.of_type("page"), std::slice::from_ref(wanted), "{name}");
        assert_eq!(page.status, 1);
    }
    let whole = dwbinspect(&["innodb", "page", "--format", "ndjson", arg(&data), "shop/orders", "3"]);
    assert_eq!(whole.of_type("page")[0]["page_checksum"], "good", "{}", whole.stdout);
    for (space, page, message) in [("shop/none", "1", "no tablespace"), ("2", "4000000", "past the end")] {
        let none = dwbinspect(&["innodb", "page", arg(&data), space, page]);
        assert!(none.status == 2 && none.stderr.contains(message), "{}", none.stderr);
    }
    let document: Value =
        serde_json::from_str(&dwbinspect(&["innodb", "check", "--format", "json", arg(&data)]).stdout).unwrap();
    assert_eq!(document["pages"].as_array().unwrap().len(), check.len());
    let csv = dwbinspect(&["innodb", "check", "--format", "csv", arg(&data)]);
    assert_eq!(csv.stdout.lines().count(), check.len() + 1);
    let all = dwbinspect(&["innodb", "check", "--all", "--format", "ndjson", arg(&data)]);
    let whole = all.of_type("page").iter().filter(|page| page["page_checksum"] == "good").count();
    assert!(whole > 100 && all.of_type("page").len() == whole + check.len(), "{whole}");
    let quiet = dwbinspect(&["innodb", "check", "--quiet", arg(&data)]);
    assert_eq!((quiet.status, quiet.stdout.as_str()), (1, ""));
}

#[test]
fn commands_for_postgresql_name_the_one_that_fits() {
    let data = data_dir("mysql56");
    for command in ["check", "info", "dump", "batches", "verify"] {
        let ran = dwbinspect(&[command, arg(&data)]);
        assert!(ran.status == 2 && ran.stderr.contains("pg_dwbinspect innodb check"), "{command}: {}", ran.stderr);
    }
    let nothing = tempfile::tempdir().unwrap();
    let ran = dwbinspect(&["innodb", "check", arg(nothing.path())]);
    assert!(ran.status == 2 && ran.stderr.contains("not a data directory of MySQL or MariaDB"), "{}", ran.stderr);
}

/// Where a server restored a page, it took the image that is first in its order.
#[test]
fn first_image_is_the_one_that_servers_took() {
    let mut compared = 0;
    for case in CASES {
        let server = json_of(case, "server");
        let found = pages(&innodb("check", &data_dir(case)));
        for did in server["pages"].as_array().unwrap() {
            let restored = did["restored_from"].as_array().filter(|slots| !slots.is_empty());
            let (Some(page), Some(restored)) = (found.get(&page_of(did)), restored) else { continue };
            let chosen = &page["candidates"][page["chosen"].as_u64().expect("an image") as usize];
            let is_it = |slot: &Value| slot["file"] == chosen["file"] && slot["slot_index"] == chosen["slot_index"];
            assert!(restored.iter().any(is_it), "{case}: {}: {chosen} is not of {restored:?}", did["id"]);
            assert_eq!(chosen["page_lsn"], did["first_write_lsn"].to_string(), "{case}: {}", did["id"]);
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");
}

#[test]
fn startup_is_not_predicted_in_text_and_json() {
    for case in CASES {
        let data = data_dir(case);
        let text = dwbinspect(&["innodb", "check", "--explain", arg(&data)]);
        let words = text.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Startup is not predicted"), "{case}");
        assert_eq!(text.status, 1, "{case}");
        let summary = innodb("check", &data).of_type("summary").remove(0);
        assert!(summary["startup"].as_str().unwrap().contains("not predicted"), "{case}");
    }
}

#[test]
fn words_for_images_are_documented() {
    use pgforensics::inspect::innodb::HeldImage;
    use strum::VariantArray;
    let text = include_str!("../../docs/innodb.md");
    let section = text.split("## What the buffer holds\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<&str> = rows.collect();
    assert_eq!(documented, HeldImage::VARIANTS.iter().map(|held| held.name()).collect());
}
