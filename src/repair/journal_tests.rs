//! Journals that are damaged, foreign, exposed or taken away, and what is done with them.
#![allow(clippy::disallowed_methods, reason = "tests make the files that they damage")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::test_case::*;
use super::*;
use crate::repair::journal::NewJournal;
use crate::repair::journal_dir::Exposure;
use crate::repair::manifest::{DirectoryMark, JournalEntry, Manifest, Proof};
use crate::repair::outside::OutsideError;
use crate::repair::plan::PlanPage;
use crate::repair::witness::{ControlMark, StartSign, Witness};

#[test]
fn bytes_of_the_journal_are_checked_when_they_are_used() {
    for (direction, name) in
        [(Direction::Forward, "after.pages"), (Direction::Forward, "before.pages"), (Direction::Back, "before.pages")]
    {
        let case = Case::new();
        let journal = case.journal();
        if direction == Direction::Back {
            case.run(&journal, Direction::Forward, None).unwrap();
        }
        let overwrite = |moment| {
            if moment == Moment::Before(1) {
                case.edit(name, |bytes| bytes[BLOCK..2 * BLOCK].fill(0x41));
            }
            true
        };
        let stopped = case.order(&journal, &Order::whole(direction), overwrite).unwrap_err();
        assert!(matches!(stopped.error, ApplyError::Journal(JournalError::Damaged { .. })), "{direction:?} {stopped}");
        assert_eq!(stopped.done.written, [0], "{direction:?} {name}");
        let (first, rest) = case.content().split_at(BLOCK).to_owned_pair();
        let (from, to) = if direction == Direction::Forward { (&case.old, &case.new) } else { (&case.new, &case.old) };
        assert_eq!((first, rest), (to[..BLOCK].to_vec(), from[BLOCK..].to_vec()), "{direction:?} {name}");
    }
}

trait OwnedPair {
    fn to_owned_pair(self) -> (Vec<u8>, Vec<u8>);
}

impl OwnedPair for (&[u8], &[u8]) {
    fn to_owned_pair(self) -> (Vec<u8>, Vec<u8>) {
        (self.0.to_vec(), self.1.to_vec())
    }
}

#[test]
fn undo_needs_the_old_bytes_only() {
    let damage: [fn(&Case); 4] = [
        |case| fs::remove_file(case.journal_path().join("after.pages")).unwrap(),
        |case| case.edit("after.pages", |bytes| bytes.truncate(100)),
        |case| case.edit("after.pages", |bytes| bytes.fill(0)),
        |case| fs::set_permissions(case.journal_path().join("after.pages"), fs::Permissions::from_mode(0o666)).unwrap(),
    ];
    for damage in damage {
        let case = Case::new();
        let journal = case.journal();
        case.run(&journal, Direction::Forward, Some(Moment::Written(1))).unwrap_err();
        damage(&case);
        let journal = case.open().unwrap();
        assert!(matches!(case.run(&journal, Direction::Forward, None), Err(ApplyError::Journal(_))));
        assert_eq!(case.run(&journal, Direction::Back, None).unwrap(), done(&[0, 1], 1));
        assert_eq!(case.content(), case.old);
        // Without the new bytes a page that is half written is not told from one that somebody else has written.
        let mut torn = case.old.clone();
        torn[..512].copy_from_slice(&case.new[..512]);
        case.put(&torn);
        assert!(matches!(case.run(&journal, Direction::Back, None), Err(ApplyError::Changed(_))));
    }
}

#[test]
fn page_whose_old_bytes_are_lost_is_left_and_the_others_are_put_back() {
    let case = Case::new();
    let journal = case.journal();
    case.run(&journal, Direction::Forward, None).unwrap();
    case.edit("before.pages", |bytes| bytes[BLOCK + 9] ^= 1);
    assert!(matches!(case.run(&journal, Direction::Back, None), Err(ApplyError::Journal(_))));
    assert_eq!(case.content(), case.new);
    let order = Order { skip_changed: true, ..Order::whole(Direction::Back) };
    let undone = case.order(&journal, &order, |_| true).unwrap();
    assert_eq!(undone.written, [0, 2]);
    assert!(matches!(undone.left[..], [Left { index: 1, why: LeftWhy::NoBytes(_) }]), "{undone:?}");
}

