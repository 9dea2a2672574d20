//! A PostgreSQL server of the machine, for tests that need a real one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// User that a server is run as when the tests run as root, which it refuses.
const NOBODY: u32 = 65_534;

/// Starts a program that may take 4 GB of address space: a server that reads damaged pages can ask for any amount, and would get it.
const LIMITED: &str = "ulimit -v 4194304 && exec \"$0\" \"$@\"";

/// How long a server that recovers is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster that the test made.
pub struct Server {
    bin: PathBuf,
    /// Programs that `bin` lacks, of another version.
    client: PathBuf,
    directory: TempDir,
    user: Option<u32>,
}

/// Directory of the newest server programs that are installed, if there are any.
pub fn find_programs() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| {
            ["initdb", "pg_ctl", "psql", "pg_waldump", "pg_checksums"].iter().all(|name| bin.join(name).exists())
        })
        .collect();
    found.sort_by_key(|bin| version_of(bin));
    found.pop()
}

/// Parts of the version in a directory such as `9.6/bin`, which as text comes after `15/bin`.
pub fn version_of(bin: &Path) -> Vec<u32> {
    let version = bin.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    version.unwrap_or_default().split('.').map_while(|part| part.parse().ok()).collect()
}

/// Directories of server programs, the installed ones and those that `PGFORENSICS_PG_BINS` lists as `PATH` does, and one
/// that has a client for all of them; `None`, said loudly, when there are none.
pub fn all_programs() -> Option<(Vec<PathBuf>, PathBuf)> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut bins: Vec<PathBuf> = installed.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    bins.extend(std::env::split_paths(&std::env::var_os("PGFORENSICS_PG_BINS").unwrap_or_default()));
    bins.retain(|bin| ["initdb", "pg_ctl", "postgres"].iter().all(|name| bin.join(name).exists()));
    bins.dedup_by_key(|bin| fs::canonicalize(&*bin).ok());
    // The newest client speaks with all servers.
    let client = bins.iter().filter(|bin| bin.join("psql").exists()).max_by_key(|bin| version_of(bin)).cloned();
    if client.is_none() {
        crate::common::skipped("no PostgreSQL server is installed here");
    }
    Some((bins, client?))
}

/// Where clusters are made: in memory where there is room for those of all tests at once and programs may run there. To write a cluster
/// to a disk and remove it again cost the system ten times the work where it was measured.
pub fn place_of_clusters() -> PathBuf {
    const ROOM: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let fits = statvfs(memory).is_ok_and(|memory| {
        memory.f_bavail.saturating_mul(memory.f_frsize) >= ROOM && !memory.f_flag.contains(StatVfsMountFlags::NOEXEC)
    });
    if fits { memory.to_owned() } else { std::env::temp_dir() }
}

impl Server {
    /// Makes a cluster with checksums and 1 MB segments and starts it. `None`, said loudly, when there is no server.
    pub fn start(settings: &str) -> Option<Self> {
        let server = Self::create(settings)?;
        assert!(server.launch(&[]), "the server does not start: {}", server.log());
        Some(server)
    }

    /// Makes a cluster as [`Self::start`] does and does not start it.
    pub fn create(settings: &str) -> Option<Self> {
        let Some(bin) = find_programs() else {
            crate::common::skipped("no PostgreSQL server is installed here");
            return None;
        };
        Some(Self::create_with(
            bin.clone(),
            bin,
            &["-k", "--wal-segsize=1"],
            &format!("wal_keep_size = 2GB\n{settings}"),
        ))
    }

    /// Makes a cluster with the programs in `bin`, and those in `client` where `bin` lacks one; not started.
    pub fn create_with(bin: PathBuf, client: PathBuf, initdb: &[&str], settings: &str) -> Self {
        Self::create_in(&place_of_clusters(), bin, client, initdb, settings)
    }

