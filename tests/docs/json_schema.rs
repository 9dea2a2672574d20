//! docs/json.md: every line of NDJSON has fields that are documented for its type, and each of these is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common;
use crate::common::wal;
use crate::common::{Ran, arg, cluster, copy_tree, dwbinspect, rebuild, ring_format, run, unpack};

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

/// Fields of summaries that have a value only where something is that the clusters of this test have not: the end of a base
/// backup, unlogged relations in a journal, checksums that cannot be judged, a knee.
const WITHOUT_CASE: [(&str, &str); 11] = [
    // Of report.json alone.
    ("salvaged_table", "rows_file"),
    ("salvaged_table", "uncertain_file"),
    ("salvaged_table", "deleted_file"),
    ("salvaged_table", "missing_file"),
    ("summary of check", "backup_end"),
    ("summary of undo", "unlogged"),
    ("summary of verify", "checksums_not_judged"),
    ("summary of whatif", "knee_max_wal_size_bytes"),
    // Of WAL of several GB.
    ("saving", "replay_bytes_max"),
    ("saving", "replay_seconds_max"),
    ("summary of kept", "max_slot_wal_keep_bytes"),
];

/// Fields of images that a server built.
const OF_REBUILT: [&str; 7] = ["base", "base_lsn", "records", "first_lsn", "last_lsn", "as_of", "server"];

/// Lines about MySQL and MariaDB have tables of their own.
const OF_INNODB: &str = " of innodb";

/// Fields by heading.
pub type Documented = BTreeMap<String, BTreeSet<String>>;

/// Words in backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The tables of docs/json.md.
pub fn documented() -> Documented {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md")).unwrap();
    let mut tables = Documented::new();
    let mut heading = None;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            heading = Some(words(title).collect::<Vec<_>>().join(" of "));
            tables.insert(heading.clone().unwrap(), BTreeSet::new());
        } else if line.starts_with("## ") {
            heading = None;
        } else if let Some(heading) = heading.as_ref().filter(|_| line.starts_with("| `")) {
            let fields = line.split('|').nth(1).unwrap();
            let table = tables.get_mut(heading).unwrap();
            for field in words(fields) {
                assert!(table.insert(field.to_owned()), "{heading}: {field} twice");
            }
        }
    }
    tables
}

/// Compares output with the tables, and keeps in mind what was seen.
struct Checker {
    documented: Documented,
    seen: BTreeMap<String, BTreeSet<String>>,
}

impl Checker {
    fn object(&mut self, heading: &str, value: &Value, context: &str) {
        let fields: BTreeSet<String> =
            value.as_object().unwrap().keys().filter(|name| *name != "type").cloned().collect();
        let table = self.documented.get(heading).unwrap_or_else(|| panic!("{context}: {heading} is not documented"));
        assert!(fields.is_subset(table), "{context}: {heading}: {:?}", fields.difference(table));
        self.seen.entry(heading.to_owned()).or_default().extend(fields);
        self.inner(heading, value, context);
    }

    /// Objects inside that have a table of their own.
    fn inner(&mut self, heading: &str, value: &Value, context: &str) {
        let base = match heading.strip_suffix(OF_INNODB) {
            Some(of_type) => format!("innodb.{of_type}"),
            None => heading.split(" of ").next().unwrap().to_owned(),
        };
        for (name, inner) in value.as_object().unwrap() {
            let (single, several) = (format!("{base}.{name}"), format!("{base}.{name}[]"));
            if inner.is_object() && self.documented.contains_key(&single) {
                self.object(&single, inner, context);
            } else if self.documented.contains_key(&several) {
                inner.as_array().unwrap().iter().for_each(|one| self.object(&several, one, context));
            }
        }
    }

