//! A repair cut off at every moment: it can always be finished, and always be taken back.
#![allow(clippy::disallowed_methods, reason = "tests make the files that they damage")]

use std::fs;

use super::*;
use crate::parsers::crc::crc32c;
use crate::repair::journal::{JournalError, Manifest, NewJournal};
use crate::repair::plan::{PLAN_SCHEMA, Plan, PlanPage, crc_text};

const BLOCK: usize = 8192;
const PAGES: usize = 4;
const SYSTEM: u64 = 77;

/// A data directory with one relation of four pages, and a journal that replaces three of them.
struct Case {
    temporary: tempfile::TempDir,
    paths: RelationPaths,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("data");
        fs::create_dir_all(root.join("base/5")).unwrap();
        fs::create_dir_all(root.join("global")).unwrap();
        fs::write(root.join("global/pg_control"), [1; 300]).unwrap();
        let page = |number: usize, seed: usize| (0..BLOCK).map(move |at| ((at * 7 + number * 31 + seed) % 251) as u8);
        let old: Vec<u8> = (0..PAGES).flat_map(|number| page(number, 0)).collect();
        let mut new: Vec<u8> = (0..PAGES).flat_map(|number| page(number, 1)).collect();
        // Page 1 is not part of the repair.
        new[BLOCK..2 * BLOCK].copy_from_slice(&old[BLOCK..2 * BLOCK]);
        fs::write(root.join("base/5/1259"), &old).unwrap();
        Self { temporary, paths: RelationPaths::new(19, 1, 131_072), old, new }
    }

    fn root(&self) -> PathBuf {
        self.temporary.path().join("data")
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.root().join("base/5/1259")).unwrap()
    }

    fn put(&self, content: &[u8]) {
        fs::write(self.root().join("base/5/1259"), content).unwrap();
    }

    fn new_journal(&self) -> NewJournal {
        let manifest = Manifest::new(&self.root(), SYSTEM, control_crc(&self.root()).unwrap(), BLOCK);
        let plan = Plan {
            schema: PLAN_SCHEMA,
            system_identifier: SYSTEM.to_string(),
            redo_lsn: "0/0".to_owned(),
            steps: Vec::new(),
            left: Vec::new(),
        };
        NewJournal::create(&self.temporary.path().join("journal"), &[self.root()], manifest, &plan, 1).unwrap()
    }

    fn journal(&self) -> Journal {
        let mut journal = self.new_journal();
        for block in [0, 2, 3] {
            let range = block * BLOCK..(block + 1) * BLOCK;
            let (before, after) = (&self.old[range.clone()], &self.new[range.clone()]);
            let page =
                PlanPage { spc_oid: 1663, db_oid: 5, rel_number: 1259, fork: "main".to_owned(), block: block as u32 };
            let entry = JournalEntry {
                page,
                path: "base/5/1259".to_owned(),
                offset: range.start as u64,
                before_crc: crc_text(before),
                after_crc: crc_text(after),
            };
            journal.add(entry, before, after).unwrap();
        }
        journal.finish().unwrap()
    }

    fn run(&self, journal: &Journal, direction: Direction, stop_at: Option<Moment>) -> Result<Applied, ApplyError> {
        carry_out(&self.root(), SYSTEM, &self.paths, journal, direction, |moment| Some(moment) != stop_at)
    }
}

fn done(written: usize, already: usize) -> Applied {
    Applied { written, already, unlogged: None }
}

fn moments() -> Vec<Moment> {
    let pages = (0..3).flat_map(|place| [Moment::Before(place), Moment::Written(place)]);
    [Moment::Checked].into_iter().chain(pages).collect()
}

#[test]
fn repair_and_undo_restore_every_byte() {
    let case = Case::new();
    let journal = case.journal();
    assert_eq!(case.run(&journal, Direction::Forward, None).unwrap(), done(3, 0));
    assert_eq!(case.content(), case.new);
    assert_eq!(case.run(&journal, Direction::Forward, None).unwrap(), done(0, 3));
    assert_eq!(case.run(&journal, Direction::Back, None).unwrap(), done(3, 0));
    assert_eq!(case.content(), case.old);
}

