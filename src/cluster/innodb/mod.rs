//! Data directories of MySQL and MariaDB, read and never written: tablespaces, the doublewrite buffer, the redo log.

pub mod doublewrite;
pub mod files;
pub mod redo_end;
pub mod redo_log;
pub mod tablespace;
