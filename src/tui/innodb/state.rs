//! What the screen shows.

use std::sync::Arc;

use super::facts::{InnodbPageSheet, InnodbSurvey, PageTarget, PendingPage, SlotSheet};
use super::picker::InnodbBookmark;
use super::triage_rows::{Grouping, TriageRows};
use crate::tui::facts::Progress;
use crate::tui::look::Look;
use crate::tui::outdated::Outdated;
use crate::tui::state::Message;

/// Columns from which on the detail of the selected line is beside the list.
const DETAIL_FROM: usize = 140;

/// Columns of what is between them.
const DIVIDER: usize = 3;

/// The views, in the order of the tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InnodbView {
    /// What is wrong and what to do.
    Triage,
    /// Groups of slots.
    Batches,
    /// All slots.
    Slots,
    /// One page.
    Page,
    /// Every finding, one by one: no tab, opened from the triage.
    Findings,
}

impl InnodbView {
    /// Those with a tab.
    pub const ALL: [Self; 4] = [Self::Triage, Self::Batches, Self::Slots, Self::Page];

    /// The word on the tab.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Triage => "Triage",
            Self::Batches => "Batches",
            Self::Slots => "Slots",
            Self::Page => "Page",
            Self::Findings => "Findings",
        }
    }

    /// The view on whose tab it is.
    #[must_use]
    pub const fn tab(self) -> Self {
        match self {
            Self::Findings => Self::Triage,
            view => view,
        }
    }
}

/// Parts of the page view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InnodbPart {
    /// Evidence and verdict.
    #[default]
    Verdict,
    /// Bytes side by side.
    Bytes,
    /// Fields of header and trailer.
    Header,
}

impl InnodbPart {
    /// All parts, from left to right.
    pub const ALL: [Self; 3] = [Self::Verdict, Self::Bytes, Self::Header];

    /// The word above it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Bytes => "bytes",
            Self::Header => "header",
        }
    }
}

/// Columns that slots are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotColumn {
    /// File and index.
    #[default]
    Slot,
    /// Tablespace and page.
    Page,
    /// LSN.
    Lsn,
    /// How the page on disk stands to it.
    Disk,
}

impl SlotColumn {
    /// The column to the right; after the last one, the first.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Slot => Self::Page,
            Self::Page => Self::Lsn,
            Self::Lsn => Self::Disk,
            Self::Disk => Self::Slot,
        }
    }

    /// Its heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Page => "page",
            Self::Lsn => "LSN",
            Self::Disk => "disk",
        }
    }
}

/// What is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnodbPromptKind {
    /// Words to filter by.
    Filter,
    /// Where to go.
    GoTo,
    /// Letters of a command.
    Palette,
    /// Letters of a bookmark.
    Bookmarks,
}

/// What the program is opened on.
#[derive(Clone, Debug)]
pub struct InnodbSubject {
    /// The program.
    pub program: &'static str,
    /// The path, as it was given.
    pub path: String,
    /// The same as arguments of a command, with what else was given.
    pub arguments: String,
}

/// The triage.
#[derive(Clone, Debug, Default)]
pub struct InnodbTriage {
    /// What is listed.
    pub rows: TriageRows,
    /// Damaged pages that are known while the first check goes on.
    pub pending: Vec<PendingPage>,
    /// By what.
    pub grouping: Grouping,
    /// The other way round.
    pub is_reversed: bool,
    /// The selected row.
    pub selected: usize,
    /// What was typed.
    pub filter: String,
}

/// The list of batches.
#[derive(Clone, Debug, Default)]
pub struct InnodbBatches {
    /// Lines that are listed.
    pub order: Vec<usize>,
    /// The selected one of these.
    pub selected: usize,
    /// What was typed.
    pub filter: String,
}

/// The list of slots.
#[derive(Clone, Debug, Default)]
pub struct InnodbSlots {
    /// Lines that are listed, in order.
    pub order: Vec<usize>,
    /// The selected one of these.
    pub selected: usize,
    /// Only slots of this batch.
    pub batch: Option<usize>,
    /// By what.
    pub column: SlotColumn,
    /// The other way round.
    pub is_reversed: bool,
    /// What was typed.
    pub filter: String,
}

/// The page.
#[derive(Clone, Debug, Default)]
pub struct InnodbPageState {
    /// Which one.
    pub wanted: Option<PageTarget>,
    /// Everything about it, when it was read.
    pub sheet: Option<Arc<InnodbPageSheet>>,
    /// The open part.
    pub part: InnodbPart,
    /// Index of the image.
    pub image: usize,
    /// Offset of the selected byte.
    pub cursor: usize,
    /// Equal bytes are shown.
    pub is_unfolded: bool,
    /// First line that is shown.
    pub top: usize,
    /// The verdict in words, broken into lines.
    pub text: Vec<String>,
}

