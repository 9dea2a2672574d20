//! Rebuilds while system calls of the tool or of the server that replays fail, are interrupted, lie, or are where it is killed: no answer
//! becomes safer, what is examined keeps its bytes, and neither a sandbox nor a server is left that nobody names.
//!
//! Each system call meets each fault at one of its numbers; `EVERY_FAULT=10` takes every tenth of all numbers, which takes long.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::common::{arg, skipped};
use crate::scene::{Ended, PREFIX, Scene, Small, open_directory, real_server};

/// System calls that write, make or remove something.
const CALLS: &str = "write,pwrite64,writev,pwritev,fsync,fdatasync,ftruncate,fallocate,mkdir,mkdirat,lchown,fchown,rename,\
                     renameat,renameat2,unlink,unlinkat,rmdir,linkat,symlink,symlinkat";

/// What happens at a system call, in the words of `strace`.
const FAULTS: [&str; 6] = ["signal=KILL", "error=EIO", "error=ENOSPC", "error=EINTR", "signal=INT", "signal=TERM"];

/// System calls with which the server that replays writes, and what happens at them; two of them say that they did what they did not do.
const FAULTS_OF_SERVER: [(&str, &str); 11] = [
    ("pwrite64", "error=EIO"),
    ("pwrite64", "error=ENOSPC"),
    ("pwrite64", "retval=4096"),
    ("pwrite64", "retval=8192"),
    ("pwrite64", "signal=KILL"),
    ("pread64", "error=EIO"),
    ("pread64", "retval=0"),
    ("write", "error=ENOSPC"),
    ("write", "signal=KILL"),
    ("openat", "error=EMFILE"),
    ("unlink", "error=EROFS"),
];

/// How long a server may go on that lost who started it: until its replay is done.
const LAST_REPLAY: Duration = Duration::from_secs(60);

/// A check that rebuilds, under `strace`; the server that it starts is not traced, so faults are those of the tool alone.
fn traced(scene: &Scene, bin: &Path, log: &Path, fault: Option<&str>) -> Ended {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-b", "execve", "-qq", "-o", arg(log), "-e", &format!("trace={CALLS}")]);
    if let Some(fault) = fault {
        strace.args(["-e", &format!("inject={fault}")]);
    }
    strace.arg(cargo_bin("pg_dwbinspect")).args(scene.arguments("check", Some(bin), &[]));
    scene.start_as(strace).end()
}

/// How often each system call is made by the thread that makes most of them.
fn calls(log: &Path) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(log).expect("log");
    let mut counts = BTreeMap::<(&str, &str), usize>::new();
    for line in text.lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        *counts.entry((call, process)).or_default() += 1;
    }
    let mut most = BTreeMap::<String, usize>::new();
    for ((call, _), count) in counts {
        let most = most.entry(call.to_owned()).or_default();
        *most = count.max(*most);
    }
    most
}

/// Pages by file and block.
fn pages(lines: &[Value]) -> BTreeMap<(String, u64), &Value> {
    let pages = lines.iter().filter(|line| line["type"] == "page");
    pages.map(|page| ((page["path"].as_str().unwrap().to_owned(), page["block"].as_u64().unwrap()), page)).collect()
}

/// Lines without the paths of the case, which each copy of it has its own of.
fn without_paths(scene: &Scene, lines: &[Value]) -> Vec<Value> {
    let root = scene.case.cluster().parent().unwrap().to_owned();
    let text = |line: &Value| line.to_string().replace(arg(&root), "CASE");
    lines.iter().map(|line| serde_json::from_str(&text(line)).unwrap()).collect()
}

/// What is answered without a fault: with a rebuild, and without one.
struct Answers {
    whole: Ended,
    plain: Ended,
}

impl Answers {
    fn of(scene: &Scene, bin: &Path, log: &Path) -> Self {
        let mut whole = traced(scene, bin, log, None);
        whole.lines = without_paths(scene, &whole.lines);
        scene.assert_nothing_happened("whole");
        let mut plain = Command::new(cargo_bin("pg_dwbinspect"));
        plain.args(scene.arguments("check", None, &[]).iter().filter(|word| *word != "--rebuild"));
        let mut plain = scene.start_as(plain).end();
        plain.lines = without_paths(scene, &plain.lines);
        let rebuilt = |ended: &Ended| ended.verdicts().into_iter().filter(|verdict| *verdict == "rebuild").count();
        assert_eq!((rebuilt(&whole), rebuilt(&plain)), (18, 0), "{}", whole.errors);
        assert_eq!((whole.verdicts().len(), plain.verdicts().len()), (20, 20), "{}", plain.errors);
        Self { whole, plain }
    }
}

