//! Words for rows and entries of a page, for their columns, and for their fate.
//! Also here: words for what records do inside a page, and to the files that hold it; decoded values as the
//! server prints them with its usual settings, in UTC.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::cluster::touch_words;
use crate::analysis::changes::events::{BlockEvent, Touch};
use crate::analysis::pages::page_rows::RowFate;
use crate::analysis::verdict::page_history::{Mark, WalGap};
use crate::analysis::wal::page_action::{ActionKind, Counted, PageAction};
use crate::cluster::columns::Column;
use crate::parsers::heap::TupleHeader;
use crate::parsers::tuple::columns::{Method, Stored, ToastPointer, unpack};
use crate::parsers::tuple::index::{Target, Tid};
use crate::parsers::tuple::value::{Numeric, Value};
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::types::ForkNumber;

/// Bytes that are shown in hex before only the rest is counted.
const MAX_HEX: usize = 64;

/// Type modifiers begin to count after the four bytes of a length.
const MODIFIER_BASE: i32 = 4;

impl RowFate {
    /// The words for a list.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed => "changed",
            Self::OtherRow => "another row",
            Self::ComesBack => "restored",
            Self::IsLost => "is lost",
            Self::Unreadable => "unreadable",
            Self::Alone => "",
        }
    }

    pub(crate) const fn words_of_several(self) -> &'static str {
        match self {
            Self::OtherRow => "other rows",
            Self::ComesBack => "restored",
            Self::IsLost => "are lost",
            _ => self.words(),
        }
    }

    /// Meaning, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Same => "disk and image have the same (hints of how transactions ended may differ)",
            Self::Changed => "disk and image both have it, and it differs",
            Self::OtherRow => {
                "disk and image have rows here from different transactions: restoring the image restores its row, and \
                    the row on disk is lost"
            }
            Self::ComesBack => "in the image and not on disk: restoring the image restores it",
            Self::IsLost => {
                "on disk and not in the image: restoring the image loses it, unless recovery inserts it again"
            }
            Self::Unreadable => "the bytes on disk here are not a row or an entry, and the image has none here",
            Self::Alone => "there is no other version to compare it with",
        }
    }
}

impl fmt::Display for RowFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

/// A column by its type, with the length or precision that was declared.
pub fn type_words(column: &Column) -> String {
    let Some(name) = &column.type_name else {
        return if column.is_dropped { "dropped".to_owned() } else { "type unknown".to_owned() };
    };
    let declared = column.modifier.checked_sub(MODIFIER_BASE).filter(|declared| *declared >= 0);
    match (column.type_oid, declared) {
        (1042 | 1043, Some(declared)) => format!("{name}({declared})"),
        (1700, Some(declared)) => format!("{name}({},{})", declared >> 16, declared & 0x7FF),
        _ => name.clone(),
    }
}

/// The value of a column: texts in quotes, so that they are not confused with words such as `null`.
pub fn value_words(column: &Column, stored: &Stored<'_>) -> String {
    let decoded = |bytes: &[u8]| match Value::decode(column.type_oid, bytes).filter(|_| !column.is_dropped) {
        Some(value @ (Value::Text(_) | Value::Char(_))) => format!("'{}'", value.to_string().replace('\'', "''")),
        Some(value) => value.to_string(),
        None => hex_words(bytes),
    };
    match stored {
        Stored::Null => "null".to_owned(),
        Stored::Absent if column.has_missing => "the default that the column was added with".to_owned(),
        Stored::Absent => "null: the row is older than the column".to_owned(),
        Stored::Plain(bytes) => decoded(bytes),
        Stored::Compressed { method, raw_bytes, bytes } => {
            let lead = format!("compressed with {method}, {} bytes for {raw_bytes}", bytes.len());
            match unpack(*method, *raw_bytes, bytes) {
                Some(unpacked) => format!("{} ({lead})", decoded(&unpacked)),
                None => format!("cannot be unpacked ({lead}): {}", hex_words(bytes)),
            }
        }
        Stored::External(pointer) => pointer.to_string(),
        Stored::Unreadable([]) => "unknown: a column before it cannot be read".to_owned(),
        Stored::Unreadable(bytes) => format!("cannot be read: {}", hex_words(bytes)),
    }
}

/// Bytes in hex, as the server writes them; of many only the first ones.
pub(crate) fn hex_words(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(MAX_HEX).map(|byte| format!("{byte:02x}")).collect();
    match bytes.len().saturating_sub(MAX_HEX) {
        0 => format!("0x{shown}"),
        more => format!("0x{shown} and {more} bytes more"),
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pglz => f.write_str("pglz"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Other(code) => write!(f, "method {code}"),
        }
    }
}

