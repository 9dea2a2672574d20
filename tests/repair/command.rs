//! `pg_dwbinspect repair` and `undo` on real crashed clusters.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::truth::{page_of, same_page, torn_writes};
use crate::common::{DWB_CASES, Ran, arg, cluster, copy_tree, dwbinspect};
use serde_json::Value;

/// A copy of a cluster and a place for journals.
struct Copy {
    temporary: tempfile::TempDir,
    data: PathBuf,
}

impl Copy {
    fn of(case: &str) -> Self {
        let temporary = tempfile::tempdir().expect("temporary directory");
        let data = temporary.path().join("data");
        copy_tree(&cluster(case), &data);
        // A tablespace is a link beside the data directory: it is copied into the new one's place.
        let tablespaces = data.join("pg_tblspc");
        for entry in fs::read_dir(&tablespaces).expect("list").map(|entry| entry.expect("entry")) {
            let old = fs::canonicalize(cluster(case).join("pg_tblspc").join(entry.file_name())).expect("tablespace");
            let new = temporary.path().join("tablespace");
            copy_tree(&old, &new);
            fs::remove_file(entry.path()).expect("old link");
            symlink(&new, entry.path()).expect("new link");
        }
        Self { temporary, data }
    }

    fn journal(&self) -> PathBuf {
        self.temporary.path().join("journal")
    }

    fn repair(&self, args: &[&str]) -> Ran {
        dwbinspect(&[&["repair", arg(&self.data)], args].concat())
    }

    fn apply(&self) -> Ran {
        self.repair(&["--apply", "--journal", arg(&self.journal())])
    }

    fn undo(&self) -> Ran {
        dwbinspect(&["undo", arg(&self.data), arg(&self.journal())])
    }

    /// Every file below the data directory and its tablespaces: size, mode, owner, content.
    fn fingerprint(&self) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
        let mut files = BTreeMap::new();
        let mut open = vec![self.data.clone(), self.temporary.path().join("tablespace")];
        while let Some(directory) = open.pop() {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for entry in entries.map(|entry| entry.expect("entry")) {
                let kind = entry.file_type().expect("type");
                if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() {
                    let metadata = entry.metadata().expect("metadata");
                    let content = fs::read(entry.path()).expect("read");
                    files.insert(entry.path(), (metadata.mode(), metadata.uid(), content));
                }
            }
        }
        files
    }
}

