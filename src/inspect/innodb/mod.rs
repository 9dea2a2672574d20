//! Data directories of MySQL and MariaDB: their doublewrite buffer compared with the data files.

pub mod check;
pub mod source;

pub use crate::analysis::innodb::judge::{HeldImage, InnodbComparison};
pub use crate::cluster::innodb::redo_log::Family;
