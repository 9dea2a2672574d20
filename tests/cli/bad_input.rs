//! Wrong and hostile input: a clear message, exit status 2 where something was not examined, the rest still shown.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::common;
use crate::common::{arg, cluster, copy_tree, dwbinspect, run, small_copy};
use pgforensics::parsers::crc::crc32c;

fn reseal(header: &mut [u8]) {
    let crc = crc32c(&header[..32]);
    header[32..36].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn paths_that_are_no_data_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let empty = temporary.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let odd = temporary.path().join("odd");
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("PG_VERSION"), "banana\n").unwrap();
    for (path, words) in [
        ("/no/such/directory".to_owned(), "No such file"),
        (
            arg(&empty).to_owned(),
            "is not a data directory (it has no PG_VERSION) and holds no double write buffer files",
        ),
        (arg(&odd).to_owned(), "is not a valid version"),
    ] {
        for command in ["info", "dump", "batches"] {
            let ran = dwbinspect(&[command, &path]);
            assert_eq!(ran.status, 2, "{command} {path}");
            assert!(format!("{}{}", ran.stdout, ran.stderr).contains(words), "{path}: {}{}", ran.stdout, ran.stderr);
        }
    }
}

#[test]
fn wrong_arguments_fail_before_any_file_is_opened() {
    for args in [
        vec!["dump"],
        vec!["dump", "--slots", "5-3", "/no/such"],
        vec!["dump", "--lsn", "zzz", "/no/such"],
        vec!["dump", "--fork", "side", "/no/such"],
        vec!["dump", "--relation", "a/b", "/no/such"],
        vec!["dump", "--format", "xml", "/no/such"],
        vec!["undump", "/no/such"],
        vec![],
    ] {
        let ran = dwbinspect(&args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!ran.stderr.contains("No such file"), "{args:?}: {}", ran.stderr);
    }
}

/// An option that would do nothing is refused, and so is a name where nothing tells names, with what would tell them.
#[test]
fn options_of_walfpi_that_need_another_are_refused_with_it() {
    let place = tempfile::tempdir().unwrap();
    for (args, words) in [
        (vec!["stats", "--poll", "2s"], "--follow"),
        (vec!["stats", "--patience", "2s"], "--follow"),
        (vec!["stats", "--for", "2s"], "--follow"),
        (vec!["stats", "--bucket", "5m"], "add --by time"),
        (vec!["stats", "--bucket", "5m", "--by", "relation,time"], "--by"),
    ] {
        let ran = run("pg_walfpi", &[&args[..], &[arg(place.path())]].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
    let wal = common::unpack::data_dir("wal/pg18").expect("unpack").join("pg_wal");
    for command in ["list", "stats"] {
        let ran = run("pg_walfpi", &[command, "--relation", "orders", arg(&wal)]);
        assert_eq!(ran.status, 2, "{command}");
        assert!(ran.stderr.contains("add --names"), "{command}: {}", ran.stderr);
    }
}

#[test]
fn damaged_header_still_shows_the_slots() {
    let (_keep, data) = small_copy("evict");
    let file = data.join("pg_dwbuf/dwbuf_000");
    let mut bytes = fs::read(&file).unwrap();
    bytes[..40].fill(0xA5);
    fs::write(&file, &bytes).unwrap();
    let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]);
    assert_eq!(ran.status, 1);
    assert_eq!(ran.of_type("slot").len(), 1019);
    assert!(ran.of_type("slot").iter().all(|slot| slot["crc"] == "good"));
    let file = &ran.of_type("file")[0];
    assert_eq!((&file["header"], &file["layout_by"]), (&"bad".into(), &"slot_crc".into()));
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "header_fault"));
}

#[test]
fn count_of_four_billion_slots() {
    let (_keep, data) = small_copy("wrapped");
    let file = data.join("pg_dwbuf/dwbuf_000");
    let mut bytes = fs::read(&file).unwrap();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    reseal(&mut bytes);
    fs::write(&file, &bytes).unwrap();
    let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]);
    assert_eq!((ran.status, ran.of_type("slot").len()), (2, 127));
    assert_eq!(ran.of_type("file")[0]["slots_per_file"], u32::MAX);
    let skipped = &ran.of_type("skipped")[0];
    assert_eq!((&skipped["part"], &skipped["cause"]), (&"file".into(), &"cut_short".into()));
    assert!(skipped["reason"].as_str().unwrap().contains("4294967168 slots before the end"));
}

