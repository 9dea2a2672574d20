//! Data directories of MySQL and MariaDB: their doublewrite buffer compared with the data files.

pub mod check;
#[cfg(feature = "tables")]
pub mod document;
pub mod request;
pub mod source;
