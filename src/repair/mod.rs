//! The only code that opens files for writing.

pub mod apply;
mod audit;
pub mod export;
pub mod guard;
pub mod journal;
pub mod plan;
pub mod plan_file;
pub mod prepare;
pub mod scratch;
mod target;
