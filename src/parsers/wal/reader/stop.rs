//! Where reading stops, or how it goes on behind damage.

use super::{Flow, FoundEvent, ReaderState, WalReader};
use crate::parsers::wal::end::{EndOfWal, EndReason};
use crate::parsers::wal::page::{FIRST_IS_CONTRECORD, PageHeader};
use crate::types::{Lsn, TimelineId};

impl WalReader {
    pub(super) fn end_at(&self, reason: EndReason, at: Lsn) -> EndOfWal {
        let unfinished = self.collecting.map(|collecting| collecting.start_lsn).filter(|&start| start != at);
        EndOfWal { reason, at, unfinished, last_record: self.last_record, end_of_last: self.end_of_last }
    }

    /// Stops at a record, or goes on behind it.
    #[cold]
    pub(super) fn fail<'c>(&mut self, reason: EndReason, at: Lsn) -> Flow<'c> {
        let end = self.end_at(reason, at);
        if !self.options.resynchronise || end.reason == EndReason::Limit {
            self.state = ReaderState::Stopped;
            self.end = Some(end.clone());
            return Flow::Found(FoundEvent::End(end));
        }
        self.forget();
        // A page that continues another record tells where the next one starts, if reading was not past that.
        let first = self.first_record_position();
        let page_end = self.page_start().advanced_by(u64::from(self.options.geometry.wal_block_size));
        self.state = match self.at_page_boundary() {
            true => ReaderState::Page,
            false if first > at => ReaderState::Pass(first),
            false => ReaderState::Pass(page_end),
        };
        Flow::Found(FoundEvent::Damage(end))
    }

    /// Stops at a page, or goes on: in this page when its header is `sound`, else in the next. While looking for a page
    /// to go on with, further bad ones are part of the same damage.
    #[cold]
    pub(super) fn fail_page<'c>(&mut self, reason: EndReason, at: Lsn, sound: Option<PageHeader>) -> Flow<'c> {
        if !self.options.resynchronise {
            return self.fail(reason, at);
        }
        let end = self.end_at(reason, at);
        let quiet = self.searching;
        self.forget();
        let page_end = at.advanced_by(u64::from(self.options.geometry.wal_block_size));
        self.state = match sound {
            Some(header) if header.has(FIRST_IS_CONTRECORD) => ReaderState::Pass(self.first_record_position()),
            Some(_) => ReaderState::Record,
            None => {
                // A timeline that was wrong on one page must not rule out all that follow.
                self.page.tli = TimelineId(0);
                ReaderState::Pass(page_end)
            }
        };
        if quiet { Flow::Again } else { Flow::Found(FoundEvent::Damage(end)) }
    }

    fn forget(&mut self) {
        self.collecting = None;
        self.link = None;
        self.aborted = None;
        self.searching = true;
        self.recovered = true;
    }
}
