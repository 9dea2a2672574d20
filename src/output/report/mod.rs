//! Reports: what a crash report and a report on WAL say.

mod closing;
pub mod crash;
pub mod wal;

/// Who made the report, when, and how.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The command line.
    pub command_line: String,
    /// When the report was made, ISO 8601 in UTC.
    pub time: String,
}
