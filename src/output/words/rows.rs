//! Words for rows and entries of a page, for their columns, and for their fate.

use std::fmt;

use crate::analysis::pages::page_rows::RowFate;
use crate::cluster::columns::Column;
use crate::parsers::heap::TupleHeader;
use crate::parsers::tuple::columns::{Method, Stored, ToastPointer, unpack};
use crate::parsers::tuple::index::{Target, Tid};
use crate::parsers::tuple::value::Value;

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

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(tid) | Self::Other(tid) => f.pad(&tid_words(*tid)),
            Self::Rows { count, first } => {
                let listed: Vec<String> = first.iter().map(|tid| tid_words(*tid)).collect();
                let more = usize::from(*count).saturating_sub(first.len());
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
