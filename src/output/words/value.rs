//! Decoded values as the server prints them with its usual settings, in UTC.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::parsers::tuple::value::{Numeric, Value};

/// Microseconds of a second and of a day.
const SECOND: u64 = 1_000_000;
const DAY: i64 = 86_400_000_000;

/// Days from 1970-01-01 to 2000-01-01.
const EPOCH: i64 = 10_957;

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => f.write_char(if *value { 't' } else { 'f' }),
            Self::Char(0) => Ok(()),
            Self::Char(byte) if byte.is_ascii() => f.write_char(char::from(*byte)),
            Self::Char(byte) => write!(f, "\\{byte:03o}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Float4(value) => f.write_str(&float(f64::from(*value), &format!("{value:e}"), 6)),
            Self::Float8(value) => f.write_str(&float(*value, &format!("{value:e}"), 15)),
            Self::Numeric(Numeric::NotANumber) => f.write_str("NaN"),
            Self::Numeric(Numeric::Infinity { is_negative }) => {
                f.write_str(if *is_negative { "-Infinity" } else { "Infinity" })
            }
            Self::Numeric(Numeric::Number(text)) => f.write_str(text),
            Self::Text(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Bytes(bytes) => {
                f.write_str("\\x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Date(i32::MIN) | Self::Timestamp(i64::MIN) | Self::TimestampTz(i64::MIN) => {
                f.write_str(infinity(true))
            }
            Self::Date(i32::MAX) | Self::Timestamp(i64::MAX) | Self::TimestampTz(i64::MAX) => {
                f.write_str(infinity(false))
            }
            Self::Date(days) => {
                let (date, era) = date(i64::from(*days));
                write!(f, "{date}{era}")
            }
            Self::Time(us) => f.write_str(&time(us.unsigned_abs())),
            Self::TimeTz(us, west) => write!(f, "{}{}", time(us.unsigned_abs()), zone(-i64::from(*west))),
            Self::Timestamp(us) | Self::TimestampTz(us) => {
                let (date, era) = date(us.div_euclid(DAY));
                let zone = if matches!(self, Self::TimestampTz(_)) { "+00" } else { "" };
                write!(f, "{date} {}{zone}{era}", time(us.rem_euclid(DAY).unsigned_abs()))
            }
            Self::Interval { months: i32::MIN, days: i32::MIN, us: i64::MIN } => f.write_str(infinity(true)),
            Self::Interval { months: i32::MAX, days: i32::MAX, us: i64::MAX } => f.write_str(infinity(false)),
            Self::Interval { months, days, us } => f.write_str(&interval(*months, *days, *us)),
            Self::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
            Self::Network { address, bits, is_cidr } => {
                let all = address.len() * 8;
                match (<[u8; 4]>::try_from(*address), <[u8; 16]>::try_from(*address)) {
                    (Ok(four), _) => write!(f, "{}", Ipv4Addr::from(four))?,
                    (_, Ok(sixteen)) => write!(f, "{}", Ipv6Addr::from(sixteen))?,
                    _ => {}
                }
                if *is_cidr || usize::from(*bits) < all { write!(f, "/{bits}") } else { Ok(()) }
            }
            Self::Mac(bytes) => {
                let words: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                f.write_str(&words.join(":"))
            }
            Self::Bits(count, bytes) => {
                let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte << (at % 8) & 0x80 != 0);
                (0..*count).try_for_each(|at| f.write_char(if bit(at) { '1' } else { '0' }))
            }
            Self::Tid(block, item) => write!(f, "({block},{item})"),
            Self::Lsn(lsn) => write!(f, "{lsn}"),
            Self::Array(elements) => {
                let words: Vec<String> = elements.iter().map(element).collect();
                write!(f, "{{{}}}", words.join(","))
            }
            Self::Vector(elements) => {
                let words: Vec<String> = elements.iter().map(element).collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}

const fn infinity(is_negative: bool) -> &'static str {
    if is_negative { "-infinity" } else { "infinity" }
}

/// An element of an array, in quotes where the server needs them to read it back.
fn element(value: &Option<Value<'_>>) -> String {
    let Some(value) = value else { return "NULL".to_owned() };
    let text = value.to_string();
    let special = |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || c.is_ascii_whitespace() || c == '\u{b}';
    if text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(special) {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        text
    }
}

/// A number with as many digits as distinguish it from its neighbours; with an exponent where it has more digits than `precision`
/// before the point, or four zeros after it.
///
/// Source: `double_to_shortest_decimal_bufn`, `src/common/d2s.c`.
fn float(value: f64, scientific: &str, precision: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    if exponent < -4 || exponent >= precision {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.unsigned_abs());
    }
    let digits = mantissa.replace('.', "");
    let Ok(whole) = usize::try_from(exponent + 1) else {
        return format!("{sign}0.{}{digits}", "0".repeat((-1 - exponent).unsigned_abs() as usize));
    };
    if whole == 0 {
        return format!("{sign}0.{digits}");
    }
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    let (before, after) = digits.split_at(whole);
    format!("{sign}{before}.{after}")
}

/// A day, counted from 2000-01-01, and what follows a time before the year 1.
///
/// Counts years from March on, so that the leap day is the last one, in eras of 400 years.
fn date(days: i64) -> (String, &'static str) {
    let since_march_0 = days + EPOCH + 719_468;
    let (era, day) = (since_march_0.div_euclid(146_097), since_march_0.rem_euclid(146_097));
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day_of_month:02}"), era)
}

/// Hours, minutes, seconds, and as much of a fraction as there is.
fn time(us: u64) -> String {
    let seconds = us / SECOND;
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = us % SECOND;
    if fraction > 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text
}

/// Seconds east of Greenwich.
fn zone(east: i64) -> String {
    let sign = if east < 0 { '-' } else { '+' };
    let seconds = east.unsigned_abs();
    let mut text = format!("{sign}{:02}", seconds / 3600);
    if !seconds.is_multiple_of(3600) {
        text.push_str(&format!(":{:02}", seconds / 60 % 60));
    }
    if !seconds.is_multiple_of(60) {
        text.push_str(&format!(":{:02}", seconds % 60));
    }
    text
}

/// Source: `EncodeInterval`, `src/backend/utils/adt/datetime.c`, in the style `postgres`.
fn interval(months: i32, days: i32, us: i64) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut after_negative = false;
    for (value, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value != 0 {
            let plus = if after_negative && value > 0 { "+" } else { "" };
            parts.push(format!("{plus}{value} {unit}{}", if value == 1 { "" } else { "s" }));
            after_negative = value < 0;
        }
    }
    if parts.is_empty() || us != 0 {
        let sign = match (us < 0, after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        parts.push(format!("{sign}{}", time(us.unsigned_abs())));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_has_words() {
        for us in [i64::MIN + 1, -1, 0, i64::MAX - 1] {
            for value in [Value::Time(us), Value::Timestamp(us), Value::TimestampTz(us), Value::TimeTz(us, i32::MIN)] {
                assert!(!value.to_string().is_empty());
            }
            assert!(!Value::Interval { months: i32::MIN, days: i32::MAX, us }.to_string().is_empty());
        }
        for days in [i32::MIN + 1, i32::MAX - 1] {
            assert!(!Value::Date(days).to_string().is_empty());
        }
        for bits in [0, 1, u64::MAX, 1 << 63, 0x7FF0 << 48] {
            assert!(!Value::Float8(f64::from_bits(bits)).to_string().is_empty());
        }
    }
}
