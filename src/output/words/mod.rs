//! Words for what was found and judged: one file for each family of enums. Their codes, which programs compare, are where
//! the enums are defined.

mod belonging;

pub mod cluster;
mod damage;
pub(in crate::output) mod doubt;
mod evidence;
mod innodb;
pub mod page_action;
mod reason;
mod rebuild;
mod replay;
pub mod rows;
mod skipped;
mod value;
