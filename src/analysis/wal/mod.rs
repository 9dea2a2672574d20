//! Full-page images in WAL: how much, in which checkpoint interval, of what, and why.
//!
//! Every segment is read on its own; the parts are put together in order. See `collect` for how.

pub(crate) mod bill;
pub(crate) mod block_set;
pub(crate) mod catalog_rows;
pub mod cause;
pub mod cause_facts;
pub(crate) mod clock;
pub(crate) mod collect;
pub(crate) mod curve;
pub(crate) mod group;
pub mod group_key;
pub mod hidden_redo;
pub(crate) mod interval;
pub mod interval_rows;
pub(crate) mod last_checkpoint;
pub(crate) mod likely_cause;
pub mod page_action;
pub(crate) mod partial;
pub mod record_sheet;
pub(crate) mod relation_use;
pub(crate) mod row_facts;
pub mod segment;
pub(crate) mod since_redo;
pub mod tail;
pub mod tally;
pub(crate) mod time_groups;
pub mod timeline;
pub(crate) mod unreadable;
pub mod walk;
