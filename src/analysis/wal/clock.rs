//! What time it was as records were written.
//!
//! Some records tell it; for those between, it is as late as the last that told it. Clocks can be set back, and commits come into
//! WAL a little out of order: the time that counts never goes back.

use crate::parsers::wal::lifecycle::record_time;
use crate::parsers::wal::names::{RM_XACT, RM_XLOG};
use crate::parsers::wal::payload::{PgTimestamp, XlogPayload};
use crate::parsers::wal::record::Record;
use crate::report::{Finding, rules};
use crate::types::Lsn;

/// A clock that goes back by more than this was set back: sessions that commit at once are out of order by less.
const SET_BACK_US: i64 = 5_000_000;

/// A clock that goes back by more than this, a year, told something else than the time before or after.
const WRONG_US: i64 = 365 * 86_400 * 1_000_000;

/// What a record says of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The record was written then.
    Now(PgTimestamp),
    /// It was written then or later: a checkpoint tells when it began.
    Since(PgTimestamp),
    /// No server can have written it then.
    Impossible(PgTimestamp),
}

impl Told {
    /// What a record says that was written at `time`.
    pub const fn now(time: PgTimestamp) -> Self {
        if time.is_possible() { Self::Now(time) } else { Self::Impossible(time) }
    }

    /// What a checkpoint says that began at this second since 1970.
    pub const fn since(seconds: i64) -> Self {
        let time = PgTimestamp::from_unix_seconds(seconds);
        // Where the calendar ends, the time is no longer that of these seconds.
        if time.is_possible() && time.unix_seconds() == seconds { Self::Since(time) } else { Self::Impossible(time) }
    }

    /// What `record` tells; `None` for most.
    #[inline]
    pub fn by(record: &Record<'_>) -> Option<Self> {
        if !matches!(record.header.rmgr_id, RM_XACT | RM_XLOG) {
            return None;
        }
        // A copy, so that other records need not be in memory as a whole.
        Self::by_xact_or_xlog(&{ *record })
    }

    #[inline(never)]
    fn by_xact_or_xlog(record: &Record<'_>) -> Option<Self> {
        if let Some(time) = record_time(record) {
            return Some(Self::now(time));
        }
        if record.header.rmgr_id == RM_XACT || record.header.is_images() {
            return None;
        }
        match XlogPayload::of(record) {
            Ok(Some(XlogPayload::CheckpointShutdown(checkpoint) | XlogPayload::CheckpointOnline(checkpoint))) => {
                Some(Self::since(checkpoint.time_s))
            }
            _ => None,
        }
    }

    pub const fn time(self) -> Option<PgTimestamp> {
        match self {
            Self::Now(time) | Self::Since(time) => Some(time),
            Self::Impossible(_) => None,
        }
    }
}

/// A record that tells an earlier time than one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetBack {
    /// The record.
    pub lsn: Lsn,
    /// By how much it is earlier, in microseconds.
    pub back_us: i64,
}

impl SetBack {
    /// So far that the clock told something else than the time, before or after.
    pub const fn is_wrong(&self) -> bool {
        is_wrong_step(self.back_us)
    }
}

/// So long that the clock told something else than the time, before or after.
pub(crate) const fn is_wrong_step(us: i64) -> bool {
    us > WRONG_US
}

/// The time along a stretch of WAL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    now: Option<PgTimestamp>,
    /// The earliest time that a record was written at.
    lowest: Option<(Lsn, PgTimestamp)>,
    furthest_back: Option<SetBack>,
    /// The first record that tells an impossible time, with that time.
    impossible: Option<(Lsn, PgTimestamp)>,
}

impl Clock {
    /// The time that counts: the latest that was told; `None` before the first.
    pub const fn now(&self) -> Option<PgTimestamp> {
        self.now
    }

    /// From the earliest to the latest time that records were written at.
    pub(crate) fn span_us(&self) -> Option<i64> {
        self.lowest.zip(self.now).map(|((_, first), last)| last.us_since(first))
    }

    /// Takes what the record at `lsn` tells.
    pub fn tell(&mut self, lsn: Lsn, told: Told) {
        match told {
            Told::Now(time) => self.note(lsn, time),
            Told::Since(_) => {}
            Told::Impossible(time) => self.impossible = self.impossible.or(Some((lsn, time))),
        }
        self.now = self.now.max(told.time());
    }

    /// Takes what the stretch that follows tells, which was read by itself.
    pub fn append(&mut self, next: &Self) {
        if let Some((lsn, time)) = next.lowest {
            self.note(lsn, time);
        }
        if let Some(back) = next.furthest_back {
            self.note_back(back);
        }
        self.now = self.now.max(next.now);
        self.impossible = self.impossible.or(next.impossible);
    }

