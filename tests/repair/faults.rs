//! Repair, resume and undo while system calls fail, are interrupted, or are where the program is killed: afterwards every
//! page has exactly its old or its new bytes, and the journal leads to either. Also files that are swapped meanwhile, two
//! repairs at once, and a file system that is read only.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::common;
use crate::common::{arg, cluster, copy_of, copy_tree, dwbinspect, skipped};
use assert_cmd::cargo::cargo_bin;
use rustix::fs::{CWD, RenameFlags, mkfifoat, renameat_with};

/// Two of the six pages of the cluster `checkpoint` that can be put back, and their files.
const PAGES: [&str; 4] = ["--page", "base/5/1259:0", "--page", "base/5/2663:1"];
const FILES: [&str; 2] = ["base/5/1259", "base/5/2663"];

/// System calls that write, or make what was written durable.
const CALLS: &str =
    "write,pwrite64,writev,pwritev,fsync,fdatasync,ftruncate,mkdirat,mkdir,renameat,renameat2,unlinkat,linkat";

/// The call says that a page was written, and nothing was.
const WRITES_NOTHING: &str = "retval=8192";

/// Signals that the program catches.
const CAUGHT: [&str; 2] = ["signal=INT", "signal=TERM"];

/// What happens at a system call, in the words of `strace`.
const FAULTS: [&str; 7] =
    ["signal=KILL", "error=EIO", "error=ENOSPC", "error=EINTR", CAUGHT[0], CAUGHT[1], WRITES_NOTHING];

/// A copy of the cluster with the bytes before and after a repair.
struct Crashed {
    keep: tempfile::TempDir,
    data: PathBuf,
}

/// What the files of the pages hold.
type Bytes = Vec<Vec<u8>>;

impl Crashed {
    fn new() -> Self {
        let (keep, data) = copy_of("checkpoint");
        Self { keep, data }
    }

    fn journal(&self) -> PathBuf {
        self.keep.path().join("journal")
    }

    fn bytes(&self) -> Bytes {
        FILES.map(|file| fs::read(self.data.join(file)).expect("read")).into()
    }

    fn put(&self, bytes: &Bytes) {
        for (file, bytes) in FILES.iter().zip(bytes) {
            fs::write(self.data.join(file), bytes).expect("write");
        }
    }

    fn put_journal(&self, from: Option<&Path>) {
        let journal = self.journal();
        if journal.exists() {
            fs::remove_dir_all(&journal).expect("remove");
        }
        if let Some(from) = from {
            copy_tree(from, &journal);
        }
    }

