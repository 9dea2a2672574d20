//! A repair cut off at every moment: it can always be finished, and always be taken back. What changes meanwhile is not
//! written over.
#![allow(clippy::disallowed_methods, reason = "tests make the files that they damage")]

use std::fs;

use super::test_case::*;
use super::*;
use crate::parsers::crc::crc32c;
use crate::repair::plan::PlanPage;

fn moments() -> Vec<Moment> {
    let pages = (0..3).flat_map(|index| [Moment::Before(index), Moment::Written(index)]);
    [Moment::Checked].into_iter().chain(pages).collect()
}

#[test]
fn repair_and_undo_restore_every_byte() {
    let case = Case::new();
    let journal = case.journal();
    assert_eq!(case.run(&journal, Direction::Forward, None).unwrap(), done(&[0, 1, 2], 0));
    assert_eq!(case.content(), case.new);
    assert_eq!(case.run(&journal, Direction::Forward, None).unwrap(), done(&[], 3));
    assert_eq!(case.run(&journal, Direction::Back, None).unwrap(), done(&[0, 1, 2], 0));
    assert_eq!(case.content(), case.old);
}

#[test]
fn bytes_that_are_there_are_written_again() {
    // After a sync that failed or never came they stand in memory only; that they can be read proves nothing.
    for direction in [Direction::Forward, Direction::Back] {
        let case = Case::new();
        let journal = case.journal();
        case.put(if direction == Direction::Forward { &case.new } else { &case.old });
        let file = case.root().join("base/5/1259");
        let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(case.run(&journal, direction, None).unwrap(), done(&[], 3));
        assert!(fs::metadata(&file).unwrap().modified().unwrap() > long_ago, "{direction:?}");
    }
}

#[test]
fn cut_off_at_every_moment_it_is_finished_or_taken_back() {
    for moment in moments() {
        for direction in [Direction::Forward, Direction::Back] {
            let case = Case::new();
            let journal = case.journal();
            let cut = case.run(&journal, Direction::Forward, Some(moment));
            assert!(matches!(cut, Err(ApplyError::CutOff)), "{moment:?}");
            drop(journal);
            let journal = case.open().unwrap();
            case.run(&journal, direction, None).unwrap();
            let expected = if direction == Direction::Forward { &case.new } else { &case.old };
            assert_eq!(&case.content(), expected, "{moment:?} {direction:?}");
        }
    }
}

#[test]
fn undo_that_is_cut_off_is_finished() {
    for moment in moments() {
        let case = Case::new();
        let journal = case.journal();
        case.run(&journal, Direction::Forward, None).unwrap();
        assert!(case.run(&journal, Direction::Back, Some(moment)).is_err());
        case.run(&journal, Direction::Back, None).unwrap();
        assert_eq!(case.content(), case.old, "{moment:?}");
    }
}

#[test]
fn page_whose_write_was_torn_is_finished_and_taken_back() {
    for sectors in 1..16 {
        for direction in [Direction::Forward, Direction::Back] {
            let case = Case::new();
            let journal = case.journal();
            let mut torn = case.old.clone();
            torn[..sectors * 512].copy_from_slice(&case.new[..sectors * 512]);
            case.put(&torn);
            case.run(&journal, direction, None).unwrap();
            let expected = if direction == Direction::Forward { &case.new } else { &case.old };
            assert_eq!(&case.content(), expected, "{sectors} sectors, {direction:?}");
        }
    }
}

#[test]
fn foreign_page_stops_everything_before_the_first_write() {
    let case = Case::new();
    let journal = case.journal();
    let mut foreign = case.old.clone();
    foreign[3 * BLOCK + 100] ^= 1;
    case.put(&foreign);
    for direction in [Direction::Forward, Direction::Back] {
        let refused = case.run(&journal, direction, None);
        let Err(ApplyError::Changed(pages)) = refused else { panic!("{refused:?}") };
        assert_eq!(pages, ["base/5/1259 block 3"]);
        assert_eq!(case.content(), foreign);
    }
    case.put(&case.old[..3 * BLOCK + 10]);
    assert!(case.run(&journal, Direction::Forward, None).is_err(), "file cut short");
}

