//! Times and lengths of time on the command line.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SpanRelativeTo, Timestamp, ToSpan, Unit};

use crate::inspect::wal::request::TimeBound;
use crate::parsers::wal::payload::PgTimestamp;

/// A time with an offset or `Z`, in UTC without both, at midnight for a date alone; or a length of time before the end.
pub(crate) fn time_bound(text: &str) -> Result<TimeBound, String> {
    let at = |time: Timestamp| TimeBound::At(PgTimestamp::from_unix_us(time.as_microsecond()));
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(at(time));
    }
    let civil = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0)));
    if let Some(time) = civil.ok().and_then(|civil| civil.to_zoned(TimeZone::UTC).ok()) {
        return Ok(at(time.timestamp()));
    }
    length_of_time(text).map(|us| TimeBound::BeforeLast { us }).map_err(|_| {
        format!(
            "{text} is not a valid time: write it as 2026-11-21 14:00, 2026-11-21T14:00:00+02:00, or 2h before the end"
        )
    })
}

/// A length of time such as `30s`, `5m`, `1h30m` or `1d`, in microseconds.
pub(crate) fn length_of_time(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text} is not a valid length of time: write it as 30s, 5m, 1h30m or 1d");
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let day = SpanRelativeTo::days_are_24_hours();
    let us = span.total((Unit::Microsecond, day)).map_err(|_| wrong())?;
    let longest = 36_500.days().total((Unit::Microsecond, day)).map_err(|_| wrong())?;
    if (1000.0..=longest).contains(&us) { Ok(us as i64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_unless_they_say_otherwise() {
        // 1,795,269,600 is 2026-11-21 14:00:00 UTC by date -d.
        let at = |seconds| Ok(TimeBound::At(PgTimestamp::from_unix_seconds(seconds)));
        for text in [
            "2026-11-21 14:00",
            "2026-11-21 14:00:00",
            "2026-11-21T14:00:00Z",
            "2026-11-21T16:00:00+02:00",
            "2026-11-21 16:00+02",
        ] {
            assert_eq!(time_bound(text), at(1_795_269_600), "{text}");
        }
        assert_eq!(time_bound("2026-11-21"), at(1_795_269_600 - 14 * 3600));
        assert_eq!(time_bound("2h"), Ok(TimeBound::BeforeLast { us: 7_200_000_000 }));
        for text in ["", "yesterday", "2026-13-01", "14:00", "2026-11-21 25:00"] {
            assert!(time_bound(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_read_as_people_write_them() {
        for (text, seconds) in
            [("30s", 30), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("1d", 86_400), ("90 min", 5400)]
        {
            assert_eq!(length_of_time(text), Ok(seconds * 1_000_000), "{text}");
        }
        for text in ["", "5", "0s", "-5m", "1 fortnight", "999999d", "1mo", "2y"] {
            assert!(length_of_time(text).is_err(), "{text}");
        }
    }
}
