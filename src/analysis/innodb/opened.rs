//! Which tablespaces recovery opens: pages of others are not examined, whatever the doublewrite buffer holds.

use std::collections::BTreeSet;

use super::candidates::BufferContent;
use super::recovery::{SpaceRole, Sureness};
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::innodb::tablespace::Tablespaces;
use crate::parsers::innodb::InnodbLsn;

/// What is known of the redo log from its checkpoint on.
#[derive(Debug, Default)]
pub struct RedoFacts {
    /// All of it is there that the server wrote, as far as that can be seen.
    pub is_whole: bool,
    /// LSN up to which it is there, where that is known.
    pub end_lsn: Option<InnodbLsn>,
    /// Something was written after the checkpoint.
    pub is_any: bool,
    /// Tablespaces that it changes, those that were seen.
    pub changed: BTreeSet<u32>,
    /// Those whose size it writes.
    pub sized: BTreeSet<u32>,
}

/// Tablespaces that have been changed after the checkpoint, as far as anything shows it.
#[derive(Debug, Default)]
pub struct OpenedSpaces {
    /// Their numbers.
    pub named: BTreeSet<u32>,
    /// Something was changed, in these or others.
    pub is_any: bool,
    /// The redo log was seen to name some of them.
    pub is_redo_seen: bool,
}

impl OpenedSpaces {
    /// Those of the redo log, and of whole pages, images and entries that are newer than the checkpoint. `newest_lsn`: of the whole pages
    /// of each tablespace.
    #[must_use]
    pub fn find(
        spaces: &Tablespaces,
        content: &BufferContent,
        redo: &RedoFacts,
        checkpoint: Option<InnodbLsn>,
        newest_lsn: &[InnodbLsn],
    ) -> Self {
        let Some(checkpoint) = checkpoint else { return Self::default() };
        let by_pages = spaces.all.iter().zip(newest_lsn);
        let by_pages = by_pages.filter(|(_, lsn)| **lsn > checkpoint).map(|(space, _)| space.id);
        let sound = content.slots.iter().filter(|slot| slot.state.is_sound() && slot.lsn > checkpoint);
        let by_slots = sound.filter_map(|slot| slot.space_id);
        let entries = content.entries.iter().filter(|entry| entry.is_sound && entry.lsn > checkpoint);
        let by_entries = entries.map(|entry| entry.page.space_id);
        let by_redo = redo.changed.iter().copied();
        let named: BTreeSet<u32> = by_pages.chain(by_slots).chain(by_entries).chain(by_redo).collect();
        let is_any = redo.is_any || !named.is_empty();
        Self { named, is_any, is_redo_seen: !redo.changed.is_empty() }
    }
}

/// Whether recovery examines the pages of a tablespace, as far as anything shows it; `None` where nothing does.
///
/// MySQL 9.7.4 was seen to examine the pages of those that its redo log changes, undo logs and the dictionary among them, and of no
/// others but the system tablespace.
#[must_use]
pub fn opening(family: Family, role: SpaceRole, space_id: u32, opened: &OpenedSpaces) -> Option<Sureness> {
    let is_always = match family {
        Family::Mysql8 => role == SpaceRole::System,
        _ => role != SpaceRole::Other,
    };
    if is_always || opened.named.contains(&space_id) {
        Some(Sureness::ByRule)
    } else if role != SpaceRole::Other && opened.is_any && !opened.is_redo_seen {
        // Hardly anything is changed without them.
        Some(Sureness::Likely)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As MySQL 9.7.4 did with torn pages of each, where nothing of them was newer than the checkpoint.
    #[test]
    fn mysql_examines_what_the_redo_log_changes() {
        use Sureness::{ByRule, Likely};
        let opened = |named: &[u32], is_any, is_redo_seen| OpenedSpaces {
            named: named.iter().copied().collect(),
            is_any,
            is_redo_seen,
        };
        for (role, idle, unseen, unchanged) in [
            (SpaceRole::System, Some(ByRule), Some(ByRule), Some(ByRule)),
            (SpaceRole::Undo, None, Some(Likely), None),
            (SpaceRole::Dictionary, None, Some(Likely), None),
            (SpaceRole::Other, None, None, None),
        ] {
            let opening = |opened: OpenedSpaces| opening(Family::Mysql8, role, 7, &opened);
            assert_eq!(opening(opened(&[], false, false)), idle, "{role:?}");
            assert_eq!(opening(opened(&[], true, false)), unseen, "{role:?}");
            assert_eq!(opening(opened(&[8], true, true)), unchanged, "{role:?}");
            assert_eq!(opening(opened(&[7], true, true)), Some(ByRule), "{role:?}");
        }
    }
}
