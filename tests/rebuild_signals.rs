//! Rebuilds that are broken off, and servers that do anything but replay: nothing is left, nothing is called proven, and the
//! cluster is as it was.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use common::rebuild::RebuildCase;
use pgforensics::parsers::wal::version::Major;
use pgforensics::rebuild::find_server;

/// How the names of sandboxes begin.
const PREFIX: &str = "pgforensics-rebuild-";

/// Longest time that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that everybody may enter: root runs a server as another user.
fn open_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A cluster with damaged pages, a directory for temporary files, and one for a program that takes the server's part.
struct Scene {
    case: RebuildCase,
    temporary: TempDir,
    bin: TempDir,
    before: BTreeMap<PathBuf, u64>,
}

/// What a program printed, and how it ended.
struct Ended {
    status: ExitStatus,
    lines: Vec<Value>,
    errors: String,
}

impl Ended {
    fn verdicts(&self) -> Vec<&str> {
        let pages = self.lines.iter().filter(|line| line["type"] == "page");
        pages.map(|page| page["verdict"].as_str().unwrap()).collect()
    }

    fn has(&self, kind: &str, field: &str, value: &str) -> bool {
        self.lines.iter().any(|line| line["type"] == kind && line[field] == value)
    }
}

/// A check that runs.
struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> Ended {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = fs::read_to_string(self.output.join("out")).unwrap();
        // A program that was killed may have written part of a line.
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let errors = fs::read_to_string(self.output.join("err")).unwrap();
        Ended { status, lines, errors }
    }
}

impl Scene {
    fn new() -> Self {
        let case = RebuildCase::of("pg15_fpwoff");
        let before = hashes(case.cluster().parent().unwrap());
        Self { case, temporary: open_directory(), bin: open_directory(), before }
    }

    /// A server that is a script, which says its version as a real one does; it says also when it was started.
    fn fake(&self, script: &str) -> &Path {
        let program = self.bin.path().join("postgres");
        let version = "if [ \"$1\" = --version ]; then echo 'postgres (PostgreSQL) 15.8'; exit 0; fi";
        fs::write(&program, format!("#!/bin/sh\n{version}\necho $$ > begun && mv begun started\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        self.bin.path()
    }

    /// Begins a command with all that a rebuild needs. What it prints goes beside the program.
    fn start(&self, command: &str, pg_bin: Option<&Path>, more: &[&str]) -> Running {
        let output = self.bin.path().to_owned();
        let mut run = Command::new(env!("CARGO_BIN_EXE_pg_dwbinspect"));
        run.args([command, "--rebuild", "--format", "ndjson"]).args(more);
        run.arg("--wal").arg(self.case.archive()).arg("--donor").arg(self.case.donor()).arg(self.case.cluster());
        if let Some(directory) = pg_bin {
            run.arg("--pg-bin").arg(directory);
        }
        run.env("TMPDIR", self.temporary.path());
        run.stdout(File::create(output.join("out")).unwrap()).stderr(File::create(output.join("err")).unwrap());
        Running { child: run.spawn().unwrap(), output }
    }

    fn check(&self, pg_bin: &Path) -> Ended {
        self.start("check", Some(pg_bin), &[]).end()
    }

    /// Sandboxes that are there.
    fn sandboxes(&self) -> Vec<PathBuf> {
        fs::read_dir(self.temporary.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Waits for a file in the data directory of a sandbox.
    fn wait_for(&self, name: &str) -> PathBuf {
        let begin = Instant::now();
        loop {
            let found = self.sandboxes().into_iter().map(|path| path.join("run-1/data").join(name));
            if let Some(path) = found.into_iter().find(|path| path.exists()) {
                return path;
            }
            assert!(begin.elapsed() < PATIENCE, "no {name}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Neither a sandbox nor a process is left, and the cluster, the donor and the archive are as they were.
    fn assert_nothing_happened(&self, what: &str) {
        assert_eq!(self.sandboxes(), Vec::<PathBuf>::new(), "{what}");
        // Killed processes go away when somebody has waited for them.
        let begin = Instant::now();
        while !self.processes().is_empty() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.processes(), Vec::<String>::new(), "{what}");
        assert!(hashes(self.case.cluster().parent().unwrap()) == self.before, "{what}");
    }

    /// Processes that work in a sandbox, or in one that is gone.
    fn processes(&self) -> Vec<String> {
        let temporary = fs::canonicalize(self.temporary.path()).unwrap();
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let works = |path: &PathBuf| fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&temporary));
        entries.filter(works).map(|path| path.display().to_string()).collect()
    }
}

/// Every file below a directory, by what is in it.
fn hashes(root: &Path) -> BTreeMap<PathBuf, u64> {
    let (mut found, mut left) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let mut hasher = DefaultHasher::new();
            fs::read(&path).unwrap().hash(&mut hasher);
            found.insert(path, hasher.finish());
        }
    }
    found
}

/// Directory of a real server of the fixture's major, found as the tool finds it.
fn real_server(scene: &Scene) -> Option<PathBuf> {
    match find_server(Major::V15, None, &scene.case.cluster()) {
        Ok(found) => Some(found.path.parent().unwrap().to_owned()),
        Err(why) => {
            common::skipped(&why.to_string());
            None
        }
    }
}

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

/// A file system of its own, as large as this.
struct Small(TempDir);

impl Small {
    /// `None`, said loudly, where it may not be made.
    fn of(size: &str) -> Option<Self> {
        let directory = open_directory();
        let options = format!("size={size},mode=1777");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory.path()).output();
        if !geteuid().is_root() || !mounted.is_ok_and(|output| output.status.success()) {
            common::skipped("no file system can be mounted here");
            return None;
        }
        Some(Self(directory))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // What is still mounted cannot be removed, which the directory says.
        drop(Command::new("umount").arg(self.0.path()).status());
    }
}

#[test]
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
