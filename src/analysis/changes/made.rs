//! Tablespaces and databases that records make and remove, whoever asks for their pages.

use std::collections::BTreeMap;

use super::events::FileEvent;
use crate::parsers::wal::lifecycle::{LifeCycle, TablespaceCreated};
use crate::parsers::wal::record::Record;
use crate::types::{Lsn, Oid};

const MAX_MADE: usize = 10_000;

/// Objects created by records, in their order.
#[derive(Clone, Debug, Default)]
pub struct Made {
    tablespaces: Vec<TablespaceCreated>,
    databases: Vec<FileEvent>,
    left_out: Option<Lsn>,
}

/// A database that replay copies from files that it did not make, and that is there in the end. A database is named by its number and that of its
/// tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseCopy {
    /// Start of the record that reads the files.
    pub record_lsn: Lsn,
    /// The database.
    pub made: (Oid, Oid),
    /// Whose files they are.
    pub source: (Oid, Oid),
}

impl Made {
    /// Adds what a record of the resource manager Tablespace makes.
    pub(crate) fn add_tablespace(&mut self, record: &Record<'_>) {
        match TablespaceCreated::of(record) {
            Ok(None) => {}
            Ok(Some(made)) => self.keep_tablespace(made),
            Err(_) => self.leave_out(record.start_lsn),
        }
    }

    fn keep_tablespace(&mut self, made: TablespaceCreated) {
        match self.tablespaces.len() < MAX_MADE {
            true => self.tablespaces.push(made),
            false => self.leave_out(made.record_lsn),
        }
    }

    /// Adds what a record of the resource manager Database does.
    pub(crate) fn add_database(&mut self, event: FileEvent) {
        match self.databases.len() < MAX_MADE {
            true => self.databases.push(event),
            false => self.leave_out(event.start_lsn),
        }
    }

    /// Notes that a record of these was not followed.
    pub(crate) fn leave_out(&mut self, start_lsn: Lsn) {
        self.left_out.get_or_insert(start_lsn);
    }

    pub(crate) fn append(&mut self, next: Self) {
        next.tablespaces.into_iter().for_each(|made| self.keep_tablespace(made));
        next.databases.into_iter().for_each(|event| self.add_database(event));
        next.left_out.into_iter().for_each(|start_lsn| self.leave_out(start_lsn));
    }

    /// Start of the first record that could not be read, or for which there was no room.
    pub const fn left_out(&self) -> Option<Lsn> {
        self.left_out
    }

    /// Tablespaces that records from `redo_lsn` on make.
    pub fn tablespaces(&self, redo_lsn: Lsn) -> impl Iterator<Item = &TablespaceCreated> {
        self.tablespaces.iter().filter(move |made| made.record_lsn >= redo_lsn)
    }

    /// Databases that replay from `redo_lsn` on copies from files that are there before. A copy of a copy is as good as the first.
    pub fn copies(&self, redo_lsn: Lsn) -> Vec<DatabaseCopy> {
        // Each database that replay made so far, with the outside files that it comes from; `None` where WAL has all of it.
        let mut made: BTreeMap<(Oid, Oid), Option<DatabaseCopy>> = BTreeMap::new();
        for event in self.databases.iter().filter(|event| event.start_lsn >= redo_lsn) {
            match &event.what {
                LifeCycle::DatabaseCreated { db_oid, spc_oid, copied_from } => {
                    let own = (*db_oid, *spc_oid);
                    let copy = copied_from.and_then(|source| match made.get(&source) {
                        Some(of_source) => of_source.map(|first| DatabaseCopy { made: own, ..first }),
                        None => Some(DatabaseCopy { record_lsn: event.start_lsn, made: own, source }),
                    });
                    made.insert(own, copy);
                }
                LifeCycle::DatabaseDropped { db_oid, spc_oids } => {
                    for spc_oid in spc_oids {
                        made.remove(&(*db_oid, *spc_oid));
                    }
                }
                LifeCycle::Created { .. } | LifeCycle::Truncated { .. } | LifeCycle::Dropped { .. } => {}
            }
        }
        made.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(steps: &[(u64, LifeCycle)]) -> Made {
        let mut made = Made::default();
        for (lsn, what) in steps {
            made.add_database(FileEvent { start_lsn: Lsn(*lsn), end_lsn: Lsn(lsn + 8), what: what.clone() });
        }
        made
    }

    fn copy(db_oid: Oid, spc_oid: Oid, from: Option<(Oid, Oid)>) -> LifeCycle {
        LifeCycle::DatabaseCreated { db_oid, spc_oid, copied_from: from }
    }

    fn drop_of(db_oid: Oid, spc_oid: Oid) -> LifeCycle {
        LifeCycle::DatabaseDropped { db_oid, spc_oids: vec![spc_oid] }
    }

    /// Start of the record, the database, whose files.
    type Found = (u64, (Oid, Oid), (Oid, Oid));

    fn found(steps: &[(u64, LifeCycle)]) -> Vec<Found> {
        made(steps).copies(Lsn(100)).iter().map(|copy| (copy.record_lsn.0, copy.made, copy.source)).collect()
    }

    #[test]
    fn copy_that_moved_on_still_comes_from_the_first_files() {
        let moved = [
            (100, copy(9, 2, Some((9, 1)))),
            (110, drop_of(9, 1)),
            (120, copy(9, 3, Some((9, 2)))),
            (130, drop_of(9, 2)),
        ];
        assert_eq!(found(&moved), [(100, (9, 3), (9, 1))]);
        let by_another = [(100, copy(8, 1, Some((7, 1)))), (110, copy(9, 1, Some((8, 1)))), (120, drop_of(8, 1))];
        assert_eq!(found(&by_another), [(100, (9, 1), (7, 1))]);
    }

    #[test]
    fn what_wal_makes_whole_or_removes_is_no_copy_of_files() {
        assert_eq!(found(&[(100, copy(9, 1, None)), (110, copy(8, 1, Some((9, 1))))]), []);
        assert_eq!(found(&[(100, copy(9, 1, Some((7, 1)))), (110, drop_of(9, 1))]), []);
        assert_eq!(found(&[(90, copy(9, 1, Some((7, 1))))]), [], "from before the redo point");
        let again = [(100, copy(9, 1, Some((7, 1)))), (110, drop_of(9, 1)), (120, copy(9, 1, None))];
        assert_eq!(found(&again), []);
    }

    #[test]
    fn what_there_is_no_room_for_is_said() {
        let many: Vec<(u64, LifeCycle)> = (0..=MAX_MADE as u64).map(|lsn| (lsn, copy(9, 1, None))).collect();
        assert_eq!(made(&many[1..]).left_out(), None);
        assert_eq!(made(&many).left_out(), Some(Lsn(MAX_MADE as u64)));
    }
}
