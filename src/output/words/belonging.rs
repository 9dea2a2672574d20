//! Why files do not belong together.

use std::fmt;

use crate::analysis::start::belonging::{Contradiction, RowAhead, RowFault, SeamFault, WrongRows};

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LabelGone { start_lsn, timeline, redo_lsn, wal_file, of_standby } => {
                let from = if *of_standby { "standby" } else { "primary" };
                let file = wal_file.as_ref().map(|name| format!(" (file {name})")).unwrap_or_default();
                write!(
                    f,
                    "backup_label of this base backup is missing: recovery would begin at {redo_lsn}. Its lines were: \
                     \"START WAL LOCATION: {start_lsn}{file}\", \"CHECKPOINT LOCATION: \" with the LSN of the first \
                     checkpoint record of that redo point, \"BACKUP METHOD: streamed\", \"BACKUP FROM: {from}\", \
                     \"START TIMELINE: {timeline}\""
                )
            }
            Self::PageAfterShutdown { page_lsn, checkpoint_lsn, upgrade } => {
                write!(
                    f,
                    "a page has LSN {page_lsn}, but the cluster was shut down at {checkpoint_lsn}: another server, or \
                     this one at another time, wrote the page"
                )?;
                if upgrade.has_old_control {
                    f.write_str("; global/pg_control.old indicates pg_upgrade --link")?;
                }
                match upgrade.linked_files {
                    0 => Ok(()),
                    count => write!(f, "; another directory shares {count} of the relation files"),
                }
            }
            Self::XidsAhead { rows, next } => write!(f, "{rows}, but the next transaction in pg_control is {next}"),
            Self::MultixactsAhead { rows, next } => {
                write!(f, "{rows}, but the next multixact in pg_control is {next}")
            }
            Self::DatabaseUnknown { oid } => {
                write!(f, "the directory has relations, but pg_database has no database {oid}")
            }
            Self::PageOfNoRecord { page_lsn, pages, .. } => {
                write!(f, "an intact page has LSN {page_lsn}, but no record of the available WAL ends there")?;
                if *pages > 1 { write!(f, " ({pages} such pages)") } else { Ok(()) }
            }
            Self::XactOlder { rows } => write!(f, "{rows} as committed, but pg_xact says that they are not"),
            Self::WalDiverged { record_lsn, what } => {
                write!(f, "WAL from another place has a different history, according to its record at {record_lsn}: ")?;
                match what {
                    SeamFault::Xid { xid, next } => {
                        write!(
                            f,
                            "it belongs to transaction {xid}, but the next transaction at the checkpoint was \
                            {next}"
                        )
                    }
                    SeamFault::Commit { xid } => {
                        write!(f, "it commits transaction {xid}, but pg_xact does not")
                    }
                    SeamFault::NextXid { before, after } => {
                        write!(f, "its next transaction is {after}, but {before} in the checkpoint before it")
                    }
                    SeamFault::Time { seconds } => {
                        write!(f, "it is {seconds} s older than the checkpoint before it")
                    }
                }
            }
            Self::TimelineForked { newest, own, fork_lsn } => {
                write!(f, "the last checkpoint is on timeline {own}, but recovery follows timeline {newest}, which ")?;
                match fork_lsn {
                    Some(lsn) => write!(f, "left it at {lsn}, before the checkpoint"),
                    None => f.write_str("never was on it"),
                }
            }
        }
    }
}

impl fmt::Display for RowAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, item, value, newest, rows, relations } = self;
        write!(f, "block {} item {item} has {value}", page.block)?;
        match rows {
            1 => Ok(()),
            _ => write!(f, ", {rows} rows of {relations} relation(s) have numbers up to {newest}"),
        }
    }
}

impl fmt::Display for WrongRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, item, fault, rows, further } = self;
        write!(f, "block {} item {item} ", page.block)?;
        match fault {
            RowFault::FrozenXid { xid, oldest } => write!(f, "has transaction {xid}, but relfrozenxid is {oldest}")?,
            RowFault::OldMultixact { multi, oldest } => {
                write!(f, "has multixact {multi}, but relminmxid is {oldest}")?;
            }
            RowFault::Undone { xid } => {
                write!(f, "says that transaction {xid} committed, but pg_xact says that it did not")?
            }
            RowFault::Column { number } => write!(f, "ends inside its column {number}")?,
        }
        if *rows > 1 {
            write!(f, "; {rows} rows of this relation are damaged")?;
        }
        if *further > 0 {
            write!(f, "; {further} more relations have such rows")?;
        }
        Ok(())
    }
}

impl RowFault {
    pub const fn why(&self) -> &'static str {
        match self {
            Self::FrozenXid { .. } => {
                "VACUUM fails because of the row (\"found xmin from before relfrozenxid\"), and pg_xact may no longer \
                    have its outcome"
            }
            Self::OldMultixact { .. } => "VACUUM fails because of the row (\"found multixact from before relminmxid\")",
            Self::Undone { .. } => "the row or pg_xact is damaged",
            Self::Column { .. } => {
                "the row is damaged: reading that column fails or ends the server process; dump the table without this ctid"
            }
        }
    }
}
