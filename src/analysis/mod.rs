//! Judgement: parsed values in, report structs out. Opens nothing by path and formats no text.
#![deny(clippy::arithmetic_side_effects)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod batches;
pub(crate) mod belonging;
pub(crate) mod checksum_witness;
pub mod cluster_condition;
pub(crate) mod cluster_report;
pub mod dwb_format;
pub mod dwb_report;
pub(crate) mod error_words;
pub mod in_order;
pub(crate) mod innodb;
pub(crate) mod other_kind;
pub mod page_check;
pub(crate) mod page_diff;
pub mod page_links;
pub mod page_mask;
mod page_read;
pub mod page_rows;
pub mod page_scan;
pub(crate) mod page_size;
pub(crate) mod prepared_xacts;
pub(crate) mod provable;
pub(crate) mod segment_check;
pub mod select;
pub mod server_files;
pub(crate) mod short_relations;
pub mod skipped;
pub mod slot_facts;
pub mod staleness;
pub(crate) mod table_links;
pub mod trace;
pub mod verdict;
pub mod wal;
