//! State of one requested page while its records are chosen: how many, which, and what its LSN must be in the end.

use super::candidates::{Candidate, Named};
use super::choose::{BaseBytes, WantedPage};
use super::error::NotBuilt;
use crate::parsers::page::PageHeader;
use crate::types::{ForkNumber, Lsn};

/// Ends of records that may or may not set the LSN of a page that are remembered, the last ones.
const MAX_OPEN_ENDS: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub records: u64,
    pub first_lsn: Option<Lsn>,
    pub last_lsn: Option<Lsn>,
    pub end_lsn: Option<Lsn>,
    /// The page must go into a run of its own: a record that other pages need would change it outside of its range.
    pub is_in_conflict: bool,
    failure: Option<NotBuilt>,
    is_built: bool,
    /// A record before the range has built the page, and those of it that follow are kept too.
    is_live_before: bool,
    /// The last record that is sure to set the LSN restores an image: of a page that is all zero it sets none.
    may_be_zero: bool,
    cut_off: Option<Lsn>,
    /// End of the last record that is sure to set the LSN, or the LSN of the base.
    surely: Lsn,
    /// Ends of those after it that may.
    perhaps: Vec<Lsn>,
}

impl Track {
    pub fn new(wanted: &WantedPage) -> Self {
        let surely = match &wanted.base {
            BaseBytes::Nothing => Lsn::INVALID,
            BaseBytes::Page(bytes) => PageHeader::decode(0, bytes).map_or(Lsn::INVALID, |header| header.lsn),
        };
        Self {
            records: 0,
            first_lsn: None,
            last_lsn: None,
            end_lsn: None,
            is_in_conflict: false,
            failure: None,
            is_built: false,
            is_live_before: false,
            may_be_zero: false,
            cut_off: None,
            surely,
            perhaps: Vec::new(),
        }
    }

    /// True once a record has recreated the page.
    pub(crate) const fn is_built(&self) -> bool {
        self.is_built
    }

    /// True while the page is there before its range begins.
    pub(crate) const fn is_live_before(&self) -> bool {
        self.is_live_before
    }

    /// The first reason why the page cannot be built; nothing changes it any more.
    pub(crate) fn fail(&mut self, why: NotBuilt) {
        self.failure.get_or_insert(why);
    }

    /// The page goes into a run of its own.
    pub(crate) fn conflict(&mut self) {
        self.is_in_conflict = true;
    }

    /// A record cuts the page off with the end of its file.
    pub(crate) fn cut_off(&mut self, lsn: Lsn) {
        self.cut_off = Some(lsn);
        self.is_built = false;
    }

    /// A record that is kept names the page.
    pub fn note(&mut self, wanted: &WantedPage, candidate: &Candidate<'_>, named: &Named) {
        if !wanted.takes(candidate.start_lsn, candidate.end_lsn) {
            if candidate.end_lsn > wanted.until {
                self.conflict();
            }
            if candidate.start_lsn < wanted.from {
                self.note_before(wanted, named);
            }
            return;
        }
        self.is_live_before = false;
        self.records = self.records.saturating_add(1);
        self.first_lsn.get_or_insert(candidate.start_lsn);
        self.last_lsn = Some(candidate.start_lsn);
        self.end_lsn = Some(candidate.end_lsn);
        if named.builds {
            (self.is_built, self.cut_off) = (true, None);
        } else if wanted.base == BaseBytes::Nothing && !self.is_built {
            self.fail(NotBuilt::NoBase { lsn: Some(candidate.start_lsn) });
        }
        if named.builds || candidate.record.surely_sets_lsn(candidate.major, named.page.fork) {
            // Redo skips what the base has already.
            if named.builds || candidate.end_lsn > self.surely {
                self.surely = candidate.end_lsn;
                self.may_be_zero = named.is_image;
                self.perhaps.clear();
            }
        } else {
            // The last of them is the likeliest.
            if self.perhaps.len() >= MAX_OPEN_ENDS {
                self.perhaps.drain(..MAX_OPEN_ENDS / 2);
            }
            self.perhaps.push(candidate.end_lsn);
        }
    }

    /// A record before the range that is kept names the page.
    fn note_before(&mut self, wanted: &WantedPage, named: &Named) {
        match wanted.base {
            BaseBytes::Nothing => self.is_live_before |= named.builds,
            // Redo leaves alone what is newer than the record; but an image is restored over anything, and bits of maps are
            // set and cleared whatever the LSN.
            BaseBytes::Page(_) if named.builds || wanted.page.fork == ForkNumber::Vm => self.conflict(),
            BaseBytes::Page(_) => {}
        }
    }

    /// Why the page cannot be built, as far as WAL says.
    pub(crate) fn failure(&self, wanted: &WantedPage) -> Option<NotBuilt> {
        let no_base = wanted.base == BaseBytes::Nothing && !self.is_built && self.cut_off.is_none();
        let cut_off = self.cut_off.map(|lsn| NotBuilt::CutOff { lsn });
        let failure = self.failure.clone().or(cut_off);
        failure.or_else(|| no_base.then_some(NotBuilt::NoBase { lsn: self.first_lsn }))
    }

    /// Whether the page that came out may have this LSN; else the one that it should have. `is_zeroed`: all of it is zero,
    /// as redo leaves a page that it found missing.
    pub(crate) fn judge_lsn(&self, found: Lsn, is_zeroed: bool) -> Result<(), Lsn> {
        let is_zero = self.may_be_zero && is_zeroed;
        if is_zeroed && self.records > 0 && !is_zero {
            return Err(self.end_lsn.unwrap_or(self.surely));
        }
        let is_right = is_zero || found == self.surely || (found > self.surely && self.perhaps.contains(&found));
        if is_right { Ok(()) } else { Err(self.surely) }
    }
}
