//! Offline forensics for PostgreSQL data directories: the double write buffer, torn pages, full-page images in WAL.

pub mod parsers;
pub mod types;
