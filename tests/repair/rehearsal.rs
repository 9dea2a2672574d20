//! A rehearsal passes only where the repair passes: what keeps a repair from writing is met without writing.
#![allow(clippy::disallowed_methods, reason = "tests damage what they examine")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;
use crate::common::{copy_of, edit_control};
use pgforensics::inspect::check::{CheckRequest, check};
use pgforensics::inspect::repair::{RepairRequest, carry_out, plan_for, rehearse};
use pgforensics::repair::blocker::Overrides;
use pgforensics::repair::plan::Plan;

/// Owner of nothing.
const NOBODY: u32 = 65_534;

/// Says that this process is the one that a test has started under another user.
const AS_NOBODY: &str = "PGFORENSICS_TEST_AS_NOBODY";

fn request(data: &Path, journal: PathBuf) -> RepairRequest {
    RepairRequest { data_dir: data.to_owned(), jobs: 2, journal: Some(journal), ..RepairRequest::default() }
}

fn plan_of(data: &Path) -> Plan {
    let examined = check(&CheckRequest { jobs: 2, ..CheckRequest::of(data) }, &()).expect("examined");
    let (plan, _) = plan_for(&request(data, data.with_file_name("journal")), &examined).expect("plan");
    assert!(plan.steps.len() > 3, "{}", plan.steps.len());
    plan
}