#[test]
fn cut_off_at_every_moment_it_is_finished_or_taken_back() {
    for moment in moments() {
        for direction in [Direction::Forward, Direction::Back] {
            let case = Case::new();
            let journal = case.journal();
            let cut = case.run(&journal, Direction::Forward, Some(moment));
            assert!(matches!(cut, Err(ApplyError::CutOff)), "{moment:?}");
            let journal = Journal::open(journal.directory()).unwrap();
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
        assert!(matches!(refused, Err(ApplyError::Changed { count: 1, .. })), "{refused:?}");
        assert_eq!(case.content(), foreign);
    }
    case.put(&case.old[..3 * BLOCK + 10]);
    assert!(case.run(&journal, Direction::Forward, None).is_err(), "file cut short");
}

#[test]
fn page_changed_while_others_are_written_is_left_alone() {
    let case = Case::new();
    let journal = case.journal();
    let file = case.root().join("base/5/1259");
    let refused = carry_out(&case.root(), SYSTEM, &case.paths, &journal, Direction::Forward, |moment| {
        if moment == Moment::Before(2) {
            let mut content = fs::read(&file).unwrap();
            content[3 * BLOCK + 5] ^= 8;
            fs::write(&file, content).unwrap();
        }
        true
    });
    assert!(matches!(refused, Err(ApplyError::Changed { .. })), "{refused:?}");
    assert_ne!(case.content()[3 * BLOCK..], case.new[3 * BLOCK..]);
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
    let case = Case::new();
    let journal = case.journal();
    let other = carry_out(&case.root(), SYSTEM + 1, &case.paths, &journal, Direction::Back, |_| true);
    assert!(matches!(other, Err(ApplyError::OtherSystem { .. })));
    fs::write(case.root().join("global/pg_control"), [2; 300]).unwrap();
    assert!(matches!(case.run(&journal, Direction::Back, None), Err(ApplyError::ServerWasStarted)));
    assert_eq!(case.content(), case.old);
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
        let path = journal.directory().join("journal.json");
        let text = fs::read_to_string(&path).unwrap();
        let body = text.lines().next().unwrap().replace(from, to);
        assert!(body != text.lines().next().unwrap(), "{field}");
        fs::write(&path, format!("{body}\n{:08x}\n", crc32c(body.as_bytes()))).unwrap();
        let journal = Journal::open(journal.directory()).unwrap();
        let refused = case.run(&journal, Direction::Forward, None);
        assert!(matches!(refused, Err(ApplyError::WrongPlace(_))), "{field}: {refused:?}");
        assert_eq!(case.content(), case.old, "{field}");
    }
}

#[test]
fn journal_without_manifest_was_never_used() {
    let case = Case::new();
    drop(case.new_journal());
    let opened = Journal::open(&case.temporary.path().join("journal"));
    assert!(matches!(opened, Err(JournalError::Incomplete(_))), "{opened:?}");
}

#[test]
fn journal_that_lost_its_manifest_says_what_its_log_tells() {
    for (stop_at, undone, words) in [
        (None, false, "3 pages were overwritten and not put back"),
        (Some(Moment::Written(0)), false, "1 page was overwritten and not put back"),
        (Some(Moment::Checked), false, "the first page may have been overwritten"),
        (None, true, "all 3 pages that were overwritten were put back"),
    ] {
        let case = Case::new();
        let journal = case.journal();
        assert_eq!(case.run(&journal, Direction::Forward, stop_at).is_ok(), stop_at.is_none());
        if undone {
            case.run(&journal, Direction::Back, None).unwrap();
        }
        fs::remove_file(journal.directory().join("journal.json")).unwrap();
        let told = Journal::open(journal.directory()).unwrap_err();
        assert!(matches!(told, JournalError::ManifestGone { .. }), "{told}");
        assert!(told.to_string().contains(words) && told.to_string().contains("before.pages"), "{told}");
    }
}

/// What stands in the place of the log.
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
        assert_eq!((undone.written, undone.unlogged.is_some()), (3, true), "{undone:?}");
        assert_eq!(case.content(), case.old);
    }
}

#[test]
fn journal_that_does_not_fit_is_not_begun() {
    let case = Case::new();
    let manifest = Manifest::new(&case.root(), SYSTEM, String::new(), BLOCK);
    let plan = Plan {
        schema: PLAN_SCHEMA,
        system_identifier: String::new(),
        redo_lsn: String::new(),
        steps: Vec::new(),
        left: Vec::new(),
    };
    let directory = case.temporary.path().join("huge");
    let refused = NewJournal::create(&directory, &[], manifest, &plan, u64::MAX);
    assert!(matches!(refused, Err(JournalError::NoRoom { .. })));
    assert!(!directory.exists());
}
