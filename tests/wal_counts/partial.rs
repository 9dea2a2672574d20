//! `pg_walfpi stats --partial`, `whatif --partial` and `merge`: whatever the split, the same answers as in one process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;
use crate::common::{Ran, arg, run, unpack};
use serde_json::Value;

const GROUPINGS: [&str; 22] = [
    "rmgr",
    "record",
    "relation",
    "fork",
    "block",
    "database",
    "tablespace",
    "compression",
    "segment",
    "relation,record",
    "database,fork",
    "xid",
    "kind",
    "time",
    "cause",
    "relation,cause",
    "xid,cause",
    "cause,segment",
    "compression,cause",
    "record,cause",
    "relation,xid",
    "kind,cause",
];

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

/// The segments of a fixture that hold WAL of its stream.
fn segments(major: u32) -> Vec<PathBuf> {
    let data = unpack::data_dir(&format!("wal/pg{major}")).expect("unpack fixture");
    let run = walfpi(&["verify", "--format", "ndjson", arg(&data)]).of_type("run").remove(0);
    let (first, last) = (run["first_segment"].as_str().unwrap(), run["last_segment"].as_str().unwrap());
    let mut found: Vec<PathBuf> =
        fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| (first..=last).contains(&path.file_name().unwrap().to_str().unwrap()) && path.is_file());
    found.sort();
    assert!(found.len() > 1, "{major}");
    found
}

fn name(path: &Path) -> &str {
    &path.file_name().unwrap().to_str().unwrap()[..24]
}

/// All that is said of rows, and the summary.
fn answer(ran: &Ran) -> (Vec<Value>, Value, Vec<Value>, i32) {
    let mut rows = ran.of_types(&["group", "bucket", "spacing", "guard", "hint", "compression"]);
    // That of the machine that measured it, and of none where several did the work.
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("cpu_s_per_gb")));
    let mut summary = ran.of_type("summary").remove(0);
    // How sure it is, is said of sums over parts.
    assert!(!matches!(summary.as_object_mut().unwrap().remove("certainty"), Some(known) if known != "exact"));
    (rows, summary, ran.of_type("finding"), ran.status)
}

/// Counts `own` of `all` into a file below `out`, or keeps touches where `by` is `whatif`.
fn part(all: &[PathBuf], own: std::ops::Range<usize>, by: &str, out: &Path) -> PathBuf {
    let mut args = if by == "whatif" { vec!["whatif", "--partial"] } else { vec!["stats", "--partial", "--by", by] };
    if let Some(next) = all.get(own.end) {
        args.extend(["--before", name(next)]);
    }
    let given = &all[own.start..all.len().min(own.end + 1)];
    args.extend(given.iter().map(|path| arg(path)));
    let ran = walfpi(&args);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{own:?}");
    let file = out.join(format!("{by}-{}-{}.json", own.start, own.end));
    fs::write(&file, ran.stdout).unwrap();
    file
}

