//! What workers find out.

use std::sync::Arc;

use crate::analysis::innodb::batches::{InnodbBatch, SlotAge};
use crate::analysis::innodb::candidates::EntryFacts;
use crate::analysis::innodb::compare::InnodbComparison;
use crate::analysis::innodb::judge::InnodbPage;
use crate::analysis::innodb::slot::{SlotFacts, SlotId};
use crate::analysis::verdict::answer::Answer;
use crate::cluster::innodb::tablespace::Tablespace;
use crate::inspect::innodb::check::InnodbExamination;
use crate::output::closing::Closing;
use crate::output::innodb_steps::InnodbStep;
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};

/// How a page on disk stands to a slot or an entry, and the LSN of that page.
pub type DiskWord = (InnodbComparison, Option<InnodbLsn>);

/// A directory that was checked.
#[derive(Debug)]
pub struct InnodbSurvey {
    /// What `check` knows.
    pub examined: InnodbExamination,
    /// When it began to read.
    pub time: String,
    /// How many pages fail their checks; the others listed are of zeros.
    pub damaged: usize,
    /// Groups of slots.
    pub batches: Vec<InnodbBatch>,
    /// Exit status of `check`.
    pub answer: Answer,
    /// What to do.
    pub steps: Vec<InnodbStep>,
    /// Words of every damaged page, to filter by, in lower case.
    pub page_texts: Vec<String>,
    /// Words of every line of slots, to filter by, in lower case.
    pub slot_texts: Vec<String>,
}

/// A damaged page that is known while the check goes on: it is not judged yet.
#[derive(Clone, Debug)]
pub struct PendingPage {
    /// Index of its tablespace.
    pub space: usize,
    /// How that is called.
    pub called: Arc<str>,
    /// Pages of it, damaged or not.
    pub pages: u64,
    /// Number of the page.
    pub page_no: u32,
}

/// A line of the slots: those without images come after all others.
#[derive(Clone, Copy, Debug)]
pub enum SlotLine<'a> {
    /// A slot.
    Slot(&'a SlotFacts),
    /// An entry without an image.
    Entry(&'a EntryFacts),
}

impl SlotLine<'_> {
    /// The page that it names.
    #[must_use]
    pub fn page(&self) -> Option<InnodbPageId> {
        match self {
            Self::Slot(facts) => facts.page(),
            Self::Entry(entry) => Some(entry.page),
        }
    }

    /// LSN of the image, or of the page that was being written.
    #[must_use]
    pub const fn lsn(&self) -> InnodbLsn {
        match self {
            Self::Slot(facts) => facts.lsn,
            Self::Entry(entry) => entry.lsn,
        }
    }
}

impl InnodbSurvey {
    /// A page with its index among the damaged ones, if it is one of them.
    #[must_use]
    pub fn target(&self, page: InnodbPageId) -> PageTarget {
        PageTarget { page, listed: self.examined.pages.binary_search_by_key(&page, |listed| listed.page).ok() }
    }

    /// Lines of the slots.
    #[must_use]
    pub fn slot_lines(&self) -> usize {
        self.examined.content.slots.len() + self.examined.content.entries.len()
    }

