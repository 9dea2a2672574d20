//! State of the terminal UI.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::action::Effect;
use super::checklist::ChecklistState;
use super::damage_map::{DamageMap, MapOrder};
use super::facts::{
    AppliedSheet, BeforeSheet, FoundPage, PageSheet, PlanSheet, Progress, Survey, UndoSheet, UndoneSheet, WalSurvey,
    WindowSheet,
};
use super::innodb::InnodbState;
use super::keymap::Keymap;
use super::list_filter::ListFilter;
use super::look::Look;
use super::query::Query;
use super::settings::Settings;
use super::view;
pub use super::views::{Column, PagePart, Scale, View, WalLevel};
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::wal::record_sheet::{RecordList, RecordSheet};
use crate::output::report::crash::Pressed;
use crate::repair::blocker::Overrides;
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator};

/// Columns from which on the detail of the selected line is beside the list.
const DETAIL_FROM: usize = 140;

const DIVIDER: usize = 3;

/// Columns of the bytes of two versions with their characters.
const BYTES: usize = 138;

/// Columns of the bytes alone.
const BYTES_WITHOUT_TEXT: usize = 105;

/// Least columns of the row under the cursor next to them.
const LEAST_ROW: usize = 40;

/// Least columns of the detail next to a list that has all that it can use.
const LEAST_DETAIL: usize = 52;

/// Keys that are kept for the crash report.
const MAX_PRESSED: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    Search,
    Apply,
    GoTo,
    Palette,
    Bookmarks,
    Relation,
    /// Where the journal goes.
    Journal,
    Allow,
    /// The word that has to be typed before a repair is taken back.
    Undo,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub kind: PromptKind,
    pub text: String,
}

#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// `pg_dwbinspect` or `pg_walfpi`.
    pub program: &'static str,
    /// The path, as it was given; for WAL, all paths.
    pub path: String,
    /// The subject as arguments of a command, with the other options.
    pub arguments: String,
    /// The arguments that say the same to `pg_walfpi`.
    pub wal_arguments: String,
    pub views: Vec<View>,
    pub is_guided: bool,
    /// Where the journal of a repair goes; `None`: beside the data directory.
    pub journal: Option<PathBuf>,
    /// Guards of a repair that were allowed by flags.
    pub allowed: Overrides,
}

/// Facts about the cluster, and the progress of reading.
#[derive(Clone, Default)]
pub struct ClusterState {
    pub opened: Option<ClusterCondition>,
    pub survey: Option<Arc<Survey>>,
    pub progress: Option<Progress>,
    pub is_reading: bool,
    pub has_changed: bool,
    pub failed: Option<String>,
    /// Pages were written since the survey was made: it says nothing of the cluster as it is now.
    pub is_outdated: bool,
}

impl ClusterState {
    pub fn outdated(&self) -> Option<Outdated<'_>> {
        match &self.failed {
            _ if self.is_reading => Some(Outdated::Again),
            Some(why) => Some(Outdated::Failed(why)),
            None => self.has_changed.then_some(Outdated::Changed),
        }
    }
}

/// Why the last check that is shown says nothing certain of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated<'a> {
    Again,
    Failed(&'a str),
    Changed,
}

impl Outdated<'_> {
    /// Text of the status line without another message; the progress bar shows that files are being read.
    pub fn status(self) -> Option<String> {
        match self {
            Self::Again => None,
            Self::Failed(why) => Some(format!("outdated: the last check failed ({why}). r retries")),
            Self::Changed => Some("files have changed since they were read: r reads them again".to_owned()),
        }
    }
}

impl fmt::Display for Outdated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("the check that was begun again has not ended"),
            Self::Failed(why) => write!(f, "the check was done again and failed: {why}"),
            Self::Changed => f.write_str("files have changed since they were read"),
        }
    }
}

#[derive(Clone, Default)]
pub struct HelpState {
    /// Words that are searched for in the keys of all views.
    pub filter: String,
    pub is_open: bool,
    pub top: usize,
}

/// The list of damaged pages.
#[derive(Clone, Default)]
pub struct TriageState {
    /// Index of the selected row of the map.
    pub selected: usize,
    pub map: DamageMap,
    pub order: MapOrder,
    /// Damaged pages that are known while the check runs, by identity.
    pub found: BTreeMap<PageId, FoundPage>,
    /// Index of the selected finding.
    pub finding: usize,
}

