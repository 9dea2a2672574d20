//! What keeps the segments of `pg_wal`, in words.

use super::escape::printable;
use super::figures::size_words;
use crate::analysis::plan::kept::{Keeper, Kept, KeptWal};

/// Who keeps segments.
pub(crate) fn keeper_words(keeper: &Keeper) -> String {
    match keeper {
        Keeper::Checkpoint => "recovery from the last checkpoint".to_owned(),
        Keeper::Slot { name, is_logical, is_temporary, is_invalidated } => {
            let kind = if *is_logical { "logical" } else { "physical" };
            let temporary = if *is_temporary { ", temporary" } else { "" };
            let invalidated = if *is_invalidated { ", invalidated" } else { "" };
            format!("slot {} ({kind}{temporary}{invalidated})", printable(name))
        }
        Keeper::Archiver => "archiver (.ready)".to_owned(),
        Keeper::KeepSize => "wal_keep_size".to_owned(),
        Keeper::Summarizer => "WAL summarizer".to_owned(),
        Keeper::Recycled => "kept for reuse".to_owned(),
        Keeper::Nothing => "nothing".to_owned(),
        Keeper::Unknown => "unknown".to_owned(),
    }
}

/// What makes it let go.
pub(crate) fn release_words(keeper: &Keeper) -> String {
    match keeper {
        Keeper::Checkpoint => "CHECKPOINT".to_owned(),
        Keeper::Slot { is_invalidated: true, .. } => "holds nothing; drop it".to_owned(),
        Keeper::Slot { name, is_temporary: true, .. } => format!("end the session that made slot {}", printable(name)),
        Keeper::Slot { .. } => {
            "let its consumer catch up; drop it only if pg_replication_slots shows active = f and no consumer needs it"
                .to_owned()
        }
        Keeper::Archiver => "make archive_command succeed: see pg_stat_archiver and the server log".to_owned(),
        Keeper::KeepSize => "set a lower wal_keep_size, reload, CHECKPOINT".to_owned(),
        Keeper::Summarizer => "let the summarizer catch up, or set summarize_wal = off".to_owned(),
        Keeper::Recycled => "set a lower min_wal_size; a few go with each checkpoint".to_owned(),
        Keeper::Nothing => "goes at the next CHECKPOINT".to_owned(),
        Keeper::Unknown => "run this as the owner of the directory: something was not checked".to_owned(),
    }
}

pub(super) fn drop_command(slot: &str) -> String {
    format!("SELECT pg_drop_replication_slot('{}');", printable(slot).replace('\'', "''"))
}

/// What keeps most of `pg_wal`, in one sentence.
pub(crate) fn kept_sentence(wal: &KeptWal) -> String {
    let all = format!("pg_wal has {} segments, {}", wal.segments, size_words(wal.bytes));
    match most(wal) {
        Some(row) => {
            let alone = size_words(row.alone_bytes);
            let what = match &row.keeper {
                Keeper::Nothing => format!("nothing keeps {alone} of it, which goes at the next checkpoint"),
                Keeper::Unknown => format!("what keeps {alone} of it is unknown, because something was not checked"),
                keeper => format!("{alone} for {} alone", keeper_words(keeper)),
            };
            format!("{all}: {what}")
        }
        None if wal.rows.iter().any(|row| row.keeper != Keeper::Recycled && row.bytes > 0) => {
            let keepers = wal.rows.iter().filter(|row| row.keeper != Keeper::Recycled && row.bytes > 0);
            let names: Vec<String> = keepers.map(|row| keeper_words(&row.keeper)).collect();
            format!("{all}, kept by {}; each old one by more than one of them", names.join(", "))
        }
        None => all,
    }
}

/// What keeps most alone, where anything does.
pub(crate) fn most(wal: &KeptWal) -> Option<&Kept> {
    wal.rows.iter().find(|row| row.alone_bytes > 0 && row.keeper != Keeper::Recycled)
}
