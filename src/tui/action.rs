//! Actions that change the state, and effects that it requests.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::crossterm::event::KeyEvent;

use super::facts::{
    AppliedSheet, BeforeSheet, FoundPage, PageSheet, PlanSheet, Progress, Survey, UndoSheet, UndoneSheet, WalSurvey,
};
use super::innodb::InnodbSurvey;
use super::state::View;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::record_sheet::{RecordList, RecordSheet};
use crate::output::report::crash::Pressed;
use crate::repair::blocker::Overrides;
use crate::repair::plan::Plan;
use crate::types::{Lsn, PageId};

/// Meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Command {
    Quit,
    Help,
    Back,
    NextView,
    PreviousView,
    Show(View),
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    Top,
    Bottom,
    LastPage,
    PageAfter,
    HalfDown,
    First,
    Last,
    Left,
    Right,
    NextPart,
    PreviousPart,
    Open,
    NextImage,
    Search,
    NextMatch,
    PreviousMatch,
    OnlyMatches,
    Sort,
    Reverse,
    Mark,
    Copy,
    Export,
    Save,
    DryRun,
    Apply,
    ChooseJournal,
    Allow,
    Reload,
    Suspend,
    Redraw,
    Report,
    NextDifference,
    PreviousDifference,
    NextDamaged,
    PreviousDamaged,
    Fold,
    GoTo,
    Palette,
    Bookmark,
    Bookmarks,
    RowUp,
    RowDown,
    Play,
    Wider,
    Narrower,
    WholeWindow,
    Zoom,
    Axis,
    Scale,
    Follow,
    Undo,
    OpenGroup,
    CloseGroup,
    Guide,
    Tick,
}

impl Command {
    /// The name in the settings; for a view, its word on the tab.
    pub fn name(self) -> String {
        match self {
            Self::Show(view) => view.name().to_lowercase().replace(' ', "-"),
            _ => <&str>::from(self).to_owned(),
        }
    }
}

#[derive(Clone)]
pub enum Action {
    Idle(KeyEvent),
    Do(Command),
    Type(char),
    Erase,
    Enter,
    Click(u16, u16),
    /// The wheel was turned by so many lines.
    Scroll(isize),
    Resize(u16, u16),
    Opened(ClusterCondition),
    Progressed(Progress),
    Surveyed(Arc<Survey>),
    InnodbSurveyed(Arc<InnodbSurvey>),
    SurveyFailed(String),
    WalProgressed(Progress),
    WalRead(Arc<WalSurvey>),
    WalFailed(String),
    PageRead(Arc<PageSheet>),
    Planned(Arc<PlanSheet>),
    PlanSaved(PathBuf),
    /// The view was written as this text file, and as JSON beside it.
    Exported(PathBuf),
    Failed(String),
    /// Something of a repair did not work, or a dry run met something that forbids it.
    Refused(String),
    /// A dry run of this order met nothing that forbids writing its pages.
    Rehearsed(Box<RepairOrder>),
    Applied(Arc<AppliedSheet>),
    /// The crash report was written: the page, and Markdown beside it.
    Reported(PathBuf),
    LookedBefore(Arc<BeforeSheet>),
    UndoRehearsed(Arc<UndoSheet>),
    Undone(Arc<UndoneSheet>),
    FilesChanged,
    /// The program must end as soon as nothing is being written.
    Terminate,
    Tick,
    RecordsListed(Arc<RecordList>),
    RecordRead(Arc<RecordSheet>),
    RecordFailed(Lsn, String),
    /// Damaged pages were found; they are not judged yet.
    Found(Arc<Vec<(PageId, FoundPage)>>),
    /// A repair or an undo did not finish, and pages may have been written.
    BrokenOff(String),
}

/// A plan to apply or rehearse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairOrder {
    pub plan: Plan,
    pub pages: Vec<PageId>,
    /// Where the journal goes; `None`: beside the data directory.
    pub journal: Option<PathBuf>,
    /// Permissions given in the terminal UI, in addition to the command line.
    pub allowed: Overrides,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoOrder {
    pub journal: PathBuf,
    pub allowed: Overrides,
}

/// Something to be done outside of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Quit,
    Fail(String),
    Tick,
    Suspend,
    Redraw,
    Survey,
    ReadWal,
    ReadPage(PageId),
    /// Make a plan for these pages; for all proven ones if empty.
    MakePlan(Vec<PageId>),
    SavePlan(Plan),
    /// Write the crash report as a page and as Markdown into new files; what was pressed so far.
    Report(Vec<Pressed>),
    /// Rehearse this plan: all checks, but write nothing.
    DryRun(RepairOrder),
    ApplyPlan(RepairOrder),
    LookBefore(RepairOrder),
    /// Do everything that taking this repair back does, but write nothing.
    RehearseUndo(UndoOrder),
    Undo(UndoOrder),
    Copy(String),
    /// Write the view as text and as JSON into new files with this name.
    Export {
        /// Name without its ending.
        name: String,
        text: String,
        json: String,
    },
    ListRecords {
        from: Lsn,
        to: Lsn,
        /// Causes of the images from there on, in order, where they are known.
        causes: Option<Vec<Cause>>,
    },
    ReadRecord {
        at: Lsn,
        /// Causes of its images, where they are known.
        causes: Vec<Cause>,
    },
}