#[test]
fn other_page_size_in_the_header() {
    let (_keep, data) = small_copy("wrapped");
    let file = data.join("pg_dwbuf/dwbuf_000");
    let mut bytes = fs::read(&file).unwrap();
    bytes[8..12].copy_from_slice(&4096_u32.to_le_bytes());
    reseal(&mut bytes);
    fs::write(&file, &bytes).unwrap();
    let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    assert_ne!(ran.status, 0);
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "header_block_size"), "{}", ran.stdout);
}

#[test]
fn cut_and_empty_files() {
    for (length, slots, status) in [(0, 0, 2), (20, 0, 2), (40, 0, 2), (40 + 8232 * 3 + 77, 3, 2)] {
        let (_keep, data) = small_copy("wrapped");
        let file = data.join("pg_dwbuf/dwbuf_000");
        fs::File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
        let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]);
        assert_eq!((ran.status, ran.of_type("slot").len()), (status, slots), "length {length}: {}", ran.stdout);
        assert!(!ran.of_type("skipped").is_empty(), "length {length}");
        let text = dwbinspect(&["info", arg(&data)]).stdout;
        assert!(text.contains("dwbuf_000"), "the file is named: {text}");
    }
}

#[test]
fn damaged_slots_are_told_apart() {
    let (_keep, data) = small_copy("evict");
    let file = data.join("pg_dwbuf/dwbuf_000");
    let mut bytes = fs::read(&file).unwrap();
    let slot = |index: usize| 40 + index * 8232;
    bytes[slot(20) + 40 + 4096..slot(21)].fill(0); // a write cut half-way into a fresh slot
    bytes[slot(21) + 40 + 7000] ^= 0x20; // one bit
    bytes[slot(22)..slot(22) + 40].fill(0xEE); // header gone
    fs::write(&file, &bytes).unwrap();
    let ran = dwbinspect(&["dump", "--format", "ndjson", "--state", "bad", arg(&data)]);
    let slots = ran.of_type("slot");
    let told: Vec<_> =
        slots.iter().map(|slot| (slot["slot_index"].as_u64().unwrap(), slot["condition"].as_str().unwrap())).collect();
    assert_eq!((ran.status, told), (1, vec![(20, "torn"), (21, "torn"), (22, "damaged")]));
    assert!(slots[0]["faults"].to_string().contains("zero starting at sector 8"), "{}", slots[0]);
    assert!(slots.iter().all(|slot| slot["batch"] == "undecided"));
}

#[test]
fn things_in_place_of_files() {
    let (_keep, data) = small_copy("tablespace");
    let second = data.join("pg_dwbuf/dwbuf_001");
    let shown = |what: &str, words: &str| {
        let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]);
        assert_eq!(ran.status, 2, "{what}");
        assert_eq!(ran.of_type("slot").len(), 2547, "{what}: the other file is still shown");
        let skipped = &ran.of_type("skipped")[0];
        assert_eq!((&skipped["part"], &skipped["cause"]), (&"double_write_buffer".into(), &"unreadable".into()));
        let reason = skipped["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(words) && reason.contains("dwbuf_001"), "{what}: {reason}");
    };
    fs::remove_file(&second).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&second).status().unwrap().success());
    shown("FIFO", "FIFO");
    fs::remove_file(&second).unwrap();
    symlink("/dev/zero", &second).unwrap();
    shown("link", "symbolic link");
    fs::remove_file(&second).unwrap();
    fs::create_dir(&second).unwrap();
    shown("directory", "directory");
}

#[test]
fn linked_buffer_directory_is_not_followed() {
    let (_keep, data) = small_copy("wrapped");
    let elsewhere = data.parent().unwrap().join("elsewhere");
    fs::rename(data.join("pg_dwbuf"), &elsewhere).unwrap();
    symlink(&elsewhere, data.join("pg_dwbuf")).unwrap();
    let ran = dwbinspect(&["dump", arg(&data)]);
    assert_eq!(ran.status, 2);
    assert!(ran.stdout.contains("symbolic link"), "{}", ran.stdout);
    assert_eq!(dwbinspect(&["dump", arg(&elsewhere)]).status, 0, "its target can be named");
}

