//! Read-only access to a data directory: what is there, opened with care, handed to the parsers. Judges nothing.
#![deny(clippy::arithmetic_side_effects)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod backup_files;
pub mod catalog;
mod catalog_file;
pub mod columns;
pub mod control_file;
pub mod data_dir;
pub mod donor;
pub(crate) mod dwb_files;
pub(crate) mod innodb;
pub mod name_gaps;
pub mod names;
pub(crate) mod names_file;
pub mod open;
pub mod page_source;
pub mod relation_walk;
pub mod running;
pub(crate) mod server_files;
pub mod settings;
pub mod tar_backup;
pub mod wal;
pub(crate) mod wal_marks;
pub(crate) mod xact_files;