    fn args(&self, phase: Phase) -> Vec<String> {
        let journal = self.journal();
        let (data, journal) = (arg(&self.data), arg(&journal));
        let words: &[&str] = match phase {
            Phase::Apply => &[&["repair", data, "--apply", "--journal", journal], &PAGES[..]].concat(),
            // The journal may be a copy of one that was made of another copy of the cluster.
            Phase::Resume => &["repair", data, "--resume", journal, "--moved"],
            Phase::Undo => &["undo", data, journal, "--moved"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn run(&self, phase: Phase) -> common::Ran {
        dwbinspect(&self.args(phase).iter().map(String::as_str).collect::<Vec<_>>())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Apply,
    Resume,
    Undo,
}

impl Phase {
    /// The exit status when all was done. Four other pages of the cluster stay damaged, which a check after the repair says.
    const fn success(self) -> i32 {
        match self {
            Self::Apply => 1,
            Self::Resume | Self::Undo => 0,
        }
    }
}

/// The cluster before and after, and a journal of which no page was written yet.
struct Expected {
    old: Bytes,
    new: Bytes,
    /// Where the journal is that was not begun.
    fresh: PathBuf,
    /// Where the journal is that was carried out.
    done: PathBuf,
    _keep: tempfile::TempDir,
}

impl Expected {
    fn new() -> Self {
        let crashed = Crashed::new();
        let old = crashed.bytes();
        let ran = crashed.run(Phase::Apply);
        assert_eq!(ran.status, Phase::Apply.success(), "{}", ran.stderr);
        let new = crashed.bytes();
        for (old, new) in old.iter().zip(&new) {
            let changed: Vec<_> = old.chunks(8192).zip(new.chunks(8192)).filter(|(old, new)| old != new).collect();
            assert_eq!(changed.len(), 1, "one page of each file is put back");
        }
        let keep = tempfile::tempdir().expect("temporary directory");
        let (done, fresh) = (keep.path().join("done"), keep.path().join("fresh"));
        copy_tree(&crashed.journal(), &done);
        copy_tree(&crashed.journal(), &fresh);
        fs::remove_file(fresh.join("audit.ndjson")).expect("log of the journal");
        Self { old, new, fresh, done, _keep: keep }
    }

    /// Makes the copy ready for a phase.
    fn prepare(&self, crashed: &Crashed, phase: Phase) {
        let (bytes, journal) = match phase {
            Phase::Apply => (&self.old, None),
            Phase::Resume => (&self.old, Some(self.fresh.as_path())),
            Phase::Undo => (&self.new, Some(self.done.as_path())),
        };
        crashed.put(bytes);
        crashed.put_journal(journal);
    }
}

/// Runs the program under `strace`, with a fault or without. `None`: it was ended by a signal.
fn traced(args: &[String], log: &Path, fault: Option<&str>) -> Option<i32> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", arg(log), "-e", &format!("trace={CALLS}")]);
    // Four times as fast, but strace injects no signals then.
    if !fault.is_some_and(|fault| fault.contains("signal=")) {
        command.arg("--seccomp-bpf");
    }
    if let Some(fault) = fault {
        command.args(["-e", &format!("inject={fault}")]);
    }
    command.arg(cargo_bin("pg_dwbinspect")).args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().expect("strace runs");
    assert!(status.signal().is_none_or(|signal| [2, 9, 15].contains(&signal)), "{status}");
    status.code()
}

/// How often the program makes each system call, in the thread that makes most.
fn calls(crashed: &Crashed, phase: Phase) -> BTreeMap<String, usize> {
    let log = crashed.keep.path().join("strace");
    assert_eq!(traced(&crashed.args(phase), &log, None), Some(phase.success()));
    let text = fs::read_to_string(&log).expect("log");
    let mut counts = BTreeMap::<(String, String), usize>::new();
    for line in text.lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        *counts.entry((call.to_owned(), process.to_owned())).or_default() += 1;
    }
    let mut most = BTreeMap::<String, usize>::new();
    for ((call, _), count) in counts {
        let most = most.entry(call).or_default();
        *most = count.max(*most);
    }
    most
}

fn can_trace() -> bool {
    let can = Command::new("strace").args(["-qq", "-e", "inject=fsync:error=EIO:when=1", "true"]).output();
    can.is_ok_and(|output| output.status.success())
}

/// After a fault: nothing is half done, and the journal leads to the new and to the old bytes.
fn assert_both_ways(crashed: &Crashed, expected: &Expected, what: &str) {
    let (now, saved) = (crashed.bytes(), tempfile::tempdir().expect("temporary directory"));
    for ((now, old), new) in now.iter().zip(&expected.old).zip(&expected.new) {
        assert!(now == old || now == new, "{what}: bytes that are neither the old nor the new ones");
    }
    let journal = crashed.journal().exists().then(|| saved.path().join("journal"));
    if let Some(journal) = &journal {
        copy_tree(&crashed.journal(), journal);
    }
    let resumed = crashed.run(Phase::Resume);
    if resumed.status == 0 {
        assert!(crashed.bytes() == expected.new, "{what}: resumed");
    } else {
        // A journal that was not whole: nothing had been written, and nothing is.
        assert!(resumed.status == 2 && now == expected.old, "{what}: not resumed: {}", resumed.stderr);
        assert!(crashed.bytes() == expected.old, "{what}: resumed in part");
    }
    crashed.put(&now);
    crashed.put_journal(journal.as_deref());
    let undone = crashed.run(Phase::Undo);
    assert!(undone.status == resumed.status, "{what}: resume {}, undo {}", resumed.status, undone.stderr);
    assert!(crashed.bytes() == expected.old, "{what}: undone");
    if resumed.status != 0 {
        crashed.put_journal(None);
        let again = crashed.run(Phase::Apply);
        assert!(
            again.status == Phase::Apply.success() && crashed.bytes() == expected.new,
            "{what}: begun anew: {}",
            again.stderr
        );
    }
}

/// Every fault at every system call of a phase.
fn every_fault(phase: Phase) {
    if !can_trace() {
        return skipped("strace cannot inject faults here");
    }
    let expected = Expected::new();
    let whole = Crashed::new();
    expected.prepare(&whole, phase);
    let calls = calls(&whole, phase);
    assert!(calls["pwrite64"] == 2 && calls["fsync"] >= 4 && calls["write"] >= 4, "{calls:?}");
    let mut cases = Vec::new();
    for (call, count) in &calls {
        for fault in FAULTS {
            let is_page = call == "pwrite64";
            // A signal that is caught is asked for between pages.
            if (fault == WRITES_NOTHING && !is_page) || (CAUGHT.contains(&fault) && !is_page && call != "fsync") {
                continue;
            }
            cases.extend((1..=*count).map(|number| (call.as_str(), fault, number)));
        }
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, |count| count.get().min(8)) {
            scope.spawn(|| {
                let crashed = Crashed::new();
                let log = crashed.keep.path().join("strace");
                while let Some((call, fault, number)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let what = format!("{phase:?}, {call} number {number}, {fault}");
                    expected.prepare(&crashed, phase);
                    let status = traced(&crashed.args(phase), &log, Some(&format!("{call}:{fault}:when={number}")));
                    let goal = if phase == Phase::Undo { &expected.old } else { &expected.new };
                    if status == Some(phase.success()) {
                        assert!(crashed.bytes() == *goal, "{what}: success is told and is none");
                    }
                    if *fault == "error=EINTR" && call != &"mkdirat" {
                        assert_eq!(status, Some(phase.success()), "{what}: what was interrupted is done again");
                    }
                    if *fault == "signal=KILL" {
                        assert_eq!(status, None, "{what}: not reached");
                    }
                    assert_both_ways(&crashed, &expected, &what);
                }
                assert_rest_untouched(&crashed);
            });
        }
    });
    assert!(cases.len() >= 60, "{calls:?}");
}

