//! Words for what was found and judged: one file for each family of enums. Their codes, which programs compare, are where
//! the enums are defined.

mod belonging;
pub mod certainty;

pub mod cluster;
mod config;
mod damage;
mod donor;
pub(in crate::output) mod doubt;
mod evidence;
mod fate;
mod innodb;
mod links;
pub mod page_action;
mod proof;
mod reason;
mod rebuild;
mod repair;
mod replay;
pub mod ring;
pub mod rows;
mod select;
mod skipped;
mod value;
pub mod wal;
