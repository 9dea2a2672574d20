//! Read-only access to a data directory: what is there, opened with care, handed to the parsers. Judges nothing.
#![deny(clippy::arithmetic_side_effects)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod access_modes;
pub mod backup_files;
pub mod backup_manifest;
pub mod catalog;
mod catalog_file;
pub mod columns;
pub mod config_files;
pub mod control_file;
pub mod data_dir;
pub mod donor;
pub mod dwb_files;
pub mod file_digest;
pub mod history_file;
pub(crate) mod innodb;
pub mod minimum;
pub mod name_gaps;
pub mod names;
pub mod names_file;
pub mod not_files;
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
pub mod slru_files;
pub mod state_files;
pub mod tar_backup;
pub mod tar_facts;
pub mod tar_members;
pub mod upgrade_signs;
pub mod wal;
pub mod wal_marks;
pub mod xact_files;
mod xact_log;