/// Merges the parts that `ends` cut off.
fn merged(all: &[PathBuf], ends: &[usize], by: &str, out: &Path) -> Ran {
    let starts = [0].iter().chain(ends);
    let mut files: Vec<PathBuf> =
        starts.zip(ends.iter().chain(&[all.len()])).map(|(start, end)| part(all, *start..*end, by, out)).collect();
    // In any order.
    files.reverse();
    let args: Vec<&str> =
        ["merge", "--format", "ndjson"].into_iter().chain(files.iter().map(|file| arg(file))).collect();
    walfpi(&args)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn parts_add_up_to_what_one_process_counts() {
    for major in [10, 13, 16, 17, 19] {
        let (all, out) = (segments(major), tempfile::tempdir().unwrap());
        for (number, by) in GROUPINGS.into_iter().enumerate() {
            let paths = all.iter().map(|path| arg(path));
            let one = walfpi(&["stats", "--by", by, "--format", "ndjson"].into_iter().chain(paths).collect::<Vec<_>>());
            let expected = answer(&one);
            assert!(!expected.0.is_empty(), "{major} {by}");
            // Each segment alone, and a split that is another one for each grouping.
            let each: Vec<usize> = (1..all.len()).collect();
            let some: Vec<usize> =
                each.iter().copied().filter(|at| (number * 7 + major as usize) >> at & 1 == 1).collect();
            for ends in [each, some] {
                assert_eq!(answer(&merged(&all, &ends, by, out.path())), expected, "{major} {by} {ends:?}");
            }
        }
    }
}

/// Text as well, and every split into two and three parts: an interval, a hint that is changed later and a transaction may
/// reach over any of them.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_split_adds_up() {
    for (major, by) in [(10, "relation,cause"), (13, "cause"), (16, "cause"), (17, "xid,cause"), (19, "relation,cause")]
    {
        let (all, out) = (segments(major), tempfile::tempdir().unwrap());
        let end = all.len();
        let mut parts = BTreeMap::new();
        for start in 0..end {
            for stop in start + 1..=end {
                parts.insert((start, stop), part(&all, start..stop, by, out.path()));
            }
        }
        let given = || all.iter().map(|path| arg(path));
        let one = |format: &'static str| {
            walfpi(&["stats", "--by", by, "--format", format].into_iter().chain(given()).collect::<Vec<_>>())
        };
        let (rows, text) = (answer(&one("ndjson")), one("text").stdout);
        let splits = (1..=end).flat_map(|first| (first..=end).map(move |second| [0, first, second, end]));
        for split in splits {
            let files = split.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| arg(&parts[&(pair[0], pair[1])]));
            // The last first.
            let files: Vec<&str> = files.collect::<Vec<_>>().into_iter().rev().collect();
            let merge = |format| walfpi(&[&["merge", "--format", format], &files[..]].concat());
            assert_eq!(answer(&merge("ndjson")), rows, "{major} {by} {split:?}");
            assert_eq!(merge("text").stdout, text, "{major} {by} {split:?}");
        }
    }
}

/// Checkpoint intervals, hints, and simulated redo points reach over any split; settings are asked for when all is there.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_split_is_replayed_as_one() {
    const ASKED: [&[&str]; 3] = [
        &[],
        &["--max-wal-size", "1MB,3MB,40MB", "--checkpoint-timeout", "1s,2s", "--completion-target", "0.7"],
        &["--max-wal-size", "2MB,8MB,32MB,128MB"],
    ];
    const SECTIONS: [&str; 2] = ["--section", "spacing,protection,hints"];
    for major in [10, 13, 16, 17, 19] {
        let (all, out) = (segments(major), tempfile::tempdir().unwrap());
        let end = all.len();
        let mut splits: Vec<Vec<usize>> = (1..end).map(|at| vec![0, at, end]).collect();
        splits.push((0..=end).collect());
        for (number, asked) in ASKED.into_iter().enumerate() {
            let one = |format: &'static str| {
                let paths = all.iter().map(|path| arg(path));
                let asked = ["whatif", "--format", format].into_iter().chain(SECTIONS).chain(asked.iter().copied());
                walfpi(&asked.chain(paths).collect::<Vec<_>>())
            };
            let (rows, text, csv) = (answer(&one("ndjson")), one("text").stdout, one("csv").stdout);
            assert!(rows.0.len() > 8, "{major}");
            for split in &splits {
                let mut files: Vec<PathBuf> = split
                    .windows(2)
                    .map(|ends| match out.path().join(format!("whatif-{}-{}.json", ends[0], ends[1])) {
                        known if number > 0 => known,
                        _ => part(&all, ends[0]..ends[1], "whatif", out.path()),
                    })
                    .collect();
                files.reverse();
                let files: Vec<&str> = files.iter().map(|file| arg(file)).collect();
                let merge = |format| walfpi(&[&["merge", "--format", format], &SECTIONS[..], asked, &files].concat());
                assert_eq!(answer(&merge("ndjson")), rows, "{major} {asked:?} {split:?}");
                assert_eq!(merge("text").stdout, text, "{major} {asked:?} {split:?}");
                assert_eq!(merge("csv").stdout, csv, "{major} {asked:?} {split:?}");
            }
        }
    }
}