    /// Where the clock was set back the furthest, if it was.
    pub(crate) fn set_back(&self) -> Option<SetBack> {
        self.furthest_back.filter(|back| back.back_us > SET_BACK_US)
    }

    /// True where the time went back so far that what was told before, or after, was another. How long anything took is
    /// unknown then.
    pub(crate) fn contradicts_itself(&self) -> bool {
        self.furthest_back.is_some_and(|back| back.is_wrong())
    }

    /// What is odd about the time.
    pub fn findings(&self) -> Vec<Finding> {
        let impossible = self.impossible.map(|(lsn, time)| {
            let time = time_or_year(time);
            IMPOSSIBLE_TIME.problem(format!("the record at {lsn} has an impossible time: {time}"))
        });
        let back = self.set_back().map(|SetBack { lsn, back_us }| {
            let what =
                format!("the record at {lsn} has a time {} s before that of an earlier record", back_us / 1_000_000);
            if self.contradicts_itself() {
                CLOCK_SET_BACK.problem(what).because(CLOCK_WRONG)
            } else {
                CLOCK_SET_BACK.note(what)
            }
        });
        impossible.into_iter().chain(back).collect()
    }

    fn note(&mut self, lsn: Lsn, time: PgTimestamp) {
        if let Some(now) = self.now {
            self.note_back(SetBack { lsn, back_us: now.us_since(time) });
        }
        if self.lowest.is_none_or(|(_, lowest)| time < lowest) {
            self.lowest = Some((lsn, time));
        }
    }

    fn note_back(&mut self, back: SetBack) {
        if back.back_us > 0 && self.furthest_back.is_none_or(|known| back.back_us > known.back_us) {
            self.furthest_back = Some(back);
        }
    }
}

/// A time in words, or its year where the calendar ends.
fn time_or_year(time: PgTimestamp) -> String {
    const SECONDS_OF_A_YEAR: i64 = 31_556_952;
    let seconds = time.unix_seconds();
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => format!("about the year {}", seconds.div_euclid(SECONDS_OF_A_YEAR).saturating_add(1970)),
    }
}

const CLOCK_WRONG: &str =
    "more than a year: the clock was wrong before or after it, and how long anything took is unknown";

rules! {
    CLOCK_SET_BACK: Wal "clock_set_back",
        why: "the clock of the server was set back: until it passes the latest time again, that time is used",
        means: "A record has a time more than 5 s before that of an earlier record: the clock was set back, or another server \
            continued. More than a year is a problem: the right times, and so all durations, are unknown",
        action: "Nothing; do not rely on seconds and rates around it";
    IMPOSSIBLE_TIME: Wal "impossible_time",
        why: "times before 1970 and after 2099 are not used: the bytes are damaged, or the clock was wrong",
        means: "A record has a time before 1970 or after 2099. Such times are not used",
        action: "Look for a sound copy; after an error of the clock, nothing";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(told: &[(u64, i64)]) -> Clock {
        let mut clock = Clock::default();
        told.iter().for_each(|(lsn, s)| clock.tell(Lsn(*lsn), Told::Now(PgTimestamp(s * 1_000_000))));
        clock
    }

    #[test]
    fn time_never_goes_back_and_that_is_noted() {
        let all = clock(&[(1, 100), (2, 98), (3, 40), (4, 101)]);
        assert_eq!(all.now(), Some(PgTimestamp(101_000_000)));
        assert_eq!(all.set_back(), Some(SetBack { lsn: Lsn(3), back_us: 60_000_000 }));
        assert_eq!(clock(&[(1, 100), (2, 96)]).set_back(), None, "commits out of order");
    }

    #[test]
    fn stretches_read_apart_say_the_same_as_in_one() {
        let told = [(1, 100), (2, 98), (3, 200), (4, 40), (5, 60), (6, 120), (7, 201)];
        let whole = clock(&told);
        for cut in 0..=told.len() {
            let (mut first, second) = (clock(&told[..cut]), clock(&told[cut..]));
            first.append(&second);
            assert_eq!((first.now(), first.set_back()), (whole.now(), whole.set_back()), "{cut}");
        }
    }

    #[test]
    fn beginning_of_a_checkpoint_is_no_clock_set_back() {
        let mut clock = clock(&[(1, 400)]);
        clock.tell(Lsn(2), Told::Since(PgTimestamp(100_000_000)));
        assert_eq!((clock.now(), clock.set_back()), (Some(PgTimestamp(400_000_000)), None));
    }
}
