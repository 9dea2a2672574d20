//! JSON of `kept`: who keeps which segments of `pg_wal`.

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::{KeeperWord, LsnText};
use crate::analysis::wal::kept::{Keeper, Kept};
use crate::output::kept_words::release_words;

/// Fields of a row, in the order of CSV.
pub(crate) const KEPT_COLUMNS: &[&str] = &[
    "keeper",
    "slot",
    "is_logical",
    "is_temporary",
    "is_invalidated",
    "segments",
    "bytes",
    "alone_segments",
    "alone_bytes",
    "oldest_segment",
    "from_lsn",
    "back_bytes",
    "release",
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct KeptJson {
    /// `checkpoint`: recovery from the last one; `slot`; `archiver`: segments that wait for it; `wal_keep_size` (`wal_keep_segments` up to 12); `summarizer`; `recycled`: old files under new names, to be written later; `nothing`: the next checkpoint removes or recycles them; `unknown`: nothing that could be read
    keeper: KeeperWord,
    /// For a slot: its name, and whether it is logical, ends with its session, or no longer holds WAL
    slot: Option<String>,
    is_logical: Option<bool>,
    is_temporary: Option<bool>,
    is_invalidated: Option<bool>,
    /// Segments that it keeps, and bytes of their files
    segments: u64,
    bytes: u64,
    /// Those of them that nothing else keeps: they go when it lets go and a checkpoint follows
    alone_segments: u64,
    alone_bytes: u64,
    /// The oldest of its segments
    oldest_segment: Option<String>,
    /// The oldest WAL that it needs, where it says so, and bytes from there to the end of the last segment written
    from_lsn: Option<LsnText>,
    back_bytes: Option<u64>,
    /// What makes it let go
    release: String,
}

impl From<&Kept> for KeptJson {
    fn from(kept: &Kept) -> Self {
        let slot = match &kept.keeper {
            Keeper::Slot { name, is_logical, is_temporary, is_invalidated } => {
                Some((name.clone(), *is_logical, *is_temporary, *is_invalidated))
            }
            _ => None,
        };
        let (name, [is_logical, is_temporary, is_invalidated]) = match slot {
            Some((name, logical, temporary, invalidated)) => {
                (Some(name), [Some(logical), Some(temporary), Some(invalidated)])
            }
            None => (None, [None; 3]),
        };
        Self {
            keeper: kept.keeper.code().into(),
            slot: name,
            is_logical,
            is_temporary,
            is_invalidated,
            segments: kept.segments,
            bytes: kept.bytes,
            alone_segments: kept.alone_segments,
            alone_bytes: kept.alone_bytes,
            oldest_segment: kept.oldest.clone(),
            from_lsn: kept.from_lsn.map(LsnText::from),
            back_bytes: kept.back_bytes,
            release: release_words(&kept.keeper),
        }
    }
}