impl fmt::Display for ToastPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { raw_bytes, stored_bytes, method, value_oid, toast_oid } = self;
        write!(f, "in TOAST table {toast_oid} as value {value_oid}: {raw_bytes} bytes")?;
        match method {
            Some(method) => write!(f, ", {stored_bytes} with {method}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn tid_words((block, item): Tid) -> String {
    format!("({block},{item})")
}

/// Rows of one entry that are listed.
const MAX_LISTED: usize = 16;

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(tid) | Self::Other(tid) => f.pad(&tid_words(*tid)),
            Self::Rows { count, rows } => {
                let listed: Vec<String> = rows.iter().take(MAX_LISTED).map(|tid| tid_words(*tid)).collect();
                let more = usize::from(*count).saturating_sub(listed.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                f.pad(&format!("{count} rows: {}{more}", listed.join(" ")))
            }
            Self::Child(block) => f.pad(&format!("page {block}")),
            Self::HighKey => f.pad("high key"),
        }
    }
}

/// Flags of `t_infomask`, lowest bit first.
///
/// Source: `HEAP_HASNULL` and its neighbours, `src/include/access/htup_details.h`.
const FLAGS: [&str; 16] = [
    "HASNULL",
    "HASVARWIDTH",
    "HASEXTERNAL",
    "HASOID_OLD",
    "XMAX_KEYSHR_LOCK",
    "COMBOCID",
    "XMAX_EXCL_LOCK",
    "XMAX_LOCK_ONLY",
    "XMIN_COMMITTED",
    "XMIN_INVALID",
    "XMAX_COMMITTED",
    "XMAX_INVALID",
    "XMAX_IS_MULTI",
    "UPDATED",
    "MOVED_OFF",
    "MOVED_IN",
];

/// Flags of `t_infomask2`, above the number of columns.
const FLAGS2: [(u16, &str); 3] = [(0x2000, "KEYS_UPDATED"), (0x4000, "HOT_UPDATED"), (0x8000, "ONLY_TUPLE")];

/// The flags of a row by the server's names, without `HEAP_` in front.
pub fn flag_words(header: &TupleHeader) -> String {
    let first = FLAGS.iter().enumerate().filter(|(bit, _)| header.infomask >> bit & 1 == 1).map(|(_, name)| *name);
    let second = FLAGS2.iter().filter(|(bit, _)| header.infomask2 & bit != 0).map(|(_, name)| *name);
    first.chain(second).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for PageAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = Items(self.runs());
        let (mut all, mut rest) = (self.items(), self.counts.iter());
        match self.kind {
            ActionKind::Insert => match self.items().count() {
                0 | 1 => write!(f, "insert at {items}"),
                rows => write!(f, "insert {rows} rows at {items}"),
            },
            ActionKind::Delete => write!(f, "delete {items}"),
            ActionKind::TakeBack => write!(f, "undo the insertion at {items}"),
            ActionKind::Update | ActionKind::HotUpdate => {
                let (old, new) = (all.next().unwrap_or_default(), all.next().unwrap_or_default());
                let hot = if self.kind == ActionKind::HotUpdate { " (HOT)" } else { "" };
                write!(f, "update item {old}, the new row at item {new}{hot}")
            }
            ActionKind::UpdateOld => write!(f, "update {items}, the new row in another page"),
            ActionKind::UpdateNew => write!(f, "new row of an update at {items}, the old one in another page"),
            ActionKind::Confirm => write!(f, "confirm the insertion at {items}"),
            ActionKind::Lock => write!(f, "lock {items}"),
            ActionKind::Overwrite => write!(f, "overwrite {items} in place"),
            ActionKind::Prune => f.write_str("prune"),
            ActionKind::FreeItems => {
                // Their number says no more than the list.
                rest = [].iter();
                write!(f, "vacuum: {items} unused", items = Listed(self))
            }
            ActionKind::Freeze => {
                rest = [].iter();
                write!(f, "freeze {}", Listed(self))
            }
            ActionKind::MarkVisible => f.write_str("mark as visible to all"),
            ActionKind::SetMapBits => f.write_str("set bits of the visibility map"),
            ActionKind::ClearMapBits => f.write_str("may clear bits of the visibility map"),
            ActionKind::InsertEntry => write!(f, "insert an entry at {items}"),
            ActionKind::SplitPosting => write!(f, "insert an entry at {items} and split the list before it"),
            ActionKind::FinishSplitBelow => f.write_str("note that a split is complete"),
            ActionKind::Split => write!(f, "split: {items} and later to a new page on the right"),
            ActionKind::SplitRight => f.write_str("new right half of a split"),
            ActionKind::LinkLeft => f.write_str("link to another left sibling"),
            ActionKind::LinkRight => f.write_str("link to another right sibling"),
            ActionKind::Deduplicate => f.write_str("deduplicate"),
            ActionKind::RemoveEntries => f.write_str("remove entries"),
            ActionKind::ReplaceEntries => f.write_str("replace entries"),
            ActionKind::Unlink => f.write_str("unlink the page from the tree"),
            ActionKind::MarkHalfDead => f.write_str("mark the page as half dead"),
            ActionKind::RemoveDownlink => f.write_str("remove the link to a page below"),
            ActionKind::NewRoot => f.write_str("become the root"),
            ActionKind::Metapage => f.write_str("change the first page of the index"),
            ActionKind::OverwriteEntry => write!(f, "overwrite the entry at {items}"),
            ActionKind::ChangeRangeMap => f.write_str("change the map of ranges"),
            ActionKind::SetSequence => f.write_str("set the sequence"),
        }?;
        for (index, (counted, count)) in rest.enumerate() {
            write!(f, "{}{count} {}", if index == 0 { ": " } else { ", " }, counted_words(*counted))?;
        }
        Ok(())
    }
}