#[test]
fn unreadable_file_is_skipped_with_a_reason() {
    let (_keep, data) = small_copy("tablespace");
    let second = data.join("pg_dwbuf/dwbuf_001");
    fs::set_permissions(&second, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&second).is_ok() {
        common::skipped("permissions do not bind this user");
        return;
    }
    let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]);
    assert_eq!((ran.status, ran.of_type("slot").len()), (2, 2547));
    assert!(ran.stdout.contains("ermission denied"));
}

#[test]
fn control_file_missing_cut_broken_or_unknown() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage, i32, &str); 4] = [
        ("missing", |path| fs::remove_file(path).unwrap(), 2, "No such file"),
        ("cut", |path| fs::write(path, &fs::read(path).unwrap()[..100]).unwrap(), 2, "input ends"),
        ("bit", |path| flip(path, 60), 1, "stored CRC"),
        ("version", |path| overwrite(path, 8, &2000_u32.to_le_bytes()), 2, "version 2000 is not supported"),
    ];
    for (name, damage, status, words) in cases {
        let (_keep, data) = small_copy("clean");
        damage(&data.join("global/pg_control"));
        for command in ["info", "dump"] {
            let ran = dwbinspect(&[command, "--width", "250", arg(&data)]);
            assert_eq!(ran.status, status, "{name} {command}: {}", ran.stdout);
            assert!(ran.stdout.contains(words), "{name} {command}: {}", ran.stdout);
        }
        let slots = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]).of_type("slot");
        assert_eq!(slots.len(), 382, "{name}");
        // With a trusted control file all of them are history; a verdict never becomes surer without it.
        assert!(slots.iter().all(|slot| slot["batch"] == "undecided"), "{name}");
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn overwrite(path: &Path, at: usize, new: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at..at + new.len()].copy_from_slice(new);
    fs::write(path, bytes).unwrap();
}

