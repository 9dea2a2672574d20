//! Values of options: settings written as in `postgresql.conf`, and sizes of samples.

use std::fmt;
use std::str::FromStr;

use crate::analysis::wal::whatif::compression::{MAX_SAMPLE, SampleSize};

/// A size; without a unit it is in MB, as for `max_wal_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub u64);

/// A time in seconds; without a unit it is in seconds, as for `checkpoint_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub u32);

/// A number greater than 0 and its unit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    number.parse().ok().filter(|number| *number > 0).map(|number| (number, unit.trim_start()))
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = number_and_unit(text).and_then(|(number, unit)| {
            let shift = match unit {
                "kB" => 10,
                "" | "MB" => 20,
                "GB" => 30,
                "TB" => 40,
                _ => return None,
            };
            number.checked_mul(1 << shift)
        });
        size.map(Self).ok_or_else(|| "expected a size such as 512MB, 4GB or 1TB".to_owned())
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = number_and_unit(text).and_then(|(number, unit)| {
            let seconds: u64 = match unit {
                "" | "s" => 1,
                "min" => 60,
                "h" => 3600,
                "d" => 86_400,
                _ => return None,
            };
            number.checked_mul(seconds).and_then(|seconds| u32::try_from(seconds).ok())
        });
        seconds.map(Self).ok_or_else(|| "expected a time such as 30s, 15min or 1h".to_owned())
    }
}

/// How many images are compressed again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample(pub SampleSize);

impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(SampleSize::All));
        }
        let number = text.parse().ok().filter(|number| (1..=MAX_SAMPLE).contains(number));
        number.map(|number| Self(SampleSize::UpTo(number))).ok_or_else(|| format!("expected 1 to {MAX_SAMPLE}, or all"))
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SampleSize::All => f.pad("all"),
            SampleSize::UpTo(number) => number.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_server_reads_them() {
        for (text, bytes) in [("64", 64 << 20), ("1GB", 1 << 30), ("1536 MB", 1536 << 20), ("2TB", 2 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for (text, seconds) in [("300", 300), ("30s", 30), ("5min", 300), ("1h", 3600), ("1d", 86_400)] {
            assert_eq!(text.parse(), Ok(Duration(seconds)), "{text}");
        }
        for text in ["", "0", "-1", "GB", "1gb", "1 XB", "99999999999TB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        for text in ["", "0s", "5m", "1ms", "99999999999h"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }
}
