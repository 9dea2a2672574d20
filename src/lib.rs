//! Offline forensics for PostgreSQL data directories: the double write buffer, torn pages, full-page images in WAL.
#![deny(clippy::disallowed_methods)]

pub mod analysis;
#[cfg(feature = "cli")]
pub mod cli;
pub mod cluster;
pub mod inspect;
pub mod output;
pub mod parsers;
pub mod repair;
#[cfg(feature = "tui")]
pub mod tui;
pub mod types;
