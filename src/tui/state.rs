//! What the screen shows.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::facts::{AppliedSheet, PageSheet, PlanSheet, Progress, Survey, WalSurvey};
use super::look::Look;
use super::query::Query;
use crate::types::PageId;

/// The views, in the order of the tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// What is wrong and what to do.
    Triage,
    /// What was written between checkpoints.
    Batches,
    /// All slots.
    Slots,
    /// One page.
    Page,
    /// Full-page images in WAL.
    Wal,
    /// What a repair would do.
    Plan,
}

impl View {
    /// All views.
    pub const ALL: [Self; 6] = [Self::Triage, Self::Batches, Self::Slots, Self::Page, Self::Wal, Self::Plan];

    /// The word on the tab.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Triage => "Triage",
            Self::Batches => "Batches",
            Self::Slots => "Slots",
            Self::Page => "Page",
            Self::Wal => "WAL",
            Self::Plan => "Plan",
        }
    }
}

/// Parts of the page view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePart {
    /// Evidence and verdict.
    Verdict,
    /// Bytes side by side.
    Bytes,
    /// Header and line pointers.
    Header,
    /// Records in WAL.
    Wal,
}

impl PagePart {
    /// All parts, from left to right.
    pub const ALL: [Self; 4] = [Self::Verdict, Self::Bytes, Self::Header, Self::Wal];

    /// The word above it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Bytes => "bytes",
            Self::Header => "header",
            Self::Wal => "records",
        }
    }
}

/// Columns that slots are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// File and place.
    Slot,
    /// Relation, fork, block.
    Page,
    /// LSN of the image.
    PageLsn,
    /// How the slot's CRC is.
    Condition,
    /// Which batch.
    Batch,
    /// How the image stands to the page.
    Disk,
}

impl Column {
    /// All columns, from left to right.
    pub const ALL: [Self; 6] = [Self::Slot, Self::Page, Self::PageLsn, Self::Condition, Self::Batch, Self::Disk];
}

/// What is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// Terms to look for.
    Search,
    /// The word that lets a repair go.
    Apply,
}

/// An open prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What for.
    pub kind: PromptKind,
    /// What was typed so far.
    pub text: String,
}

/// What the program is opened on.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `pg_dwbinspect` or `pg_walfpi`.
    pub program: &'static str,
    /// The path, as it was given; for WAL, all paths.
    pub path: String,
    /// The same as arguments of a command, with what else was given.
    pub arguments: String,
    /// The arguments that say the same to `pg_walfpi`.
    pub wal_arguments: String,
    /// Views that there are.
    pub views: Vec<View>,
}

/// Slots as they are listed.
#[derive(Clone, Debug, Default)]
pub struct SlotList {
    /// Places in the survey, in order.
    pub order: Vec<usize>,
    /// Place of the selected line in `order`.
    pub at: usize,
    /// Place of the sort column in [`Column::ALL`].
    pub column: usize,
    /// Largest first.
    pub descending: bool,
    /// Only slots that fit the query.
    pub only: bool,
}

/// Everything that is shown.
#[derive(Clone)]
pub struct State {
    /// What it is about.
    pub subject: Subject,
    /// Colours and characters.
    pub look: Look,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The view that is open.
    pub view: View,
    /// The view from which a page was opened.
    pub came_from: View,
    /// The help is open.
    pub help: bool,
    /// First line of the help that is shown.
    pub help_top: usize,
    /// State of the cluster, as soon as it is known.
    pub opened: Option<String>,
    /// The check, when it is done.
    pub survey: Option<Arc<Survey>>,
    /// How far the check is.
    pub progress: Option<Progress>,
    /// WAL, when it was read.
    pub wal: Option<Arc<WalSurvey>>,
    /// How far WAL is.
    pub wal_progress: Option<Progress>,
    /// Why WAL cannot be read.
    pub wal_error: Option<String>,
    /// Selected damaged page.
    pub triage_at: usize,
    /// Selected batch.
    pub batch_at: usize,
    /// The list of slots.
    pub slots: SlotList,
    /// Selected interval.
    pub interval_at: usize,
    /// The page that is wanted.
    pub page: Option<PageId>,
    /// The page that was read.
    pub sheet: Option<Arc<PageSheet>>,
    /// Part of the page view.
    pub part: PagePart,
    /// First line of the part that is shown.
    pub page_top: usize,
    /// First column of the part that is shown.
    pub page_left: usize,
    /// The byte that the cursor is on.
    pub cursor: usize,
    /// The image that the disk is compared with, from 0.
    pub image: usize,
    /// Pages marked for repair.
    pub marks: BTreeSet<PageId>,
    /// The plan.
    pub plan: Option<Arc<PlanSheet>>,
    /// What was written last.
    pub applied: Option<Arc<AppliedSheet>>,
    /// First line of the plan that is shown.
    pub plan_top: usize,
    /// What is being typed.
    pub prompt: Option<Prompt>,
    /// What is looked for.
    pub query: Query,
    /// Something to tell, and whether it is bad news.
    pub message: Option<(bool, String)>,
    /// Files have changed since they were read.
    pub changed: bool,
    /// The cluster is being checked.
    pub surveying: bool,
    /// WAL is being read.
    pub reading_wal: bool,
    /// A dry run goes on.
    pub rehearsing: bool,
    /// A repair is being carried out.
    pub applying: bool,
    /// The program ends when nothing is being written any more.
    pub terminating: bool,
}

impl State {
    /// Nothing known yet.
    #[must_use]
    pub fn new(subject: Subject, look: Look, size: (u16, u16)) -> Self {
        let view = subject.views.first().copied().unwrap_or(View::Triage);
        Self {
            subject,
            look,
            size,
            view,
            came_from: view,
            help: false,
            help_top: 0,
            opened: None,
            survey: None,
            progress: None,
            wal: None,
            wal_progress: None,
            wal_error: None,
            triage_at: 0,
            batch_at: 0,
            slots: SlotList::default(),
            interval_at: 0,
            page: None,
            sheet: None,
            part: PagePart::Verdict,
            page_top: 0,
            page_left: 0,
            cursor: 0,
            image: 0,
            marks: BTreeSet::new(),
            plan: None,
            applied: None,
            plan_top: 0,
            prompt: None,
            query: Query::default(),
            message: None,
            changed: false,
            surveying: false,
            reading_wal: false,
            rehearsing: false,
            applying: false,
            terminating: false,
        }
    }

    /// Rows between the tabs and the two lines at the bottom.
    #[must_use]
    pub fn body_rows(&self) -> usize {
        usize::from(self.size.1).saturating_sub(3)
    }

    /// Columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        usize::from(self.size.0)
    }

    /// The page that the selected line of the open view stands for.
    #[must_use]
    pub fn selected_page(&self) -> Option<PageId> {
        let survey = self.survey.as_ref()?;
        match self.view {
            View::Triage => survey.pages.get(self.triage_at).map(|line| line.page),
            View::Slots => self.slots.order.get(self.slots.at).and_then(|at| survey.slots.get(*at)?.page),
            View::Page => self.page.filter(|_| self.sheet.is_some()),
            View::Batches | View::Wal | View::Plan => None,
        }
    }
}

/// First of `count` lines to be shown so that the selected one stands in the middle of `rows` where it can.
#[must_use]
pub fn list_top(selected: usize, count: usize, rows: usize) -> usize {
    selected.saturating_sub(rows / 2).min(count.saturating_sub(rows))
}