#[test]
fn journal_that_others_could_have_changed_is_refused() {
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (name, bits, words) in [
        ("", 0o777, "may be written by other users"),
        ("", 0o770, "may be written by other users"),
        ("journal.json", 0o620, "may be written by other users"),
        ("before.pages", 0o602, "may be written by other users"),
    ] {
        let case = Case::new();
        drop(case.journal());
        mode(&case.journal_path().join(name), bits);
        let refused = case.open().unwrap_err();
        assert!(matches!(refused, JournalError::Exposed { why: Exposure::Writable(_), .. }), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    }
    for name in ["journal.json", "before.pages"] {
        let case = Case::new();
        drop(case.journal());
        fs::hard_link(case.journal_path().join(name), case.temporary.path().join("another")).unwrap();
        let refused = case.open().unwrap_err();
        assert!(matches!(refused, JournalError::Exposed { why: Exposure::Names(2), .. }), "{refused}");
    }
    let case = Case::new();
    drop(case.journal());
    let somebody = rustix::process::geteuid().as_raw() + 1;
    let refused = Journal::open(&case.journal_path(), &[somebody]).unwrap_err();
    assert!(matches!(refused, JournalError::Exposed { why: Exposure::Owner(_), .. }), "{refused}");
    // A directory that others may write in is refused for a new journal too.
    let open = case.temporary.path().join("open");
    fs::create_dir(&open).unwrap();
    mode(&open, 0o777);
    let witness = Witness::now(ControlMark::read(case.lock().root()).unwrap(), None);
    let manifest = Manifest::new(case.mark(), SYSTEM, witness, BLOCK);
    let refused = NewJournal::create(&open, &[], manifest, &no_plan(), 1).unwrap_err();
    assert!(matches!(refused, JournalError::Exposed { .. }), "{refused}");
}

#[test]
fn log_that_is_another_file_too_is_not_written_to() {
    let case = Case::new();
    let journal = case.journal();
    let other = case.root().join("base/5/2619");
    fs::write(&other, [3; 100]).unwrap();
    fs::hard_link(&other, case.journal_path().join("audit.ndjson")).unwrap();
    assert!(matches!(case.run(&journal, Direction::Forward, None), Err(ApplyError::Journal(_))));
    assert_eq!(case.content(), case.old);
    case.put(&case.new);
    let undone = case.run(&journal, Direction::Back, None).unwrap();
    assert!(undone.written == [0, 1, 2] && undone.unlogged.is_some(), "{undone:?}");
    assert_eq!(fs::read(&other).unwrap(), [3; 100]);
}

#[test]
fn journal_that_vanishes_stops_a_repair_at_once() {
    let away: [fn(&Case); 5] = [
        |case| fs::rename(case.journal_path(), case.temporary.path().join("away")).unwrap(),
        |case| fs::remove_dir_all(case.journal_path()).unwrap(),
        |case| fs::remove_file(case.journal_path().join("before.pages")).unwrap(),
        |case| fs::remove_file(case.journal_path().join("journal.json")).unwrap(),
        |case| {
            // Another one of the same content under its path.
            let path = case.journal_path().join("before.pages");
            let bytes = fs::read(&path).unwrap();
            fs::rename(&path, case.temporary.path().join("aside")).unwrap();
            fs::write(&path, bytes).unwrap();
        },
    ];
    for away in away {
        for direction in [Direction::Forward, Direction::Back] {
            let case = Case::new();
            let journal = case.journal();
            if direction == Direction::Back {
                case.run(&journal, Direction::Forward, None).unwrap();
            }
            let vanish = |moment| {
                if moment == Moment::Before(1) {
                    away(&case);
                }
                true
            };
            let ran = case.order(&journal, &Order::whole(direction), vanish);
            if direction == Direction::Forward {
                let stopped = ran.unwrap_err();
                assert!(matches!(stopped.error, ApplyError::Journal(JournalError::Gone(_))), "{stopped}");
                assert_eq!(stopped.done.written, [0]);
                assert_eq!(case.content()[BLOCK..], case.old[BLOCK..]);
            } else {
                // Every old byte that is written back is not lost: it continues with the files that it has open.
                assert_eq!(ran.unwrap().written, [0, 1, 2]);
                assert_eq!(case.content(), case.old);
            }
        }
    }
}

#[test]
fn journal_with_other_pages_is_refused() {
    let case = Case::new();
    drop(case.journal());
    case.edit_manifest("\"block_size\":8192", "\"block_size\":4096");
    let journal = case.open().unwrap();
    for direction in [Direction::Forward, Direction::Back] {
        let refused = case.run(&journal, direction, None);
        assert!(matches!(refused, Err(ApplyError::OtherBlockSize { journal: 4096, here: 8192 })), "{refused:?}");
    }
    assert_eq!(case.content(), case.old);
    let case = Case::new();
    drop(case.journal());
    case.edit_manifest("\"block_size\":8192", "\"block_size\":8191");
    assert!(matches!(case.open(), Err(JournalError::Damaged { .. })));
}

#[test]
fn journal_that_names_a_page_twice_is_refused() {
    let twice: [&[(&str, &str)]; 3] = [
        &[("\"block\":2", "\"block\":0"), ("\"offset\":16384", "\"offset\":0")],
        &[("\"block\":2", "\"block\":0")],
        &[("\"offset\":16384", "\"offset\":0")],
    ];
    for edits in twice {
        let case = Case::new();
        drop(case.journal());
        for (from, to) in edits {
            case.edit_manifest(from, to);
        }
        let refused = case.open().unwrap_err();
        assert!(refused.to_string().contains("twice"), "{refused}");
    }
}

#[test]
fn manifest_without_what_its_format_demands_is_refused() {
    for (from, to) in [("\"schema\":2", "\"schema\":1"), ("\"witness\"", "\"w\""), ("\"schema\":2", "\"schema\":3")] {
        let case = Case::new();
        drop(case.journal());
        case.edit_manifest(from, to);
        assert!(matches!(case.open(), Err(JournalError::Damaged { .. })), "{to}");
    }
}

#[test]
fn hostile_manifest_reaches_no_other_place() {
    for (field, from, to) in [
        ("path", "base/5/1259", "../data2/base/5/1259"),
        ("path", "base/5/1259", "/etc/passwd"),
        ("offset", "\"offset\":16384", "\"offset\":8192"),
        ("fork", "\"fork\":\"main\"", "\"fork\":\"x\""),
        ("block", "\"block\":2", "\"block\":1"),
    ] {
        let case = Case::new();
        let journal = case.journal();
        drop(journal);
        case.edit_manifest(from, to);
        let journal = case.open().unwrap();
        let refused = case.run(&journal, Direction::Forward, None);
        assert!(matches!(refused, Err(ApplyError::WrongPath(_))), "{field}: {refused:?}");
        assert_eq!(case.content(), case.old, "{field}");
    }
}

#[test]
fn journal_without_manifest_was_never_used() {
    let case = Case::new();
    drop(case.new_journal());
    let opened = case.open();
    assert!(matches!(opened, Err(JournalError::Incomplete(_))), "{opened:?}");
}

#[test]
fn journal_that_lost_its_manifest_says_what_its_log_tells() {
    for (stop_at, undone, words) in [
        (None, false, "3 pages that were overwritten and not undone"),
        (Some(Moment::Written(0)), false, "1 page that was overwritten and not undone"),
        (Some(Moment::Checked), false, "the first page may have been overwritten"),
        (None, true, "all 3 overwritten pages were undone"),
    ] {
        let case = Case::new();
        let journal = case.journal();
        assert_eq!(case.run(&journal, Direction::Forward, stop_at).is_ok(), stop_at.is_none());
        if undone {
            case.run(&journal, Direction::Back, None).unwrap();
        }
        fs::remove_file(journal.directory().join("journal.json")).unwrap();
        let told = case.open().unwrap_err();
        assert!(matches!(told, JournalError::ManifestGone { .. }), "{told}");
        assert!(told.to_string().contains(words) && told.to_string().contains("before.pages"), "{told}");
    }
}

#[test]
fn damaged_line_of_the_log_may_tell_of_a_page_that_was_not_put_back() {
    let case = Case::new();
    let journal = case.journal();
    case.run(&journal, Direction::Forward, None).unwrap();
    case.run(&journal, Direction::Back, None).unwrap();
    fs::remove_file(journal.directory().join("journal.json")).unwrap();
    case.edit("audit.ndjson", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let of_a_page = text.lines().find(|line| line.contains("\"repair\"")).unwrap();
        *bytes = text.replacen(of_a_page, of_a_page.trim_end_matches('}'), 1).into_bytes();
    });
    let told = case.open().unwrap_err().to_string();
    assert!(told.contains("1 line of it cannot be read, so there may be more"), "{told}");
}