/// Every file of the cluster but those of the pages is what it was.
fn assert_rest_untouched(crashed: &Crashed) {
    fn list(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("list").map(|entry| entry.expect("entry")) {
            if entry.file_type().expect("type").is_dir() {
                list(&entry.path(), files);
            } else {
                files.push(entry.path());
            }
        }
    }
    let (first, mut now) = (cluster("checkpoint"), Vec::new());
    list(&crashed.data, &mut now);
    let mut before = Vec::new();
    list(&first, &mut before);
    assert_eq!(now.len(), before.len());
    for path in now {
        let name = path.strip_prefix(&crashed.data).expect("below");
        if !FILES.iter().any(|file| name == Path::new(file)) && !path.is_symlink() {
            assert!(fs::read(&path).expect("read") == fs::read(first.join(name)).expect("read"), "{}", name.display());
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_fault_while_pages_are_repaired() {
    every_fault(Phase::Apply);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_fault_while_a_repair_is_resumed() {
    every_fault(Phase::Resume);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_fault_while_a_repair_is_undone() {
    every_fault(Phase::Undo);
}

/// While pages are written, their file is swapped in a loop for something else of the same name.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn files_that_are_swapped_meanwhile_are_not_written_through() {
    let expected = Expected::new();
    let crashed = Crashed::new();
    let file = crashed.data.join(FILES[0]);
    let decoy = crashed.data.join("base/5/decoy");
    let outside = crashed.keep.path().join("outside");
    for kind in ["link", "pipe", "directory", "file"] {
        for phase in [Phase::Apply, Phase::Resume, Phase::Undo].repeat(3) {
            let what = format!("{kind}, {phase:?}");
            expected.prepare(&crashed, phase);
            fs::write(&outside, &expected.old[0]).expect("write");
            match kind {
                "link" => symlink(&outside, &decoy).expect("link"),
                "pipe" => mkfifoat(CWD, &decoy, 0o600.into()).expect("pipe"),
                "directory" => fs::create_dir(&decoy).expect("directory"),
                _ => fs::write(&decoy, "somebody else's").expect("write"),
            }
            let swap = || renameat_with(CWD, &file, CWD, &decoy, RenameFlags::EXCHANGE).expect("swap");
            let ended = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        swap();
                        thread::yield_now();
                        swap();
                    }
                });
                crashed.run(phase);
                ended.store(true, Ordering::Relaxed);
            });
            assert!(fs::read(&outside).expect("read") == expected.old[0], "{what}: written through a link");
            match kind {
                "directory" => fs::remove_dir(&decoy).expect("nothing was put into it"),
                "file" => {
                    assert_eq!(fs::read_to_string(&decoy).expect("read"), "somebody else's", "{what}");
                    fs::remove_file(&decoy).expect("remove");
                }
                _ => fs::remove_file(&decoy).expect("remove"),
            }
            if phase == Phase::Apply {
                // The plan has the pages that were there when it was made.
                let is_old_or_new = |(now, pages): (&Vec<u8>, [&Vec<u8>; 2])| pages.contains(&now);
                let pages = expected.old.iter().zip(&expected.new).map(<[_; 2]>::from);
                assert!(crashed.bytes().iter().zip(pages).all(is_old_or_new), "{what}");
                let undone = crashed.journal().exists().then(|| crashed.run(Phase::Undo).status);
                assert!(undone.is_none_or(|status| status != 1) && crashed.bytes() == expected.old, "{what}");
            } else {
                assert_both_ways(&crashed, &expected, &what);
            }
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn of_two_repairs_at_once_one_writes() {
    let expected = Expected::new();
    let crashed = Crashed::new();
    for turn in 0..6 {
        expected.prepare(&crashed, Phase::Apply);
        let journals = ["one", "two"].map(|name| crashed.keep.path().join(format!("{name}{turn}")));
        let statuses: Vec<i32> = thread::scope(|scope| {
            let runs = journals.each_ref().map(|journal| {
                let crashed = &crashed;
                scope.spawn(move || {
                    let args = ["repair", arg(&crashed.data), "--apply", "--journal", arg(journal)];
                    dwbinspect(&[&args[..], &PAGES].concat()).status
                })
            });
            runs.into_iter().map(|run| run.join().expect("run")).collect()
        });
        assert!(statuses.contains(&Phase::Apply.success()), "{statuses:?}");
        assert!(crashed.bytes() == expected.new, "{statuses:?}");
        let whole: Vec<_> = journals.iter().filter(|journal| journal.join("audit.ndjson").exists()).collect();
        let [journal] = whole[..] else { panic!("{statuses:?}: {whole:?}") };
        let undone = dwbinspect(&["undo", arg(&crashed.data), arg(journal)]);
        assert!(undone.status == 0 && crashed.bytes() == expected.old, "{}", undone.stderr);
    }
}

#[test]
fn read_only_file_systems_are_told_before_anything_is_written() {
    let (expected, crashed) = (Expected::new(), Crashed::new());
    let mount = crashed.keep.path().join("mount");
    fs::create_dir(&mount).expect("directory");
    let program = cargo_bin("pg_dwbinspect");
    // In a name space of its own: the mount goes away with the program.
    let mounted = |args: &[&str]| {
        let script = "mount --bind \"$1\" \"$2\" && mount -o remount,ro,bind \"$2\" || exit 77; shift 2; exec \"$@\"";
        Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh", arg(&crashed.data), arg(&mount)])
            .args(args)
            .output()
            .ok()
    };
    if !mounted(&["true"]).is_some_and(|output| output.status.success()) {
        return skipped("nothing can be mounted here");
    }
    let journal = crashed.journal();
    let args = [arg(&program), "repair", arg(&mount), "--apply", "--journal", arg(&journal)];
    let output = mounted(&[&args[..], &PAGES].concat()).expect("program runs");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(crashed.bytes() == expected.old && !journal.exists());
    expected.prepare(&crashed, Phase::Undo);
    let output = mounted(&[arg(&program), "undo", arg(&mount), arg(&journal), "--moved"]).expect("program runs");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(crashed.bytes() == expected.new);
    assert_both_ways(&crashed, &expected, "read only");
}

/// Half of a plan, a report or a page under its name would be taken for all of it.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn nothing_stays_of_a_new_file_that_cannot_be_written_whole() {
    if !can_trace() {
        return skipped("strace cannot inject faults here");
    }
    let crashed = Crashed::new();
    let keep = crashed.keep.path();
    let (plan, report, images) = (keep.join("plan.json"), keep.join("report.html"), keep.join("images"));
    let runs: [(&[&str], &Path, &[&str]); 3] = [
        (&["repair", arg(&crashed.data), "--plan", arg(&plan)], &plan, &["write:error=ENOSPC", "fsync:error=EIO"]),
        (
            &["report", arg(&crashed.data), "--output", arg(&report)],
            &report,
            &["write:error=ENOSPC", "fsync:error=EIO"],
        ),
        (&["dump", arg(&crashed.data), "--slots", "0-0", "--images", arg(&images)], &images, &["write:error=EIO"]),
    ];
    for (args, made, faults) in runs {
        let whole = dwbinspect(args);
        let first =
            || fs::read_dir(made).map_or(made.to_owned(), |mut all| all.next().expect("a file").expect("entry").path());
        let file = first();
        assert!(file.is_file(), "{args:?}: {}", whole.stderr);
        fs::remove_file(&file).expect("remove");
        for fault in faults {
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-o", "/dev/null", "-P", arg(&file), "-e", "trace=write,fsync"]);
            command.args(["-e", &format!("inject={fault}")]).arg(cargo_bin("pg_dwbinspect")).args(args);
            let output = command.output().expect("strace runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(2), "{args:?} {fault}: {said}");
            assert!(!file.exists(), "{args:?} {fault}: {said}");
            assert!(said.contains("cannot write") || said.contains("cannot sync"), "{args:?} {fault}: {said}");
        }
    }
}