    /// Makes a cluster as [`Self::create_with`] does, in a new directory below `parent`, where all copies of it will be.
    pub fn create_in(parent: &Path, bin: PathBuf, client: PathBuf, initdb: &[&str], settings: &str) -> Self {
        let server = Self::in_new_directory(parent, bin, client, geteuid().is_root().then_some(NOBODY));
        let data = server.data();
        let usual = ["-N", "--locale=C", "-E", "UTF8", "-U", "postgres", "-A", "trust", "-D", text(&data)];
        server.must("initdb", &[initdb, &usual].concat());
        server.configure(&format!("listen_addresses = ''\nfsync = off\nautovacuum = off\n{settings}\n"));
        server
    }

    /// A copy of a cluster whose server does not run, in a directory of its own; not started. Tablespaces must lie
    /// inside the data directory.
    pub fn copy(&self) -> Self {
        let copy = self.in_another_directory();
        // Keeps owners and modes, without which the server refuses a data directory.
        let status = Command::new("cp").arg("-a").arg(self.data()).arg(copy.data()).status().expect("cp runs");
        assert!(status.success(), "cp: {status}");
        // The process it names is not that of the copy, and its number may be in use again.
        drop(fs::remove_file(copy.data().join("postmaster.pid")));
        copy.configure("");
        copy
    }

    /// A base backup in a directory of its own, made with these arguments; not started.
    pub fn base_backup(&self, arguments: &[&str]) -> Self {
        let backup = self.in_another_directory();
        let (host, data) = (text(self.directory.path()), backup.data());
        let given = ["-h", host, "-U", "postgres", "--checkpoint=fast", "-D", text(&data)];
        self.must("pg_basebackup", &[&given[..], arguments].concat());
        backup
    }

    /// Leaves the files there when the server is dropped.
    pub fn keep(&mut self) {
        self.directory.disable_cleanup(true);
    }

    /// Where its programs are.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// Major version of the server, by its directory; one under development is later than any.
    pub fn major(&self) -> u32 {
        version_of(&self.bin).first().copied().unwrap_or(u32::MAX)
    }

    /// Where clients reach the server.
    pub fn host(&self) -> &Path {
        self.directory.path()
    }

    fn in_another_directory(&self) -> Self {
        let parent = self.directory.path().parent().expect("parent of a temporary directory");
        Self::in_new_directory(parent, self.bin.clone(), self.client.clone(), self.user)
    }

