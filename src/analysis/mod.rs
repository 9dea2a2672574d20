//! Judgement: parsed values in, report structs out. Opens nothing by path and formats no text.
#![deny(clippy::arithmetic_side_effects)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod changes;
pub mod dwb;
pub(crate) mod error_words;
pub mod in_order;
pub(crate) mod innodb;
pub mod pages;
pub mod plan;
pub mod skipped;
pub mod start;
pub mod verdict;
pub mod wal;
