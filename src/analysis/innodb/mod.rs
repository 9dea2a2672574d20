//! Judgement of data directories of MySQL and MariaDB. Nothing is ever called proven: without replaying the redo log of
//! InnoDB nobody knows which version of a page is the right one.

pub mod batches;
pub mod candidates;
pub mod compare;
pub mod finding;
pub mod judge;
pub mod opened;
pub mod recovery;
pub mod scan;
pub mod slot;