impl TriageState {
    /// The name of a relation with pages that are not judged yet, else its numbers.
    pub(super) fn called(&self, rel: RelFileLocator) -> String {
        let first = PageId { rel, fork: ForkNumber::Main, block: 0 };
        let found = self.found.range(first..).next().filter(|(page, _)| page.rel == rel);
        found.map_or_else(|| rel.to_string(), |(_, one)| one.called.to_string())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct MapState {
    /// Index of the selected fork.
    pub selected: usize,
    pub is_open: bool,
    pub cell: usize,
}

#[derive(Clone, Default)]
pub struct BatchesState {
    /// Index of the selected batch in the survey.
    pub selected: usize,
    /// The slot under the cursor of the ring, as an index into the slots of the survey.
    pub cursor: usize,
    /// How many slots of the ring are shown while it is shown as it was written.
    pub played: Option<usize>,
}

#[derive(Clone, Default)]
pub struct SlotsState {
    /// Indexes into the slots of the survey, in the order in which they are listed.
    pub order: Vec<usize>,
    /// Index of the selected line in `order`.
    pub selected: usize,
    pub column: Column,
    pub descending: bool,
    pub only: bool,
    /// Only slots of this batch, by its index in the survey.
    pub batch: Option<usize>,
    pub name_columns: usize,
}

/// One page and its images.
#[derive(Clone, Default)]
pub struct PageState {
    pub came_from: View,
    pub wanted: Option<PageId>,
    pub sheet: Option<Arc<PageSheet>>,
    pub part: PagePart,
    pub top: usize,
    pub left: usize,
    pub cursor: usize,
    pub image: usize,
    /// Index of the selected row, among those of the image.
    pub row: usize,
    /// Everything about the selected line is shown instead of the list.
    pub is_open: bool,
    pub is_unfolded: bool,
    /// Index of the selected record.
    pub record: usize,
}

/// Full-page images in WAL.
#[derive(Clone, Default)]
pub struct WalState {
    pub survey: Option<Arc<WalSurvey>>,
    pub progress: Option<Progress>,
    pub error: Option<String>,
    /// Index of the selected interval.
    pub selected: usize,
    pub is_reading: bool,
    /// Parts of the timeline that were zoomed into, each by its stretches; the last one is drawn.
    pub zoom: Vec<Range<usize>>,
    /// The chart goes by address although times are known.
    pub by_address: bool,
    pub scale: Scale,
    /// Index of the selected relation or cause.
    pub row: usize,
    pub is_following: bool,
    pub window: Option<Arc<WindowSheet>>,
    pub level: WalLevel,
    /// Index of the selected stretch among all of them.
    pub cell: usize,
    pub stretch: Option<Arc<WindowSheet>>,
    /// Where lists of the selected stretch begin, up to the one that is wanted: an address, and images before it.
    pub lists: Vec<(Lsn, usize)>,
    pub asked_list: Option<Lsn>,
    pub list: Option<Arc<RecordList>>,
    /// Index of the selected record in the list.
    pub record: usize,
    pub asked_record: Option<Lsn>,
    pub sheet: Option<Result<Arc<RecordSheet>, String>>,
    pub top: usize,
    pub block: usize,
}

/// The repair: what it would do, and how it goes.
#[derive(Clone, Default)]
pub struct PlanState {
    /// Pages marked for repair; none: all proven ones.
    pub marks: BTreeSet<PageId>,
    pub sheet: Option<Arc<PlanSheet>>,
    pub applied: Option<Arc<AppliedSheet>>,
    pub top: usize,
    pub is_rehearsing: bool,
    pub is_applying: bool,
    pub is_saved: bool,
    pub failure: Option<String>,
    /// Where the user wants the journal; `None`: beside the data directory.
    pub journal: Option<PathBuf>,
    pub allowed: Overrides,
    pub before: Option<Arc<BeforeSheet>>,
    pub before_top: usize,
    pub rehearsed: Option<usize>,
    pub undo: Option<Arc<UndoSheet>>,
    pub undone: Option<Arc<UndoneSheet>>,
}

impl PlanState {
    pub fn marked(&self) -> Vec<PageId> {
        self.marks.iter().copied().collect()
    }
}

/// A line that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    pub view: View,
    pub page: Option<PageId>,
    pub slot: Option<usize>,
    pub name: String,
}

/// Something to tell in the status line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub is_bad: bool,
    pub words: String,
}

