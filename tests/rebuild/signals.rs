//! Rebuilds that are broken off, and servers that do anything but replay: nothing is left, nothing is called proven, and the
//! cluster is as it was.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::common;
use crate::scene::{Ended, PREFIX, Scene, Small, real_server};

fn assert_broken_off(ended: &Ended, what: &str) {
    assert_eq!(ended.status.code(), Some(2), "{what}: {:?} {}", ended.status, ended.errors);
    assert!(ended.has("skipped", "code", "interrupted"), "{what}: {:#?}", ended.lines);
    assert!(!ended.verdicts().contains(&"rebuild"), "{what}");
}

/// Signals that end the program. One that runs under `nohup`, as these tests may, goes on when the terminal is gone.
fn ending() -> [Signal; 3] {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    [Signal::INT, Signal::TERM, if ignored & 1 == 1 { Signal::TERM } else { Signal::HUP }]
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_signal_while_the_server_runs_ends_both_and_leaves_nothing() {
    let scene = Scene::new();
    let patient = "trap '' INT TERM HUP; sleep 200 & while :; do sleep 1; done";
    for (signal, script) in ending().into_iter().flat_map(|signal| [(signal, "exec sleep 200"), (signal, patient)]) {
        let what = format!("{signal:?}, {script}");
        let running = scene.start("check", Some(scene.fake(script)), &[]);
        scene.wait_for("started");
        assert!(!scene.processes().is_empty(), "{what}");
        running.signal(signal);
        assert_broken_off(&running.end(), &what);
        scene.assert_nothing_happened(&what);
    }
}

/// Who asks for the pages to be written and breaks it off, gets none.
#[test]
fn a_signal_before_pages_are_written_leaves_the_cluster_as_it_was() {
    let scene = Scene::new();
    let bin = scene.fake("exec sleep 200");
    let running = scene.start("repair", Some(bin), &["--apply", "--allow-shut-down"]);
    scene.wait_for("started");
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.errors);
    scene.assert_nothing_happened("repair");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_signal_while_the_sandbox_is_made_leaves_nothing() {
    let scene = Scene::new();
    let bin = scene.fake("exec sleep 200");
    for (signal, name) in ending().into_iter().zip(["pg_wal", "PG_VERSION", "global/pg_control"]) {
        let running = scene.start("check", Some(bin), &[]);
        scene.wait_for(name);
        running.signal(signal);
        assert_broken_off(&running.end(), name);
        scene.assert_nothing_happened(name);
    }
}

/// With a real server, from the first moment on to the end.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_signal_at_any_moment_leaves_nothing() {
    let scene = Scene::new();
    let Some(bin) = real_server(&scene) else { return };
    let begin = Instant::now();
    let whole = scene.check(&bin);
    let time = begin.elapsed();
    let rebuilt = whole.verdicts().iter().filter(|verdict| **verdict == "rebuild").count();
    assert_eq!(rebuilt, 18, "{}", whole.errors);
    scene.assert_nothing_happened("whole");
    let mut broken_off = 0;
    for step in 0..24_u32 {
        let (signal, delay) = (ending()[step as usize % 3], time * step / 24);
        let what = format!("{signal:?} after {delay:?} of {time:?}");
        let running = scene.start("check", Some(&bin), &[]);
        std::thread::sleep(delay);
        running.signal(signal);
        let ended = running.end();
        scene.assert_nothing_happened(&what);
        if ended.status.signal().is_some() {
            // Before it had begun.
            assert!(ended.lines.is_empty(), "{what}");
        } else if ended.lines.is_empty() {
            // While copies of WAL segments were compared: nothing is known by then.
            assert!(ended.status.code() == Some(2) && ended.errors.contains("interrupted"), "{what}: {}", ended.errors);
        } else if ended.has("skipped", "code", "interrupted") {
            assert_broken_off(&ended, &what);
            broken_off += 1;
        } else {
            // It had come to its end before.
            assert_eq!((ended.status.code(), ended.verdicts()), (whole.status.code(), whole.verdicts()), "{what}");
        }
    }
    assert!(broken_off > 5, "{broken_off}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_tool_that_is_killed_leaves_a_directory_that_names_it() {
    let scene = Scene::new();
    // The program that it started ends by itself.
    let running = scene.start("check", Some(scene.fake("exec sleep 3")), &[]);
    scene.wait_for("started");
    let own = format!("{PREFIX}{}-", running.child.id());
    running.signal(Signal::KILL);
    let ended = running.end();
    assert_eq!((ended.status.signal(), ended.lines.len()), (Some(9), 0));
    let left = scene.sandboxes();
    let names: Vec<_> = left.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert!(names.len() == 1 && names[0].starts_with(&own), "{names:?} {own}");
    fs::remove_dir_all(&left[0]).unwrap();
    scene.assert_nothing_happened("killed");
}

/// What else a program may do that says it is a server.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_server_that_does_not_replay_builds_nothing() {
    let scene = Scene::new();
    let garbage = "find . -type f ! -name started | while read f; do head -c 9000 /dev/urandom > \"$f\"; done";
    let cluster = scene.case.cluster();
    let linked = format!("mv base moved; ln -s '{0}/base' base; ln -s '{0}' ../cluster", cluster.display());
    let scripts = [
        ("exit 0", "replay_failed"),
        ("exit 1", "replay_failed"),
        ("kill -SEGV $$", "replay_failed"),
        ("kill -KILL $$", "replay_failed"),
        ("sleep 200 & exit 0", "replay_failed"),
        ("(trap '' TERM INT HUP; while :; do sleep 1; done) & exit 1", "replay_failed"),
        (&linked, "replay_failed"),
        ("rm -rf ../../run-1; exit 0", "replay_failed"),
        ("rm -rf global; chmod 0 base pg_wal; exit 0", "replay_failed"),
        (garbage, "page_not_built"),
        ("head -c 100000 /dev/zero > global/pg_control", "page_not_built"),
    ];
    for (script, code) in scripts {
        let ended = scene.check(scene.fake(script));
        scene.assert_nothing_happened(script);
        let verdicts = ended.verdicts();
        assert!(ended.status.code().is_some() && verdicts.len() == 20, "{script}: {}", ended.errors);
        assert!(!verdicts.contains(&"rebuild"), "{script}");
        let failures = ended.lines.iter().filter(|line| line["build_failure"] == code).count();
        assert_eq!(failures, 18, "{script}: {:#?}", ended.lines);
    }
}

