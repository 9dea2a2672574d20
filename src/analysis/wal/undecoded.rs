//! Records with a right checksum that are not valid records of their type.

use super::segment::Visitor;
use crate::parsers::error::ParseError;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;

/// The first such record of a segment, of those of the resource manager XLOG.
#[derive(Clone, Debug, Default)]
pub(crate) struct Undecoded(pub Option<ParseError>);

impl Visitor for Undecoded {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.header.rmgr_id == RM_XLOG && !record.header.is_images() && self.0.is_none() {
            // A copy, so that other records need not be in memory as a whole.
            self.0 = XlogPayload::of(&{ *record }).err();
        }
    }
}
