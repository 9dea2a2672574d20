//! Words for what records do inside a page, and to the files that hold it.

use std::fmt;

use super::cluster::touch_words;
use crate::analysis::changes::events::{BlockEvent, Touch};
use crate::analysis::verdict::page_history::{Mark, WalGap};
use crate::analysis::wal::page_action::{ActionKind, Counted, PageAction};
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::types::ForkNumber;

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
