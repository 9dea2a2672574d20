//! Data directories of MySQL and MariaDB, read and never written: tablespaces, the doublewrite buffer, the redo log.

pub(crate) mod doublewrite;
pub mod files;
pub(crate) mod redo_log;
pub mod tablespace;

use std::path::Path;

/// True when the files of a directory are those of MySQL or MariaDB.
pub(crate) fn is_innodb(path: &Path) -> bool {
    ["ibdata1", "mysql.ibd"].iter().any(|name| path.join(name).is_file())
}
