//! A cluster with damaged pages that are rebuilt, servers that take part, and what is left afterwards.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::rebuild::RebuildCase;
use crate::common::{arg, skipped};
use pgforensics::parsers::wal::version::Major;
use pgforensics::rebuild::find_server;

/// How the names of sandboxes begin.
pub const PREFIX: &str = "pgforensics-rebuild-";

/// Longest time that anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that everybody may enter: root runs a server as another user.
pub fn open_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A cluster with damaged pages, a directory for temporary files, and one for a program that takes the server's part.
pub struct Scene {
    pub case: RebuildCase,
    pub temporary: TempDir,
    pub bin: TempDir,
    before: BTreeMap<PathBuf, u64>,
}

/// What a program printed, and how it ended.
pub struct Ended {
    pub status: ExitStatus,
    pub lines: Vec<Value>,
    pub errors: String,
}

impl Ended {
    pub fn verdicts(&self) -> Vec<&str> {
        let pages = self.lines.iter().filter(|line| line["type"] == "page");
        pages.map(|page| page["verdict"].as_str().unwrap()).collect()
    }

    pub fn has(&self, kind: &str, field: &str, value: &str) -> bool {
        self.lines.iter().any(|line| line["type"] == kind && line[field] == value)
    }
}

/// A check that runs.
pub struct Running {
    pub child: Child,
    output: PathBuf,
}

impl Running {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn end(mut self) -> Ended {
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
    pub fn new() -> Self {
        let case = RebuildCase::of("pg15_fpwoff");
        let before = hashes(case.cluster().parent().unwrap());
        Self { case, temporary: open_directory(), bin: open_directory(), before }
    }

    /// A server that is a script, which says its version as a real one does; it says also when it was started.
    pub fn fake(&self, script: &str) -> &Path {
        let program = self.bin.path().join("postgres");
        let version = "if [ \"$1\" = --version ]; then echo 'postgres (PostgreSQL) 15.8'; exit 0; fi";
        let text = format!("#!/bin/sh\n{version}\necho $$ > begun && mv begun started\n{script}\n");
        crate::common::write_script(&program, &text);
        self.bin.path()
    }

    /// Begins a command with all that a rebuild needs. What it prints goes beside the program.
    pub fn start(&self, command: &str, pg_bin: Option<&Path>, more: &[&str]) -> Running {
        let mut run = Command::new(env!("CARGO_BIN_EXE_pg_dwbinspect"));
        run.args(self.arguments(command, pg_bin, more));
        self.start_as(run)
    }

    /// What the program is told to do a rebuild.
    pub fn arguments(&self, command: &str, pg_bin: Option<&Path>, more: &[&str]) -> Vec<String> {
        let (wal, donor, cluster) = (self.case.archive(), self.case.donor(), self.case.cluster());
        let mut words = vec![command, "--rebuild", "--format", "ndjson"];
        words.extend(more);
        words.extend(["--wal", arg(&wal), "--donor", arg(&donor), arg(&cluster)]);
        words.extend(pg_bin.iter().flat_map(|directory| ["--pg-bin", arg(directory)]));
        words.into_iter().map(str::to_owned).collect()
    }

    /// Begins any program in the place of this scene.
    pub fn start_as(&self, mut run: Command) -> Running {
        let output = self.bin.path().to_owned();
        run.env("TMPDIR", self.temporary.path());
        run.stdout(File::create(output.join("out")).unwrap()).stderr(File::create(output.join("err")).unwrap());
        Running { child: run.spawn().unwrap(), output }
    }

    pub fn check(&self, pg_bin: &Path) -> Ended {
        self.start("check", Some(pg_bin), &[]).end()
    }

    /// Sandboxes that are there.
    pub fn sandboxes(&self) -> Vec<PathBuf> {
        fs::read_dir(self.temporary.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Waits for a file in the data directory of a sandbox.
    pub fn wait_for(&self, name: &str) -> PathBuf {
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
    pub fn assert_nothing_happened(&self, what: &str) {
        assert_eq!(self.sandboxes(), Vec::<PathBuf>::new(), "{what}");
        self.assert_untouched(what, Duration::from_secs(5));
    }

    /// No process is left after this time, and the cluster, the donor and the archive are as they were.
    pub fn assert_untouched(&self, what: &str, patience: Duration) {
        // Killed processes go away when somebody has waited for them.
        let begin = Instant::now();
        while !self.processes().is_empty() && begin.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.processes(), Vec::<String>::new(), "{what}");
        assert!(hashes(self.case.cluster().parent().unwrap()) == self.before, "{what}");
    }

    /// Processes that work in a sandbox, or in one that is gone.
    pub fn processes(&self) -> Vec<String> {
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
pub fn real_server(scene: &Scene) -> Option<PathBuf> {
    match find_server(Major::V15, None, &scene.case.cluster()) {
        Ok(found) => Some(found.path.parent().unwrap().to_owned()),
        Err(why) => {
            skipped(&why.to_string());
            None
        }
    }
}

/// A file system of its own, as large as this.
pub struct Small(pub TempDir);

impl Small {
    /// `None`, said loudly, where it may not be made.
    pub fn of(size: &str) -> Option<Self> {
        let directory = open_directory();
        let options = format!("size={size},mode=1777");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory.path()).output();
        if !geteuid().is_root() || !mounted.is_ok_and(|output| output.status.success()) {
            skipped("no file system can be mounted here");
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