/// The answer of a run with a fault, compared with those without.
fn assert_no_safer(answers: &Answers, ended: &Ended, fault: &str, what: &str) {
    let whole = &answers.whole;
    let (with, without) = (pages(&whole.lines), pages(&answers.plain.lines));
    for (page, line) in pages(&ended.lines) {
        let is_of = |all: &BTreeMap<(String, u64), &Value>| {
            all.get(&page).is_some_and(|of| of["verdict"] == line["verdict"] && of["chosen"] == line["chosen"])
        };
        assert!(is_of(&with) || is_of(&without), "{what}: {page:?}: {line}");
    }
    if ended.lines == whole.lines {
        // What prints the last line may still be told of a fault after it.
        let same = ended.status.code() == whole.status.code();
        assert!(same || ended.status.code() == Some(2) || fault.starts_with("signal="), "{what}: {:?}", ended.status);
        return;
    }
    assert_ne!(ended.status.code(), Some(0), "{what}");
    let is_ended_by_signal = fault.starts_with("signal=") && ended.status.signal().is_some();
    let is_told = ended.has("finding", "kind", "not_rebuilt")
        || ended.has("skipped", "code", "interrupted")
        || ended.lines.iter().any(|line| line["build_failure"].is_string());
    assert!(is_ended_by_signal || is_told || !ended.errors.is_empty(), "{what}: nothing is told of it");
    if ended.has("skipped", "code", "interrupted") {
        assert_eq!(ended.status.code(), Some(2), "{what}");
    }
}

/// What is left in the file system, and whether somebody names it.
fn assert_nothing_unnamed_is_left(
    scene: &Scene,
    bin: &Path,
    answers: &Answers,
    ended: &Ended,
    fault: &str,
    what: &str,
) {
    scene.assert_untouched(what, LAST_REPLAY);
    let left = scene.sandboxes();
    if left.is_empty() {
        return;
    }
    let names: Vec<_> = left.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert!(names.len() == 1 && names[0].starts_with(PREFIX), "{what}: {names:?}");
    if fault == "signal=KILL" {
        // It is in nobody's way.
        let mut next = scene.start("check", Some(bin), &[]).end();
        next.lines = without_paths(scene, &next.lines);
        assert!(next.lines == answers.whole.lines, "{what}: the next run");
        assert_eq!(scene.sandboxes(), left, "{what}: the next run");
    } else {
        let text: String = ended.lines.iter().map(Value::to_string).chain([ended.errors.clone()]).collect();
        assert!(text.contains(names[0]), "{what}: {} is left and not named: {}", names[0], ended.errors);
    }
    fs::remove_dir_all(&left[0]).unwrap();
}

fn can_trace(scene: &Scene) -> bool {
    let log = scene.bin.path().join("strace");
    let mut can = Command::new("strace");
    can.args(["-f", "-b", "execve", "-qq", "-o", arg(&log)]);
    can.args(["-e", "inject=fsync:error=EIO:when=1", "true"]).output().is_ok_and(|output| output.status.success())
}

/// Of how many numbers of a system call one is tried, where not only one is.
fn every_fault() -> Option<usize> {
    std::env::var("EVERY_FAULT").ok().and_then(|text| text.parse().ok())
}