#[test]
fn page_changed_while_others_are_written_is_left_alone_and_the_others_are_told() {
    let case = Case::new();
    let journal = case.journal();
    let file = case.root().join("base/5/1259");
    let change = |moment| {
        if moment == Moment::Before(2) {
            let mut content = fs::read(&file).unwrap();
            content[3 * BLOCK + 5] ^= 8;
            fs::write(&file, content).unwrap();
        }
        true
    };
    let stopped = case.order(&journal, &Order::whole(Direction::Forward), change).unwrap_err();
    assert!(matches!(stopped.error, ApplyError::Changed(_)), "{stopped}");
    assert_eq!(stopped.done.written, [0, 1]);
    let words = stopped.to_string();
    assert!(words.contains("2 pages were written before that: base/5/1259 block 0, base/5/1259 block 2"), "{words}");
    assert!(words.contains("changed since by something else: base/5/1259 block 3"), "{words}");
    let mut foreign = case.new.clone();
    foreign[3 * BLOCK..].copy_from_slice(&case.content()[3 * BLOCK..]);
    assert_eq!(case.content(), foreign);
    assert_ne!(foreign[3 * BLOCK..], case.new[3 * BLOCK..]);
    // Neither direction is open without a flag from the user; with it, both are.
    for direction in [Direction::Forward, Direction::Back] {
        let stopped = case.order(&journal, &Order::whole(direction), |_| true).unwrap_err();
        assert!(matches!(stopped.error, ApplyError::Changed(_)), "{stopped}");
        assert!(stopped.to_string().contains("no page was written") && stopped.done.written.is_empty(), "{stopped}");
    }
    let only =
        |block| PlanPage { spc_oid: 1663, db_oid: 5, rel_number: 1259, fork: "main".to_owned(), block }.page_id();
    let one = Order { only: Some(vec![only(2).unwrap()]), ..Order::whole(Direction::Back) };
    assert_eq!(case.order(&journal, &one, |_| true).unwrap(), done(&[1], 0));
    let rest = Order { skip_changed: true, ..Order::whole(Direction::Back) };
    let undone = case.order(&journal, &rest, |_| true).unwrap();
    let left = vec![Left { index: 2, why: LeftWhy::Changed }];
    assert_eq!(undone, Applied { left, ..done(&[0], 1) });
    assert_eq!(case.content()[..3 * BLOCK], case.old[..3 * BLOCK]);
    assert_eq!(case.content()[3 * BLOCK..], foreign[3 * BLOCK..]);
    let other = Order { only: Some(vec![only(1).unwrap()]), ..Order::whole(Direction::Back) };
    assert!(matches!(case.order(&journal, &other, |_| true).unwrap_err().error, ApplyError::NotInJournal(_)));
}

#[test]
fn page_changed_between_the_look_and_the_write_is_skipped_where_that_is_allowed() {
    let case = Case::new();
    let journal = case.journal();
    let file = case.root().join("base/5/1259");
    let order = Order { skip_changed: true, ..Order::whole(Direction::Forward) };
    let change = |moment| {
        if moment == Moment::Before(1) {
            let mut content = fs::read(&file).unwrap();
            content[2 * BLOCK + 5] ^= 8;
            fs::write(&file, content).unwrap();
        }
        true
    };
    let applied = case.order(&journal, &order, change).unwrap();
    assert_eq!(applied, Applied { left: vec![Left { index: 1, why: LeftWhy::Changed }], ..done(&[0, 2], 0) });
}

#[test]
fn page_that_may_be_half_written_is_told() {
    let error = ApplyError::CutOff;
    let stopped =
        Stopped { error, done: Applied::default(), written: Vec::new(), half_written: Some("base/5/1 block 7".into()) };
    let words = stopped.to_string();
    assert!(words.contains("this page may be only half written: base/5/1 block 7"), "{words}");
    assert!(words.contains("no other page was written"), "{words}");
}

