//! The redo points that records name.

use super::segment::Visitor;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Gathers the redo points that the records of one segment name, in the order of the records.
#[derive(Debug, Default)]
pub(crate) struct RedoPoints {
    /// They may lie in segments before.
    pub points: Vec<Lsn>,
}

impl Visitor for RedoPoints {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.header.rmgr_id == RM_XLOG && !record.header.is_images() {
            self.points.extend(redo_point(&{ *record }));
        }
    }
}

/// What cannot be decoded is told by the walk that follows.
#[inline(never)]
fn redo_point(record: &Record<'_>) -> Option<Lsn> {
    match XlogPayload::of(record).ok()?? {
        XlogPayload::CheckpointShutdown(point) | XlogPayload::CheckpointOnline(point) => Some(point.redo_lsn),
        XlogPayload::CheckpointRedo { .. } => Some(record.start_lsn),
        _ => None,
    }
}
