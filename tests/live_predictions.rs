//! Predictions about things other than pages, held against what a live server does.

mod common;
#[path = "common/live.rs"]
mod live;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::{arg, dwbinspect};
use live::Server;
use rustix::process::{Pid, WaitId, WaitIdOptions, geteuid, waitid};
use serde_json::Value;

/// User that servers are run as when the tests run as root.
const NOBODY: u32 = 65_534;

/// A crashed cluster.
fn crashed() -> Option<Server> {
    let server = Server::start("")?;
    server.sql("create table t as select i from generate_series(1, 1000) i;");
    server.stop("immediate");
    Some(server)
}

fn sleeper(user: Option<u32>) -> Child {
    let mut command = Command::new("sleep");
    command.arg("300");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.spawn().unwrap()
}

/// What `check` says, with this number in `postmaster.pid`.
fn told(server: &Server, pid: u32) -> (i32, Value, String) {
    fs::write(server.data().join("postmaster.pid"), format!("{pid}\n{}\n", server.data().display())).unwrap();
    let ran = dwbinspect(&["check", arg(&server.data()), "--format", "ndjson"]);
    let on_start = ran.of_type("summary").pop().unwrap()["on_start"].clone();
    let text = dwbinspect(&["check", "--width", "300", arg(&server.data())]).stdout;
    (ran.status, on_start, text)
}

#[test]
fn number_of_any_process_of_the_user_keeps_a_server_from_starting() {
    let Some(server) = crashed() else { return };
    let user = geteuid().is_root().then_some(NOBODY);
    let mut sleeper = sleeper(user);
    let pid = sleeper.id();
    for is_zombie in [false, true] {
        if is_zombie {
            sleeper.kill().unwrap();
            let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            // Waits for the end, and leaves the process uncollected.
            waitid(WaitId::Pid(raw), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        }
        let (status, on_start, text) = told(&server, pid);
        assert_eq!((status, &on_start["refused_by_pid"]), (1, &pid.into()), "zombie: {is_zombie}: {on_start}");
        assert_eq!(on_start["start"], "completes", "no server runs");
        assert!(!text.contains("may be running") && text.contains("remove postmaster.pid"), "{text}");
        let before = server.log().len();
        assert!(!server.launch(&[]), "zombie: {is_zombie}");
        let log = server.log();
        assert!(log[before..].contains("lock file \"postmaster.pid\" already exists"), "{log}");
    }
    sleeper.wait().unwrap();
    let (_, on_start, text) = told(&server, pid);
    assert!(on_start["refused_by_pid"].is_null() && !text.contains("refuses"), "{text}");
    if user.is_some() {
        // A process of another user, the test itself.
        let (_, on_start, text) = told(&server, std::process::id());
        assert!(on_start["refused_by_pid"].is_null() && !text.contains("refuses"), "{text}");
    }
    let begun = Instant::now();
    assert!(server.launch(&[]), "{}", server.log());
    assert!(begun.elapsed() < Duration::from_secs(120));
}
