//! What keeps `pg_dwbinspect repair --apply` from writing.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common;
use crate::common::{Ran, arg, copy_of, dwbinspect, edit_control, run};

fn apply(data: &Path, flags: &[&str]) -> Ran {
    let journal = data.parent().expect("parent").join("journal");
    let ran = dwbinspect(&[&["repair", arg(data), "--apply", "--journal", arg(&journal)], flags].concat());
    if ran.status == 2 {
        assert!(!journal.exists() || !journal.join("journal.json").exists(), "no journal is left: {}", ran.stderr);
    }
    ran
}

#[test]
fn backup_label_and_signal_files() {
    let (_kept, data) = copy_of("checkpoint");
    fs::write(data.join("backup_label"), "START WAL LOCATION: 0/7FB918 (file 000000010000000000000007)\n")
        .expect("write");
    let ran = apply(&data, &[]);
    assert!(ran.status == 2 && ran.stderr.contains("backup_label"), "{}", ran.stderr);
    fs::remove_file(data.join("backup_label")).expect("remove");
    for name in ["standby.signal", "recovery.signal"] {
        fs::write(data.join(name), "").expect("write");
        let ran = apply(&data, &[]);
        assert!(
            ran.status == 2 && ran.stderr.contains(name) && ran.stderr.contains("--allow-standby"),
            "{}",
            ran.stderr
        );
        fs::remove_file(data.join(name)).expect("remove");
    }
    assert_eq!(apply(&data, &[]).status, 0);
}

#[test]
fn damaged_or_foreign_control_file() {
    let (_kept, data) = copy_of("checkpoint");
    let path = data.join("global/pg_control");
    let sound = fs::read(&path).expect("read");
    let mut damaged = sound.clone();
    damaged[40] ^= 1;
    fs::write(&path, &damaged).expect("write");
    let ran = apply(&data, &[]);
    assert!(ran.status == 2 && ran.stderr.contains("pg_control"), "{}", ran.stderr);
    fs::write(&path, &sound).expect("write");
    fs::write(data.join("PG_VERSION"), "15\n").expect("write");
    let ran = apply(&data, &[]);
    assert!(ran.status == 2 && ran.stderr.contains("version"), "{}", ran.stderr);
}

#[test]
fn cleanly_shut_down_cluster() {
    let (_kept, data) = copy_of("checkpoint");
    // State 1 at byte 16: shut down.
    edit_control(&data, 16, &1_u32.to_le_bytes());
    let ran = apply(&data, &[]);
    assert!(ran.status == 2 && ran.stderr.contains("--allow-shut-down"), "{}", ran.stderr);
}

#[test]
fn running_server_and_left_over_pid_files() {
    let (_kept, data) = copy_of("checkpoint");
    let pid_file = data.join("postmaster.pid");
    // A process that exists and works in the data directory, as a server does.
    let mut sleeper = Command::new("sleep").arg("60").current_dir(&data).spawn().expect("sleep");
    fs::write(&pid_file, format!("{}\n{}\n", sleeper.id(), data.display())).expect("write");
    let ran = apply(&data, &[]);
    sleeper.kill().expect("kill");
    sleeper.wait().expect("wait");
    assert!(ran.status == 2 && ran.stderr.contains("exists and works in this directory"), "{}", ran.stderr);
    fs::write(&pid_file, "garbage\n").expect("write");
    assert_eq!(apply(&data, &[]).status, 2);
    // The process is gone: no server.
    fs::write(&pid_file, format!("{}\n{}\n", i32::MAX, data.display())).expect("write");
    assert_eq!(apply(&data, &[]).status, 0);
}

#[test]
fn two_repairs_at_once() {
    let (_kept, data) = copy_of("checkpoint");
    let held = fs::File::open(&data).expect("open");
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("lock");
    let ran = apply(&data, &[]);
    assert!(ran.status == 2 && ran.stderr.contains("another repair"), "{}", ran.stderr);
    drop(held);
    assert_eq!(apply(&data, &[]).status, 0);
}

