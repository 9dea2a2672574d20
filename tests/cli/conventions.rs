//! Options as PostgreSQL's own programs have them, and messages that say what was probably meant.

use std::fs;
use std::path::Path;

use crate::common;
use crate::common::{Ran, arg, cluster, copy_tree, dwbinspect, run, small_copy, unpack};
use assert_cmd::Command;
use serde_json::Value;

/// Runs a program with `PGDATA` set.
fn with_pgdata(program: &str, pgdata: &Path, args: &[&str]) -> Ran {
    let mut command = Command::cargo_bin(program).expect("program is built");
    let output = command.env("TZ", "UTC").env("PGDATA", pgdata).args(args).output().expect("program runs");
    Ran {
        status: output.status.code().expect("ended by itself"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn data_directory_by_option_or_environment() {
    let data = cluster("checkpoint");
    for (command, rest) in [
        ("info", &[][..]),
        ("batches", &[]),
        ("dump", &["--batch", "current"]),
        ("check", &[]),
        ("verify", &[]),
        ("page", &["base/5/1259", "0"]),
        ("repair", &[]),
    ] {
        let positional = dwbinspect(&[&[command, "--format", "ndjson", arg(&data)], rest].concat());
        assert!(positional.status < 2 && !positional.stdout.is_empty(), "{command}: {}", positional.stderr);
        let option = dwbinspect(&[&[command, "--format", "ndjson", "-D", arg(&data)], rest].concat());
        assert_eq!((option.status, &option.stdout), (positional.status, &positional.stdout), "{command} -D");
        let long = format!("--pgdata={}", arg(&data));
        let option = dwbinspect(&[&[command, "--format", "ndjson", &long], rest].concat());
        assert_eq!((option.status, &option.stdout), (positional.status, &positional.stdout), "{command} --pgdata");
        let environment = with_pgdata("pg_dwbinspect", &data, &[&[command, "--format", "ndjson"], rest].concat());
        assert_eq!((environment.status, &environment.stdout), (positional.status, &positional.stdout), "{command}");
        let twice = dwbinspect(&[&[command, "-D", arg(&data), arg(&data)], rest].concat());
        assert_eq!((twice.status, twice.stdout.as_str()), (2, ""), "{command}");
        assert!(twice.stderr.contains("given twice"), "{command}: {}", twice.stderr);
    }
    // What is spelled out counts, not the environment.
    let other = with_pgdata("pg_dwbinspect", Path::new("/no/such/directory"), &["info", arg(&data)]);
    assert!(other.status < 2, "{}", other.stderr);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn environment_alone_never_names_what_is_written_into() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    copy_tree(&cluster("checkpoint"), &data);
    let page = || fs::read(data.join("base/5/1259")).unwrap();
    let before = page();
    let journal = place.path().join("journal");
    for args in [
        &["repair", "--apply", "--journal", arg(&journal)][..],
        &["repair", "--resume", arg(&journal)],
        &["undo", arg(&journal)],
        &["tui"],
    ] {
        let ran = with_pgdata("pg_dwbinspect", &data, args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(args == ["tui"] || ran.stderr.contains("never from PGDATA"), "{args:?}: {}", ran.stderr);
        assert!(args[0] != "undo" || ran.stderr.contains("which is the journal"), "{}", ran.stderr);
        assert!(!journal.exists() && page() == before, "{args:?}: nothing was written");
    }
    let user = rustix::process::geteuid().is_root().then_some("--allow-other-user");
    let apply: Vec<&str> =
        ["repair", "--apply", "-D", arg(&data), "--journal", arg(&journal)].into_iter().chain(user).collect();
    let ran = with_pgdata("pg_dwbinspect", Path::new("/no/such"), &apply);
    assert!(page() != before, "{}{}", ran.stdout, ran.stderr);
    let undo: Vec<&str> = ["undo", "-D", arg(&data), arg(&journal)].into_iter().chain(user).collect();
    let ran = dwbinspect(&undo);
    assert_eq!((ran.status, page() == before), (0, true), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn question_mark_is_help_and_version_has_a_commit_or_says_why_not() {
    for program in ["pg_dwbinspect", "pg_walfpi"] {
        let (short, question) = (run(program, &["-h"]), run(program, &["-?"]));
        assert_eq!((question.status, &question.stdout, question.stderr.as_str()), (0, &short.stdout, ""));
        let version = run(program, &["-V"]).stdout;
        let expected = format!("{program} {} (", env!("CARGO_PKG_VERSION"));
        assert!(version.starts_with(&expected) && version.ends_with(")\n"), "{version}");
        // The long one says what is built in, and names no directory of the machine that built it.
        let long = run(program, &["--version"]).stdout;
        let (first, built) = long.split_once('\n').unwrap();
        let features: Vec<_> = [("parquet", cfg!(feature = "parquet")), ("tui", cfg!(feature = "tui"))].into();
        let features: Vec<_> = features.into_iter().filter_map(|(name, is_on)| is_on.then_some(name)).collect();
        assert_eq!(format!("{first}\n"), version);
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        let machine = std::env::consts::ARCH;
        assert!(built.starts_with(&format!("features: {features}\ntarget: {machine}-")), "{long}");
        assert!(!long.contains('/') && long.lines().count() == 3, "{long}");
        // One style for all errors.
        let wrong = run(program, &["--no-such-option"]);
        assert_eq!((wrong.status, wrong.stdout.as_str()), (2, ""));
        assert!(wrong.stderr.starts_with(&format!("{program}: unexpected argument")), "{}", wrong.stderr);
    }
    let (short, question) = (dwbinspect(&["check", "-h"]), dwbinspect(&["check", "-?"]));
    assert_eq!((question.status, question.stdout), (0, short.stdout));
}

#[path = "../../build.rs"]
#[allow(dead_code, reason = "only the function that finds the commit is called")]
mod build_script;

#[test]
fn commit_is_that_of_git_or_of_a_packed_crate() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(build_script::commit_of(place.path()), None);
    let packed = r#"{"git": {"sha1": "0123456789abcdef0123456789abcdef01234567"}, "path_in_vcs": ""}"#;
    fs::write(place.path().join(".cargo_vcs_info.json"), packed).unwrap();
    assert_eq!(build_script::commit_of(place.path()).as_deref(), Some("0123456789"));
    let packed = packed.replace("\"}, \"path", "\", \"dirty\": true}, \"path");
    fs::write(place.path().join(".cargo_vcs_info.json"), packed).unwrap();
    assert_eq!(build_script::commit_of(place.path()).as_deref(), Some("0123456789, changed"));
    let git = |args: &[&str]| {
        let ran = std::process::Command::new("git").arg("-C").arg(place.path()).args(args).output();
        ran.ok().filter(|ran| ran.status.success()).map(|ran| String::from_utf8(ran.stdout).unwrap().trim().to_owned())
    };
    if git(&["init", "-q"]).is_none() {
        return common::skipped("git is not installed");
    }
    fs::write(place.path().join("file"), "1").unwrap();
    git(&["add", "file"]).unwrap();
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]).unwrap();
    let head = git(&["rev-parse", "HEAD"]).unwrap();
    assert_eq!(build_script::commit_of(place.path()).as_deref(), head.get(..10));
    fs::write(place.path().join("file"), "2").unwrap();
    assert_eq!(build_script::commit_of(place.path()), Some(format!("{}, changed", &head[..10])));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn relations_go_by_name_in_every_filter() {
    let data = cluster("evict");
    for command in ["dump", "verify", "repair"] {
        let by = |relation: &str| dwbinspect(&[command, "--format", "ndjson", "--relation", relation, arg(&data)]);
        let numbers = by("5/16399");
        assert!(numbers.status < 2, "{command}: {}", numbers.stderr);
        for name in ["pgbench_accounts", "public.pgbench_accounts", "postgres.public.pgbench_accounts"] {
            let named = by(name);
            assert_eq!((named.status, &named.stdout), (numbers.status, &numbers.stdout), "{command} {name}");
        }
        let several = by("pg_class");
        assert_eq!((several.status, several.stdout.as_str()), (2, ""), "{command}");
        assert!(several.stderr.contains("\n  template1.pg_catalog.pg_class (1663/1/1259)\n"), "{}", several.stderr);
        assert!(by("no_such").stderr.contains("no relation named \"no_such\""), "{command}");
        let nothing = by("5/99");
        assert_eq!(nothing.status, 2, "{command}");
        assert!(format!("{}{}", nothing.stdout, nothing.stderr).contains("--relation 5/99"), "{command}");
    }
    // A file of the buffer by itself knows no names.
    let file = dwbinspect(&["dump", "--relation", "pg_class", arg(&unpack_buffer())]);
    assert!(file.status == 2 && file.stderr.contains("only in a data directory"), "{}", file.stderr);
    let shared = dwbinspect(&["page", arg(&data), "global.pg_catalog.pg_database", "0"]);
    assert!(shared.stdout.contains("global.pg_catalog.pg_database block 0 (global/1262)"), "{}", shared.stdout);
}

/// One file of a double write buffer, outside of any data directory.
fn unpack_buffer() -> std::path::PathBuf {
    let place = tempfile::tempdir().unwrap().keep();
    fs::copy(cluster("evict").join("pg_dwbuf/dwbuf_000"), place.join("dwbuf_000")).unwrap();
    place.join("dwbuf_000")
}

#[test]
fn messages_say_what_was_probably_meant() {
    let (_keep, data) = small_copy("checkpoint");
    let base = data.join("base/5");
    fs::create_dir_all(&base).unwrap();
    fs::write(base.join("PG_VERSION"), "19\n").unwrap();
    for command in ["check", "verify", "info"] {
        for inside in ["base", "base/5", "global"] {
            let ran = dwbinspect(&[command, arg(&data.join(inside))]);
            assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{command} {inside}");
            let real = data.canonicalize().unwrap();
            let words = format!("is inside one: did you mean {}?", real.display());
            assert!(ran.stderr.contains(&words), "{command} {inside}: {}", ran.stderr);
        }
        for version in ["9.6", "20"] {
            fs::write(data.join("PG_VERSION"), format!("{version}\n")).unwrap();
            let ran = dwbinspect(&[command, arg(&data)]);
            assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{command} {version}");
            let words = format!("says {version}, which is not supported (supported: 10 to 19)");
            assert!(ran.stderr.contains(&words), "{command}: {}", ran.stderr);
        }
        fs::write(data.join("PG_VERSION"), "19\n").unwrap();
    }
    for (args, words) in [
        (&["check", "-j", "0", "/no/such"][..], "1..=256"),
        (&["check", "--width", "7", "/no/such"], "40..=65535"),
        (&["page", "/no/such", "5/1259", "4294967295"], "expected 0 to 4294967294"),
        (&["dump", "--relation", "4294967296", "/no/such"], "numbers up to 4294967295"),
        (&["page", "/no/such", "orders"], "\"orders\" is not a valid page"),
        (&["check"], "pass DATADIR or -D DATADIR, or set PGDATA"),
        (&["advise", "/no/such"], "advise is a command of pg_walfpi"),
    ] {
        let ran = dwbinspect(args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.starts_with("pg_dwbinspect: ") && ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn verbose_is_the_evidence() {
    let data = cluster("evict");
    let plain = dwbinspect(&["check", arg(&data)]).stdout;
    let explained = dwbinspect(&["check", "--explain", arg(&data)]).stdout;
    assert!(explained.lines().count() > plain.lines().count());
    for flag in ["-v", "--verbose"] {
        assert_eq!(dwbinspect(&["check", flag, arg(&data)]).stdout, explained, "{flag}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn missing_control_file_or_wal_is_answered_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    for (name, lost, step) in [("control", "global/pg_control", "bring_control"), ("wal", "pg_wal", "bring_wal")] {
        let data = place.path().join(name);
        copy_tree(&cluster("checkpoint"), &data);
        let lost = data.join(lost);
        fs::rename(&lost, place.path().join(format!("{name}.lost"))).unwrap();
        let summary = dwbinspect(&["check", "--format", "ndjson", arg(&data)]).of_type("summary").remove(0);
        let steps: Vec<&str> =
            summary["next"].as_array().unwrap().iter().map(|next| next["step"].as_str().unwrap()).collect();
        assert_eq!(steps.iter().find(|step| **step != "copy_first"), Some(&step), "{steps:?}");
        assert!(!steps.contains(&"decide") && !steps.contains(&"repair"), "{steps:?}");
    }
}

/// The step about missing WAL, and all of the summary.
fn bring_wal(args: &[&str]) -> (Value, Value) {
    let summary = dwbinspect(&[&["check", "--format", "ndjson"], args].concat()).of_type("summary").remove(0);
    let steps = summary["next"].as_array().unwrap();
    (steps.iter().find(|step| step["step"] == "bring_wal").cloned().unwrap_or_default(), summary)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn wal_that_an_archive_holds_is_copied_by_the_command_that_is_named() {
    let place = tempfile::tempdir().unwrap();
    let (data, archive) = (place.path().join("data of 'mine'"), place.path().join("arch ive"));
    copy_tree(&cluster("checkpoint"), &data);
    let (_, whole) = bring_wal(&[arg(&data)]);
    assert_ne!(whole["end_lsn"], Value::Null, "the fixture has changed: {whole}");
    fs::rename(data.join("pg_wal"), &archive).unwrap();
    fs::create_dir(data.join("pg_wal")).unwrap();

    let (step, without) = bring_wal(&["--wal", arg(&archive), arg(&data)]);
    assert_ne!(without["on_start"], whole["on_start"], "an archive is not what the server reads");
    let copy = step["commands"][0].as_str().unwrap();
    let done = std::process::Command::new("sh").args(["-c", copy]).output().unwrap();
    assert!(done.status.success(), "{copy}: {done:?}");
    let (step, after) = bring_wal(&[arg(&data)]);
    assert_eq!((step, &after), (Value::Null, &whole));

    let copied =
        |step: &Value| step["commands"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().starts_with("cp "));
    // What is in pg_wal is never overwritten, also where it is no WAL any more.
    for segment in fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path()) {
        if segment.is_file() {
            fs::write(segment, "garbage").unwrap();
        }
    }
    let (step, _) = bring_wal(&["--wal", arg(&archive), arg(&data)]);
    assert!(step["step"] == "bring_wal" && !copied(&step), "{step}");
    // Nothing was looked for elsewhere: nothing is said of that.
    let (step, _) = bring_wal(&["--rebuild", arg(&data)]);
    assert!(step["step"] == "bring_wal" && !step["sentence"].as_str().unwrap().contains("either"), "{step}");

    // Packed segments cannot just be copied.
    fs::remove_dir_all(data.join("pg_wal")).unwrap();
    fs::create_dir(data.join("pg_wal")).unwrap();
    for segment in fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let packed = std::process::Command::new("gzip").arg(&segment).status().unwrap();
        assert!(packed.success());
    }
    let (step, _) = bring_wal(&["--wal", arg(&archive), arg(&data)]);
    assert!(!copied(&step), "{step}");
    assert!(step["sentence"].as_str().unwrap().contains("unpacked"), "{step}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn answer_and_what_to_do_come_first_and_commands_are_whole() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("a data directory with a long name, spaces and a quote's sign");
    copy_tree(&cluster("checkpoint"), &data);
    let ran = dwbinspect(&["check", "--width", "60", "--explain", arg(&data)]);
    let at = |heading: &str| ran.stdout.lines().position(|line| line == heading);
    let headings = ["What to do", "Damaged pages", "Evidence"].map(at);
    assert!(ran.stdout.starts_with("WILL NOT START ") && ran.stdout.ends_with("exit status 1: problems found\n"));
    assert!(headings.is_sorted() && headings.iter().all(Option::is_some), "{headings:?}\n{}", ran.stdout);
    let command = ran.stdout.lines().find(|line| line.ends_with(" --apply")).expect("a command").trim();
    // The shell reads one word where the path was.
    let output = std::process::Command::new("sh")
        .args(["-c", &command.replace("pg_dwbinspect", "printf '%s\\n'")])
        .output()
        .unwrap();
    let words: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(words, ["repair", arg(&data), "--apply"]);
}

#[test]
fn wal_options_are_those_of_pg_waldump() {
    let data = unpack::data_dir("wal/pg18").expect("unpack fixture");
    let wal = if data.join("pg_wal").is_dir() { data.join("pg_wal") } else { data };
    let mut segments: Vec<String> = fs::read_dir(&wal)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.len() == 24)
        .collect();
    segments.sort();
    assert!(segments.len() >= 4, "{segments:?}");
    let stats = |args: &[&str]| {
        let ran = run("pg_walfpi", &[&["stats", "--by", "rmgr", "--format", "ndjson"], args].concat());
        (ran.of_types(&["group", "interval"]), ran.stderr)
    };
    let whole = stats(&[arg(&wal)]).0;
    assert!(!whole.is_empty());
    assert_eq!(stats(&["-p", arg(&wal)]).0, whole);
    assert_eq!(stats(&["-p", arg(&wal), &segments[0], segments.last().unwrap()]).0, whole);
    // From one segment to another: as by their addresses.
    let size = fs::metadata(wal.join(&segments[0])).unwrap().len();
    let address = |name: &str, more: u64| {
        let (high, low) = (&name[8..16], &name[16..24]);
        let number =
            u64::from_str_radix(high, 16).unwrap() * (0x1_0000_0000 / size) + u64::from_str_radix(low, 16).unwrap();
        let lsn = (number + more) * size;
        format!("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF)
    };
    let (from, to) = (address(&segments[1], 0), address(&segments[2], 1));
    let by_address = stats(&["-s", &from, "-e", &to, arg(&wal)]).0;
    assert_ne!(by_address, whole);
    assert_eq!(stats(&["-p", arg(&wal), &segments[1], &segments[2]]).0, by_address);
    assert!(stats(&["-p", arg(&wal), "base/5"]).1.contains("\"base/5\" is not a segment name"));
    // Without -p they are two files, which is said.
    let (first, last) = (wal.join(&segments[0]), wal.join(&segments[3]));
    let ran = run("pg_walfpi", &["stats", "--format", "ndjson", arg(&first), arg(&last)]);
    let told: Vec<_> = ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "two_segments").collect();
    assert!(told.len() == 1 && told[0]["what"].as_str().unwrap().contains("not the 2 segments between"), "{told:?}");
    let bare = run("pg_walfpi", &["stats", "000000010000000000000001"]);
    assert!(bare.status == 2 && bare.stderr.contains("with -p DIRECTORY"), "{}", bare.stderr);
}

#[test]
fn progress_is_told_in_lines_where_it_was_asked_for() {
    for (program, args) in [
        ("pg_dwbinspect", &["verify", "-P", "-D"][..]),
        ("pg_dwbinspect", &["check", "--progress", "-D"]),
        ("pg_walfpi", &["verify", "-P", "-D"]),
    ] {
        let data = cluster("clean");
        let asked = run(program, &[args, &[arg(&data)]].concat());
        let bytes = |line: &str| {
            let (done, total) = line.strip_suffix(" bytes")?.split_once(" of ")?;
            Some((done.parse::<u64>().ok()?, total.parse::<u64>().ok()?))
        };
        let told: Vec<(u64, u64)> = asked.stderr.lines().filter_map(bytes).collect();
        assert_eq!(told.first().map(|(done, _)| *done), Some(0), "{program} {args:?}: {}", asked.stderr);
        assert!(told.iter().any(|(done, total)| done == total && *total > 0), "{program} {args:?}: {told:?}");
        let silent: Vec<&str> = args.iter().filter(|word| !["-P", "--progress"].contains(word)).copied().collect();
        let silent = run(program, &[&silent[..], &[arg(&data)]].concat());
        assert_eq!((silent.stderr.as_str(), silent.stdout), ("", asked.stdout), "{program} {args:?}");
    }
}

#[test]
fn row_of_damaged_pages_is_no_surer_than_its_least_certain_page() {
    let data = cluster("wrapped");
    let pages = dwbinspect(&["check", "--format", "ndjson", arg(&data)]).of_types(&["page"]);
    let text = dwbinspect(&["check", "--all", arg(&data)]).stdout;
    let table = text.split("\nDamaged pages").nth(1).unwrap().split("\n\n").next().unwrap();
    let (mut shown, mut unsure) = (0, 0);
    for row in table.lines().filter(|line| line.starts_with("    ")) {
        let (relation, rest) = row.trim().split_once(' ').unwrap();
        let end = rest.find(|c: char| c.is_alphabetic()).unwrap();
        for run in rest[..end].trim().split(", ") {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            for block in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                let is_it =
                    |page: &&Value| page["relation"].as_str().unwrap().ends_with(relation) && page["block"] == block;
                let page = pages.iter().find(is_it).unwrap_or_else(|| panic!("{relation} {block}: {text}"));
                let least = page["strength"].as_str().unwrap();
                let says = ["possible", "likely"].into_iter().find(|word| rest[end..].contains(word));
                assert!(
                    least == "proven" || says.is_some_and(|word| word == least || word == "possible"),
                    "{row}: {page}"
                );
                shown += 1;
                unsure += u32::from(least != "proven");
            }
        }
    }
    let damaged = pages.iter().filter(|page| page["strength"].is_string()).count();
    assert!(shown == damaged && unsure > 0, "{shown} of {damaged} pages, {unsure} unsure: {text}");
}
