//! Offline forensics for PostgreSQL data directories: the double write buffer, torn pages, full-page images in WAL.
//!
//! Images in WAL are counted from whatever holds it: a data directory, `pg_wal`, an archive, single segments, compressed
//! or not. Damage is a finding in the answer; an error says that there was nothing to read.
//!
//! ```
//! use pgforensics::inspect::{WalRequest, WalStatsRequest, unwatched, wal_stats};
//!
//! let wal = WalRequest::of_paths(vec!["fixtures/wal/pg16.tar.zst".into()]);
//! let stats = wal_stats(&WalStatsRequest { wal, group: None }, &unwatched)?;
//! let total = &stats.counts.total;
//! println!("{} of {} bytes are images", total.fpi_bytes, total.combined_bytes());
//! // What pg_waldump --stats says of the same segments.
//! assert_eq!((total.records, total.fpi_bytes, total.combined_bytes()), (10_607, 1_657_400, 2_878_912));
//! assert!(stats.coverage.skipped.is_empty());
//! # Ok::<(), pgforensics::inspect::error::InspectError>(())
//! ```
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

pub use inspect::wal_stats;
pub use parsers::wal::reader::WalReader;
