//! One page of a crashed cluster, with versions of it, records and slots made by hand.

use pgforensics::types::Lsn;
use serde_json::Value;

use crate::common::edit::{ClusterCopy, Key, PAGE, is_sealed, page_lsn, sealed, set_page_lsn, torn};
use crate::common::truth::{Checked, check_with};
use crate::common::wal_tail::WalTail;

/// A page of the table `note` that no slot holds, full of rows, and last changed before all WAL that is there.
pub const PAGE_OF_NOTE: Key = Key::main(16_409, 5);
/// The first slot that is overwritten by hand, far above those of the last batch.
pub const FIRST_SLOT: u32 = 100;
/// Start of the first segment in `pg_wal`.
pub const FIRST_WAL: u64 = 0x0210_0000;
/// Where a write is cut unless said otherwise.
const CUT: usize = 4096;

/// A copy of the cluster `wrapped`, and the page that a test is about.
pub struct Scene {
    pub copy: ClusterCopy,
    pub wal: WalTail,
    /// The page.
    pub key: Key,
    /// The page as it is in the cluster: sound, and older than the redo point.
    pub old: Vec<u8>,
    next_slot: u32,
}

impl Scene {
    pub fn new() -> Self {
        let (copy, key) = (ClusterCopy::of("wrapped"), PAGE_OF_NOTE);
        let old = copy.page(key);
        assert!(is_sealed(&old, key.block) && page_lsn(&old) < FIRST_WAL);
        let wal = WalTail::of(&copy);
        Self { copy, wal, key, old, next_slot: FIRST_SLOT }
    }

    /// The page with this LSN and another letter at the end of each of its rows: a change in every sector.
    pub fn version(&self, letter: u8, lsn: u64) -> Vec<u8> {
        let mut page = self.old.clone();
        let lower = usize::from(u16::from_le_bytes([page[12], page[13]]));
        for pointer in (24..lower).step_by(4) {
            let word = u32::from_le_bytes(page[pointer..pointer + 4].try_into().unwrap());
            let (offset, length) = ((word & 0x7FFF) as usize, (word >> 17) as usize);
            page[offset + length - 1] = letter;
        }
        set_page_lsn(&mut page, lsn);
        sealed(&page, self.key.block)
    }

    /// Puts an image of the page into a slot. Returns the slot's place.
    pub fn slot(&mut self, image: &[u8]) -> u32 {
        self.slot_of(self.key, page_lsn(image), image)
    }

    /// Puts anything into a slot.
    pub fn slot_of(&mut self, key: Key, slot_lsn: u64, image: &[u8]) -> u32 {
        let index = self.next_slot;
        self.next_slot += 1;
        self.copy.set_slot(index, index, key, slot_lsn, image);
        index
    }

    /// Cuts a write of `newer` over the page as it was.
    pub fn tear(&self, newer: &[u8]) {
        self.set_disk(&torn(newer, &self.old, CUT));
    }

    pub fn set_disk(&self, page: &[u8]) {
        assert_eq!(page.len(), PAGE);
        self.copy.set_page(self.key, page);
    }

    /// Completes a checkpoint; returns its redo point.
    pub fn checkpoint(&mut self) -> u64 {
        self.wal.checkpoint(&self.copy)
    }

    /// Completes a checkpoint from which replay begins at `redo`.
    pub fn checkpoint_from(&mut self, redo: u64) {
        self.wal.checkpoint_from(&self.copy, redo);
    }

    /// Runs a check.
    pub fn check(&self) -> Checked {
        self.check_with(&[])
    }

    pub fn check_with(&self, more: &[&str]) -> Checked {
        self.wal.write(&self.copy);
        self.check_as_it_is(more)
    }

    /// Runs a check without writing WAL anew: for tests that damaged what was written.
    pub fn check_as_it_is(&self, more: &[&str]) -> Checked {
        check_with(self.copy.data(), &[&["--dwb-only"], more].concat())
    }

    /// What is said of the page.
    pub fn row(&self) -> Row {
        Row(self.check().page(self.key).cloned().expect("the page is reported"))
    }

    /// True when nothing is said of the page.
    pub fn is_silent(&self) -> bool {
        self.check().page(self.key).is_none()
    }
}

