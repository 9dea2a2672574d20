//! Words for what was found and judged: one file for each family of enums. Their codes, which programs compare, are where
//! the enums are defined.

pub mod cluster;
pub(in crate::output) mod doubt;
mod evidence;
mod reason;
mod rebuild;
pub mod rows;