#[test]
fn other_owner() {
    if !rustix::process::geteuid().is_root() {
        return common::skipped("only root can give files away");
    }
    let (_kept, data) = copy_of("checkpoint");
    assert!(Command::new("chown").args(["-hR", "65534:65534", arg(&data)]).status().expect("chown").success());
    let ran = apply(&data, &[]);
    assert!(ran.status == 2 && ran.stderr.contains("--allow-other-user"), "{}", ran.stderr);
    // What root is told to run leaves no file that the server cannot read.
    let told = dwbinspect(&["check", arg(&data)]).stdout;
    let command = told.lines().find(|line| line.contains("pg_dwbinspect repair")).expect("a repair").trim();
    assert!(command.starts_with("sudo -u nobody pg_dwbinspect repair "), "{command}");
    assert!(!told.contains("--allow-other-user"), "{told}");
    assert_eq!(apply(&data, &["--allow-other-user"]).status, 0);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn killed_at_any_time_it_is_finished_or_taken_back() {
    let (_kept, data) = copy_of("checkpoint");
    let pages = |data: &Path| -> Vec<Vec<u8>> {
        ["1259", "2619", "2662", "2663", "2665"]
            .map(|file| fs::read(data.join("base/5").join(file)).expect("read"))
            .into()
    };
    let crashed = pages(&data);
    let mut whole = None;
    for round in 0..12_u64 {
        let journal = data.parent().expect("parent").join(format!("journal{round}"));
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("pg_dwbinspect"))
            .args(["repair", arg(&data), "--apply", "--journal", arg(&journal)])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("program runs");
        // From before the journal is begun to after the last page.
        for _ in 0..10_000 {
            if journal.exists() || child.try_wait().expect("wait").is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(round * 9));
        child.kill().expect("kill");
        child.wait().expect("wait");
        if journal.join("journal.json").exists() && round % 2 == 0 {
            let resumed = dwbinspect(&["repair", arg(&data), "--resume", arg(&journal)]);
            assert_eq!(resumed.status, 0, "round {round}: {}", resumed.stderr);
            let now = pages(&data);
            assert_eq!(*whole.get_or_insert(now.clone()), now, "round {round}");
            assert_ne!(now, crashed, "round {round}");
        }
        let undone = dwbinspect(&["undo", arg(&data), arg(&journal)]);
        assert!(
            undone.status == 0 || undone.stderr.contains("no complete journal") || !journal.exists(),
            "{}",
            undone.stderr
        );
        assert_eq!(pages(&data), crashed, "round {round}");
    }
}

