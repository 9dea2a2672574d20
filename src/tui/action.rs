//! Actions that change the state, and effects that it requests.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::crossterm::event::KeyEvent;

use super::facts::{
    AppliedSheet, BeforeSheet, FoundPage, PageSheet, PlanSheet, Progress, Survey, UndoSheet, UndoneSheet, WalSurvey,
};
use super::innodb::InnodbSurvey;
use super::state::View;
use crate::analysis::cluster_condition::ClusterCondition;
use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::record_sheet::{RecordList, RecordSheet};
use crate::output::report::crash::Pressed;
use crate::repair::blocker::Overrides;
use crate::repair::plan::Plan;
use crate::types::{Lsn, PageId};

/// Meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Leave the program.
    Quit,
    /// Show or hide the help.
    Help,
    /// Close what is open, or go back.
    Back,
    /// The view to the right.
    NextView,
    /// The view to the left.
    PreviousView,
    /// This view.
    Show(View),
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// Half a screen up.
    HalfUp,
    /// The first line on the screen.
    Top,
    /// The last line on the screen.
    Bottom,
    /// The page that was open before.
    LastPage,
    /// Half a screen down.
    HalfDown,
    /// To the first line.
    First,
    /// To the last line.
    Last,
    /// A byte or some columns to the left.
    Left,
    /// Scrolls to the right.
    Right,
    /// The next part of the page.
    NextPart,
    /// The part before.
    PreviousPart,
    /// Open the selected line.
    Open,
    /// Compare with the next image.
    NextImage,
    /// Type what to look for.
    Search,
    /// The next line that matches.
    NextMatch,
    /// The previous line that matches.
    PreviousMatch,
    /// Show only lines that match, or all.
    OnlyMatches,
    /// Sort by the next column.
    Sort,
    /// Reverse the order.
    Reverse,
    /// Mark or unmark a page for repair.
    Mark,
    /// Copy the command line that shows the same.
    Copy,
    /// Write the view into a new file.
    Export,
    /// Save the plan.
    Save,
    /// Go through everything but the writing.
    DryRun,
    /// Apply the plan.
    Apply,
    /// Choose another directory for the journal.
    ChooseJournal,
    /// Allow what a guard refuses.
    Allow,
    /// Read everything again.
    Reload,
    /// Stop the program until the shell continues it.
    Suspend,
    /// Redraw everything.
    Redraw,
    /// Write the crash report.
    Report,
    /// To the next stretch or row in which disk and image differ.
    NextDifference,
    /// To the one before.
    PreviousDifference,
    /// The next damaged page.
    NextDamaged,
    /// The damaged page before.
    PreviousDamaged,
    /// Show bytes that are equal, or only say how many they are.
    Fold,
    /// Type where to go.
    GoTo,
    /// Pick a command while typing.
    Palette,
    /// Keep the selected line.
    Bookmark,
    /// Pick one of those.
    Bookmarks,
    /// A row of the map up.
    RowUp,
    /// A row of the map down.
    RowDown,
    /// Show the ring as it was written, or stop that.
    Play,
    /// Make the window on WAL twice as wide.
    Wider,
    /// Make it half as wide.
    Narrower,
    /// All WAL in the window, or one interval.
    WholeWindow,
    /// Draw only the window.
    Zoom,
    /// Draw WAL by time or by address.
    Axis,
    /// The next scale of the chart.
    Scale,
    /// Read WAL as it is written, or stop that.
    Follow,
    /// Take the last repair back.
    Undo,
    /// Show the pages of the selected relation.
    OpenGroup,
    /// Hide them again.
    CloseGroup,
    /// Begin or end guided mode.
    Guide,
    /// Tick the selected step, or take that back.
    Tick,
}