/// Replacement of the log.
type Replace = fn(&Path);

#[test]
fn log_that_cannot_be_written_stops_a_repair_but_no_undo() {
    let others: [Replace; 3] = [
        |path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()),
        |path| fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("/dev/full", path).unwrap(),
    ];
    for replace in others {
        let case = Case::new();
        let journal = case.journal();
        let log = journal.directory().join("audit.ndjson");
        replace(&log);
        assert!(matches!(case.run(&journal, Direction::Forward, None), Err(ApplyError::Journal(_))));
        assert_eq!(case.content(), case.old);
        case.put(&case.new);
        let undone = case.run(&journal, Direction::Back, None).unwrap();
        assert_eq!((undone.written.len(), undone.unlogged.is_some()), (3, true), "{undone:?}");
        assert_eq!(case.content(), case.old);
    }
}

#[test]
fn journal_that_does_not_fit_is_not_begun() {
    let case = Case::new();
    let witness = Witness::now(ControlMark::read(case.lock().root()).unwrap(), None);
    let manifest = Manifest::new(case.mark(), SYSTEM, witness, BLOCK);
    let directory = case.temporary.path().join("huge");
    let refused = NewJournal::create(&directory, &[], manifest, &no_plan(), u64::MAX);
    assert!(matches!(refused, Err(JournalError::NoRoom { .. })));
    assert!(!directory.exists());
}

