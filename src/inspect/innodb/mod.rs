//! Data directories of MySQL and MariaDB: their doublewrite buffer compared with the data files.

pub mod check;
pub mod source;
pub mod verify;
