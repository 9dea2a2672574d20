//! Judgement of data directories of MySQL and MariaDB. What the server does at startup is not predicted: its redo log
//! is not replayed here.

pub mod candidates;
pub mod judge;
pub(crate) mod rules;
pub mod scan;
pub mod slot;