/// A hole of a terabyte at the end of a file.
fn make_endless(path: &Path) {
    fs::File::options().append(true).open(path).unwrap().set_len(1 << 40).unwrap();
}

#[test]
fn line_of_the_log_that_was_cut_off_takes_no_other_with_it() {
    let case = Case::new();
    let journal = case.journal();
    case.run(&journal, Direction::Forward, Some(Moment::Checked)).unwrap_err();
    case.edit("audit.ndjson", |bytes| bytes.truncate(bytes.len() - 5));
    case.run(&journal, Direction::Forward, Some(Moment::Checked)).unwrap_err();
    fs::remove_file(journal.directory().join("journal.json")).unwrap();
    let told = case.open().unwrap_err().to_string();
    assert!(told.contains("the first page may have been overwritten"), "{told}");
}

#[test]
fn log_is_read_line_by_line_and_not_beyond_a_limit() {
    let case = Case::new();
    let journal = case.journal();
    case.run(&journal, Direction::Forward, Some(Moment::Written(1))).unwrap_err();
    // A line that is longer than any that is written, and whose end looks like one.
    case.edit("audit.ndjson", |bytes| {
        bytes.resize(bytes.len() + (64 << 10), b' ');
        bytes.extend_from_slice(br#"{"what":"repair","path":"x","offset":1}"#);
        bytes.push(b'\n');
    });
    case.run(&journal, Direction::Forward, None).unwrap();
    fs::remove_file(journal.directory().join("journal.json")).unwrap();
    let told = case.open().unwrap_err().to_string();
    assert!(told.contains("3 pages that were overwritten and not undone"), "{told}");
    make_endless(&case.journal_path().join("audit.ndjson"));
    let told = case.open().unwrap_err().to_string();
    assert!(told.contains("its log is longer than the 67108864 bytes that are read"), "{told}");
}

#[test]
fn journal_that_would_not_be_read_back_is_not_made() {
    let entry = |block: u32| JournalEntry {
        page: PlanPage { spc_oid: 1663, db_oid: 5, rel_number: 1259, fork: "main".to_owned(), block },
        path: format!("{block}/{}", "x".repeat(1 << 20)),
        offset: 0,
        before_crc: String::new(),
        after_crc: String::new(),
    };
    let case = Case::new();
    let mut journal = case.new_journal();
    let refused = (0..1000).find_map(|block| journal.add(entry(block), &[], &[]).err()).unwrap();
    assert!(matches!(refused, JournalError::TooManyPages { pages: 63, .. }), "{refused}");
    // As many as there may be are read back.
    let journal = journal.finish().unwrap();
    assert_eq!(journal.manifest().entries.len(), 63);
    assert_eq!(case.open().unwrap().manifest(), journal.manifest());
    make_endless(&case.journal_path().join("journal.json"));
    assert!(matches!(case.open(), Err(JournalError::Access(AccessError::TooLong { .. }))));
    // What stands around the pages counts too.
    let case = Case::new();
    let witness = Witness::now(ControlMark::read(case.lock().root()).unwrap(), None);
    let long = "x".repeat(65 << 20);
    let manifest = Manifest::new(DirectoryMark { path: long, id: None }, SYSTEM, witness, BLOCK);
    let journal = NewJournal::create(&case.journal_path(), &[], manifest, &no_plan(), 1).unwrap();
    assert!(matches!(journal.finish(), Err(JournalError::TooManyPages { .. })));
    assert!(matches!(case.open(), Err(JournalError::Incomplete(_))));
}

#[test]
fn journal_of_the_first_format_sees_a_control_file_that_is_not_signed() {
    let case = Case::new();
    let witness = Witness::now(ControlMark::read(case.lock().root()).unwrap(), None);
    let mut manifest = Manifest::new(case.mark(), SYSTEM, witness, BLOCK);
    manifest.proof = Proof::OldCrc(crc_text(&signed(1)));
    let journal = NewJournal::create(&case.journal_path(), &[], manifest, &no_plan(), 1).unwrap().finish().unwrap();
    let allowed = Order { allow_old_journal: true, ..Order::whole(Direction::Back) };
    let refused = case.run(&journal, Direction::Back, None).unwrap_err();
    assert!(matches!(refused, ApplyError::OldJournal), "{refused}");
    assert_eq!(case.order(&journal, &allowed, |_| true).unwrap(), done(&[], 0));
    fs::write(case.root().join("global/pg_control"), [5; 300]).unwrap();
    let stopped = case.order(&journal, &allowed, |_| true).unwrap_err();
    assert!(matches!(stopped.error, ApplyError::ServerWasStarted(StartSign::Control { .. })), "{stopped}");
}

#[test]
fn place_of_a_new_journal_is_empty_has_room_and_is_outside() {
    let case = Case::new();
    let create = |name: &str, needed_bytes| {
        let witness = Witness::now(ControlMark::read(case.lock().root()).unwrap(), None);
        let manifest = Manifest::new(case.mark(), SYSTEM, witness, BLOCK);
        let path = case.temporary.path().join(name);
        NewJournal::create(&path, &[case.root()], manifest, &no_plan(), needed_bytes).map(drop)
    };
    let empty = case.temporary.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(create("empty", u64::MAX), Err(JournalError::NoRoom { .. })));
    fs::write(empty.join("notes"), "").unwrap();
    assert!(matches!(create("empty", 1), Err(JournalError::NotEmpty(_))));
    fs::remove_file(empty.join("notes")).unwrap();
    create("empty", 1).unwrap();
    // A link that the user made is followed, and what it leads to is examined.
    let inside = case.root().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&inside, case.temporary.path().join("link")).unwrap();
    let refused = create("link", 1);
    assert!(matches!(refused, Err(JournalError::Outside(OutsideError::Inside { .. }))), "{refused:?}");
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 0);
}

#[test]
fn manifest_that_is_not_what_was_signed_is_refused() {
    let case = Case::new();
    drop(case.journal());
    case.edit("journal.json", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replace("\"block\":2", "\"block\":1").into_bytes();
    });
    let refused = case.open().unwrap_err();
    assert!(matches!(refused, JournalError::Damaged { .. }) && refused.to_string().contains("CRC"), "{refused}");
}
