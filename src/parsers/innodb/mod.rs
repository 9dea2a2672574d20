//! Formats of InnoDB, the storage engine of MySQL and MariaDB: pages and their checksums, page compression, flags of
//! tablespaces, the doublewrite buffer in its layouts, and the
//! redo log as far as its end is found by it. All integers are big-endian.

use std::fmt;

/// Gives an enumeration the stable names of its variants.
macro_rules! stable_names {
    ($named:ty) => {
        impl $named {
            /// Stable name for programs.
            pub fn name(self) -> &'static str {
                self.into()
            }
        }
    };
}
pub(crate) use stable_names;

pub mod checksum;
pub mod compressed;
pub mod flags;
pub mod layout;
pub mod my_cnf;
pub mod page_check;
pub mod redo;

/// A log sequence number of InnoDB: bytes of redo log since the instance was made. Printed as the servers do, as a decimal
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnodbLsn(pub u64);

impl fmt::Display for InnodbLsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of a page: its tablespace and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnodbPageId {
    /// Tablespace.
    pub space_id: u32,
    /// Page, counted through all files of the tablespace.
    pub page_no: u32,
}

impl fmt::Display for InnodbPageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {} page {}", self.space_id, self.page_no)
    }
}

/// Smallest page in a file: that of a table with `KEY_BLOCK_SIZE=1`.
pub(crate) const MIN_PAGE_BYTES: usize = 1024;

/// Page size of an instance that names no other.
pub(crate) const DEFAULT_PAGE_BYTES: usize = 16384;

/// True for `innodb_page_size` of a server.
pub(crate) const fn is_instance_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= 4096 && bytes <= 65536
}