/// Every file below a directory, with its bytes.
fn files_of(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("list") {
            let path = entry.expect("entry").path();
            match path.symlink_metadata().expect("metadata") {
                metadata if metadata.is_dir() => directories.push(path),
                metadata if metadata.is_file() => files.push((path.clone(), fs::read(&path).expect("read"))),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// The rehearsal and the repair both fail for the same reason, and neither changes or makes anything.
fn assert_both_fail(request: &RepairRequest, plan: &Plan, words: &str) {
    let parent = request.data_dir.parent().expect("parent");
    let before = files_of(parent);
    let rehearsed = rehearse(request, plan, &()).map(drop).expect_err(words).to_string();
    let carried_out = carry_out(request, plan, &()).map(drop).expect_err(words).to_string();
    assert!(rehearsed.contains(words), "{words}: {rehearsed}");
    assert_eq!(rehearsed, carried_out, "{words}");
    assert!(files_of(parent) == before, "{words}: something was written");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn what_forbids_a_repair_is_met_by_its_rehearsal() {
    let (_kept, data) = copy_of("checkpoint");
    let plan = plan_of(&data);
    let beside = |name: &str| data.with_file_name(name);
    let usual = request(&data, beside("journal"));
    let before = files_of(&data);
    rehearse(&usual, &plan, &()).expect("nothing forbids it");
    assert!(files_of(&data) == before && !beside("journal").exists(), "a rehearsal makes nothing");

    // The journal.
    assert_both_fail(&request(&data, data.join("journal")), &plan, "is inside");
    assert_both_fail(&request(&data, beside("nowhere").join("journal")), &plan, "nowhere");
    fs::create_dir(beside("full")).expect("directory");
    fs::write(beside("full").join("file"), "x").expect("write");
    assert_both_fail(&request(&data, beside("full")), &plan, "is not empty");
    fs::create_dir(beside("open")).expect("directory");
    fs::set_permissions(beside("open"), fs::Permissions::from_mode(0o777)).expect("mode");
    assert_both_fail(&request(&data, beside("open")), &plan, "may be written by other users");
    // No more room than a few bytes, and no place for a file: never writable.
    assert_both_fail(&request(&data, PathBuf::from("/proc/journal")), &plan, "/proc");

    // Guards.
    fs::write(data.join("recovery.signal"), "").expect("write");
    assert_both_fail(&usual, &plan, "--allow-standby");
    fs::remove_file(data.join("recovery.signal")).expect("remove");
    let pid_file = fs::read(data.join("postmaster.pid")).ok();
    let mut sleeper = Command::new("sleep").arg("60").current_dir(&data).spawn().expect("sleep");
    fs::write(data.join("postmaster.pid"), format!("{}\n{}\n", sleeper.id(), data.display())).expect("write");
    assert_both_fail(&usual, &plan, "works in this directory");
    sleeper.kill().expect("kill");
    sleeper.wait().expect("wait");
    match pid_file {
        Some(bytes) => fs::write(data.join("postmaster.pid"), bytes).expect("write"),
        None => fs::remove_file(data.join("postmaster.pid")).expect("remove"),
    }
    let held = fs::File::open(&data).expect("open");
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("lock");
    assert_both_fail(&usual, &plan, "another repair");
    drop(held);

    // The files.
    let file = data.join(&plan.steps[0].path);
    fs::rename(&file, beside("moved")).expect("rename");
    symlink(beside("moved"), &file).expect("link");
    assert!(rehearse(&usual, &plan, &()).is_err() && carry_out(&usual, &plan, &()).is_err(), "a link");
    fs::remove_file(&file).expect("remove");
    fs::rename(beside("moved"), &file).expect("rename");
    fs::hard_link(&file, beside("second_name")).expect("link");
    assert_both_fail(&usual, &plan, "several names");
    fs::remove_file(beside("second_name")).expect("remove");
    let mut bytes = fs::read(&file).expect("read");
    let at = usize::try_from(plan.steps[0].page.block).expect("block") * 8192 + 5000;
    bytes[at] ^= 1;
    fs::write(&file, &bytes).expect("write");
    assert_both_fail(&usual, &plan, "changed");
    bytes[at] ^= 1;
    fs::write(&file, &bytes).expect("write");

    // Shut down since.
    let control = fs::read(data.join("global/pg_control")).expect("read");
    edit_control(&data, 16, &1_u32.to_le_bytes());
    assert_both_fail(&usual, &plan, "--allow-shut-down");
    fs::write(data.join("global/pg_control"), control).expect("write");

    // Nothing of all that is left: both pass.
    rehearse(&usual, &plan, &()).expect("nothing forbids it");
    carry_out(&usual, &plan, &()).expect("nothing forbids it");
}

#[test]
fn other_owner_is_met_by_the_rehearsal() {
    if !rustix::process::geteuid().is_root() {
        return common::skipped("only root can give files away");
    }
    let (_kept, data) = copy_of("checkpoint");
    let plan = plan_of(&data);
    chown(&data, Some(NOBODY), Some(NOBODY)).expect("chown");
    let usual = request(&data, data.with_file_name("journal"));
    assert_both_fail(&usual, &plan, "--allow-other-user");
    let allowed = RepairRequest { overrides: Overrides { other_user: true, ..Overrides::default() }, ..usual };
    rehearse(&allowed, &plan, &()).expect("allowed");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn full_file_system_is_met_by_the_rehearsal() {
    let small = tempfile::tempdir().expect("temporary directory");
    let mounted = |word: &str, more: &[&str]| {
        Command::new(word).args(more).arg(small.path()).stderr(std::process::Stdio::null()).status()
    };
    if !mounted("mount", &["-t", "tmpfs", "-o", "size=512k", "tmpfs"]).is_ok_and(|status| status.success()) {
        return common::skipped("a small file system cannot be mounted");
    }
    let (_kept, data) = copy_of("checkpoint");
    let plan = plan_of(&data);
    let usual = request(&data, small.path().join("journal"));
    let failed = std::panic::catch_unwind(|| assert_both_fail(&usual, &plan, "has room for"));
    let status = mounted("umount", &[]).expect("umount");
    assert!(status.success());
    failed.expect("both fail");
}

/// Gives everything below a directory away.
fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("chown");
    if path.is_dir() {
        fs::read_dir(path).expect("list").for_each(|entry| give_away(&entry.expect("entry").path()));
    }
}

/// File modes say nothing to root: then the test runs itself once more as another user.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn modes_of_files_and_directories_are_met_by_the_rehearsal() {
    let _alone = crate::alone_with_processes();
    let data = match std::env::var_os(AS_NOBODY) {
        Some(data) => PathBuf::from(data),
        None if rustix::process::geteuid().is_root() => {
            let (kept, data) = copy_of("checkpoint");
            give_away(kept.path());
            let mut again = Command::new(std::env::current_exe().expect("this program"));
            let this_test = "rehearsal::modes_of_files_and_directories_are_met_by_the_rehearsal";
            again.args(["--exact", this_test, "--include-ignored", "--nocapture"]);
            again.env(AS_NOBODY, &data).current_dir("/").uid(NOBODY).gid(NOBODY);
            let ran = again.output().expect("the same as another user");
            let words = String::from_utf8_lossy(&ran.stdout);
            assert!(
                ran.status.success() && words.contains("1 passed"),
                "{words}\n{}",
                String::from_utf8_lossy(&ran.stderr)
            );
            return;
        }
        None => {
            let (kept, data) = copy_of("checkpoint");
            drop(kept.keep());
            data
        }
    };
    let plan = plan_of(&data);
    let usual = request(&data, data.with_file_name("journal"));
    rehearse(&usual, &plan, &()).expect("nothing forbids it");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
    let file = data.join(&plan.steps[0].path);
    mode(&file, 0o400);
    assert_both_fail(&usual, &plan, &plan.steps[0].path);
    mode(&file, 0o600);
    let above = data.parent().expect("parent");
    mode(above, 0o500);
    assert_both_fail(&usual, &plan, "write into");
    mode(above, 0o700);
    fs::create_dir(data.with_file_name("closed")).expect("directory");
    mode(&data.with_file_name("closed"), 0o500);
    assert_both_fail(&request(&data, data.with_file_name("closed")), &plan, "write into");
    carry_out(&usual, &plan, &()).expect("nothing forbids it");
}