/// Everything that is shown.
#[derive(Clone)]
pub struct InnodbState {
    /// How it is drawn.
    pub look: Look,
    /// Columns and rows.
    pub size: (u16, u16),
    /// What is shown.
    pub subject: InnodbSubject,
    /// The open view.
    pub view: InnodbView,
    /// Views to go back to.
    pub trail: Vec<InnodbView>,
    /// The check, when it is done.
    pub survey: Option<Arc<InnodbSurvey>>,
    /// Slots compared with pages, when that is done.
    pub compared: Option<Arc<SlotSheet>>,
    /// It is being read.
    pub is_reading: bool,
    /// How far that is.
    pub progress: Option<Progress>,
    /// Files have changed since.
    pub has_changed: bool,
    /// Why the check failed when it was done again.
    pub failed: Option<String>,
    /// What is being typed.
    pub prompt: Option<(InnodbPromptKind, String)>,
    /// Index of the line that is picked while a command or a bookmark is typed.
    pub picked: usize,
    /// Lines that were kept.
    pub bookmarks: Vec<InnodbBookmark>,
    /// Something to tell.
    pub message: Option<Message>,
    /// The help is open, from this line on.
    pub help: Option<usize>,
    /// The triage.
    pub triage: InnodbTriage,
    /// Batches.
    pub batches: InnodbBatches,
    /// Slots.
    pub slots: InnodbSlots,
    /// The page.
    pub page: InnodbPageState,
    /// Findings in words, broken into lines.
    pub findings: Vec<String>,
    /// Steps in words, broken into lines.
    pub steps: Vec<String>,
    /// First line of both that is shown.
    pub findings_top: usize,
}

impl InnodbState {
    /// Before anything is read.
    #[must_use]
    pub fn new(subject: InnodbSubject, look: Look, size: (u16, u16)) -> Self {
        Self {
            look,
            size,
            subject,
            view: InnodbView::Triage,
            trail: Vec::new(),
            survey: None,
            compared: None,
            is_reading: false,
            progress: None,
            has_changed: false,
            failed: None,
            prompt: None,
            picked: 0,
            bookmarks: Vec::new(),
            message: None,
            help: None,
            triage: InnodbTriage::default(),
            batches: InnodbBatches::default(),
            slots: InnodbSlots::default(),
            page: InnodbPageState::default(),
            findings: Vec::new(),
            steps: Vec::new(),
            findings_top: 0,
        }
    }

    /// Why the survey may not be so any more.
    #[must_use]
    pub fn outdated(&self) -> Option<Outdated<'_>> {
        Outdated::of(self.is_reading, self.failed.as_deref(), self.has_changed)
    }

    /// True of what was made from the survey that is shown.
    #[must_use]
    pub fn is_of_survey(&self, survey: &Arc<InnodbSurvey>) -> bool {
        self.survey.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, survey))
    }

    /// Columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        usize::from(self.size.0)
    }

    /// Rows between the tabs and the lines at the bottom.
    #[must_use]
    pub fn body_rows(&self) -> usize {
        usize::from(self.size.1).saturating_sub(3)
    }

    /// Columns that the detail of the selected line gets; 0 where there is none.
    #[must_use]
    pub fn detail_columns(&self) -> usize {
        let has_detail = self.help.is_none() && matches!(self.view, InnodbView::Triage | InnodbView::Slots);
        if has_detail && self.columns() >= DETAIL_FROM { self.columns() * 2 / 5 } else { 0 }
    }

    /// Columns of the list, without the line between it and the detail.
    #[must_use]
    pub fn list_columns(&self) -> usize {
        match self.detail_columns() {
            0 => self.columns(),
            detail => self.columns() - detail - DIVIDER,
        }
    }

    /// Bytes in a row of the hex dump: both sides have room.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        match self.columns() {
            0..=141 => 8,
            142..=270 => 16,
            _ => 32,
        }
    }

    /// The page that the selected line stands for.
    #[must_use]
    pub fn selected_page(&self) -> Option<PageTarget> {
        let survey = self.survey.as_deref()?;
        match self.view {
            InnodbView::Triage | InnodbView::Findings => {
                let index = self.triage.rows.page_at(self.triage.selected)?;
                Some(PageTarget { page: survey.examined.pages.get(index)?.page, listed: Some(index) })
            }
            InnodbView::Slots => {
                let page = survey.slot_line(*self.slots.order.get(self.slots.selected)?)?.page()?;
                Some(survey.target(page))
            }
            InnodbView::Page => self.page.wanted,
            InnodbView::Batches => None,
        }
    }

    /// The first page of the group that is selected in the triage.
    #[must_use]
    pub fn first_of_group(&self) -> Option<PageTarget> {
        let survey = self.survey.as_deref().filter(|_| self.view == InnodbView::Triage)?;
        let group = self.triage.rows.groups.get(self.triage.rows.group_at(self.triage.selected)?)?;
        let index = *group.pages.first()?;
        Some(PageTarget { page: survey.examined.pages.get(index)?.page, listed: Some(index) })
    }

    /// What was typed for the open list.
    #[must_use]
    pub fn filter(&self) -> &str {
        match self.view {
            InnodbView::Triage => &self.triage.filter,
            InnodbView::Batches => &self.batches.filter,
            InnodbView::Slots => &self.slots.filter,
            InnodbView::Page | InnodbView::Findings => "",
        }
    }

    /// Lines of the open list that match, and all of them.
    #[must_use]
    pub fn counts(&self) -> Option<(usize, usize)> {
        let Some(survey) = self.survey.as_deref() else {
            let all = self.triage.pending.len();
            return (self.view == InnodbView::Triage).then(|| (self.triage.rows.shown(), all));
        };
        match self.view {
            InnodbView::Triage => Some((self.triage.rows.shown(), survey.examined.pages.len())),
            InnodbView::Batches => Some((self.batches.order.len(), survey.batches.len())),
            InnodbView::Slots => Some((self.slots.order.len(), survey.slot_lines())),
            InnodbView::Page | InnodbView::Findings => None,
        }
    }

    /// Tells something.
    pub(super) fn tell(&mut self, words: impl Into<String>) {
        self.message = Some(Message { is_bad: false, words: words.into() });
    }

    /// Tells something bad.
    pub(super) fn warn(&mut self, words: impl Into<String>) {
        self.message = Some(Message { is_bad: true, words: words.into() });
    }
}