#[test]
fn start_of_a_server_between_two_pages_stops_at_once() {
    for direction in [Direction::Forward, Direction::Back] {
        for at in [Moment::Before(0), Moment::Before(2), Moment::Written(2)] {
            let case = Case::new();
            let journal = case.journal();
            if direction == Direction::Back {
                case.run(&journal, Direction::Forward, None).unwrap();
            }
            let start = |moment| {
                if moment == at {
                    fs::write(case.root().join("global/pg_control"), signed(2)).unwrap();
                }
                true
            };
            let stopped = case.order(&journal, &Order::whole(direction), start).unwrap_err();
            assert!(matches!(stopped.error, ApplyError::ServerAppeared(_)), "{at:?}: {stopped}");
            let written = if let Moment::Before(index) = at { index } else { 3 };
            assert_eq!(stopped.done.written.len(), written, "{at:?}");
        }
    }
}

#[test]
fn other_directory_in_the_place_of_the_data_is_not_written_to() {
    let case = Case::new();
    let journal = case.journal();
    let exchange = |moment| {
        if moment == Moment::Before(1) {
            let (here, away) = (case.root(), case.temporary.path().join("away"));
            fs::rename(&here, &away).unwrap();
            fs::create_dir_all(here.join("base/5")).unwrap();
            fs::create_dir_all(here.join("global")).unwrap();
            fs::copy(away.join("global/pg_control"), here.join("global/pg_control")).unwrap();
            fs::write(here.join("base/5/1259"), &case.old).unwrap();
        }
        true
    };
    let stopped = case.order(&journal, &Order::whole(Direction::Forward), exchange).unwrap_err();
    assert!(matches!(stopped.error, ApplyError::Moved(_)), "{stopped}");
    assert_eq!(case.content(), case.old);
}

#[test]
fn file_replaced_by_a_link_is_refused() {
    let case = Case::new();
    let journal = case.journal();
    let file = case.root().join("base/5/1259");
    let elsewhere = case.temporary.path().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    assert!(matches!(case.run(&journal, Direction::Forward, None), Err(ApplyError::Access(_))));
    assert_eq!(fs::read(&elsewhere).unwrap(), case.old);
}

#[test]
fn started_server_and_other_cluster_are_told() {
    // The first format kept this number, which says nothing of what is signed.
    assert_eq!(crc32c(&signed(1)), crc32c(&signed(2)));
    for direction in [Direction::Forward, Direction::Back] {
        let case = Case::new();
        let journal = case.journal();
        let other = case.order_as(SYSTEM + 1, &journal, &Order::whole(direction), |_| true).unwrap_err();
        assert!(matches!(other.error, ApplyError::OtherSystem { .. }));
        fs::write(case.root().join("global/pg_control"), signed(2)).unwrap();
        for order in
            [Order::whole(direction), Order { skip_changed: true, allow_old_journal: true, ..Order::whole(direction) }]
        {
            let refused = case.order(&journal, &order, |_| true).unwrap_err();
            assert!(matches!(refused.error, ApplyError::ServerWasStarted(_)), "{refused}");
        }
        assert_eq!(case.content(), case.old);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn server_that_appears_while_pages_are_written_is_seen() {
    use std::process::{Command, Stdio};
    for with_pid_file in [true, false] {
        let case = Case::new();
        let journal = case.journal();
        let program = case.temporary.path().join("postgres");
        // Not a copy: while another test starts a process, that has the copy open for writing, and it cannot be run.
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let mut server = None;
        let appear = |moment| {
            if moment == Moment::Before(1) {
                let mut command = Command::new(&program);
                let child = command.args(["-c", "read line"]).current_dir(case.root()).stdin(Stdio::piped()).spawn();
                let child = server.insert(child.unwrap());
                if with_pid_file {
                    let text = format!("{}\n{}\n", child.id(), case.root().display());
                    fs::write(case.root().join("postmaster.pid"), text).unwrap();
                }
            }
            true
        };
        let ran = case.order(&journal, &Order::whole(Direction::Forward), appear);
        let mut server = server.unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        let stopped = ran.unwrap_err();
        assert!(matches!(stopped.error, ApplyError::ServerAppeared(_)), "{stopped}");
        // Without a file to tell of it, it is found when the processes are asked again, at the latest after the last page.
        assert!(
            if with_pid_file { stopped.done.written == [0] } else { !stopped.done.written.is_empty() },
            "{stopped}"
        );
    }
}
