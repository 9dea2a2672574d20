//! Offline forensics for PostgreSQL data directories: the double write buffer, torn pages, full-page images in WAL.
#![deny(clippy::disallowed_methods)]

pub mod analysis;
pub mod cli;
pub mod cluster;
pub mod inspect;
pub mod output;
pub mod parsers;
pub mod repair;
pub mod tui;
pub mod types;
