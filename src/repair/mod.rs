//! The only code that opens files for writing, but for sandboxes in which pages are built.

pub mod apply;
mod audit;
pub mod blocker;
pub mod demo;
pub mod export;
mod held;
pub mod journal;
pub(crate) mod journal_dir;
pub(crate) mod journal_seen;
pub mod manifest;
pub(crate) mod new_file;
pub mod outside;
pub mod plan;
pub(crate) mod plan_file;
pub mod prepare;
pub mod scratch;
pub mod target;
pub mod witness;
