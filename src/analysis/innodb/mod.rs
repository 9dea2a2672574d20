//! Judgement of data directories of MySQL and MariaDB. What the server does at startup is not predicted: its redo log
//! is not replayed here.

pub(crate) mod candidates;
pub mod judge;
pub(crate) mod rules;
pub mod scan;
pub(crate) mod slot;
