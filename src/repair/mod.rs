//! The only code that opens files for writing.

pub mod export;
pub mod scratch;