/// Runs a shell under the name of a server in a directory, until its input is closed.
fn process_named(name: &str, directory: &Path, program: &Path) -> std::process::Child {
    common::copy_program(Path::new("/bin/sh"), &program.join(name));
    let mut command = Command::new(program.join(name));
    command.args(["-c", "read line"]).current_dir(directory).stdin(std::process::Stdio::piped());
    command.spawn().expect("shell")
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
#[cfg(target_os = "linux")]
fn server_that_the_pid_file_says_nothing_of() {
    let _alone = crate::alone_with_processes();
    let (kept, data) = copy_of("checkpoint");
    let before = fs::read(data.join("base/5/1259")).expect("read");
    let pid_file = data.join("postmaster.pid");
    for pid in [None, Some("1"), Some("2147483647")] {
        match pid {
            None => fs::remove_file(&pid_file).ok(),
            // Numbers of another PID namespace: process 1 is another one here, the other is none.
            Some(pid) => fs::write(&pid_file, format!("{pid}\n{}\n", data.display())).ok(),
        };
        let mut server = process_named("postgres", &data, kept.path());
        let ran = apply(&data, &[]);
        let info = dwbinspect(&["info", arg(&data), "--format", "ndjson"]);
        let check = dwbinspect(&["check", arg(&data), "--format", "ndjson"]);
        server.kill().expect("kill");
        server.wait().expect("wait");
        assert!(
            ran.status == 2 && ran.stderr.contains("(postgres) works in this directory"),
            "{pid:?}: {}",
            ran.stderr
        );
        assert_eq!(fs::read(data.join("base/5/1259")).expect("read"), before, "{pid:?}");
        for ran in [info, check] {
            let findings = ran.of_type("finding");
            assert!(findings.iter().any(|finding| finding["kind"] == "server_running"), "{pid:?}: {}", ran.stdout);
        }
    }
    // A shell that stands in the directory writes nothing.
    let mut shell = process_named("shell", &data, kept.path());
    let ran = apply(&data, &[]);
    shell.kill().expect("kill");
    shell.wait().expect("wait");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

/// The commands that `check` and the plan print are carried out as they stand, without what the guard asks for being
/// looked up first.
#[test]
fn printed_commands_pass_the_guard_of_a_clean_shutdown() {
    // Shut down cleanly; the page's image in the double write buffer is the page as it was.
    let (_kept, data) = copy_of("clean");
    let file = data.join("base/5/16399");
    let whole = fs::read(&file).expect("read");
    let mut damaged = whole.clone();
    damaged[1070 * 8192 + 6000..][..6].copy_from_slice(b"damage");
    fs::write(&file, &damaged).expect("write");
    let checked = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
    let steps = checked.of_type("summary").remove(0)["next"].clone();
    let step = steps.as_array().expect("steps").iter().find(|step| step["step"] == "repair").expect("a step");
    let wanted = format!("pg_dwbinspect repair {} --allow-shut-down --apply", arg(&data));
    let named: Vec<&str> =
        step["commands"].as_array().expect("commands").iter().filter_map(|line| line.as_str()).collect();
    let plan = dwbinspect(&["repair", arg(&data), "-n"]);
    let commands: Vec<&str> =
        plan.stdout.lines().map(str::trim).filter(|line| line.starts_with("pg_dwbinspect ")).collect();
    assert_eq!(commands, [wanted, format!("pg_dwbinspect check {}", arg(&data))], "{}", plan.stdout);
    // The last of those that `check` prints writes the page, as it stands.
    let words: Vec<&str> = named.last().expect("a command").split(' ').skip(1).collect();
    assert!(words.contains(&"--allow-shut-down") && words.contains(&"--apply"), "{named:?}");
    let journal = data.with_file_name("journal");
    let done = dwbinspect(&[&words[..], &["--journal", arg(&journal)]].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(fs::read(&file).expect("read") == whole, "the page is as it was");
}

#[test]
fn clean_shutdown_without_its_checkpoint_record_does_not_start() {
    let (_kept, data) = copy_of("checkpoint");
    edit_control(&data, 16, &1_u32.to_le_bytes());
    fs::remove_dir_all(data.join("pg_wal")).expect("remove");
    let checked = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
    assert_eq!(checked.status, 2, "{}", checked.stderr);
    let summary = checked.of_type("summary").remove(0);
    assert_eq!(summary["on_start"]["start"], "cannot_begin", "{summary}");
    assert!(!summary["next"].to_string().contains("pg_ctl start"), "{summary}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn quiet_gives_the_same_status_and_prints_nothing() {
    let (_kept, data) = copy_of("checkpoint");
    for args in [
        &["check", arg(&data)][..],
        &["verify", arg(&data)],
        &["repair", arg(&data)],
        &["page", arg(&data), "base/5/1259", "0"],
    ] {
        let (loud, quiet) = (dwbinspect(args), dwbinspect(&[args, &["-q"]].concat()));
        assert!(!loud.stdout.is_empty(), "{args:?}");
        assert_eq!((quiet.status, quiet.stdout.as_str()), (loud.status, ""), "{args:?}");
    }
    let args = ["verify", arg(&data)];
    let (loud, quiet) = (run("pg_walfpi", &args), run("pg_walfpi", &[&args[..], &["--quiet"]].concat()));
    assert!(!loud.stdout.is_empty());
    assert_eq!((quiet.status, quiet.stdout.as_str()), (loud.status, ""));
}
