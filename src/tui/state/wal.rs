//! State of the WAL view, and its level.

use std::ops::Range;
use std::sync::Arc;

use crate::analysis::wal::record_sheet::{RecordList, RecordSheet};
use crate::tui::facts::{Progress, WalSurvey, WindowSheet};
use crate::types::Lsn;

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

/// How a rate becomes a height.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Its square root: small rates next to a peak can be seen.
    #[default]
    Root,
    Linear,
    Log,
}

impl Scale {
    const DECADES: f64 = 1000.0;

    pub const ALL: [Self; 3] = [Self::Root, Self::Linear, Self::Log];

    pub const fn name(self, ascii: bool) -> &'static str {
        match self {
            Self::Root if ascii => "square root",
            Self::Root => "√",
            Self::Linear => "linear",
            Self::Log => "log",
        }
    }

    pub fn height(self, share: f64) -> f64 {
        match self {
            Self::Root => share.sqrt(),
            Self::Linear => share,
            Self::Log => (share * (Self::DECADES - 1.0)).ln_1p() / Self::DECADES.ln(),
        }
    }

    pub fn share_at(self, height: f64) -> f64 {
        match self {
            Self::Root => height * height,
            Self::Linear => height,
            Self::Log => (height * Self::DECADES.ln()).exp_m1() / (Self::DECADES - 1.0),
        }
    }
}

/// How far WAL was drilled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalLevel {
    #[default]
    Timeline,
    Stretches,
    Records,
    Record,
}
