//! State of the WAL view, and its level.

use std::sync::Arc;

use crate::analysis::wal::record_sheet::{RecordList, RecordSheet};
use crate::tui::facts::{Progress, WalSurvey, WindowSheet};
use crate::types::Lsn;

/// Full-page images in WAL.
#[derive(Clone, Default)]
pub struct WalState {
    /// Counts, once WAL was read.
    pub survey: Option<Arc<WalSurvey>>,
    /// How far reading is.
    pub progress: Option<Progress>,
    /// Why WAL cannot be read.
    pub error: Option<String>,
    /// Index of the selected interval.
    pub selected: usize,
    /// WAL is being read.
    pub is_reading: bool,
    /// Content of the window.
    pub window: Option<Arc<WindowSheet>>,
    /// How far it was drilled down.
    pub level: WalLevel,
    /// Index of the selected stretch among all of them.
    pub cell: usize,
    /// Content of the selected stretch.
    pub stretch: Option<Arc<WindowSheet>>,
    /// Where lists of the selected stretch begin, up to the one that is wanted: an address, and images before it.
    pub lists: Vec<(Lsn, usize)>,
    /// The list that was asked for last.
    pub asked_list: Option<Lsn>,
    /// Records.
    pub list: Option<Arc<RecordList>>,
    /// Index of the selected record in the list.
    pub record: usize,
    /// The record that was asked for last.
    pub asked_record: Option<Lsn>,
    /// All about a record, or why it cannot be read.
    pub sheet: Option<Result<Arc<RecordSheet>, String>>,
    /// First line of it that is shown.
    pub top: usize,
    /// Its selected block reference.
    pub block: usize,
}

/// How far WAL was drilled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalLevel {
    /// All of it over time, and checkpoint intervals.
    #[default]
    Timeline,
    /// The stretches of the window.
    Stretches,
    /// The records of a stretch.
    Records,
    /// One record.
    Record,
}
