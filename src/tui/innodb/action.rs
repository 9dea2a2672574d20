//! What can happen, and what is asked for.

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::crossterm::event::KeyEvent;

use super::facts::{InnodbPageSheet, InnodbSurvey, PageTarget, PendingPage, SlotSheet};
use super::state::InnodbView;
use crate::tui::facts::Progress;

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnodbCommand {
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
    Show(InnodbView),
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
    /// A byte to the left, or close a group.
    Left,
    /// A byte to the right, or open a group.
    Right,
    /// The next part of the page.
    NextPart,
    /// The part before.
    PreviousPart,
    /// Open the selected line.
    Open,
    /// Compare with the next image.
    NextImage,
    /// To the next bytes in which disk and image differ.
    NextDifference,
    /// To the ones before.
    PreviousDifference,
    /// The next damaged page.
    NextDamaged,
    /// The damaged page before.
    PreviousDamaged,
    /// Show bytes that are equal, or only say how many they are.
    Fold,
    /// Type what to look for.
    Filter,
    /// Type where to go.
    GoTo,
    /// Pick a command while typing.
    Palette,
    /// Keep the selected line.
    Bookmark,
    /// Pick one of those.
    Bookmarks,
    /// Sort by the next column.
    Sort,
    /// Reverse the order.
    Reverse,
    /// A key of repairs.
    Repair,
    /// Copy the command line that shows the same.
    Copy,
    /// Write the view into new files.
    Export,
    /// Write the crash report.
    Report,
    /// Read everything again.
    Reload,
    /// Stop the program until the shell continues it.
    Suspend,
    /// Draw everything anew.
    Redraw,
}

/// Something that happened.
#[derive(Clone)]
pub enum InnodbAction {
    /// A key that does nothing in the open view.
    Idle(KeyEvent),
    /// A key of the table.
    Do(InnodbCommand),
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
    /// Work went on.
    Progressed(Progress),
    /// Damaged pages were found; they are not judged yet.
    Found(Arc<Vec<PendingPage>>),
    /// The check is done.
    Surveyed(Arc<InnodbSurvey>),
    /// The directory cannot be checked.
    SurveyFailed(String),
    /// Slots were compared with pages.
    Compared(Arc<SlotSheet>),
    /// A page was read.
    PageRead(Arc<InnodbPageSheet>),
    /// The view or the crash report was written as this text file, and as JSON beside it.
    Exported(PathBuf),
    /// Something did not work.
    Failed(String),
    /// Files have changed since they were read.
    FilesChanged,
    /// The program is to end.
    Terminate,
    /// Nothing.
    Tick,
}

/// Something to be done outside of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InnodbEffect {
    /// End the program.
    Quit,
    /// End the program with this error.
    Fail(String),
    /// Stop until continued.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Hand a text to the terminal's clipboard.
    Copy(String),
    /// Check the directory.
    Survey,
    /// Read a page and its images.
    ReadPage(PageTarget),
    /// Write the view as text and as JSON into new files with this name.
    Export {
        /// Name without its ending.
        name: String,
        /// The view as text.
        text: String,
        /// The same as JSON.
        json: String,
    },
    /// Write the crash report of the last check as text and as JSON into new files.
    Report,
}
