//! The work itself, for the command line, the screen and other programs alike: a cluster read and judged, images compared,
//! repairs planned. Plain requests go in, reports come out; nothing is printed here.

pub mod batches;
pub mod check;
pub(crate) mod cluster_wal;
#[cfg(feature = "tables")]
pub mod crash_report;
pub mod donors;
pub mod dwb_source;
pub mod error;
pub mod examination;
pub mod file_filter;
pub mod finding_rules;
pub mod info;
pub mod innodb;
mod logged_page;
pub mod next;
pub mod now;
pub mod page_at;
pub(crate) mod page_changes;
pub mod page_history;
pub mod page_name;
#[cfg(feature = "tables")]
pub mod page_rows;
pub(crate) mod page_rules;
pub mod page_target;
pub(crate) mod page_versions;
pub mod rebuild;
pub(crate) mod relation_name;
pub mod repair;
pub mod replay_server;
pub mod salvage;
pub mod verify;
pub mod wal;

pub use self::check::check;
pub use self::repair::apply as repair;
pub use wal::request::WalRequest;
pub use wal::stats::{WalCounts, WalStats, WalStatsRequest, wal_stats};
pub use wal::watch::unwatched;