    fn in_new_directory(parent: &Path, bin: PathBuf, client: PathBuf, user: Option<u32>) -> Self {
        let directory = tempfile::tempdir_in(parent).expect("temporary directory");
        if let Some(user) = user {
            chown(directory.path(), Some(user), Some(user)).expect("chown");
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        Self { bin, client, directory, user }
    }

    /// Has every finished segment copied to a directory beside the cluster, from the next start on.
    pub fn keep_archive(&self) -> PathBuf {
        let archive = self.host().join("archive");
        fs::create_dir(&archive).expect("archive");
        let owner = fs::metadata(self.data()).expect("data directory").uid();
        chown(&archive, Some(owner), None).expect("owner of the archive");
        self.configure(&format!("archive_mode = on\narchive_command = 'cp %p {}/%f'\n", archive.display()));
        archive
    }

    /// Adds to the configuration.
    pub fn configure(&self, settings: &str) {
        let conf = self.data().join("postgresql.conf");
        let old = fs::read_to_string(&conf).expect("conf");
        let here = format!("unix_socket_directories = '{}'\n{settings}", self.directory.path().display());
        fs::write(&conf, old + &here).expect("conf");
    }

    /// Starts the server, with more variables in its environment; false when it does not come up.
    pub fn launch(&self, environment: &[(&str, OsString)]) -> bool {
        let (data, log) = (self.data(), self.directory.path().join("log"));
        let mut command = self.command("sh", &["-c", LIMITED, text(&self.program("pg_ctl"))]);
        command.args(["start", "-w", "-t", "120", "-D", text(&data), "-l", text(&log)]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).envs(environment.iter().map(|(name, value)| (name, value)));
        let is_up = command.status().expect("pg_ctl runs").success();
        // It counts as started once it answers questions: while it recovers up to a target, it may still give up.
        let until = Instant::now() + PATIENCE;
        while is_up && data.join("recovery.signal").exists() && Instant::now() < until {
            if !data.join("postmaster.pid").exists() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        is_up
    }

    /// What the server has said so far.
    pub fn log(&self) -> String {
        let log = fs::read(self.directory.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Processes that work in the data directory, which are those of the server.
    pub fn processes(&self) -> Vec<Pid> {
        // Without a data directory, which initdb may have failed to make, there is no server either.
        let Ok(data) = fs::canonicalize(self.data()) else { return Vec::new() };
        let pids = fs::read_dir("/proc").expect("list").filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
            (fs::read_link(entry.path().join("cwd")).ok()? == data).then_some(pid)
        });
        pids.collect()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Runs SQL, returns what it prints.
    pub fn sql(&self, sql: &str) -> String {
        let host = self.directory.path();
        // From a file each statement is a transaction of its own.
        let file = host.join("statements.sql");
        fs::write(&file, sql).expect("statements");
        self.must(
            "psql",
            &[
                "-XAtq",
                "-v",
                "ON_ERROR_STOP=1",
                "-h",
                text(host),
                "-U",
                "postgres",
                "-d",
                "postgres",
                "-f",
                text(&file),
            ],
        )
    }

    /// Starts to run one SQL statement and does not wait for it; says nothing of how it ends.
    pub fn start_sql(&self, statement: &str) -> Child {
        let host = text(self.directory.path());
        let mut command = self.command("psql", &["-XAtq", "-h", host, "-U", "postgres", "-d", "postgres"]);
        command.args(["-c", statement]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("psql runs")
    }

    /// Stops the server; `mode` as pg_ctl takes it.
    pub fn stop(&self, mode: &str) {
        self.must("pg_ctl", &["stop", "-w", "-m", mode, "-D", text(&self.data())]);
        // Majors up to 14 do not wait for the process that gathers statistics.
        let ends = Instant::now() + Duration::from_secs(10);
        while self.has_process() && Instant::now() < ends {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// True when a process works in the data directory.
    fn has_process(&self) -> bool {
        let data = self.data().canonicalize().expect("data directory");
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok()).any(|cwd| cwd == data)
    }

    /// Runs one of the server's programs, which must succeed.
    pub fn must(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs one of the server's programs.
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program, args).output().expect("program runs")
    }

    /// Runs one of the server's programs, which is ended after so many seconds.
    pub fn run_within(&self, seconds: u32, program: &str, args: &[&str]) -> Output {
        let seconds = seconds.to_string();
        let program = self.program(program);
        self.command("timeout", &[&["-k", "5", &seconds, text(&program)], args].concat())
            .output()
            .expect("timeout runs")
    }

    /// Where a program is; one that comes with no server keeps its name.
    fn program(&self, name: &str) -> PathBuf {
        let at = [self.bin.join(name), self.client.join(name)];
        at.into_iter().find(|path| path.exists()).unwrap_or_else(|| PathBuf::from(name))
    }

    /// A program of the server, as its user, that is not run yet.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(self.program(program));
        command.args(args).env("LC_ALL", "C").env("TZ", "UTC").current_dir(self.directory.path());
        if program == "pg_ctl" {
            // The server must not keep the pipes of the test open.
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.processes().is_empty() {
            return;
        }
        drop(self.run("pg_ctl", &["stop", "-m", "immediate", "-D", text(&self.data())]));
        let mut left = self.processes();
        while !left.is_empty() {
            for pid in left {
                // One that has ended meanwhile does not matter.
                kill_process(pid, Signal::KILL).unwrap_or_default();
            }
            std::thread::sleep(Duration::from_millis(20));
            left = self.processes();
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}
