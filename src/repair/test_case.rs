//! A small data directory and a journal for it, for tests of what is done with journals.
#![allow(clippy::disallowed_methods, reason = "tests make the files that they damage")]

use std::fs;

use super::*;
use crate::parsers::crc::crc32c;
use crate::parsers::wal::version::Major;
use crate::repair::journal::NewJournal;
use crate::repair::manifest::{DirectoryMark, Manifest};
use crate::repair::plan::{PLAN_SCHEMA, Plan, PlanPage};
use crate::repair::witness::{ControlMark, Witness};

pub(super) const BLOCK: usize = 8192;
pub(super) const PAGES: usize = 4;
pub(super) const SYSTEM: u64 = 77;

/// Bytes that carry their own CRC-32C, as `pg_control` does: the CRC-32C of the whole is the same number for all of them.
pub(super) fn signed(seed: u8) -> Vec<u8> {
    let mut bytes = vec![seed; 296];
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes
}

/// A data directory with one relation of four pages, and a journal that replaces three of them.
pub(super) struct Case {
    pub(super) temporary: tempfile::TempDir,
    pub(super) paths: RelationPaths,
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
}

impl Case {
    pub(super) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("data");
        fs::create_dir_all(root.join("base/5")).unwrap();
        fs::create_dir_all(root.join("global")).unwrap();
        fs::write(root.join("global/pg_control"), signed(1)).unwrap();
        let page = |number: usize, seed: usize| (0..BLOCK).map(move |at| ((at * 7 + number * 31 + seed) % 251) as u8);
        let old: Vec<u8> = (0..PAGES).flat_map(|number| page(number, 0)).collect();
        let mut new: Vec<u8> = (0..PAGES).flat_map(|number| page(number, 1)).collect();
        // Page 1 is not part of the repair.
        new[BLOCK..2 * BLOCK].copy_from_slice(&old[BLOCK..2 * BLOCK]);
        fs::write(root.join("base/5/1259"), &old).unwrap();
        Self { temporary, paths: RelationPaths::new(Major::V19, 1, 131_072), old, new }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.temporary.path().join("data")
    }

    pub(super) fn mark(&self) -> DirectoryMark {
        DirectoryMark::of(self.lock().root()).unwrap()
    }

    pub(super) fn content(&self) -> Vec<u8> {
        fs::read(self.root().join("base/5/1259")).unwrap()
    }

    pub(super) fn put(&self, content: &[u8]) {
        fs::write(self.root().join("base/5/1259"), content).unwrap();
    }

    pub(super) fn lock(&self) -> RepairLock {
        RepairLock::take(&self.root()).unwrap()
    }

    pub(super) fn new_journal(&self) -> NewJournal {
        let witness = Witness::now(ControlMark::read(self.lock().root()).unwrap(), None);
        let manifest = Manifest::new(self.mark(), SYSTEM, witness, BLOCK);
        NewJournal::create(&self.journal_path(), &[self.root()], manifest, &no_plan(), 1).unwrap()
    }

    pub(super) fn journal_path(&self) -> PathBuf {
        self.temporary.path().join("journal")
    }

    /// Opens the journal of the case again.
    pub(super) fn open(&self) -> Result<Journal, JournalError> {
        Journal::open(&self.journal_path(), &[rustix::process::geteuid().as_raw()])
    }

    pub(super) fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.journal_path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }

    /// Changes the text of the manifest and signs it again.
    pub(super) fn edit_manifest(&self, from: &str, to: &str) {
        self.edit("journal.json", |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let body = text.lines().next().unwrap();
            let changed = body.replace(from, to);
            assert_ne!(body, changed, "{from}");
            *bytes = format!("{changed}\n{:08x}\n", crc32c(changed.as_bytes())).into_bytes();
        });
    }

    pub(super) fn journal(&self) -> Journal {
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

    pub(super) fn run(
        &self,
        journal: &Journal,
        direction: Direction,
        stop_at: Option<Moment>,
    ) -> Result<Applied, ApplyError> {
        self.order(journal, &Order::whole(direction), |moment| Some(moment) != stop_at).map_err(|stopped| stopped.error)
    }

    pub(super) fn order(
        &self,
        journal: &Journal,
        order: &Order,
        watch: impl FnMut(Moment) -> bool,
    ) -> Result<Applied, Box<Stopped>> {
        self.order_as(SYSTEM, journal, order, watch)
    }

    pub(super) fn order_as(
        &self,
        system_identifier: u64,
        journal: &Journal,
        order: &Order,
        watch: impl FnMut(Moment) -> bool,
    ) -> Result<Applied, Box<Stopped>> {
        let lock = self.lock();
        let cluster = Cluster { lock: &lock, system_identifier, block_size: BLOCK, paths: &self.paths };
        carry_out(cluster, journal, order, watch)
    }
}

pub(super) fn no_plan() -> Plan {
    Plan {
        schema: PLAN_SCHEMA,
        system_identifier: SYSTEM.to_string(),
        redo_lsn: "0/0".to_owned(),
        steps: Vec::new(),
        left: Vec::new(),
    }
}

pub(super) fn done(written: &[usize], already: usize) -> Applied {
    Applied { written: written.to_vec(), already, ..Applied::default() }
}
