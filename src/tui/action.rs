//! What can happen to the state, and what the state asks for.

use std::sync::Arc;

use super::facts::{PageSheet, PlanSheet, Progress, Survey, WalSurvey};
use super::state::View;
use crate::types::PageId;

/// What a key stands for.
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
    /// To the first line.
    First,
    /// To the last line.
    Last,
    /// The part to the left.
    Left,
    /// The part to the right.
    Right,
    /// Open the selected line.
    Open,
    /// Compare with the next image.
    NextImage,
    /// Type what to look for.
    Search,
    /// The next line that fits.
    NextMatch,
    /// The line before that fits.
    PreviousMatch,
    /// Show only lines that fit, or all.
    OnlyMatches,
    /// Sort by the next column.
    Sort,
    /// Turn the order round.
    Reverse,
    /// Mark or unmark a page for repair.
    Mark,
    /// Copy the command line that shows the same.
    Copy,
    /// Write the view into a new file.
    Export,
    /// Save the plan.
    Save,
    /// Carry the plan out.
    Apply,
    /// Read everything again.
    Reload,
    /// Stop the program until the shell continues it.
    Suspend,
    /// Draw everything anew.
    Redraw,
}

/// Something that happened.
#[derive(Clone)]
pub enum Action {
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
    Opened(String),
    /// Work went on.
    Progressed(Progress),
    /// The check is done.
    Surveyed(Arc<Survey>),
    /// WAL went on.
    WalProgressed(Progress),
    /// WAL was read.
    WalRead(Arc<WalSurvey>),
    /// WAL cannot be read.
    WalFailed(String),
    /// A page was read.
    PageRead(Arc<PageSheet>),
    /// A plan was made.
    Planned(Arc<PlanSheet>),
    /// Something to tell.
    Told(String),
    /// Something did not work.
    Failed(String),
    /// Pages were written: what was said about it.
    Applied(String),
    /// Files have changed since they were read.
    FilesChanged,
}

/// Something to be done outside of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// End the program.
    Quit,
    /// Stop until continued.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Check the cluster again.
    Survey,
    /// Read a page and its images.
    ReadPage(PageId),
    /// Make a plan for these pages; for all proven ones when there are none.
    MakePlan(Vec<PageId>),
    /// Save the plan for these pages as a new file.
    SavePlan(Vec<PageId>),
    /// Carry out the plan for these pages.
    ApplyPlan(Vec<PageId>),
    /// Hand a text to the terminal's clipboard.
    Copy(String),
    /// Write a text into a new file with this name.
    Export(String, String),
}