/// The server replays, and then somebody else writes into its files.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_that_are_not_what_replay_makes_of_them_are_not_taken() {
    let scene = Scene::new();
    let Some(bin) = real_server(&scene) else { return };
    let real = bin.join("postgres");
    let scripts = [
        // Garbage, and pages as they were before.
        "for f in base/5/*; do head -c \"$(stat -c %s \"$f\")\" /dev/urandom > \"$f\"; done",
        "rm -r base; mv before base",
    ];
    for script in scripts {
        let whole = format!("cp -r base before; '{}' \"$@\"; status=$?; {script}; exit $status", real.display());
        let ended = scene.check(scene.fake(&whole));
        scene.assert_nothing_happened(script);
        assert_eq!(ended.verdicts().len(), 20, "{script}: {}", ended.errors);
        let rebuilt: Vec<&Value> = ended.lines.iter().filter(|line| line["verdict"] == "rebuild").collect();
        assert!(rebuilt.is_empty(), "{script}: {rebuilt:#?}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_sandbox_that_does_not_fit_is_refused_and_a_full_disk_builds_nothing() {
    let scene = Scene::new();
    let Some(real) = real_server(&scene) else { return };
    let fills = format!("cat /dev/zero > filled; '{}/postgres' \"$@\"", real.display());
    for (size, bin) in [("1m", real.as_path()), ("64m", scene.fake(&fills))] {
        let Some(small) = Small::of(size) else { return };
        let ended = scene.start("check", Some(bin), &["--sandbox", common::arg(small.0.path())]).end();
        assert_eq!(fs::read_dir(small.0.path()).unwrap().count(), 0, "{size}");
        scene.assert_nothing_happened(size);
        assert!(ended.verdicts().len() == 20 && !ended.verdicts().contains(&"rebuild"), "{size}: {}", ended.errors);
        assert!(ended.has("finding", "kind", "not_rebuilt"), "{size}: {:#?}", ended.lines);
        let failures = ended.lines.iter().filter(|line| line["build_failure"] == "replay_failed").count();
        assert_eq!(failures, 18, "{size}");
    }
    let Some(small) = Small::of("64m") else { return };
    let ended = scene.start("check", Some(&real), &["--sandbox", common::arg(small.0.path())]).end();
    assert!(ended.verdicts().contains(&"rebuild"), "it fits: {:#?}", ended.lines);
}
