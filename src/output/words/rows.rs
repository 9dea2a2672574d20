//! Words for rows and entries of a page, for their columns, and for their fate.
//! Also here: words for what records do inside a page, and to the files that hold it.

use std::fmt;

use super::cluster::touch_words;
use crate::analysis::changes::events::{BlockEvent, Touch};
use crate::analysis::pages::page_rows::RowFate;
use crate::analysis::verdict::page_history::{Mark, WalGap};
use crate::analysis::wal::page_action::{ActionKind, Counted, PageAction};
use crate::cluster::columns::Column;
use crate::parsers::heap::TupleHeader;
use crate::parsers::tuple::columns::{Method, Stored, ToastPointer, unpack};
use crate::parsers::tuple::index::{Target, Tid};
use crate::parsers::tuple::value::Value;
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
