//! Full-page images in WAL: how much, in which checkpoint interval, of what, and why.
//!
//! Every segment is read on its own; the parts are put together in order. See [`collect`] for how.

mod block_map;
pub(crate) mod block_set;
pub(crate) mod bucket_rows;
pub(crate) mod catalog_rows;
pub mod cause;
pub mod cause_facts;
pub mod certainty;
pub mod chain;
pub mod clock;
pub mod collect;
pub mod compare;
pub(crate) mod curve;
pub(crate) mod dwb_size;
mod feed;
pub mod forced;
pub mod group;
pub mod group_key;
pub(crate) mod group_rows;
pub mod hidden_redo;
pub mod interval;
pub mod interval_rows;
pub(crate) mod last_checkpoint;
pub(crate) mod likely_cause;
pub mod page_action;
pub(crate) mod page_writes;
pub mod partial;
pub mod record_sheet;
pub mod redo_points;
pub(crate) mod relation_filter;
pub(crate) mod relation_use;
pub mod resync;
pub mod savings;
pub mod segment;
pub(crate) mod set_notes;
pub(crate) mod since_redo;
pub mod stretch;
pub mod tail;
pub mod tally;
pub(crate) mod time_buckets;
pub mod timeline;
pub(crate) mod unreadable;
pub mod walk;
pub mod whatif;
