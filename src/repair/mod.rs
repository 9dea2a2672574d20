//! The only code that opens files for writing, but for sandboxes in which pages are built.

pub mod apply;
pub mod blocker;
pub mod demo;
pub mod export;
mod held;
pub mod journal;
pub(crate) mod journal_dir;
pub(crate) mod journal_seen;
pub(crate) mod manifest;
pub(crate) mod new_file;
pub(crate) mod outside;
pub mod plan;
pub(crate) mod prepare;
pub(crate) mod target;
pub(crate) mod witness;
