//! Rules of WAL that is read.

use crate::analysis::wal::hidden_redo::HiddenRedo;
use crate::analysis::wal::unreadable::{Resync, WalDamage};
use crate::report::{Finding, rules};

/// WAL that cannot be read up to its end. `resync`: whether reading continues after it.
pub(super) fn damage(damage: &WalDamage, resync: Resync) -> Finding {
    let (what, why, at) = match damage {
        WalDamage::Gap { reason, at, from, resumed } => {
            let to = resumed.map_or_else(|| "on".to_owned(), |resumed| format!("to {resumed}"));
            (format!("{reason} at {at}; nothing could be read from {from} {to}"), DAMAGE.why, Some(*at))
        }
        WalDamage::Further(count) => (format!("{count} more damaged stretches"), DAMAGE.why, None),
        WalDamage::RecordsFollow { end, first_lsn, was_synced } => {
            let why = match (was_synced, resync) {
                (true, Resync::Off) => SYNCED_NO_RESYNC,
                (true, _) => SYNCED,
                (false, Resync::Off) => NOT_SYNCED_NO_RESYNC,
                (false, _) => NOT_SYNCED,
            };
            (format!("{end}; valid records follow at {first_lsn}"), why, Some(end.at))
        }
        WalDamage::BeforeKnownEnd { end, known_lsn } => {
            (format!("{end}; pg_control shows that there was WAL at {known_lsn}"), BEFORE_KNOWN_END, Some(end.at))
        }
    };
    let finding = DAMAGE.problem(what).because(why);
    match at {
        Some(at) => finding.of_wal(at, at),
        None => finding,
    }
}

/// A redo point without a record.
pub(super) fn hidden_redo(HiddenRedo { after, before }: HiddenRedo) -> Finding {
    let what = format!("a checkpoint began between {after} and {before}, and no record here contains its redo point");
    HIDDEN_REDO.note(what).of_wal(after, before)
}

const SYNCED_NO_RESYNC: &str =
    "the WAL in between had been synced and is damaged; a server stops replay there, --resync reads on";
const SYNCED: &str = "the WAL in between had been synced and is damaged; a server stops replay there";
const NOT_SYNCED_NO_RESYNC: &str = "the WAL in between is damaged, or the power failed before it was synced; a server stops replay there, \
    --resync reads on";
const NOT_SYNCED: &str =
    "the WAL in between is damaged, or the power failed before it was synced; a server stops replay there";
const BEFORE_KNOWN_END: &str =
    "WAL that had been written is missing or damaged; a server cannot recover with what is left";

rules! {
    DAMAGE: Wal "damage",
        why: "records in between are lost; reading resumed at the start of a page",
        means: "WAL cannot be read up to its end",
        action: "Look for a sound copy of the segment, in an archive for instance";
    WAL_CHANGING: Wal "wal_changing",
        why: "a server is writing WAL: its newest records may be missing here",
        means: "WAL changes while it is read",
        action: "Stop the server, or read a copy";
    WAL_UNFINISHED: Wal "wal_unfinished",
        why: "a running server, or one that stopped under load, leaves this in the last page: the record before them was not \
            finished, so no commit among them was confirmed; replay ends there",
        means: "In the last WAL page, valid records follow an unfinished one: a server is running, or stopped abruptly under \
            load",
        action: "Nothing: replay ends before them, and no commit among them was confirmed";
    WAL_VERSION: Wal "wal_version",
        why: "their versions differ; records are read according to the page magic",
        means: "WAL pages and `pg_control` have different versions",
        action: "Find out which was copied from elsewhere";
    TWO_SEGMENTS: Wal "two_segments",
        why: "with -p DIRECTORY, two names select all segments from the first to the last, as in pg_waldump",
        means: "Two segments were given; those between them are not read",
        action: "Pass the directory instead";
    TIME_UNKNOWN_BEFORE: Wal "time_unknown_before",
        why: "that record is the first with a time; to read WAL before it, pass --start with an LSN instead of --since",
        means: "With `--since`, WAL before the first record with a time is left out: its time is unknown",
        action: "Give `--start` as an LSN to read it as well";
    NAMES_OF_UNKNOWN_CLUSTER: Wal "names_of_unknown_cluster",
        why: "names from another cluster would be wrong; the query of the current `pg_walfpi names-query` adds its identifier",
        means: "The file of `--names` does not identify its cluster: the query was older than that of the current `pg_walfpi \
            names-query`, or `pg_control` of the data directory cannot be trusted",
        action: "Create it again, or make sure that it comes from this cluster";
    AFTER_SEGMENT: Wal "behind_segment",
        why: "the segment itself is complete",
        means: "A compressed or archived segment continues after its end",
        action: "Nothing: the segment is whole";
    PAYLOAD: Wal "payload",
        why: "its checksum is right, but it is not a valid record of its type: a checkpoint may be missing from the rows",
        means: "A record with a right checksum that cannot be decoded, or a checkpoint with a redo point that no server can have \
            chosen: after the record itself, or before the first segment of all WAL. Nothing rests on it",
        action: "Report it: the figures may lack a checkpoint";
    ABORTED_RECORD: Wal "aborted_record",
        why: "the server crashed while writing it and continued after it; nothing is lost",
        means: "A record that a crash cut off and the server replaced",
        action: "Nothing";
    NOT_APPLIED: Wal "not_applied",
        why: "they serve consistency checks; --raw writes them too",
        means: "Images that redo does not apply were left out",
        action: "`--raw` writes them too";
    HIDDEN_REDO: Wal "hidden_redo",
        why: "the images show it; a new interval starts at the second address, which may be a little late",
        means: "A checkpoint began between these two addresses, and no record read contains its redo point: it was still \
            running, or a crash ended it",
        action: "Nothing: a new interval, of kind `hidden`, starts at the second address";
    BEFORE_FIRST_REDO: Wal "before_first_redo",
        why: "start at a redo point, or read more WAL before it, to have their cause",
        means: "Images before the first known redo point whose cause depends on the redo point before them",
        action: "Start at a redo point, or read more WAL before it";
    HINTS_SO_FAR: Wal "hints_so_far",
        why: "a later change of the same page would make them hint_then_changed",
        means: "Images for hint bits alone, in a checkpoint interval that is not over",
        action: "With more WAL some of them may be `hint_then_changed`";
}