/// A torn page whose image in a slot has an LSN before the redo point, and WAL from there on. `between` adds records
/// between the two.
pub fn torn_before_redo(between: impl FnOnce(&mut Scene)) -> (Scene, u32) {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    let slot = scene.slot(&image);
    scene.tear(&image);
    between(&mut scene);
    scene.checkpoint();
    (scene, slot)
}

/// A torn page whose image in a slot was changed after the redo point. `after` adds records after that change.
pub fn torn_after_redo(after: impl FnOnce(&mut Scene)) -> (Scene, u32) {
    let mut scene = Scene::new();
    let change = scene.wal.change(scene.key);
    let image = scene.version(b'!', change.end);
    let slot = scene.slot(&image);
    scene.tear(&image);
    after(&mut scene);
    (scene, slot)
}

/// One line of a check, with short ways to ask.
pub struct Row(pub Value);

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "block {} is {}: {}, chosen {}", self.0["block"], self.disk(), self.verdict(), self.0["chosen"])?;
        writeln!(f, "because {}; on start {}", self.0["reasons"], self.0["on_start"])?;
        for candidate in self.0["candidates"].as_array().into_iter().flatten() {
            let place = if candidate["source"] == "dwb" { &candidate["slot_index"] } else { &candidate["lsn"] };
            writeln!(f, "{place} {} {}: {}", candidate["page_lsn"], candidate["outcome"], candidate["evidence"])?;
        }
        Ok(())
    }
}

impl Row {
    pub fn of(checked: &Checked, key: Key) -> Self {
        Self(checked.page(key).cloned().unwrap_or_else(|| panic!("{key:?} is not reported")))
    }

    pub fn disk(&self) -> &str {
        self.0["disk"].as_str().unwrap()
    }

    pub fn verdict(&self) -> &str {
        self.0["verdict"].as_str().unwrap()
    }

    /// Place of the slot that is to be put back.
    pub fn chosen_slot(&self) -> Option<u64> {
        self.0["chosen"]["slot_index"].as_u64()
    }

    /// Start of the record whose image is to be put back.
    pub fn chosen_record(&self) -> Option<u64> {
        self.0["chosen"]["lsn"].as_str().map(lsn)
    }

    pub fn chose_nothing(&self) -> bool {
        self.0["chosen"].is_null()
    }

    /// What was said of the image in a slot.
    pub fn outcome_of(&self, slot: u32) -> &str {
        let candidates = self.0["candidates"].as_array().unwrap();
        let found = candidates.iter().find(|candidate| candidate["slot_index"] == slot);
        found.unwrap_or_else(|| panic!("slot {slot} in {self}"))["outcome"].as_str().unwrap()
    }

    /// True when a statement with this code is made about an image.
    pub fn says(&self, code: &str) -> bool {
        let candidates = self.0["candidates"].as_array().unwrap().iter();
        let mut steps = candidates.flat_map(|candidate| candidate["evidence"].as_array().unwrap());
        steps.any(|step| step["code"] == code)
    }

    /// Ends of the records that the image in a slot lacks.
    pub fn lost(&self, slot: u32) -> Vec<u64> {
        let candidates = self.0["candidates"].as_array().unwrap();
        let found = candidates.iter().find(|candidate| candidate["slot_index"] == slot).unwrap();
        let list = found["lost_lsns"].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|text| lsn(text.as_str().unwrap())).collect()
    }

    pub fn on_start(&self) -> &str {
        self.0["on_start"]["what"].as_str().unwrap()
    }

    /// The record that a start meets first.
    pub fn on_start_lsn(&self) -> u64 {
        lsn(self.0["on_start"]["lsn"].as_str().unwrap())
    }

    pub fn reasons(&self) -> String {
        self.0["reasons"].to_string()
    }

    /// True when a reason for the verdict has this code.
    pub fn has_reason(&self, code: &str) -> bool {
        self.0["reason_codes"].as_array().unwrap().iter().any(|reason| reason == code)
    }

    /// Fails unless the page is to be put back from this slot.
    pub fn assert_restores(&self, slot: u32) {
        assert_eq!((self.verdict(), self.chosen_slot()), ("restore", Some(slot.into())), "{self}");
    }

    /// Fails unless the verdict is this one, which is not `restore`.
    pub fn assert_verdict(&self, verdict: &str) {
        assert_eq!(self.verdict(), verdict, "{self}");
    }
}

/// An LSN as reports print it.
pub fn lsn(text: &str) -> u64 {
    text.parse::<Lsn>().expect("an LSN").0
}