    /// One of them.
    #[must_use]
    pub fn slot_line(&self, at: usize) -> Option<SlotLine<'_>> {
        let content = &self.examined.content;
        match content.slots.get(at) {
            Some(facts) => Some(SlotLine::Slot(facts)),
            None => content.entries.get(at.checked_sub(content.slots.len())?).map(SlotLine::Entry),
        }
    }

    /// How a tablespace is called.
    #[must_use]
    pub fn space_name(&self, space_id: Option<u32>) -> String {
        let space = space_id.and_then(|id| self.examined.source.spaces.get(id));
        match (space, space_id) {
            (Some(space), _) => space.name(),
            (None, Some(id)) => format!("space {id}"),
            (None, None) => "unknown".to_owned(),
        }
    }

    /// `file:index` of a slot, `file:block:index` of an entry.
    #[must_use]
    pub fn slot_name(&self, line: SlotLine<'_>) -> String {
        let doublewrite = &self.examined.source.doublewrite;
        match line {
            SlotLine::Slot(facts) => slot_name(doublewrite.files.get(facts.slot.0).map(|file| &file.name), facts.slot),
            SlotLine::Entry(entry) => {
                let name = doublewrite.entries.get(entry.file).map_or("", |file| file.name.as_str());
                format!("{name}:{}:{}", entry.block, entry.index)
            }
        }
    }

    /// Checksum and age of a slot; for an entry what it is.
    #[must_use]
    pub fn slot_state(&self, line: SlotLine<'_>) -> (&'static str, &'static str) {
        match line {
            SlotLine::Slot(facts) => {
                let age = SlotAge::of(facts.lsn, facts.state.is_sound(), self.examined.source.checkpoint());
                (facts.state.name(), age.name())
            }
            SlotLine::Entry(entry) => (if entry.is_sound { "good" } else { "bad" }, "no image"),
        }
    }

    /// True when a slot is of this group.
    #[must_use]
    pub fn is_of(&self, line: SlotLine<'_>, batch: &InnodbBatch) -> bool {
        let SlotLine::Slot(facts) = line else { return false };
        let age = SlotAge::of(facts.lsn, facts.state.is_sound(), self.examined.source.checkpoint());
        (facts.slot.0, facts.part, age) == (batch.file, batch.part, batch.age)
    }

    /// Words of a line of slots.
    #[must_use]
    pub fn slot_text(&self, line: SlotLine<'_>, disk: Option<&DiskWord>) -> String {
        let page = line.page().map_or_else(String::new, |page| page.page_no.to_string());
        let space_id = line.page().map(|page| page.space_id);
        let (checksum, age) = self.slot_state(line);
        let disk = disk.map_or("", |(word, _)| word.name());
        let (name, space) = (self.slot_name(line), self.space_name(space_id));
        format!("{name} {space} {page} {} {checksum} {age} {disk}", line.lsn()).to_lowercase()
    }

    /// Words of a damaged page.
    #[must_use]
    pub fn page_text(&self, page: &InnodbPage) -> String {
        let (disk, held) = (page.disk.name(), page.held.name());
        let space = self.examined.source.spaces.all.get(page.space).map(Tablespace::name).unwrap_or_default();
        format!("{space} {} {} {} {disk} {held}", page.path, page.page.page_no, page.page.space_id).to_lowercase()
    }

    /// Findings, and what was not examined.
    #[must_use]
    pub fn closing(&self) -> Closing {
        Closing::new(self.examined.findings.clone(), &self.examined.coverage)
    }
}

/// `file:index`.
#[must_use]
pub fn slot_name(file: Option<&String>, slot: SlotId) -> String {
    format!("{}:{}", file.map_or("", String::as_str), slot.1)
}

/// Slots compared with pages.
#[derive(Debug)]
pub struct SlotSheet {
    /// The check that it belongs to.
    pub survey: Arc<InnodbSurvey>,
    /// A word for each line.
    pub words: Vec<DiskWord>,
    /// Words of every line, to filter by, in lower case.
    pub texts: Vec<String>,
}

/// A page that is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTarget {
    /// Which page.
    pub page: InnodbPageId,
    /// Index among the damaged pages: two files may claim one tablespace.
    pub listed: Option<usize>,
}

/// An image of a page.
#[derive(Clone, Debug)]
pub struct SheetImage {
    /// How it is called, here and in the evidence.
    pub letter: char,
    /// Slot and LSN.
    pub title: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// It is first in the order of the server.
    pub is_chosen: bool,
}

/// Everything about a page.
#[derive(Clone, Debug)]
pub struct InnodbPageSheet {
    /// The check that it belongs to.
    pub survey: Arc<InnodbSurvey>,
    /// Which page was asked for.
    pub target: PageTarget,
    /// How its tablespace is called.
    pub space: String,
    /// The page, judged; `None` where there is no such page.
    pub page: Option<InnodbPage>,
    /// Its bytes.
    pub disk: Option<Vec<u8>>,
    /// Its images: the first in the order of the server, and the newest.
    pub images: Vec<SheetImage>,
    /// Images that are not among those.
    pub further_images: usize,
    /// Checksums are of MariaDB's newer kind.
    pub is_full_crc32: bool,
    /// What could not be read.
    pub skipped: Vec<String>,
}

impl InnodbPageSheet {
    /// Bytes on the left and on the right: the page and an image, or an image alone.
    #[must_use]
    pub fn sides(&self, image: usize) -> (&[u8], Option<&[u8]>) {
        let image = self.images.get(image).map(|image| image.bytes.as_slice());
        match &self.disk {
            Some(disk) => (disk, image),
            None => (image.unwrap_or_default(), None),
        }
    }
}