/// Something that happened.
#[derive(Clone)]
pub enum Action {
    /// A key that does nothing in the open view.
    Idle(KeyEvent),
    /// A key of the table.
    Do(Command),
    /// A character for the open prompt.
    Type(char),
    /// Take the last character of the prompt back.
    Erase,
    /// The prompt is complete.
    Enter,
    /// The mouse was pressed at this column and row.
    Click(u16, u16),
    /// The wheel was turned by so many lines.
    Scroll(isize),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// The cluster's state is known.
    Opened(ClusterCondition),
    /// Work progressed.
    Progressed(Progress),
    /// The check is done.
    Surveyed(Arc<Survey>),
    /// The check of MySQL or MariaDB is done.
    InnodbSurveyed(Arc<InnodbSurvey>),
    /// The cluster cannot be checked.
    SurveyFailed(String),
    /// Reading of WAL progressed.
    WalProgressed(Progress),
    /// WAL was read.
    WalRead(Arc<WalSurvey>),
    /// WAL cannot be read.
    WalFailed(String),
    /// A page was read.
    PageRead(Arc<PageSheet>),
    /// A plan was made.
    Planned(Arc<PlanSheet>),
    /// The plan was saved as this file.
    PlanSaved(PathBuf),
    /// The view was written as this text file, and as JSON beside it.
    Exported(PathBuf),
    /// Something did not work.
    Failed(String),
    /// Something of a repair did not work, or a dry run met something that forbids it.
    Refused(String),
    /// A dry run of this order met nothing that forbids writing its pages.
    Rehearsed(Box<RepairOrder>),
    /// Pages were written.
    Applied(Arc<AppliedSheet>),
    /// The crash report was written: the page, and Markdown beside it.
    Reported(PathBuf),
    /// The check before applying a plan is complete.
    LookedBefore(Arc<BeforeSheet>),
    /// An undo was rehearsed, or is refused.
    UndoRehearsed(Arc<UndoSheet>),
    /// The old bytes are back.
    Undone(Arc<UndoneSheet>),
    /// Files have changed since they were read.
    FilesChanged,
    /// The program must end as soon as nothing is being written.
    Terminate,
    /// Some time has passed since it was asked for.
    Tick,
    /// Records were listed.
    RecordsListed(Arc<RecordList>),
    /// A record was read.
    RecordRead(Arc<RecordSheet>),
    /// The record at this address cannot be read.
    RecordFailed(Lsn, String),
    /// Damaged pages were found; they are not judged yet.
    Found(Arc<Vec<(PageId, FoundPage)>>),
    /// A repair or an undo did not finish, and pages may have been written.
    BrokenOff(String),
}

/// A plan to apply or rehearse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairOrder {
    /// The plan.
    pub plan: Plan,
    /// The pages that were marked.
    pub pages: Vec<PageId>,
    /// Where the journal goes; `None`: beside the data directory.
    pub journal: Option<PathBuf>,
    /// Permissions given in the terminal UI, in addition to the command line.
    pub allowed: Overrides,
}

/// A repair to undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoOrder {
    /// Directory of its journal.
    pub journal: PathBuf,
    /// Permissions given in the terminal UI.
    pub allowed: Overrides,
}

/// Something to be done outside of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// End the program.
    Quit,
    /// End the program with this error.
    Fail(String),
    /// Say when a twentieth of a second has passed.
    Tick,
    /// Stop until continued.
    Suspend,
    /// Redraw everything.
    Redraw,
    /// Check the cluster.
    Survey,
    /// Count what is in WAL.
    ReadWal,
    /// Read a page and its images.
    ReadPage(PageId),
    /// Make a plan for these pages; for all proven ones if empty.
    MakePlan(Vec<PageId>),
    /// Save this plan as a new file.
    SavePlan(Plan),
    /// Write the crash report as a page and as Markdown into new files; what was pressed so far.
    Report(Vec<Pressed>),
    /// Rehearse this plan: all checks, but write nothing.
    DryRun(RepairOrder),
    /// Apply this plan.
    ApplyPlan(RepairOrder),
    /// Run the check before applying this plan.
    LookBefore(RepairOrder),
    /// Do everything that taking this repair back does, but write nothing.
    RehearseUndo(UndoOrder),
    /// Take this repair back.
    Undo(UndoOrder),
    /// Hand a text to the terminal's clipboard.
    Copy(String),
    /// Write the view as text and as JSON into new files with this name.
    Export {
        /// Name without its ending.
        name: String,
        /// The view as text.
        text: String,
        /// The document as JSON.
        json: String,
    },
    /// List records of WAL.
    ListRecords {
        /// Where to begin.
        from: Lsn,
        /// The first that is not wanted starts here or later.
        to: Lsn,
        /// Causes of the images from there on, in order, where they are known.
        causes: Option<Vec<Cause>>,
    },
    /// Read all of one record.
    ReadRecord {
        /// Its start.
        at: Lsn,
        /// Causes of its images, where they are known.
        causes: Vec<Cause>,
    },
}
