//! A PostgreSQL server of the machine, for tests that need a real one.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// User that a server is run as when the tests run as root, which it refuses.
const NOBODY: u32 = 65_534;

/// A cluster that the test made.
pub struct Server {
    bin: PathBuf,
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
    found.sort();
    found.pop()
}

impl Server {
    /// Makes a cluster with checksums and 1 MB segments and starts it. `None`, said loudly, when there is no server.
    pub fn start(settings: &str) -> Option<Self> {
        let Some(bin) = find_programs() else {
            super::common::skipped("no PostgreSQL server is installed here");
            return None;
        };
        let directory = tempfile::tempdir().expect("temporary directory");
        let user = rustix::process::geteuid().is_root().then_some(NOBODY);
        if let Some(user) = user {
            chown(directory.path(), Some(user), Some(user)).expect("chown");
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let server = Self { bin, directory, user };
        let data = server.data();
        server.must(
            "initdb",
            &["-k", "-N", "--wal-segsize=1", "--locale=C", "-E", "UTF8", "-U", "postgres", "-D", text(&data)],
        );
        let common = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\nfsync = off\nautovacuum = off\nwal_keep_size = 2GB\n{settings}\n",
            server.directory.path().display()
        );
        let conf = data.join("postgresql.conf");
        let old = fs::read_to_string(&conf).expect("conf");
        fs::write(&conf, old + &common).expect("conf");
        server.must("pg_ctl", &["start", "-w", "-D", text(&data), "-l", text(&server.directory.path().join("log"))]);
        Some(server)
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

    /// Stops the server; `mode` as pg_ctl takes it.
    pub fn stop(&self, mode: &str) {
        self.must("pg_ctl", &["stop", "-w", "-m", mode, "-D", text(&self.data())]);
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
        let mut command = Command::new(self.bin.join(program));
        command.args(args).env("LC_ALL", "C").env("TZ", "UTC").current_dir(self.directory.path());
        if program == "pg_ctl" {
            // The server must not keep the pipes of the test open.
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.output().expect("program runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.run("pg_ctl", &["stop", "-m", "immediate", "-D", text(&self.data())]));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}
