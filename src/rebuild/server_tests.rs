#![allow(clippy::disallowed_methods, reason = "tests make what they examine")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{getegid, test_kill_process_group};
use tempfile::TempDir;

use super::*;

fn own() -> Owner {
    Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory that everybody may enter, with a program that is a script.
fn program(script: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    set_mode(directory.path(), 0o755);
    let path = directory.path().join(PROGRAM);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    set_mode(&path, 0o755);
    (directory, path)
}

fn says(version: &str) -> (TempDir, PathBuf) {
    program(&format!("echo 'postgres (PostgreSQL) {version}'"))
}

fn version_of(text: &str) -> Option<Result<(u32, String), String>> {
    let (_directory, path) = says(text);
    ask_version(&path, own()).map(|found| found.map(|version| (version.major.number(), version.number)))
}

#[test]
fn versions_as_servers_print_them() {
    let known = |number: u32, text: &str| Some(Ok((number, text.to_owned())));
    assert_eq!(version_of("15.18 (Debian 15.18-1.pgdg13+1)"), known(15, "15.18"));
    assert_eq!(version_of("10.23"), known(10, "10.23"));
    assert_eq!(version_of("19devel"), known(19, "19devel"));
    assert_eq!(version_of("18beta1"), known(18, "18beta1"));
    assert_eq!(version_of("9.6.24"), Some(Err("9.6.24".to_owned())));
    assert_eq!(version_of("99devel"), Some(Err("99devel".to_owned())));
    for silent in ["exit 0", "echo 15.2", "echo 'postgres (PostgreSQL) 15.2'; exit 1"] {
        let (_directory, path) = program(silent);
        assert_eq!(ask_version(&path, own()), None, "{silent}");
    }
}

#[test]
fn directory_that_the_user_named_is_the_only_one_that_is_searched() {
    let data = tempfile::tempdir().unwrap();
    let find = |directory: &Path| find_server(Major::OLDEST, Some(directory), data.path());
    let (directory, path) = says("10.1");
    assert_eq!(find(directory.path()).unwrap().path, path);
    let (directory, path) = says("15.2");
    let other = NoServer::OtherMajor { path, found: "15.2".to_owned(), expected: Major::OLDEST };
    assert_eq!(find(directory.path()), Err(other));
    let (directory, path) = program("exit 0");
    assert_eq!(find(directory.path()), Err(NoServer::NoVersion { path }));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(find(empty.path()), Err(NoServer::NotThere { path: empty.path().join(PROGRAM) }));
}

#[test]
fn program_that_the_cluster_names_is_run_only_when_nobody_else_can_change_it() {
    // Root runs it as another user.
    let marks = tempfile::tempdir().unwrap();
    set_mode(marks.path(), 0o777);
    let mark = marks.path().join("was_run");
    let (directory, path) = program(&format!("touch {}; echo 'postgres (PostgreSQL) 10.1'", mark.display()));
    let data = tempfile::tempdir().unwrap();
    let opts = |text: &str| fs::write(data.path().join("postmaster.opts"), text).unwrap();
    let find = || find_server(Major::OLDEST, None, data.path());
    opts(&format!("{} \"-D\" \"/somewhere\"\n", path.display()));
    assert_eq!(find().unwrap().path, path);
    assert!(mark.exists());
    for (changed, mode, usual) in
        [(path.as_path(), 0o757, 0o755), (&path, 0o775, 0o755), (directory.path(), 0o777, 0o755)]
    {
        set_mode(changed, mode);
        fs::remove_file(&mark).unwrap_or_default();
        match find() {
            Err(NoServer::NotFound { not_trusted, .. }) => assert_eq!(not_trusted.as_ref(), Some(&path)),
            Ok(found) => assert_ne!(found.path, path, "one of the usual places"),
            Err(other) => panic!("{other:?}"),
        }
        assert!(!mark.exists(), "{} with mode {mode:o}", changed.display());
        set_mode(changed, usual);
    }
    // A link with another name, a path that depends on the directory, something else.
    for text in ["", "postgres \"-D\"", "./postgres", "/bin/sh \"-D\"", "/nowhere/postgres", "\0\u{fffd}"] {
        opts(text);
        assert!(find().map_or(true, |found| found.path != path), "{text:?}");
    }
    fs::rename(&path, directory.path().join("other")).unwrap();
    opts(&format!("{}/postmaster -D /somewhere\n", directory.path().display()));
    assert!(find().map_or(true, |found| found.path.parent() != Some(directory.path())));
}

/// A server that is a script: how it ends, and whether anything of its group is left.
fn run(script: &str, limit: Duration, watch: &dyn Fn() -> ControlFlow<()>) -> (ServerRun, bool) {
    let (directory, path) = program(&format!("echo $$ >&2\n{script}"));
    let version = ServerVersion { major: Major::NEWEST, number: "19".to_owned() };
    let log = directory.path().join("log");
    let ended = ServerProgram { path, version }.run(Path::new("/"), &log, own(), limit, watch).unwrap();
    let group = fs::read_to_string(&log).unwrap().lines().next().and_then(|line| line.parse().ok());
    let group = group.and_then(Pid::from_raw).expect("the script says its number");
    // Killed processes go away when somebody has waited for them.
    let begin = Instant::now();
    while test_kill_process_group(group).is_ok() && begin.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(PAUSE);
    }
    (ended, test_kill_process_group(group).is_ok())
}

const PATIENT: Duration = Duration::from_secs(60);

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn end_of_a_server_is_told_with_what_it_said() {
    let (ServerRun::Ended(failure), _) = run("echo out; echo err >&2; exit 3", PATIENT, &go_on) else { panic!() };
    assert_eq!(failure.end, ServerEnd::Exit(3));
    assert_eq!(failure.log.lines().skip(1).collect::<Vec<_>>(), ["out", "err"]);
    let (ServerRun::Ended(failure), _) = run("kill -9 $$", PATIENT, &go_on) else { panic!() };
    assert_eq!(failure.end, ServerEnd::Signal(9));
    let (ServerRun::Ended(failure), _) = run("yes 0123456 | head -c 100000", PATIENT, &go_on) else { panic!() };
    assert_eq!(failure.log.len() as u64, MAX_LOG_BYTES);
}

#[test]
fn server_that_hangs_is_killed_with_all_that_it_started() {
    let begin = Instant::now();
    let (ended, is_left) = run("sleep 50 & sleep 50", Duration::from_secs(1), &go_on);
    let ServerRun::Ended(failure) = ended else { panic!() };
    assert_eq!(failure.end, ServerEnd::TimedOut(1));
    assert!(!is_left && begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn server_that_nobody_wants_any_more_is_killed() {
    let begin = Instant::now();
    let watch = || if begin.elapsed() > Duration::from_millis(300) { ControlFlow::Break(()) } else { go_on() };
    let (ended, is_left) = run("sleep 50 & sleep 50", PATIENT, &watch);
    assert_eq!((ended, is_left), (ServerRun::BrokenOff, false));
}

#[test]
fn server_inherits_nothing_of_a_client() {
    let (ServerRun::Ended(failure), _) = run("env; pwd; cat; exit 1", PATIENT, &go_on) else { panic!() };
    let names: Vec<&str> = failure.log.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    // The shell adds its own.
    let known = ["LC_ALL", "TZ", "PATH", "LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.contains(&"LC_ALL") && names.iter().all(|name| known.contains(name)), "{names:?}");
}