/// Everything that is shown: what all views share, then a struct for each view.
#[derive(Clone, Default)]
pub struct State {
    pub subject: Subject,
    pub look: Look,
    pub size: (u16, u16),
    pub view: View,
    pub help: HelpState,
    pub prompt: Option<Prompt>,
    pub query: Query,
    pub message: Option<Message>,
    /// The program ends when nothing is being written any more.
    pub is_ending: bool,
    /// The keys that were pressed, the last of them if there were very many.
    pub pressed: Vec<Pressed>,
    pub cluster: ClusterState,
    pub triage: TriageState,
    pub map: MapState,
    pub checklist: ChecklistState,
    pub batches: BatchesState,
    pub slots: SlotsState,
    pub page: PageState,
    pub wal: WalState,
    pub innodb: InnodbState,
    pub plan: PlanState,
    /// The key that leaves was pressed although pages are marked.
    pub is_leaving: bool,
    /// Views from which others were opened: `esc` goes back to the last one.
    pub trail: Vec<View>,
    pub visited: Vec<PageId>,
    /// Pages that were left by going back, the next one last.
    pub ahead: Vec<PageId>,
    /// When the prompt to go somewhere was opened: a second `g` right after it goes to the first line.
    pub asked_at: Option<Instant>,
    pub bookmarks: Vec<Bookmark>,
    pub candidates: Vec<(RelFileLocator, String)>,
    pub wanted_page: (ForkNumber, Option<u32>),
    pub picked: usize,
    pub is_guided: bool,
    pub list_filter: ListFilter,
    pub keys: Keymap,
    /// Wrong lines of the settings.
    pub faults: Vec<String>,
}

impl State {
    pub fn new(subject: Subject, look: Look, size: (u16, u16)) -> Self {
        let view = subject.views.first().copied().unwrap_or(View::Triage);
        let is_guided = subject.is_guided;
        let (journal, allowed) = (subject.journal.clone(), subject.allowed);
        Self {
            subject,
            look,
            size,
            view,
            page: PageState { came_from: view, ..PageState::default() },
            plan: PlanState { journal, allowed, ..PlanState::default() },
            is_guided,
            ..Self::default()
        }
    }

    pub fn survey(&self) -> Option<&Survey> {
        self.cluster.survey.as_deref()
    }

    /// Something was read once.
    pub(super) const fn has_survey(&self) -> bool {
        self.cluster.survey.is_some() || self.innodb.survey.is_some()
    }

    /// The selected line of the open list.
    pub(super) const fn selection(&mut self) -> Option<&mut usize> {
        Some(match (self.view, self.page.part, self.wal.level) {
            (View::Triage, ..) => &mut self.triage.selected,
            (View::Findings, ..) => &mut self.triage.finding,
            (View::Batches, ..) => &mut self.batches.selected,
            (View::Slots, ..) => &mut self.slots.selected,
            (View::Pages, ..) => &mut self.innodb.selected,
            (View::Relations | View::Causes, ..) => &mut self.wal.row,
            (View::Page, PagePart::Rows, _) if !self.page.is_open => &mut self.page.row,
            (View::Page, PagePart::Wal, _) if !self.page.is_open => &mut self.page.record,
            (View::Wal, _, WalLevel::Timeline) => &mut self.wal.selected,
            (View::Wal, _, WalLevel::Records) => &mut self.wal.record,
            _ => return None,
        })
    }

    /// The first line of the open text that is shown.
    pub(super) const fn top(&mut self) -> Option<&mut usize> {
        Some(match self.view {
            View::Page => &mut self.page.top,
            View::Plan => &mut self.plan.top,
            View::Apply | View::Undo => &mut self.plan.before_top,
            View::Wal | View::WhatIf | View::Kept => &mut self.wal.top,
            View::InnodbPage => &mut self.innodb.top,
            _ => return None,
        })
    }

    pub(crate) fn note_pressed(&mut self, time: String, key: String) {
        if self.pressed.len() == MAX_PRESSED {
            self.pressed.remove(0);
        }
        self.pressed.push(Pressed { time, view: self.view.name(), key });
    }

    pub(crate) fn body_rows(&self) -> usize {
        usize::from(self.size.1).saturating_sub(3 + super::guide::lines(self).len())
    }

    pub fn columns(&self) -> usize {
        usize::from(self.size.0)
    }

    /// Columns that the detail of the selected line gets beside the list; 0 where the screen is too narrow, or the open
    /// view shows no details.
    pub(crate) fn detail_columns(&self) -> usize {
        let is_page = self.view == View::Page;
        let is_split = self.page.part == PagePart::Bytes || (self.page.part.is_list() && !self.page.is_open);
        let has_detail = self.view.has_detail() && (!is_page || is_split);
        match self.view {
            _ if self.columns() < DETAIL_FROM || !has_detail => 0,
            // The strip of blocks has all that it can use before.
            View::Triage => {
                let list =
                    view::damage_map::FIXED + view::damage_map::STRIP + self.triage.map.name_columns.clamp(26, 40);
                let detail = self.columns().saturating_sub(list + DIVIDER);
                if detail < LEAST_DETAIL { 0 } else { detail }
            }
            // Both sides of the bytes have what they need before.
            View::Page if self.page.part == PagePart::Bytes => {
                let with_text = self.columns().saturating_sub(BYTES + DIVIDER);
                let without = self.columns().saturating_sub(BYTES_WITHOUT_TEXT + DIVIDER);
                [with_text, without].into_iter().find(|detail| *detail >= LEAST_ROW).unwrap_or(0)
            }
            // A slot has many columns of its own.
            View::Slots => self.columns() * 3 / 10,
            _ => self.columns() * 9 / 20,
        }
    }

