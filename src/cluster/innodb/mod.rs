//! Data directories of MySQL and MariaDB, read and never written: tablespaces, the doublewrite buffer, the redo log.

pub(crate) mod doublewrite;
pub mod files;
pub(crate) mod redo_end;
pub(crate) mod redo_log;
pub mod tablespace;
