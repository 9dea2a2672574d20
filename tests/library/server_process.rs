//! A server looked for in a list of processes that is like that of the system.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pgforensics::cluster::running::{Search, find_server};

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

#[test]
fn server_that_another_directory_names_as_its_own_is_ruled_out() {
    let machine = Machine::new();
    let other = machine.temporary.path().join("other data");
    fs::create_dir(&other).unwrap();
    let server = machine.process(71, "postgres", &machine.proc().join("71/cwd"));
    let started = |path: &Path| format!("/usr/bin/postgres\0-D\0{}\0-c\0x=1\0", path.display());
    fs::write(server.join("cmdline"), started(&other)).unwrap();
    // A worker of it, which has another title.
    let worker = machine.process(72, "postgres", &machine.proc().join("72/cwd"));
    fs::write(worker.join("cmdline"), "postgres: checkpointer \0").unwrap();
    fs::write(worker.join("stat"), "72 (post) gres) S 71 71 71 0").unwrap();
    let why = unclear(&machine);
    assert!(why.contains("process 71") || why.contains("process 72"), "{why}");
    assert!(why.contains("1 more"), "{why}");
    fs::write(other.join("postmaster.pid"), "70\n").unwrap();
    unclear(&machine);
    fs::write(other.join("postmaster.pid"), format!("71\n{}\n", other.display())).unwrap();
    assert_eq!(machine.search(), Search::None);
    // Started on this directory, or on one that cannot be examined.
    for path in [machine.data(), machine.temporary.path().join("none")] {
        fs::write(server.join("cmdline"), started(&path)).unwrap();
        assert!(unclear(&machine).contains("started with -D"), "{}", unclear(&machine));
    }
}

#[test]
fn data_directory_that_cannot_be_looked_at_is_not_free_of_servers() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.data()).unwrap();
    assert!(matches!(machine.search(), Search::Unclear { .. }));
}

#[test]
#[cfg(target_os = "linux")]
fn program_that_only_reads_in_the_directory_is_no_server() {
    let machine = Machine::new();
    let file = machine.data().join("base/5/1259");
    fs::write(&file, "").unwrap();
    for is_writer in [false, true] {
        let opened = fs::OpenOptions::new().read(true).write(is_writer).open(&file).unwrap();
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("60").current_dir(machine.data()).stdin(opened).spawn().unwrap();
        let found = find_server(&machine.data(), Path::new("/proc"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(matches!(found, Search::Server { .. }), is_writer, "{found:?}");
        assert_eq!(matches!(found, Search::None), !is_writer, "{found:?}");
    }
}

/// The sentence that tells why a server is not ruled out.
fn unclear(machine: &Machine) -> String {
    match machine.search() {
        Search::Unclear { why } => why,
        found => panic!("{found:?}"),
    }
}

#[test]
fn process_in_the_directory_whose_files_cannot_be_seen_is_not_ruled_out() {
    // What cannot be opened as a directory stands for one that the system does not let be listed; a user who may
    // everything could list a forbidden one.
    let machine = Machine::new();
    let process = machine.process(80, "db", &machine.data());
    assert_eq!(machine.search(), Search::None);
    fs::remove_dir(process.join("fd")).unwrap();
    fs::write(process.join("fd"), "").unwrap();
    assert!(unclear(&machine).contains("process 80 (db)"), "{}", unclear(&machine));
    // It ended after its directory was read.
    fs::remove_file(process.join("fd")).unwrap();
    assert_eq!(machine.search(), Search::None);
    // One that works elsewhere may hide what it likes.
    let elsewhere = Machine::new();
    let process = elsewhere.process(81, "db", elsewhere.temporary.path());
    fs::remove_dir(process.join("fd")).unwrap();
    fs::write(process.join("fd"), "").unwrap();
    assert_eq!(elsewhere.search(), Search::None);
}

#[test]
fn open_file_or_program_that_cannot_be_seen_leaves_it_open_unless_another_tells() {
    let machine = Machine::new();
    let process = machine.process(82, "db", &machine.data());
    // A file where there should be a link: it cannot be read as one.
    fs::write(process.join("fd/3"), "").unwrap();
    assert!(unclear(&machine).contains("process 82 (db)"));
    symlink(machine.data().join("pg_wal/000000010000000000000001"), process.join("fd/4")).unwrap();
    assert!(matches!(machine.search(), Search::Server { pid: 82, .. }));
    let machine = Machine::new();
    let process = machine.process(83, "db", &machine.data());
    fs::write(process.join("exe"), "").unwrap();
    assert!(unclear(&machine).contains("process 83 (db)"));
    symlink(machine.data().join("base/5/1259"), process.join("fd/4")).unwrap();
    assert!(matches!(machine.search(), Search::Server { pid: 83, .. }));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn process_with_more_open_files_than_are_examined_is_not_ruled_out() {
    let machine = Machine::new();
    let process = machine.process(84, "db", &machine.data());
    let open = |range: std::ops::Range<u32>| {
        for number in range {
            symlink("/dev/null", process.join(format!("fd/{number}"))).unwrap();
        }
    };
    open(0..4096);
    assert_eq!(machine.search(), Search::None);
    open(4096..4097);
    assert!(unclear(&machine).contains("4096 open files"), "{}", unclear(&machine));
}

#[test]
fn server_is_known_by_the_title_it_gave_itself() {
    // Where it works cannot be seen, and its program has another name.
    let machine = Machine::new();
    let process = machine.process(85, "db", &machine.proc().join("85/cwd"));
    assert_eq!(machine.search(), Search::None);
    for (title, looks) in [
        ("/opt/db/bin/postgres\0-D\0/data\0", true),
        ("postgres: walwriter \0", true),
        ("/usr/bin/vi\0/home/me/postgres.txt\0", false),
        ("/home/postgres/bin/db\0", false),
        ("sshd: postgres@pts/0", false),
        ("", false),
    ] {
        fs::write(process.join("cmdline"), title).unwrap();
        assert_eq!(matches!(machine.search(), Search::Unclear { .. }), looks, "{title:?}");
    }
    let machine = Machine::new();
    let process = machine.process(86, "db", &machine.data());
    fs::write(process.join("cmdline"), "postgres: checkpointer \0").unwrap();
    assert!(matches!(machine.search(), Search::Server { pid: 86, .. }));
}