/// The faults to be tried: system call, fault, number of the call.
fn cases(calls: &BTreeMap<String, usize>) -> Vec<(String, &'static str, usize)> {
    let every = every_fault();
    let mut cases = Vec::new();
    for (call, count) in calls {
        for fault in FAULTS {
            // Each fault at another of the calls.
            let number = 1 + cases.len() * 37 % count;
            match every {
                None => cases.push((call.clone(), fault, number)),
                Some(step) => cases.extend((1..=*count).step_by(step).map(|number| (call.clone(), fault, number))),
            }
        }
    }
    cases
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_fault_while_a_sandbox_is_made_used_and_removed() {
    let scene = Scene::new();
    let Some(bin) = real_server(&scene) else { return };
    if !can_trace(&scene) {
        return skipped("strace cannot inject faults here");
    }
    let log = scene.bin.path().join("strace");
    let answers = Answers::of(&scene, &bin, &log);
    let calls = calls(&log);
    let enough = calls["mkdir"] > 5 && calls["pwrite64"] > 10 && calls["ftruncate"] > 5 && calls["unlinkat"] > 10;
    assert!(enough && calls["write"] > 5, "{calls:?}");
    let cases = cases(&calls);
    let (next, reached, changed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, |count| count.get().min(4)) {
            scope.spawn(|| {
                let scene = Scene::new();
                let log = scene.bin.path().join("strace");
                while let Some((call, fault, number)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let what = format!("{call} number {number}, {fault}");
                    let mut ended = traced(&scene, &bin, &log, Some(&format!("{call}:{fault}:when={number}")));
                    ended.lines = without_paths(&scene, &ended.lines);
                    let told = fs::read_to_string(&log).unwrap();
                    reached.fetch_add(
                        usize::from(told.contains("INJECTED") || told.contains(" --- SIG")),
                        Ordering::Relaxed,
                    );
                    changed.fetch_add(usize::from(ended.lines != answers.whole.lines), Ordering::Relaxed);
                    assert_no_safer(&answers, &ended, fault, &what);
                    assert_nothing_unnamed_is_left(&scene, &bin, &answers, &ended, fault, &what);
                }
            });
        }
    });
    let (all, reached, changed) = (cases.len(), reached.into_inner(), changed.into_inner());
    assert!(all >= 30 && reached * 10 >= all * 9 && changed * 2 >= all, "{all} faults, {reached} met, {changed} told");
}

/// The server that replays, under `strace`; the tool is not traced.
fn traced_server(scene: &Scene, real: &Path, log: &Path, fault: Option<&str>) -> Ended {
    let inject = fault.map_or(String::new(), |fault| format!("-e inject={fault}"));
    let calls = "trace=pwrite64,pread64,write,openat,unlink";
    let script = format!(
        "exec strace -A -f --seccomp-bpf -qq -o '{}' -e {calls} {inject} '{}' \"$@\"",
        log.display(),
        real.display()
    );
    // The server runs more than once.
    if log.exists() {
        fs::remove_file(log).unwrap();
    }
    let mut ended = scene.check(scene.fake(&script));
    ended.lines = without_paths(scene, &ended.lines);
    ended
}

/// No page is taken from a server that did not write it.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_fault_while_the_server_replays() {
    let scene = Scene::new();
    let Some(bin) = real_server(&scene) else { return };
    if !can_trace(&scene) {
        return skipped("strace cannot inject faults here");
    }
    let real = bin.join("postgres");
    let mut answers = Answers::of(&scene, &bin, &scene.bin.path().join("strace"));
    // Where whoever runs the server may write.
    let logs = open_directory();
    fs::set_permissions(logs.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let log = logs.path().join("log");
    // It says another minor version.
    let whole = traced_server(&scene, &real, &log, None);
    assert_eq!(whole.verdicts(), answers.whole.verdicts(), "{}", whole.errors);
    answers.whole = whole;
    let counts = calls(&log);
    let (mut all, mut reached, mut changed) = (0, 0, 0);
    for (call, fault) in FAULTS_OF_SERVER {
        let count = counts[call];
        let (first, step) = every_fault().map_or((count.div_ceil(4), count), |step| (1, step));
        for number in (first..=count).step_by(step) {
            let what = format!("{call} number {number} of {count} of the server, {fault}");
            let ended = traced_server(&scene, &real, &log, Some(&format!("{call}:{fault}:when={number}")));
            let told = fs::read_to_string(&log).unwrap();
            all += 1;
            reached += usize::from(told.contains("INJECTED") || told.contains("SIG"));
            changed += usize::from(ended.lines != answers.whole.lines);
            assert_no_safer(&answers, &ended, fault, &what);
            scene.assert_nothing_happened(&what);
        }
    }
    assert!(all > 8 && reached * 10 >= all * 8 && changed * 4 >= all, "{all} faults, {reached} met, {changed} told");
}

#[test]
fn a_sandbox_on_a_file_system_that_is_read_only_builds_nothing() {
    let scene = Scene::new();
    let Some(bin) = real_server(&scene) else { return };
    let Some(small) = Small::of("64m") else { return };
    let place: PathBuf = small.0.path().to_owned();
    let remounted = Command::new("mount").args(["-o", "remount,ro", arg(&place)]).status();
    assert!(remounted.is_ok_and(|status| status.success()));
    let ended = scene.start("check", Some(&bin), &["--sandbox", arg(&place)]).end();
    scene.assert_nothing_happened("read only");
    assert!(!ended.verdicts().contains(&"rebuild"), "{}", ended.errors);
    assert_ne!(ended.status.code(), Some(0));
    assert!(ended.has("finding", "kind", "not_rebuilt") || !ended.errors.is_empty(), "{:#?}", ended.lines);
}