fn steps(copy: &Copy, args: &[&str]) -> Vec<Value> {
    copy.repair(&[args, &["--format", "ndjson"]].concat()).of_type("step")
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_cluster_is_repaired_to_the_intended_pages_and_back() {
    for case in DWB_CASES {
        let copy = Copy::of(case);
        let before = copy.fingerprint();
        let planned = steps(&copy, &[]);
        let applied = copy.apply();
        if planned.is_empty() {
            assert_eq!(copy.fingerprint(), before, "{case}");
            continue;
        }
        // Without checksums a torn page can show no sign of it: that nothing is lost is never certain.
        let expected = if case == "nochecksums" { 2 } else { 0 };
        assert_eq!(applied.status, expected, "{case}: {} {}", applied.stdout, applied.stderr);
        let after = copy.fingerprint();
        let torn = torn_writes(case);
        let mut repaired = 0;
        for torn in torn.iter().filter(|torn| !torn.is_invisible) {
            let page = page_of(&copy.data, &torn.file, torn.block);
            let planned = planned.iter().any(|step| step["path"] == torn.file.as_str() && step["block"] == torn.block);
            if planned {
                repaired += 1;
                assert!(same_page(&page, &torn.intended), "{case} {} {}", torn.file, torn.block);
            } else {
                let old = page_of(&cluster(case), &torn.file, torn.block);
                assert_eq!(page, old, "{case} {} {}", torn.file, torn.block);
            }
        }
        assert_eq!(repaired, planned.len(), "{case}: only torn pages are written");
        for (path, (mode, owner, content)) in &after {
            let (old_mode, old_owner, old) = &before[path];
            assert_eq!((mode, owner, content.len()), (old_mode, old_owner, old.len()), "{}", path.display());
            let changed = content.chunks(8192).zip(old.chunks(8192)).filter(|(new, old)| new != old).count();
            let of_file = planned.iter().filter(|step| path.ends_with(step["path"].as_str().expect("path")));
            let in_tablespace = planned.iter().filter(|step| {
                let name = Path::new(step["path"].as_str().expect("path")).file_name();
                path.starts_with(copy.temporary.path().join("tablespace")) && path.file_name() == name
            });
            assert_eq!(changed, of_file.count().max(in_tablespace.count()), "{case}: {}", path.display());
        }
        assert_eq!(after.len(), before.len(), "{case}: no file came or went");
        // A second run finds nothing to do.
        assert!(steps(&copy, &[]).is_empty(), "{case}");
        let undone = copy.undo();
        assert_eq!(undone.status, 0, "{case}: {}", undone.stderr);
        assert_eq!(copy.fingerprint(), before, "{case}");
    }
}

#[test]
fn repaired_pages_carry_their_checksum() {
    let copy = Copy::of("checkpoint");
    assert_eq!(steps(&copy, &[]).len(), 6);
    assert_eq!(copy.apply().status, 0);
    let check = dwbinspect(&["check", arg(&copy.data), "--format", "ndjson"]);
    let pages = check.of_type("page");
    assert_eq!(pages.len(), 1, "only the page that replay heals is left: {}", check.stdout);
    assert_eq!(pages[0]["verdict"], "heals_in_replay");
    assert_eq!(check.of_type("summary")[0]["on_start"]["start"], "completes");
}

#[test]
fn nothing_is_written_without_apply() {
    let copy = Copy::of("checkpoint");
    let before = copy.fingerprint();
    let plan = copy.temporary.path().join("plan.json");
    for args in [&[][..], &["-n"], &["--plan", arg(&plan)]] {
        let ran = copy.repair(args);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        assert!(ran.stdout.contains("nothing was written"), "{}", ran.stdout);
    }
    assert_eq!(copy.fingerprint(), before);
    // A plan that is there is not overwritten.
    assert_eq!(copy.repair(&["--plan", arg(&plan)]).status, 2);
}

#[test]
fn saved_plan_is_carried_out_as_it_was_edited() {
    let copy = Copy::of("checkpoint");
    let path = copy.temporary.path().join("plan.json");
    copy.repair(&["--plan", arg(&path)]);
    let mut plan: Value = serde_json::from_slice(&fs::read(&path).expect("plan")).expect("JSON");
    let steps = plan["steps"].as_array_mut().expect("steps");
    steps.truncate(2);
    fs::write(&path, plan.to_string()).expect("edit");
    let ran = copy.repair(&["--apply", "--plan", arg(&path), "--journal", arg(&copy.journal())]);
    assert_eq!(ran.status, 1, "pages are left damaged: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("pages written            2"), "{}", ran.stdout);
}

/// A change of a plan.
type Edit<'a> = &'a dyn Fn(&mut Value);

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn hostile_plans_are_refused_and_write_nothing() {
    let copy = Copy::of("checkpoint");
    let path = copy.temporary.path().join("plan.json");
    copy.repair(&["--plan", arg(&path)]);
    let plan: Value = serde_json::from_slice(&fs::read(&path).expect("plan")).expect("JSON");
    let before = copy.fingerprint();
    let edits: [(&str, Edit<'_>); 11] = [
        ("another page", &|plan| plan["steps"][0]["block"] = 1.into()),
        ("a page that is in order", &|plan| plan["steps"][0]["rel_number"] = 1260.into()),
        ("the page that replay heals", &|plan| {
            plan["steps"][0]["rel_number"] = 1249.into();
            plan["steps"][0]["block"] = 56.into();
        }),
        ("another slot", &|plan| plan["steps"][0]["image"]["slot_index"] = 1585.into()),
        ("another file", &|plan| plan["steps"][0]["image"]["file"] = "../../etc/passwd".into()),
        ("a fork that does not exist", &|plan| plan["steps"][0]["fork"] = "../x".into()),
        ("another state of the page", &|plan| plan["steps"][0]["before_crc"] = "00000000".into()),
        ("other bytes", &|plan| plan["steps"][0]["after_crc"] = "00000000".into()),
        ("another cluster", &|plan| plan["system_identifier"] = "1".into()),
        ("another format", &|plan| plan["schema"] = 7.into()),
        ("the same page twice", &|plan| {
            let first = plan["steps"][0].clone();
            plan["steps"].as_array_mut().expect("steps").push(first);
        }),
    ];
    for (what, edit) in edits {
        let mut hostile = plan.clone();
        edit(&mut hostile);
        let file = copy.temporary.path().join("hostile.json");
        fs::write(&file, hostile.to_string()).expect("plan");
        let ran = copy.repair(&["--apply", "--plan", arg(&file), "--journal", arg(&copy.journal())]);
        assert_eq!(ran.status, 2, "{what}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stderr.is_empty(), "{what}");
        assert_eq!(copy.fingerprint(), before, "{what}");
        assert!(!copy.journal().exists(), "{what}");
    }
    for garbage in ["", "{}", "[]", "null", "{\"schema\":1}"] {
        let file = copy.temporary.path().join("hostile.json");
        fs::write(&file, garbage).expect("plan");
        let ran = copy.repair(&["--apply", "--plan", arg(&file), "--journal", arg(&copy.journal())]);
        assert_eq!(ran.status, 2, "{garbage}: {}", ran.stdout);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn selection_narrows_the_plan() {
    let copy = Copy::of("checkpoint");
    assert_eq!(steps(&copy, &["--page", "base/5/1259:0"]).len(), 1);
    assert_eq!(steps(&copy, &["--page", "5/1259:0,base/5/2619:18"]).len(), 2);
    assert_eq!(steps(&copy, &["--relation", "2663"]).len(), 2);
    assert_eq!(steps(&copy, &["--source", "wal"]).len(), 0);
    assert_eq!(steps(&copy, &["--source", "dwb"]).len(), 6);
    let wrong = copy.repair(&["--page", "base/5/1259:7"]);
    assert_eq!(wrong.status, 2);
    assert!(wrong.stderr.contains("no damaged page"), "{}", wrong.stderr);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn selection_narrows_a_saved_plan() {
    let copy = Copy::of("checkpoint");
    let path = copy.temporary.path().join("plan.json");
    copy.repair(&["--plan", arg(&path)]);
    let before = copy.fingerprint();
    let with = |more: &[&str]| {
        let journal = copy.journal();
        copy.repair(&[&["--apply", "--plan", arg(&path), "--journal", arg(&journal)], more].concat())
    };
    // What the plan does not have is an error: pages that are in order, that replay heals, that another source has.
    for (args, said) in [
        (&["--page", "base/5/1259:7"][..], "no damaged page"),
        (&["--page", "base/5/1249:56"], "no step for --page base/5/1249:56"),
        (&["--relation", "2663,1249"], "no step for --relation 1249"),
        (&["--source", "wal"], "no step for --source wal"),
        (&["--page", "base/5/1259:0", "--source", "wal"], "no step for --page"),
    ] {
        let ran = with(args);
        assert!(ran.status == 2 && ran.stderr.contains(said), "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert!(copy.fingerprint() == before && !copy.journal().exists(), "{args:?}");
    }
    for (args, written) in [(&["--page", "base/5/1259:0", "--source", "dwb"][..], 1), (&["--relation", "2663"], 2)] {
        let ran = with(&[args, &["--format", "ndjson"]].concat());
        assert_eq!(ran.status, 1, "pages are left damaged: {}", ran.stderr);
        assert_eq!(ran.of_type("summary")[0]["written"], written, "{args:?}: {}", ran.stdout);
        assert_eq!(ran.of_type("step").len(), written, "{args:?}");
        let left = ran.of_type("left").iter().filter(|left| left["reason_codes"][0] == "not_selected").count();
        assert_eq!(left, 6 - written, "{args:?}: {}", ran.stdout);
        assert_eq!(copy.undo().status, 0);
        assert_eq!(copy.fingerprint(), before);
        fs::remove_dir_all(copy.journal()).expect("journal");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn what_an_edited_plan_says_drives_no_terminal() {
    let copy = Copy::of("checkpoint");
    let path = copy.temporary.path().join("plan.json");
    copy.repair(&["--plan", arg(&path)]);
    let plan: Value = serde_json::from_slice(&fs::read(&path).expect("plan")).expect("JSON");
    let evil = "\u{1b}]0;x\u{7}\u{1b}[2J\r";
    let run = |plan: &Value| {
        let file = copy.temporary.path().join("evil.json");
        fs::write(&file, plan.to_string()).expect("plan");
        let ran = copy.repair(&["--apply", "--plan", arg(&file), "--journal", arg(&copy.journal())]);
        let is_raw = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
        assert!(!is_raw(&ran.stdout) && !is_raw(&ran.stderr), "{}{}", ran.stdout, ran.stderr);
        ran
    };
    for field in ["fork", "before_crc", "after_crc"] {
        let mut plan = plan.clone();
        plan["steps"][0][field] = evil.into();
        assert_eq!(run(&plan).status, 2, "{field}");
    }
    for (pointer, name) in [("/steps/0/image", "file"), ("", "system_identifier"), ("", evil)] {
        let mut plan = plan.clone();
        plan.pointer_mut(pointer).expect("place")[name] = evil.into();
        assert_eq!(run(&plan).status, 2, "{name}");
    }
    // What is only there for readers is not taken from the file: what is shown is what is so.
    let mut plan = plan;
    let taken: Vec<Value> = plan["steps"].as_array_mut().expect("steps").drain(3..).collect();
    for step in plan["steps"].as_array_mut().expect("steps") {
        for field in ["relation", "path", "page_lsn", "verdict"] {
            step[field] = evil.into();
        }
        step["warnings"] = [evil].into();
    }
    for step in taken {
        let mut left = step.clone();
        for field in ["image", "path", "page_lsn", "before_crc", "after_crc", "warnings"] {
            left.as_object_mut().expect("step").remove(field);
        }
        for field in ["relation", "verdict", "fork"] {
            left[field] = evil.into();
        }
        left["reasons"] = [evil].into();
        plan["left"].as_array_mut().expect("left").push(left);
    }
    let ran = run(&plan);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("restore") && !ran.stdout.contains("may be lost"), "{}", ran.stdout);
}

/// Puts something else into the place of a path; the second is where to put what was there.
type Replace = fn(&Path, &Path);

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn what_could_not_be_looked_at_is_told() {
    let link: Replace = |path, aside| {
        fs::rename(path, aside).expect("move");
        symlink(aside, path).expect("link");
    };
    let fifo: Replace = |path, aside| {
        fs::rename(path, aside).expect("move");
        assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    };
    let directory: Replace = |path, aside| {
        fs::rename(path, aside).expect("move");
        fs::create_dir(path).expect("directory");
    };
    let replaced = [("base/5", link), ("base/5/1259", link), ("base/5/1259", fifo), ("base/5/1259", directory)];
    for (case, (name, replace)) in replaced.into_iter().enumerate() {
        let copy = Copy::of("checkpoint");
        replace(&copy.data.join(name), &copy.temporary.path().join("aside"));
        let check = dwbinspect(&["check", arg(&copy.data), "--format", "ndjson"]);
        assert_eq!(check.status, 2, "{case}: {}", check.stdout);
        let text = copy.repair(&[]);
        assert_eq!(text.status, 2, "{case}: {}", text.stdout);
        assert!(text.stdout.contains("Not checked") && text.stdout.contains(name), "{case}: {}", text.stdout);
        let planned = copy.repair(&["--format", "ndjson"]);
        assert_eq!(planned.of_type("skipped"), check.of_type("skipped"), "{case}");
        let summary = &planned.of_type("summary")[0];
        assert_eq!((&summary["exit_status"], planned.status), (&2.into(), 2), "{case}: {summary}");
        assert_eq!(summary["skipped"], check.of_type("skipped").len(), "{case}");
        // What was not read could have shown that WAL is missing: nothing is proven.
        assert!(planned.of_type("step").is_empty(), "{case}: {}", planned.stdout);
        let applied = copy.repair(&["--apply", "--journal", arg(&copy.journal()), "--format", "ndjson"]);
        assert_eq!(applied.status, 2, "{case}: {}", applied.stderr);
        assert_eq!(applied.of_type("skipped"), check.of_type("skipped"), "{case}");
        assert!(applied.of_type("step").is_empty() && !copy.journal().exists(), "{case}");
    }
}

#[test]
fn journal_is_refused_where_it_does_harm() {
    let copy = Copy::of("checkpoint");
    let before = copy.fingerprint();
    let full = copy.temporary.path().join("full");
    fs::create_dir(&full).expect("directory");
    fs::write(full.join("something"), "x").expect("file");
    let inside = copy.data.join("journal");
    for directory in [&full, &inside, &copy.temporary.path().join("no/such/parent")] {
        let ran = copy.repair(&["--apply", "--journal", arg(directory)]);
        assert_eq!(ran.status, 2, "{}: {}", directory.display(), ran.stdout);
    }
    assert_eq!(copy.fingerprint(), before);
    let empty = copy.temporary.path().join("empty");
    fs::create_dir(&empty).expect("directory");
    assert_eq!(copy.repair(&["--apply", "--journal", arg(&empty)]).status, 0);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn undo_refuses_pages_that_changed_and_damaged_journals() {
    let copy = Copy::of("checkpoint");
    assert_eq!(copy.apply().status, 0);
    let repaired = copy.fingerprint();
    let file = copy.data.join("base/5/1259");
    let mut bytes = fs::read(&file).expect("read");
    bytes[5000] ^= 1;
    fs::write(&file, &bytes).expect("write");
    let changed = copy.fingerprint();
    let ran = copy.undo();
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("changed"), "{}", ran.stderr);
    assert_eq!(copy.fingerprint(), changed, "no page is put back when one of them changed");
    bytes[5000] ^= 1;
    fs::write(&file, &bytes).expect("write");
    assert_eq!(copy.fingerprint(), repaired);
    for name in ["journal.json", "before.pages"] {
        let path = copy.journal().join(name);
        let sound = fs::read(&path).expect("read");
        for at in [0, sound.len() / 2, sound.len() - 2] {
            let mut damaged = sound.clone();
            damaged[at] ^= 4;
            fs::write(&path, damaged).expect("write");
            assert_eq!(copy.undo().status, 2, "{name} {at}");
        }
        fs::write(&path, &sound[..sound.len() / 2]).expect("write");
        assert_eq!(copy.undo().status, 2, "{name} cut");
        fs::write(&path, sound).expect("write");
    }
    assert_eq!(copy.fingerprint(), repaired);
    // A server that was started writes pg_control.
    let control = copy.data.join("global/pg_control");
    let sound = fs::read(&control).expect("read");
    let mut touched = sound.clone();
    *touched.last_mut().expect("byte") ^= 1;
    fs::write(&control, touched).expect("write");
    let ran = copy.undo();
    assert!(ran.status == 2 && ran.stderr.contains("server was started"), "{}", ran.stderr);
    fs::write(&control, sound).expect("write");
    // Without its manifest the journal says what its log tells.
    let (manifest, aside) = (copy.journal().join("journal.json"), copy.temporary.path().join("aside"));
    fs::rename(&manifest, &aside).expect("move");
    let ran = copy.undo();
    assert!(ran.status == 2 && ran.stderr.contains("6 pages that were overwritten"), "{}", ran.stderr);
    fs::rename(&aside, &manifest).expect("move");
    // A log that nothing can be added to, and that would block whoever opens it.
    let log = copy.journal().join("audit.ndjson");
    fs::remove_file(&log).expect("remove");
    assert!(std::process::Command::new("mkfifo").arg(&log).status().expect("mkfifo").success());
    let ran = copy.undo();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("not in the log"), "{}", ran.stdout);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn journal_of_another_cluster_is_refused() {
    let (one, other) = (Copy::of("checkpoint"), Copy::of("evict"));
    assert_eq!(one.apply().status, 0);
    let before = other.fingerprint();
    let ran = dwbinspect(&["undo", arg(&other.data), arg(&one.journal())]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("system"), "{}", ran.stderr);
    assert_eq!(other.fingerprint(), before);
}

#[test]
fn links_and_read_only_files_are_refused() {
    let copy = Copy::of("checkpoint");
    let file = copy.data.join("base/5/1259");
    let moved = copy.temporary.path().join("elsewhere");
    fs::rename(&file, &moved).expect("move");
    symlink(&moved, &file).expect("link");
    let content = fs::read(&moved).expect("read");
    copy.apply();
    assert_eq!(fs::read(&moved).expect("read"), content, "nothing is written through a link");
    fs::remove_file(&file).expect("unlink");
    fs::rename(&moved, &file).expect("move back");
    if rustix::process::geteuid().is_root() {
        return common::skipped("root may write read-only files");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).expect("mode");
    let before = copy.fingerprint();
    fs::remove_dir_all(copy.journal()).ok();
    let ran = copy.apply();
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert_eq!(copy.fingerprint(), before);
}

/// `check` counts the map pages that `--blank-maps` zeroes: those with a proven image are restored without it.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn step_counts_the_map_pages_that_are_zeroed() {
    for case in ["cases/stale-tail", "cases/nochecksums-stops", "cases/map-leave"] {
        let data = common::unpack::data_dir(case).unwrap();
        let planned = |more: &[&str]| {
            let ran = dwbinspect(&[&["repair", arg(&data), "--format", "ndjson"], more].concat());
            ran.of_type("step").len() as u64
        };
        let summary = dwbinspect(&["check", arg(&data), "--format", "ndjson"]).of_type("summary").remove(0);
        let steps = summary["next"].as_array().unwrap();
        let counted =
            steps.iter().find(|step| step["step"] == "blank_maps").map_or(0, |step| step["pages"].as_u64().unwrap());
        assert_eq!(counted, planned(&["--blank-maps"]) - planned(&[]), "{case}");
    }
}