/// A figure that lacks WAL is not exact, and what does not belong together or cannot be asked is refused.
#[test]
fn touches_that_do_not_belong_together_are_refused_or_named() {
    let (all, out) = (segments(16), tempfile::tempdir().unwrap());
    let part = |own, by| part(&all, own, by, out.path());
    let merge = |args: &[&str], files: &[&PathBuf]| {
        let files: Vec<&str> = files.iter().map(|file| arg(file)).collect();
        walfpi(&[&["merge", "--format", "ndjson"], args, &files].concat())
    };
    let end = all.len();
    let (first, middle, last) = (part(0..1, "whatif"), part(1..2, "whatif"), part(2..end, "whatif"));
    let whole = merge(&[], &[&first, &middle, &last]);
    assert_eq!((whole.status, &whole.of_type("summary")[0]["certainty"]), (0, &Value::from("exact")));
    assert_eq!(whole.of_type("guard")[0]["certainty"], "exact");
    let gap = merge(&[], &[&first, &last]);
    assert_eq!((gap.status, gap.of_type("finding")[0]["kind"].as_str()), (2, Some("wal_gap")), "{}", gap.stderr);
    for row in gap.of_types(&["spacing", "guard", "hint"]) {
        assert_ne!(row["certainty"], "exact", "{row}");
    }
    let twice = merge(&[], &[&first, &last, &middle, &first]);
    assert_eq!(twice.of_type("finding")[0]["kind"], "wal_duplicate");
    assert_eq!((twice.status, answer(&twice).0), (0, answer(&whole).0));
    let counts = part(1..2, "rmgr");
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = self::part(&segments(15), 1..2, "whatif", elsewhere.path());
    let overlap = part(0..2, "whatif");
    for (args, files, words) in [
        (&[][..], [&first, &overlap], "counted the same WAL"),
        (&[], [&first, &foreign], "system identifier"),
        (&[], [&first, &counts], "the command that wrote them"),
        (&["--top", "3"], [&first, &middle], "--top"),
        (&["--max-wal-size", "1GB"], [&counts, &counts], "parts of stats"),
    ] {
        let ran = merge(args, &files);
        assert!(ran.status == 2 && ran.stdout.is_empty() && ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    for option in ["--completion-target=0.5", "--max-wal-size=1GB", "--checkpoint-timeout=1min"] {
        let ran = walfpi(&["whatif", "--partial", option, arg(&all[0])]);
        let name = option.split('=').next().unwrap();
        assert!(ran.status == 2 && ran.stderr.contains(name), "{option}: {}", ran.stderr);
    }
}

/// A sample is that of one process, whatever the split: its images, their sizes, and those that cannot be unpacked.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn samples_of_parts_are_that_of_one_process() {
    for major in [10, 15, 18] {
        let (all, out) = (segments(major), tempfile::tempdir().unwrap());
        let all: Vec<PathBuf> = all
            .iter()
            .map(|path| {
                let copy = out.path().join(name(path));
                fs::copy(path, &copy).unwrap();
                copy
            })
            .collect();
        let end = all.len();
        let splits: Vec<Vec<usize>> = (1..end).map(|at| vec![0, at, end]).chain([(0..=end).collect()]).collect();
        for sample in ["all", "40", "7", "1"] {
            let paths = all.iter().map(|path| arg(path));
            let asked = ["whatif", "--format", "ndjson", "--section", "compression", "--sample", sample];
            let expected = answer(&walfpi(&asked.into_iter().chain(paths).collect::<Vec<_>>()));
            assert_eq!(expected.0.len(), 5, "{major} {sample}");
            for split in &splits {
                let file = |ends: &[usize]| {
                    let mut args = vec!["whatif", "--partial", "--sample", sample];
                    args.extend(all.get(ends[1]).into_iter().flat_map(|next| ["--before", name(next)]));
                    args.extend(all[ends[0]..end.min(ends[1] + 1)].iter().map(|path| arg(path)));
                    let file = out.path().join(format!("{}-{}.json", ends[0], ends[1]));
                    fs::write(&file, walfpi(&args).stdout).unwrap();
                    file
                };
                let files: Vec<PathBuf> = split.windows(2).map(file).rev().collect();
                let asked = ["merge", "--format", "ndjson", "--section", "compression"];
                let found = walfpi(&asked.into_iter().chain(files.iter().map(|file| arg(file))).collect::<Vec<_>>());
                assert_eq!(answer(&found), expected, "{major} {sample} {split:?}");
                for row in found.of_type("compression") {
                    assert_eq!(row["cpu_s_per_gb"], Value::Null, "{row}");
                }
            }
        }
    }
}

/// What is asked of parts must be the same, and what they do not have cannot be asked.
#[test]
fn samples_that_do_not_belong_together_are_refused() {
    let (all, out) = (segments(16), tempfile::tempdir().unwrap());
    let part = |own: usize, options: &[&str]| {
        let given = ["--before", name(&all[own + 1]), arg(&all[own]), arg(&all[own + 1])];
        let file = out.path().join(format!("{own}{}.json", options.concat()));
        fs::write(&file, walfpi(&[&["whatif", "--partial"], options, &given[..]].concat()).stdout).unwrap();
        file
    };
    let (first, second) = (part(0, &["--sample", "9"]), part(1, &["--sample", "8"]));
    let without = ["--section", "spacing,protection,hints"];
    let (none, none_either) = (part(0, &without), part(1, &without));
    for (args, files, words) in [
        (&[][..], [&first, &second], "how many images were compressed again"),
        (&[], [&none, &second], "how many images were compressed again"),
        (&["--section", "compression"], [&none, &none_either], "no images of these parts"),
    ] {
        let ran = walfpi(&[&["merge"], args, &[arg(files[0]), arg(files[1])]].concat());
        assert!(ran.status == 2 && ran.stdout.is_empty() && ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    let whole = walfpi(&["merge", "--format", "ndjson", arg(&none), arg(&none_either)]);
    assert_eq!((whole.status, whole.of_type("compression").len()), (0, 0));
    assert!(!whole.of_type("spacing").is_empty());
}

/// Relations that are counted alone: the same as in one process, those that only some parts have and those that none has
/// included.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn parts_of_some_relations_add_up() {
    for major in [10, 13, 16, 19] {
        let (all, out) = (segments(major), tempfile::tempdir().unwrap());
        let given = || all.iter().map(|path| arg(path));
        let listed =
            walfpi(&["stats", "--by", "relation", "--format", "ndjson"].into_iter().chain(given()).collect::<Vec<_>>());
        let number = |row: &Value| row["rel_number"].to_string();
        let mut known: Vec<String> =
            listed.of_type("group").iter().filter(|row| row["rel_number"].is_u64()).map(number).collect();
        known.dedup();
        // The one with the most images, one of the rarest, and one that is nowhere.
        let (most, rare) = (known.first().unwrap().clone(), known.last().unwrap().clone());
        for (asked, status) in [(most.clone(), 0), (format!("{rare},{most}"), 0), (format!("4294967294,{rare}"), 2)] {
            for by in ["rmgr", "relation", "cause", "relation,cause", "time", "xid"] {
                let options = ["--by", by, "--relation", &asked];
                let one = [&["stats", "--format", "ndjson"], &options[..], &given().collect::<Vec<_>>()].concat();
                let one = walfpi(&one);
                assert_eq!(one.status, status, "{major} {by} {asked}: {}", one.stderr);
                for ends in [(0..=all.len()).collect::<Vec<_>>(), vec![0, 1, all.len()]] {
                    let file = |ends: &[usize]| {
                        let mut args = vec!["stats", "--partial"];
                        args.extend(options);
                        args.extend(all.get(ends[1]).into_iter().flat_map(|next| ["--before", name(next)]));
                        args.extend(all[ends[0]..all.len().min(ends[1] + 1)].iter().map(|path| arg(path)));
                        let ran = walfpi(&args);
                        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{major} {by} {asked} {ends:?}");
                        let file = out.path().join(format!("{by}-{}-{}.json", ends[0], ends[1]));
                        fs::write(&file, ran.stdout).unwrap();
                        file
                    };
                    let files: Vec<PathBuf> = ends.windows(2).map(file).rev().collect();
                    let mut args = vec!["merge", "--format", "ndjson"];
                    args.extend(files.iter().map(|file| arg(file)));
                    let found = walfpi(&args);
                    let mut given = (answer_of_some(&found), answer_of_some(&one));
                    assert!(!given.1.0.is_empty(), "{major} {by} {asked}");
                    given.0.2.sort_by_key(ToString::to_string);
                    given.1.2.sort_by_key(ToString::to_string);
                    assert_eq!(given.0, given.1, "{major} {by} {asked} {ends:?}");
                    assert_eq!(found.status, status, "{major} {by} {asked} {ends:?}");
                }
            }
        }
    }
}

/// Rows, summary without how sure it is, and what was not examined.
fn answer_of_some(ran: &Ran) -> (Vec<Value>, Value, Vec<Value>) {
    let mut summary = ran.of_type("summary").remove(0);
    summary.as_object_mut().unwrap().remove("certainty");
    (ran.of_types(&["group", "bucket"]), summary, ran.of_type("skipped"))
}

#[test]
fn parts_of_other_relations_are_refused() {
    let (all, out) = (segments(16), tempfile::tempdir().unwrap());
    let part = |own: usize, relation: &str| {
        let given = ["--relation", relation, "--before", name(&all[own + 1]), arg(&all[own]), arg(&all[own + 1])];
        let file = out.path().join(format!("{own}-{relation}.json"));
        fs::write(&file, walfpi(&[&["stats", "--partial", "--by", "rmgr"], &given[..]].concat()).stdout).unwrap();
        file
    };
    let all_of_it = self::part(&all, 1..2, "rmgr", out.path());
    for other in [part(1, "1247"), all_of_it] {
        let ran = walfpi(&["merge", arg(&part(0, "1259")), arg(&other)]);
        assert!(ran.status == 2 && ran.stdout.is_empty(), "{}", ran.stderr);
        assert!(ran.stderr.contains("the relations that are counted alone"), "{}", ran.stderr);
    }
    // A name that only rows of catalogs tell may be told in one part and not in another.
    let ran = walfpi(&["stats", "--partial", "--by", "rmgr", "--names", "wal", "--relation", "public.t", arg(&all[0])]);
    assert!(ran.status == 2 && ran.stdout.is_empty() && ran.stderr.contains("public.t"), "{}", ran.stderr);
}

/// Touches are read when they are replayed: whatever they are, there is an answer or a message.
#[test]
fn forged_touches_are_refused() {
    let (all, out) = (segments(17), tempfile::tempdir().unwrap());
    let text = fs::read_to_string(part(&all, 0..all.len(), "whatif", out.path())).unwrap();
    let mut forged: Value = serde_json::from_str(&text).unwrap();
    let state = data_encoding::BASE64.decode(forged["state"].as_str().unwrap().as_bytes()).unwrap();
    let file = out.path().join("forged.json");
    let mut merge = |state: &[u8]| {
        forged["state"] = data_encoding::BASE64.encode(state).into();
        fs::write(&file, forged.to_string()).unwrap();
        walfpi(&["merge", "--format", "ndjson", arg(&file)])
    };
    assert_eq!(merge(&state).status, 0);
    for length in (0..state.len()).step_by(state.len() / 30 + 1) {
        let ran = merge(&state[..length]);
        assert!(ran.status == 2 && ran.stderr.contains("is not a valid partial result"), "{length}: {}", ran.stderr);
    }
    let mut refused = 0;
    for at in (0..state.len()).step_by(state.len() / 150 + 1) {
        let mut flipped = state.clone();
        flipped[at] ^= 0x85;
        let ran = merge(&flipped);
        assert!((0..=2).contains(&ran.status) && !ran.stderr.contains("panicked"), "{at}: {}", ran.stderr);
        refused += u32::from(ran.stderr.contains("is not a valid partial result"));
    }
    assert!(refused > 20, "{refused}");
}

/// Whatever is in a file, it is refused with a message.
#[test]
fn forged_parts_are_refused() {
    let (all, out) = (segments(16), tempfile::tempdir().unwrap());
    let text = fs::read_to_string(part(&all, 0..all.len(), "cause", out.path())).unwrap();
    let sound: Value = serde_json::from_str(&text).unwrap();
    let state = data_encoding::BASE64.decode(sound["state"].as_str().unwrap().as_bytes()).unwrap();
    let file = out.path().join("forged.json");
    let merge = |text: &str| {
        fs::write(&file, text).unwrap();
        walfpi(&["merge", "--format", "ndjson", arg(&file)])
    };
    let with_state = |state: &[u8]| {
        let mut forged = sound.clone();
        forged["state"] = data_encoding::BASE64.encode(state).into();
        merge(&forged.to_string())
    };
    assert_eq!(with_state(&state).status, 0);
    let refused = |ran: &Ran, what: &str| {
        assert!(ran.status == 2 && ran.stdout.is_empty(), "{what}");
        assert!(ran.stderr.contains("is not a valid partial result"), "{what}: {}", ran.stderr);
    };
    for length in (0..state.len()).step_by(state.len() / 50 + 1) {
        refused(&with_state(&state[..length]), &format!("{length} bytes"));
    }
    refused(&with_state(&[&state[..], &[0]].concat()), "a byte more");
    refused(&with_state(&[0xFF; 64]), "numbers that are too large");
    // Flipped bytes may still be counts, but never a panic.
    for at in (0..state.len()).step_by(state.len() / 100 + 1) {
        let mut flipped = state.clone();
        flipped[at] ^= 0x55;
        let ran = with_state(&flipped);
        assert!((0..=2).contains(&ran.status) && !ran.stderr.contains("panicked"), "{at}: {}", ran.stderr);
    }
    for (field, value) in [
        ("wal_segment_size", Value::from(0)),
        ("wal_segment_size", Value::from(-16)),
        ("block_size", Value::from(u32::MAX)),
        ("major", Value::from(9)),
        ("system_identifier", Value::from("x")),
    ] {
        let mut forged = sound.clone();
        forged["wal"][field] = value.clone();
        refused(&merge(&forged.to_string()), &format!("{field} {value}"));
    }
    let mut runs = sound.clone();
    runs["runs"] = Value::Array(Vec::new());
    refused(&merge(&runs.to_string()), "no runs");
    refused(&merge(&text.replace("\"examined\":", "\"examined\":1e400,\"x\":")), "a number without end");
    refused(&merge(&"[".repeat(100_000)), "brackets");
}

#[test]
fn compressed_segments_are_parts_too() {
    let (all, out) = (segments(16), tempfile::tempdir().unwrap());
    let packed: Vec<PathBuf> = all
        .iter()
        .map(|path| {
            let packed = out.path().join(format!("{}.zst", name(path)));
            fs::write(&packed, zstd::encode_all(&fs::read(path).unwrap()[..], 1).unwrap()).unwrap();
            packed
        })
        .collect();
    let paths = all.iter().map(|path| arg(path));
    let one = walfpi(&["stats", "--by", "record", "--format", "ndjson"].into_iter().chain(paths).collect::<Vec<_>>());
    let found = merged(&packed, &[1, 2], "record", out.path());
    assert_eq!((answer(&found).0, answer(&found).1), (answer(&one).0, answer(&one).1));
}

/// Without the segment after a part, its last record is counted by nobody, and that is said.
#[test]
fn record_that_no_part_has_is_not_examined() {
    let (all, out) = (segments(16), tempfile::tempdir().unwrap());
    let mut lost = 0;
    for end in 1..all.len() {
        let ran = walfpi(
            &["stats", "--partial", "--by", "rmgr"]
                .into_iter()
                .chain(all[..end].iter().map(|path| arg(path)))
                .collect::<Vec<_>>(),
        );
        let (first, second) = (out.path().join("first"), part(&all, end..all.len(), "rmgr", out.path()));
        fs::write(&first, &ran.stdout).unwrap();
        let whole = merged(&all, &[end], "rmgr", out.path());
        let found = walfpi(&["merge", "--format", "ndjson", arg(&first), arg(&second)]);
        let records = |ran: &Ran| ran.of_type("summary")[0]["records"].as_u64().unwrap();
        if records(&found) == records(&whole) {
            assert_eq!(found.status, 0, "{end}");
        } else {
            assert_eq!((records(&whole) - records(&found), found.status), (1, 2), "{end}");
            assert_eq!(found.of_type("skipped")[0]["cause"], "record_between_parts", "{end}");
            lost += 1;
        }
    }
    assert!(lost > 0);
}

#[test]
fn parts_that_do_not_belong_together_are_refused_or_named() {
    let (all, out) = (segments(16), tempfile::tempdir().unwrap());
    let part = |own, by| part(&all, own, by, out.path());
    let merge = |files: &[&PathBuf]| {
        walfpi(
            &["merge", "--format", "ndjson"].into_iter().chain(files.iter().map(|file| arg(file))).collect::<Vec<_>>(),
        )
    };
    let (first, middle, last) = (part(0..1, "rmgr"), part(1..2, "rmgr"), part(2..all.len(), "rmgr"));
    let overlap = merge(&[&first, &part(0..2, "rmgr")]);
    assert!(overlap.status == 2 && overlap.stderr.contains("counted the same WAL"), "{}", overlap.stderr);
    let gap = merge(&[&first, &last]);
    assert_eq!((gap.status, gap.of_type("finding")[0]["kind"].as_str()), (2, Some("wal_gap")), "{}", gap.stderr);
    assert_eq!(gap.of_type("summary")[0]["certainty"], "at_least");
    let whole = merge(&[&first, &middle, &last]);
    assert_eq!((whole.status, whole.of_type("summary")[0]["certainty"].as_str()), (0, Some("exact")));
    // Counted once.
    let twice = merge(&[&first, &last, &middle, &first]);
    assert_eq!(twice.of_type("finding")[0]["kind"], "wal_duplicate", "{}", twice.stderr);
    assert_eq!((twice.status, twice.of_type("group")), (0, whole.of_type("group")));
    let otherwise = merge(&[&first, &part(1..2, "fork")]);
    assert!(otherwise.status == 2 && otherwise.stderr.contains("grouped by"), "{}", otherwise.stderr);
    let other = segments(15);
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = merge(&[&first, &self::part(&other, 1..2, "rmgr", elsewhere.path())]);
    assert!(foreign.status == 2 && foreign.stderr.contains("system identifier"), "{}", foreign.stderr);
    // Cut off, of another version, or something else.
    let text = fs::read_to_string(&first).unwrap();
    for wrong in [&text[..text.len() / 2], &text.replace("partial\":3", "partial\":9"), "{}", ""] {
        let file = out.path().join("wrong");
        fs::write(&file, wrong).unwrap();
        let ran = merge(&[&middle, &file]);
        assert!(ran.status == 2 && ran.stdout.is_empty() && !ran.stderr.is_empty(), "{wrong}");
    }
    // WAL that follows in its address and not in its records.
    let mut forged: Value = serde_json::from_str(&text).unwrap();
    forged["runs"][0]["last_lsn"] = 8.into();
    fs::write(out.path().join("forged"), forged.to_string()).unwrap();
    let ran = merge(&[&out.path().join("forged"), &middle]);
    assert_eq!((ran.status, ran.of_type("skipped")[0]["cause"].as_str()), (2, Some("part_does_not_follow")));
    for by in ["checkpoint", "since-redo", "relation,checkpoint"] {
        let ran = walfpi(&["stats", "--partial", "--by", by, arg(&all[0])]);
        assert!(ran.status == 2 && ran.stderr.contains("--partial"), "{by}");
    }
}

/// Leaves out of a JSON document what two commands say otherwise of the same WAL.
fn without_origin(document: &mut Value) {
    let document = document.as_object_mut().unwrap();
    document.remove("begin");
    document["summary"].as_object_mut().unwrap().remove("certainty");
    for row in document["compressions"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("cpu_s_per_gb");
    }
}

/// The example program in docs/, on compressed segments: what one process counts.
#[test]
fn spark_adds_up_to_what_one_process_counts() {
    let python = std::env::var("PGFORENSICS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_spark = Command::new(&python).args(["-c", "import pyspark"]).output();
    let has_java = Command::new("java").arg("-version").output().is_ok();
    if !(has_java && has_spark.is_ok_and(|ran| ran.status.success())) {
        return common::skipped(&format!("{python} has no pyspark, or there is no Java"));
    }
    let (all, out) = (segments(17), tempfile::tempdir().unwrap());
    let archive = out.path().join("archive");
    fs::create_dir(&archive).unwrap();
    for path in &all {
        let packed = zstd::encode_all(&fs::read(path).unwrap()[..], 1).unwrap();
        fs::write(archive.join(format!("{}.zst", name(path))), packed).unwrap();
    }
    let program = assert_cmd::cargo::cargo_bin("pg_walfpi");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/spark_stats.py");
    let whatif = |args: &[&str]| {
        let ran = walfpi(&[args, &["--format", "json"]].concat());
        let mut found: Value = serde_json::from_str(&ran.stdout).unwrap();
        without_origin(&mut found);
        found
    };
    let ran = Command::new(&python)
        .arg(&script)
        .args(["--program", arg(&program), "--by", "whatif", "--group", "2", arg(&archive)])
        .env("PYSPARK_PYTHON", &python)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    without_origin(&mut found);
    assert_eq!(found, whatif(&["whatif", arg(&archive)]));
    for (by, least) in [("relation", 5), ("cause", 2)] {
        let ran = Command::new(&python)
            .arg(&script)
            .args(["--program", arg(&program), "--by", by, "--group", "2", arg(&archive)])
            .env("PYSPARK_PYTHON", &python)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let one = walfpi(&["stats", "--by", by, "--format", "json", arg(&archive)]);
        let one: Value = serde_json::from_str(&one.stdout).unwrap();
        assert!(one["groups"].as_array().unwrap().len() > least, "{by}");
        assert_eq!(found["groups"], one["groups"], "{by}");
        assert_eq!(found["findings"], one["findings"], "{by}");
        assert_eq!(found["summary"]["record_bytes"], one["summary"]["record_bytes"], "{by}");
    }
}
