//! The work itself, for the command line, the screen and other programs alike: a cluster read and judged, images compared,
//! repairs planned. Plain requests go in, reports come out; nothing is printed here.
//! Also here: the time of day, for what is written down about a piece of work.

pub mod check;
pub(crate) mod cluster_wal;
#[cfg(feature = "tables")]
pub(crate) mod crash_report;
pub mod dwb_source;
pub mod error;
pub mod examination;
pub mod file_filter;
pub mod finding_rules;
pub mod innodb;
pub mod next;
pub mod page_at;
pub mod page_history;
pub mod page_name;
#[cfg(feature = "tables")]
pub mod page_rows;
pub mod page_target;
pub mod rebuild;
pub mod repair;
pub mod salvage;
pub mod verify;
pub mod wal;

pub use self::check::check;
pub use self::repair::apply as repair;
pub use wal::request::WalRequest;
pub use wal::request::unwatched;
pub use wal::stats::{WalCounts, WalStats, WalStatsRequest, wal_stats};

/// Now, to the second, in UTC: ISO 8601.
pub(crate) fn now_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
