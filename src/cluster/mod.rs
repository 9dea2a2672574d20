//! Read-only access to a data directory: what is there, opened with care, handed to the parsers. Judges nothing.
#![deny(clippy::arithmetic_side_effects)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub(crate) mod access_modes;
pub(crate) mod accounts;
pub mod backup_files;
pub(crate) mod backup_manifest;
pub mod catalog;
mod catalog_file;
pub mod columns;
pub(crate) mod config_files;
pub mod control_file;
pub mod data_dir;
pub mod donor;
pub(crate) mod dwb_files;
pub(crate) mod file_digest;
pub(crate) mod history_file;
pub(crate) mod innodb;
pub(crate) mod minimum;
pub mod name_gaps;
pub mod names;
pub(crate) mod names_file;
pub(crate) mod not_files;
pub mod open;
mod page_sizes;
pub mod page_source;
pub mod relation_path;
pub mod relation_walk;
pub mod reset;
pub mod room;
pub mod running;
pub mod server_files;
pub mod server_process;
mod server_settings;
pub mod settings;
pub(crate) mod slru_files;
pub(crate) mod state_files;
pub(crate) mod tar_backup;
pub(crate) mod tar_facts;
pub mod tar_members;
pub(crate) mod upgrade_signs;
pub mod wal;
pub(crate) mod wal_keepers;
pub(crate) mod wal_marks;
pub(crate) mod xact_files;
mod xact_log;
