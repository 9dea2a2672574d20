//! Words for what was found and judged: one file for each family of enums.

pub mod finding;
pub mod wal;
