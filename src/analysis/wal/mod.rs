//! Full-page images in WAL: how much, in which checkpoint interval, of what, and why.
//!
//! Every segment is read on its own; the parts are put together in order. See [`collect`] for how.

mod block_map;
pub mod block_set;
pub mod bucket_rows;
pub mod catalog_rows;
pub mod cause;
pub mod cause_facts;
pub mod certainty;
pub mod chain;
pub mod clock;
pub mod collect;
pub mod compare;
pub mod curve;
pub mod dwb_size;
mod feed;
pub mod forced;
pub mod group;
pub mod group_key;
pub mod group_rows;
pub mod image_log;
pub mod interval;
pub mod interval_rows;
pub mod likely_cause;
pub mod lost;
pub mod overview;
pub mod page_action;
pub mod page_writes;
pub mod part_state;
pub mod partial;
pub mod redo_points;
pub mod relation_filter;
pub mod relation_kind;
pub mod relation_use;
pub mod resync;
pub mod savings;
pub mod seam;
pub mod segment;
pub mod set_notes;
pub mod since_redo;
pub mod stretch;
pub mod tail;
pub mod tally;
pub mod time_buckets;
pub mod walk;
pub mod whatif;