#[test]
fn foreign_files_beside_the_buffer_are_named() {
    let (_keep, data) = small_copy("wrapped");
    fs::write(data.join("pg_dwbuf/dwbuf_000.bak\u{1b}[2J"), "x").unwrap();
    let ran = dwbinspect(&["info", "--width", "250", arg(&data)]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("dwbuf_000.bak"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}'), "names from disk are escaped");
    let findings = dwbinspect(&["info", "--format", "ndjson", arg(&data)]).of_type("finding");
    assert!(findings.iter().any(|finding| finding["kind"] == "stranger"), "{findings:#?}");
}

#[test]
fn closed_pipe_ends_the_run_silently_with_141() {
    let path = common::cluster("tablespace");
    let program = env!("CARGO_BIN_EXE_pg_dwbinspect");
    for format in ["text", "json", "ndjson", "csv"] {
        let script = format!("\"$0\" dump --format {format} \"$1\" | head -c 100 > /dev/null; echo ${{PIPESTATUS[0]}}");
        let output = std::process::Command::new("bash").args(["-c", &script, program, arg(&path)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "141", "{format}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
    }
}

#[test]
fn full_output_device_is_an_error() {
    let script = "\"$0\" dump --format csv \"$1\" > /dev/full";
    let program = env!("CARGO_BIN_EXE_pg_dwbinspect");
    let path = common::cluster("tablespace");
    let output = std::process::Command::new("bash").args(["-c", script, program, arg(&path)]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the output"));
}

#[test]
fn linked_directories_are_not_followed() {
    for name in ["base", "global"] {
        let (_keep, data) = small_copy("wrapped");
        let elsewhere = data.parent().unwrap().join("elsewhere");
        fs::rename(data.join(name), &elsewhere).unwrap();
        symlink(&elsewhere, data.join(name)).unwrap();
        let ran = dwbinspect(&["info", "--width", "250", arg(&data)]);
        assert_eq!(ran.status, 2, "{name}");
        assert!(ran.stdout.contains("is a symbolic link, not a directory"), "{name}: {}", ran.stdout);
    }
}

#[test]
fn unreadable_configuration_is_said() {
    let (_keep, data) = small_copy("wrapped");
    fs::remove_file(data.join("postgresql.conf")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(data.join("postgresql.conf")).status().unwrap().success());
    let ran = dwbinspect(&["info", "--width", "250", arg(&data)]);
    assert!(ran.status == 2 && ran.stdout.contains("postgresql.conf is a FIFO"), "{}", ran.stdout);
}

#[test]
fn many_unrecognized_files_are_counted_not_listed() {
    let (_keep, data) = small_copy("wrapped");
    for number in 0..500 {
        fs::write(data.join(format!("pg_dwbuf/stranger{number:04}")), "").unwrap();
    }
    let ran = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
    assert!(ran.of_type("finding").len() < 30 && ran.stdout.contains("480 more entries"), "{}", ran.stdout);
}

#[test]
fn filter_that_names_no_file_is_no_clean_answer() {
    let ran = dwbinspect(&["dump", "--file", "7", arg(&common::cluster("wrapped"))]);
    assert!(ran.status == 2 && ran.stdout.contains("--file 7"), "{}", ran.stdout);
}

#[test]
fn header_with_another_page_size_does_not_hide_the_slots() {
    let (_keep, data) = small_copy("wrapped");
    let file = data.join("pg_dwbuf/dwbuf_000");
    let mut bytes = fs::read(&file).unwrap();
    bytes[8..12].copy_from_slice(&1024_u32.to_le_bytes());
    reseal(&mut bytes);
    fs::write(&file, &bytes).unwrap();
    let ran = dwbinspect(&["dump", "--format", "ndjson", arg(&data)]);
    let good = ran.of_type("slot").iter().filter(|slot| slot["crc"] == "good").count();
    assert_eq!((ran.status, good), (1, 127));
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "header_block_size"));
}

#[test]
fn file_of_another_kind_is_not_taken_for_a_buffer() {
    let ran = dwbinspect(&["dump", arg(&common::cluster("wrapped").join("base/5/1259"))]);
    assert!(
        ran.status == 2 && ran.stderr.contains("is not a double write buffer file: neither its header nor its slots"),
        "{}",
        ran.stderr
    );
    let text = tempfile::NamedTempFile::new().unwrap();
    fs::write(text.path(), "max_connections = 100\n").unwrap();
    for command in ["dump", "info", "batches"] {
        let ran = dwbinspect(&[command, arg(text.path())]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{command}");
        assert!(ran.stderr.contains("is not a double write buffer file"), "{command}: {}", ran.stderr);
    }
}

/// Bytes flipped and files cut at many places: never a panic, never a run that does not end, always a documented status.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn random_damage_never_breaks_the_tool() {
    let (_keep, data) = small_copy("wrapped");
    let files = ["pg_dwbuf/dwbuf_000", "global/pg_control", "postmaster.pid", "PG_VERSION", "postgresql.conf"];
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below.max(1)
    };
    for round in 0..60 {
        let path = data.join(files[random(5) as usize]);
        let original = fs::read(&path).unwrap();
        let mut bytes = original.clone();
        for _ in 0..=random(8) {
            let at = random(bytes.len().min(8400) as u64) as usize;
            bytes[at] = random(256) as u8;
        }
        if random(3) == 0 {
            bytes.truncate(random(bytes.len() as u64) as usize);
        }
        fs::write(&path, &bytes).unwrap();
        for command in ["info", "dump", "batches"] {
            let ran = dwbinspect(&[command, arg(&data)]);
            assert!((0..=2).contains(&ran.status), "round {round} {command}: {} {}", ran.status, ran.stderr);
            assert!(!ran.stderr.contains("panicked"), "round {round} {command}: {}", ran.stderr);
        }
        fs::write(&path, &original).unwrap();
    }
}

#[test]
fn ranges_that_are_open_at_the_start_are_taken() {
    let data = cluster("checkpoint");
    let wal = data.join("pg_wal");
    let shown = |ran: crate::common::Ran, line: &str| {
        assert!(ran.status < 3 && ran.stderr.is_empty(), "{}", ran.stderr);
        ran.of_type(line)
    };
    let slots =
        |option: &[&str]| shown(dwbinspect(&[&["dump", "--format", "ndjson"], option, &[arg(&data)]].concat()), "slot");
    let all = slots(&[]);
    let up_to = |field: &str, limit: u64| all.iter().filter(|slot| slot[field].as_u64().unwrap() <= limit).count();
    assert_eq!(slots(&["--slots", "-3"]).len(), up_to("slot_index", 3));
    assert_eq!(slots(&["--slots=-3"]).len(), up_to("slot_index", 3));
    assert_eq!(slots(&["--block", "-2"]).len(), up_to("block", 2));
    assert!(slots(&["--lsn", "-0/1"]).is_empty() && slots(&["--lsn", "-FFFFFFFF/FFFFFFFF"]).len() == all.len());
    let images = |option: &[&str]| {
        let given = ["list", "--format", "ndjson"];
        shown(run("pg_walfpi", &[&given, option, &[arg(&wal)]].concat()), "image")
    };
    let all = images(&[]);
    assert!(!all.is_empty() && images(&["--lsn", "-FFFFFFFF/FFFFFFFF"]).len() == all.len());
    let few = all.iter().filter(|image| image["block"].as_u64().unwrap() <= 2).count();
    assert_eq!(images(&["--block", "-2"]).len(), few);
    // A typing error stays one.
    assert_eq!(dwbinspect(&["dump", "--slots", "--state", "used", arg(&data)]).status, 2);
}

#[test]
fn directory_that_was_named_for_its_wal_and_holds_none_is_refused() {
    let data = cluster("checkpoint");
    let place = tempfile::tempdir().unwrap();
    let (empty, other, archive) = (place.path().join("e"), place.path().join("o"), place.path().join("a"));
    for path in [&empty, &other, &archive] {
        fs::create_dir(path).unwrap();
    }
    fs::write(other.join("README"), "no WAL").unwrap();
    let segment = fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.is_file()).min().unwrap();
    fs::copy(&segment, archive.join(segment.file_name().unwrap())).unwrap();
    for command in ["check", "verify"] {
        for path in [&empty, &other] {
            let ran = dwbinspect(&[command, "--wal", arg(path), arg(&data)]);
            assert!(ran.status == 2 && ran.stdout.is_empty(), "{command}: {}", ran.stdout);
            assert!(ran.stderr.contains(&format!("{} holds no WAL segment", path.display())), "{}", ran.stderr);
        }
        let ran = dwbinspect(&[command, "--wal", arg(&archive), arg(&data)]);
        assert!(!ran.stdout.is_empty(), "{command}: {}", ran.stderr);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn backup_label_without_a_redo_point_is_no_missing_wal() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    copy_tree(&cluster("checkpoint"), &data);
    let doubts = || {
        let summary = dwbinspect(&["check", "--format", "ndjson", arg(&data)]).of_type("summary").remove(0);
        let codes: Vec<String> =
            summary["doubt_codes"].as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned()).collect();
        let mut steps = summary["next"].as_array().unwrap().iter().map(|next| next["step"].as_str().unwrap());
        (codes, steps.find(|step| *step != "copy_first").unwrap().to_owned())
    };
    let (before, _) = doubts();
    let start = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n";
    for text in ["", "garbage", start, "CHECKPOINT LOCATION: 0/2000060\n"] {
        fs::write(data.join("backup_label"), text).unwrap();
        let (codes, step) = doubts();
        assert!(codes.contains(&"backup_label_unreadable".to_owned()), "{text:?}: {codes:?}");
        assert!(!codes.iter().any(|code| code == "no_wal_at_redo" || code == "no_wal"), "{text:?}: {codes:?}");
        assert_eq!(step, "bring_control", "{text:?}");
    }
    fs::remove_file(data.join("backup_label")).unwrap();
    // Backups in tar format come with an empty map.
    fs::write(data.join("tablespace_map"), "").unwrap();
    assert_eq!(doubts().0, before);
    fs::write(data.join("tablespace_map"), "16384 /ts\n").unwrap();
    assert!(doubts().0.contains(&"other_signals".to_owned()));
}
