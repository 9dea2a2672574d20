//! A server looked for in a list of processes that is like that of the system.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pgforensics::cluster::server_process::{Search, find_server};

/// A list of processes like that of the system, and a data directory.
struct Machine {
    temporary: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { temporary: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.data().join("base/5")).unwrap();
        fs::create_dir_all(machine.proc().join("1")).unwrap();
        fs::write(machine.proc().join("uptime"), "1").unwrap();
        machine
    }

    fn data(&self) -> PathBuf {
        self.temporary.path().join("data")
    }

    fn proc(&self) -> PathBuf {
        self.temporary.path().join("proc")
    }

    fn process(&self, pid: i32, command: &str, cwd: &Path) -> PathBuf {
        let process = self.proc().join(pid.to_string());
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::write(process.join("comm"), format!("{command}\n")).unwrap();
        symlink(cwd, process.join("cwd")).unwrap();
        process
    }

    fn search(&self) -> Search {
        find_server(&self.data(), &self.proc())
    }
}

#[test]
fn server_is_found_by_where_it_works() {
    for name in ["postgres", "postmaster", "edb-postgres"] {
        let machine = Machine::new();
        machine.process(40, name, machine.temporary.path());
        assert_eq!(machine.search(), Search::None, "a server of another directory");
        machine.process(41, name, &machine.data());
        assert_eq!(machine.search(), Search::Server { pid: 41, command: name.to_owned() });
    }
}

#[test]
fn shell_in_the_directory_is_no_server_until_it_holds_files_of_the_cluster() {
    let machine = Machine::new();
    let shell = machine.process(50, "bash", &machine.data());
    symlink(machine.data().join("postgresql.conf"), shell.join("fd/3")).unwrap();
    assert_eq!(machine.search(), Search::None);
    symlink(machine.data().join("base/5/1259"), shell.join("fd/4")).unwrap();
    assert!(matches!(machine.search(), Search::Server { pid: 50, .. }));
    let renamed = Machine::new();
    symlink("/opt/bin/postgres", renamed.process(51, "db", &renamed.data()).join("exe")).unwrap();
    assert!(matches!(renamed.search(), Search::Server { pid: 51, .. }));
}

#[test]
fn own_process_and_processes_that_end_are_passed_over() {
    let machine = Machine::new();
    machine.process(i32::try_from(std::process::id()).unwrap(), "postgres", &machine.data());
    machine.process(60, "postgres", &machine.temporary.path().join("gone"));
    fs::create_dir_all(machine.proc().join("61")).unwrap();
    assert_eq!(machine.search(), Search::None);
}

#[test]
fn server_whose_directory_cannot_be_seen_is_not_ruled_out() {
    // A link to itself cannot be followed, like one that the system does not show.
    let machine = Machine::new();
    machine.process(70, "sshd", &machine.proc().join("70/cwd"));
    assert_eq!(machine.search(), Search::None);
    machine.process(71, "postgres", &machine.proc().join("71/cwd"));
    assert!(matches!(machine.search(), Search::Unclear { .. }));
    assert!(matches!(find_server(&machine.data(), &machine.data().join("none")), Search::Unclear { .. }));
}