const fn counted_words(counted: Counted) -> &'static str {
    match counted {
        Counted::Redirected => "redirected",
        Counted::Dead => "dead",
        Counted::Unused => "unused",
        Counted::Frozen => "frozen",
        Counted::Deleted => "removed",
        Counted::Updated => "changed",
        Counted::Inserted => "new",
        Counted::Runs => "runs of entries",
    }
}

/// The items of an action by their numbers, else how many they are.
struct Listed<'a>(&'a PageAction);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.runs() {
            [] => write!(f, "{} items", self.0.counts.first().map_or(0, |(_, count)| *count)),
            runs => Items(runs).fmt(f),
        }
    }
}

/// Item numbers: `item 7` or `items 1-12, 14`.
struct Items<'a>(&'a [(u16, u16)]);

impl fmt::Display for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_one = matches!(self.0, [] | [(_, _)] if self.0.iter().all(|(first, last)| first == last));
        f.write_str(if is_one { "item " } else { "items " })?;
        for (index, (first, last)) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }?;
        }
        Ok(())
    }
}

/// Effect of a record on a page, and inside it.
pub(crate) fn event_words(event: &BlockEvent) -> String {
    match (&event.touch, event.action.as_deref()) {
        (Touch::Change | Touch::MapBits, Some(action)) => action.to_string(),
        (touch, Some(action)) => format!("{}: {action}", touch_words(touch)),
        (touch, None) => touch_words(touch).to_owned(),
    }
}

/// Changes of the files that contain a page.
pub(crate) fn file_words(what: &LifeCycle) -> String {
    match what {
        LifeCycle::Created { .. } => "the file is created".to_owned(),
        LifeCycle::Truncated { keeps_blocks, flags, .. } if LifeCycle::cuts(*flags, ForkNumber::Main) => {
            format!("the relation is truncated to {keeps_blocks} blocks")
        }
        LifeCycle::Truncated { .. } => "a map of the relation is truncated, the relation itself is not".to_owned(),
        LifeCycle::Dropped { committed: true, .. } => "the relation is dropped by a commit".to_owned(),
        LifeCycle::Dropped { committed: false, .. } => {
            "the transaction that created the relation is aborted".to_owned()
        }
        LifeCycle::DatabaseCreated { copied_from: Some((db_oid, _)), .. } => {
            format!("the database is copied from database {db_oid}, file by file")
        }
        LifeCycle::DatabaseCreated { copied_from: None, .. } => "the database is created".to_owned(),
        LifeCycle::DatabaseDropped { .. } => "the database is dropped".to_owned(),
    }
}

pub(crate) const fn mark_words(mark: Mark) -> &'static str {
    match mark {
        Mark::Redo => "recovery begins here",
        Mark::Checkpoint => "the last checkpoint",
    }
}

impl fmt::Display for WalGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missing.is_empty() {
            return f.write_str("WAL that exists but cannot be read");
        }
        write!(f, "WAL is missing: {}", self.missing)
    }
}

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