    fn output(&mut self, ran: &Ran, context: &str) {
        let lines = ran.lines();
        let (first, last) = (&lines[0], lines.last().unwrap());
        assert_eq!((&first["type"], &last["type"]), (&"begin".into(), &"summary".into()), "{context}");
        assert_eq!(first["schema"], 3);
        let (tool, command) = (first["tool"].as_str().unwrap(), first["command"].as_str().unwrap());
        for line in &lines[..lines.len() - 1] {
            let of_type = line["type"].as_str().unwrap();
            let heading =
                if line.get("engine").is_some() { format!("{of_type}{OF_INNODB}") } else { of_type.to_owned() };
            self.object(&heading, line, context);
        }
        let journal_alone = command == "repair" && last.get("already").is_some();
        let name = match (tool, command) {
            ("pg_walfpi", "verify") => "pg_walfpi verify",
            _ if journal_alone => "undo",
            _ => command,
        };
        // The fields that every summary has, then those of the command.
        let heading = format!("summary of {name}");
        let own = self.documented.get(&heading).unwrap_or_else(|| panic!("{heading} is not documented"));
        let all: BTreeSet<String> = self.documented["summary"].union(own).cloned().collect();
        let fields: BTreeSet<String> =
            last.as_object().unwrap().keys().filter(|name| *name != "type").cloned().collect();
        assert!(fields.is_subset(&all), "{context}: {heading}: {:?}", fields.difference(&all));
        self.seen.entry(heading.clone()).or_default().extend(fields.iter().cloned());
        self.seen.entry("summary".to_owned()).or_default().extend(fields);
        self.inner(&heading, last, context);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_line_has_the_documented_fields() {
    let mut checker = Checker { documented: documented(), seen: BTreeMap::new() };
    for case in ["checkpoint", "evict", "tablespace", "nochecksums", "reva", "clean"] {
        let data = cluster(case);
        for args in [
            &["check", "--all"][..],
            &["page", "pg_catalog.pg_class", "0"],
            &["page", "base/5/1259", "0", "--rows"],
            &["info"],
            &["dump"],
            &["batches"],
            &["verify"],
            &["verify", "--replay"],
            &["repair", "--allow-unproven", "all"],
            &["repair", "--blank-maps"],
        ] {
            let (command, rest) = args.split_first().unwrap();
            let (before, after) = if *command == "page" { (&rest[..0], rest) } else { (rest, &rest[..0]) };
            let mut words = vec![*command, "--format", "ndjson"];
            words.extend(before);
            words.push(arg(&data));
            words.extend(after);
            let ran = dwbinspect(&words);
            // A name that several databases have is refused: nothing is printed then.
            if !ran.stdout.is_empty() {
                checker.output(&ran, &format!("{case}: {}", words.join(" ")));
            }
        }
    }
    let (_kept, ring) = common::copy_of("clean");
    let slot = ring_format::Slot::new(0, 0x100_0000, 1, ring_format::page(0, 0x100_0000, 7));
    let aborted = ring_format::Slot { flags: 1, ..slot.clone() };
    let control = ring_format::Control { min_version: 1, batches: 1, pages: 16, flags: 0, generation: 1 };
    ring_format::write_ring(&ring, Some(&control.bytes()), &[ring_format::batch(16, Some(1), 2, &[slot, aborted])]);
    for command in ["info", "dump", "batches", "check"] {
        checker.output(&dwbinspect(&[command, "--format", "ndjson", arg(&ring)]), &format!("pg_dwb: {command}"));
    }
    for case in ["brin", "nochecksums-stops"] {
        let data = unpack::unpack(&format!("cases/{case}")).unwrap().join(case);
        checker.output(&dwbinspect(&["check", "--format", "ndjson", arg(&data)]), case);
        checker.output(&dwbinspect(&["repair", "--allow-unproven", "all", "--format", "ndjson", arg(&data)]), case);
    }
    let gap = unpack::data_dir("rebuild/pg15_fpwon_gap").unwrap();
    let args = ["check", "--format", "ndjson", "--wal", arg(&gap.join("archive")), arg(&gap.join("cluster"))]
        .map(str::to_owned);
    checker.output(&dwbinspect(&args.each_ref().map(String::as_str)), "rebuild");
    let (archive, donor, nowhere) = (gap.join("archive"), gap.join("donor"), gap.join("truth"));
    let cluster_of = gap.join("cluster");
    let sources = ["--format", "ndjson", "--wal", arg(&archive), "--donor", arg(&donor), arg(&cluster_of)];
    let rebuilt = dwbinspect(&[&["check", "--rebuild"], &sources[..]].concat());
    checker.output(&rebuilt, "rebuilt");
    checker.output(&dwbinspect(&[&["repair", "--rebuild"], &sources[..]].concat()), "repair with rebuilt pages");
    let failed = ["check", "--rebuild", "--pg-bin", arg(&nowhere)];
    checker.output(&dwbinspect(&[&failed, &sources[..]].concat()), "not rebuilt");
    let case = rebuild::RebuildCase::of("pg15_fpwoff");
    std::fs::remove_file(case.donor().join("base/5/16389")).unwrap();
    let mut rotten = case.read("base/5/1255", 10);
    rotten[8000] ^= 1;
    case.write("base/5/1255", 10, &rotten);
    let (data, donor, wal) = (case.cluster(), case.donor(), case.archive());
    let more = ["--donor", arg(&donor), "--wal", arg(&wal), "--format", "ndjson", arg(&data)];
    checker.output(&dwbinspect(&[&["check"][..], &more].concat()), "donor");
    checker.output(&dwbinspect(&[&["repair", "--allow-unproven", "all"][..], &more].concat()), "donor");
    checker.output(&dwbinspect(&[&["page"][..], &more, &["base/5/16384", "60"]].concat()), "donor");
    let no_server = tempfile::tempdir().unwrap();
    let data = cluster("nochecksums");
    let args = ["check", "--prove", "--pg-bin", arg(no_server.path()), "--format", "ndjson", arg(&data)];
    checker.output(&dwbinspect(&args), "prove");
    let data = cluster("checkpoint");
    checker
        .output(&dwbinspect(&["page", "--history", "--format", "ndjson", arg(&data), "base/5/1259", "0"]), "history");
    let kept = tempfile::tempdir().unwrap();
    let gap = kept.path().join("data");
    copy_tree(&unpack::data_dir("wal/pg16").unwrap(), &gap);
    fs::remove_file(gap.join("pg_wal/000000010000000000000009")).unwrap();
    let history = ["page", "--history", "--format", "ndjson", arg(&gap), "1663/5/16437", "0"];
    checker.output(&dwbinspect(&history), "history with a gap");
    let case = unpack::unpack("rebuild/pg15_fpwoff").unwrap().join("pg15_fpwoff");
    let (archive, out_of_page) = (case.join("archive"), kept.path().join("pages_at"));
    let at = dwbinspect(&[
        "page",
        "--at-record",
        "90",
        "--format",
        "ndjson",
        "--keep-sandbox",
        "--sandbox",
        arg(kept.path()),
        "--images",
        arg(&out_of_page),
        "--wal",
        arg(&archive),
        arg(&case.join("cluster")),
        "base/5/16384",
        "137",
    ]);
    // Without a server of that major there is nothing to compare.
    let is_shown = !at.stdout.is_empty();
    if is_shown {
        checker.output(&at, "page --at");
        let diff = ["page", "--history", "--diff", "--format", "ndjson", "--wal", arg(&archive)];
        for block in ["137", "60"] {
            let page = [arg(&case.join("cluster")).to_owned(), "base/5/16384".to_owned(), block.to_owned()];
            let args: Vec<&str> = diff.into_iter().chain(page.iter().map(String::as_str)).collect();
            checker.output(&dwbinspect(&args), "page --history --diff");
        }
        let (extracted, cluster) = (kept.path().join("extracted"), case.join("cluster"));
        let of = ["--at", "0/1B05D80", "--relation", "16384", "--block", "136-137", "--format", "ndjson"];
        let args: Vec<&str> =
            ["extract", arg(&extracted)].into_iter().chain(of).chain([arg(&cluster), arg(&archive)]).collect();
        checker.output(&walfpi(&args), "extract --at");
    } else {
        common::skipped(&at.stderr);
        checker.documented.retain(|heading, _| !heading.starts_with("page_at") && !heading.starts_with("page_change"));
    }
    let row = dwbinspect(&["check", "--format", "ndjson", arg(&data)]).of_type("page").remove(0);
    let (path, block) = (row["path"].as_str().unwrap(), row["block"].to_string());
    checker.output(&dwbinspect(&["page", "--format", "ndjson", arg(&data), path, &block]), "page");

    let out = tempfile::tempdir().unwrap();
    let copy = out.path().join("data");
    copy_tree(&data, &copy);
    let journal = out.path().join("journal");
    let applied = dwbinspect(&["repair", "--apply", "--format", "ndjson", "--journal", arg(&journal), arg(&copy)]);
    checker.output(&applied, "repair --apply");
    checker.output(&dwbinspect(&["repair", "--format", "ndjson", arg(&copy), "--resume", arg(&journal)]), "resume");
    checker.output(&dwbinspect(&["undo", "--format", "ndjson", arg(&copy), arg(&journal)]), "undo");
    // The number of the killed server is in use again by something else.
    let mut child = std::process::Command::new("sleep").arg("60").current_dir("/").spawn().unwrap();
    fs::write(copy.join("postmaster.pid"), format!("{}\n{}\n", child.id(), arg(&copy))).unwrap();
    checker.output(&dwbinspect(&["check", "--dwb-only", "--format", "ndjson", arg(&copy)]), "number in use");
    child.kill().unwrap();
    child.wait().unwrap();

    fs::remove_dir_all(copy.join("pg_wal")).unwrap();
    fs::create_dir(copy.join("pg_wal")).unwrap();
    fs::write(
        copy.join("backup_label"),
        "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\nCHECKPOINT LOCATION: 0/2000060\n",
    )
    .unwrap();
    checker.output(&dwbinspect(&["verify", "--replay", "--format", "ndjson", arg(&copy)]), "verify without WAL");

    let wal = unpack::unpack("wal/pg18").unwrap().join("pg18");
    for by in [
        "rmgr",
        "record",
        "relation",
        "fork",
        "block",
        "cause",
        "time",
        "since-redo",
        "xid",
        "relation,checkpoint",
        "segment",
        "compression",
        "database",
        "tablespace",
    ] {
        checker.output(&walfpi(&["stats", "--by", by, "--format", "ndjson", arg(&wal)]), by);
    }
    for by in ["database", "relation", "table", "kind", "kind,cause"] {
        let args = ["stats", "--by", by, "--names", arg(&data), "--format", "ndjson", arg(&data)];
        checker.output(&walfpi(&args), "names");
    }
    checker.output(&walfpi(&["list", "--names", arg(&data), "--format", "ndjson", arg(&data)]), "names");
    checker.output(&walfpi(&["stats", "--format", "ndjson", arg(&wal)]), "stats");
    for by in ["checkpoint", "time"] {
        let follow = ["stats", "--follow", "--for", "100ms", "--by", by, "--format", "ndjson", arg(&wal)];
        checker.output(&walfpi(&follow), "stats --follow");
    }
    checker.output(&walfpi(&["list", "--format", "ndjson", arg(&wal)]), "list");
    let sizes = ["--max-wal-size", "1MB,2MB,4MB,8MB", "--format", "ndjson", arg(&wal)];
    checker.output(&walfpi(&[["whatif"].as_slice(), &sizes].concat()), "whatif");
    checker.output(&walfpi(&["whatif", "--checkpoint-timeout", "1s", "--format", "ndjson", arg(&wal)]), "whatif");
    checker.output(&walfpi(&["whatif", "--format", "ndjson", arg(&wal)]), "whatif");
    checker.output(&walfpi(&["advise", "--sample", "20", "--format", "ndjson", arg(&wal)]), "advise");
    checker.output(&walfpi(&["stats", "--by", "time,relation", "--format", "ndjson", arg(&wal)]), "stats by time");
    let switched = unpack::unpack("field/wal-archive-timeout").unwrap().join("arch1");
    checker.output(&walfpi(&["advise", "--no-compression", "--format", "ndjson", arg(&switched)]), "advise");
    let kept = unpack::unpack("field/wal-kept").unwrap().join("data");
    checker.output(&walfpi(&["advise", "--no-compression", "--format", "ndjson", arg(&kept)]), "advise");
    checker.output(&walfpi(&["kept", "--format", "ndjson", arg(&kept)]), "kept");
    let tables = out.path().join("tables");
    let export = ["export", "--table", "images", "--format", "ndjson", "-o", arg(&tables), arg(&wal)];
    checker.output(&walfpi(&export), "export");
    checker.output(&walfpi(&["dwb-size", "--format", "ndjson", arg(&wal)]), "dwb-size");
    let fixture = wal::Fixture::load(15);
    for checkpoint in wal::checkpoints(&fixture).iter().skip(1) {
        let Some((directory, _)) = wal::without(&fixture, checkpoint.lsn) else { continue };
        let of = |command: &[&str]| walfpi(&[command, &["--format", "ndjson", arg(directory.path())]].concat());
        checker.output(&of(&["stats"]), "stats with a hidden redo point");
        checker.output(&of(&["stats", "--by", "checkpoint,cause"]), "stats of a hidden redo point");
        checker.output(&of(&["dwb-size"]), "dwb-size with a hidden redo point");
    }
    let sample = ["whatif", "--section", "compression", "--sample", "50", "--format", "ndjson", arg(&wal)];
    checker.output(&walfpi(&sample), "whatif with a sample");
    let sets = [format!("one={}", arg(&wal)), format!("two={}", arg(&data))];
    checker.output(&walfpi(&["compare", "--format", "ndjson", &sets[0], &sets[1]]), "compare");
    let pages = out.path().join("pages");
    checker.output(&walfpi(&["extract", "--format", "ndjson", arg(&pages), arg(&wal)]), "extract");
    let broken = out.path().join("broken");
    copy_tree(&wal, &broken);
    let directory = if broken.join("pg_wal").is_dir() { broken.join("pg_wal") } else { broken.clone() };
    let mut segments: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24);
    segments.sort();
    let mut bytes = fs::read(&segments[0]).unwrap();
    bytes[100_000..100_100].fill(0xFF);
    fs::write(&segments[0], bytes).unwrap();
    let resynced = walfpi(&["verify", "--resync", "--format", "ndjson", arg(&broken)]);
    let codes: Vec<Value> = resynced.of_type("damage").into_iter().map(|line| line["reason_code"].clone()).collect();
    assert!(!codes.is_empty() && codes.iter().all(|code| code == "damaged"), "{codes:?}");
    checker.output(&resynced, "verify --resync");
    checker.output(&walfpi(&["stats", "--resync", "--format", "ndjson", arg(&broken)]), "stats --resync");

    for case in ["mysql97", "mysql97-detect", "mariadb1011-crc32", "mariadb1011-compressed"] {
        let data = unpack::data_dir(&format!("innodb/{case}")).unwrap();
        for command in ["info", "dump", "batches", "verify", "check"] {
            let ran = dwbinspect(&["innodb", command, "--format", "ndjson", arg(&data)]);
            checker.output(&ran, &format!("{case}: innodb {command}"));
        }
        let page = dwbinspect(&["innodb", "page", "--format", "ndjson", arg(&data), "shop/orders", "50"]);
        checker.output(&page, &format!("{case}: innodb page"));
    }

    for case in ["15-heap", "15-catalog"] {
        let kept = tempfile::tempdir().unwrap();
        copy_tree(&unpack::data_dir(&format!("salvage/{case}")).unwrap(), kept.path());
        fs::write(kept.path().join("base/16385/99999"), [0; 8192]).unwrap();
        let ran = dwbinspect(&["salvage", "--list", "--format", "ndjson", arg(kept.path())]);
        checker.output(&ran, &format!("{case}: salvage --list"));
    }

    let has_server = rebuilt.of_type("page").iter().any(|page| page["verdict"] == "rebuild");
    if !has_server {
        common::skipped("no server of major 15 builds pages here");
    }
    // Every documented field had a value somewhere: the tables name nothing that does not exist.
    let mut unseen = Vec::new();
    for (heading, fields) in &checker.documented {
        let seen = checker.seen.get(heading);
        let is_unseen = |field: &&String| seen.is_none_or(|seen| !seen.contains(*field));
        let is_of_server = |field: &&String| {
            let heading_of_image = ["page.candidates[]", "page.chosen", "step"].contains(&heading.as_str());
            heading_of_image && OF_REBUILT.contains(&field.as_str())
        };
        let has_no_case = |field: &&String| WITHOUT_CASE.contains(&(heading.as_str(), field.as_str()));
        let is_unseen =
            |field: &&String| is_unseen(field) && (has_server || !is_of_server(field)) && !has_no_case(field);
        unseen.extend(fields.iter().filter(is_unseen).map(|field| format!("{heading}.{field}")));
    }
    assert_eq!(unseen, Vec::<String>::new());
}