    /// Columns of the list, without the line between it and the detail.
    pub(crate) fn list_columns(&self) -> usize {
        match self.detail_columns() {
            0 => self.columns(),
            detail => self.columns() - detail - DIVIDER,
        }
    }

    /// The page that the selected line of the open view stands for.
    pub fn selected_page(&self) -> Option<PageId> {
        let survey = self.survey()?;
        match self.view {
            View::Triage => self.triage.map.page(self.triage.selected).map(|one| one.page),
            View::Slots => {
                let index = self.slots.order.get(self.slots.selected)?;
                survey.slots().get(*index)?.page
            }
            View::Map => view::map::page(self, survey).filter(|_| self.map.is_open),
            View::Page => self.page.wanted.filter(|_| self.page.sheet.is_some()),
            _ => None,
        }
    }

    /// The journal that would be undone: that of the repair made last, else the newest beside the data directory with pages
    /// that are as its repair wrote them.
    pub(crate) fn journal_in_force(&self) -> Option<&Path> {
        let applied = self.plan.applied.as_ref().map(|applied| applied.journal.as_path());
        applied.or_else(|| Some(self.survey()?.journals.in_force()?.directory.as_path()))
    }

    /// Mark of a page selected for repair: `*`, or `?` if its image is not proven. A blank for a page that
    /// is not marked.
    pub fn mark_sign(&self, page: PageId) -> &'static str {
        if !self.plan.marks.contains(&page) {
            return " ";
        }
        let report = self.survey().and_then(|survey| survey.damaged(page));
        match report.map(|report| report.verdict.verdict) {
            Some(verdict) if verdict.is_proven() => "*",
            _ => "?",
        }
    }

    pub(crate) fn marked_counts(&self) -> (usize, usize) {
        let marks = &self.plan.marks;
        (marks.len(), marks.iter().filter(|page| self.mark_sign(**page) == "?").count())
    }

    /// Takes the keys of the settings, and says what is wrong with them.
    pub fn with_settings(mut self, settings: Settings) -> Self {
        let Settings { keys, faults, .. } = settings;
        if let Some((first, others)) = faults.split_first() {
            let more =
                if others.is_empty() { String::new() } else { format!(" (and {} more: ? lists them)", others.len()) };
            self.warn(format!("{first}{more}"));
        }
        Self { keys, faults, ..self }
    }

    pub(super) fn tell(&mut self, words: impl Into<String>) {
        self.message = Some(Message { is_bad: false, words: words.into() });
    }

    /// Tells this, and asks for no work.
    pub(super) fn only_tell(&mut self, words: impl Into<String>) -> Vec<Effect> {
        self.tell(words);
        Vec::new()
    }

    /// Warns of this, and asks for no work.
    pub(super) fn only_warn(&mut self, words: impl Into<String>) -> Vec<Effect> {
        self.warn(words);
        Vec::new()
    }

    pub(super) fn warn(&mut self, words: impl Into<String>) {
        self.message = Some(Message { is_bad: true, words: words.into() });
    }
}

/// First of `count` lines to be shown so that the selected one stands in the middle of `rows` where it can.
pub(crate) fn list_top(selected: usize, count: usize, rows: usize) -> usize {
    selected.saturating_sub(rows / 2).min(count.saturating_sub(rows))
}

/// A line further by so many, and none past the last one.
pub(super) fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}

/// The next index of `count` that fits, from `at` on and past the end from the start. `here`: `at` itself may be it.
pub(super) fn next_index(
    at: usize,
    count: usize,
    forward: bool,
    here: bool,
    fits: &dyn Fn(usize) -> bool,
) -> Option<usize> {
    let mut steps = if here { 0..count } else { 1..count + 1 };
    let index = |step: usize| if forward { (at + step) % count } else { (at + count - step % count) % count };
    steps.find_map(|step| Some(index(step)).filter(|at| fits(*at)))
}

/// The value so many places further among all, past the last one from the first.
pub(super) fn stepped<T: Copy + PartialEq>(all: &[T], one: T, step: isize) -> T {
    let at = all.iter().position(|other| *other == one).unwrap_or(0).cast_signed();
    let next = (at + step).rem_euclid(all.len().max(1).cast_signed());
    all.get(next.cast_unsigned()).copied().unwrap_or(one)
}
