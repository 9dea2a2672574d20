//! Relations whose file was replaced by a transaction of unknown end (TRUNCATE, CLUSTER, REFRESH and the like): rows of both files may count.

use std::collections::BTreeMap;

use super::catalogs::Relation;
use super::source::DatabaseFiles;
use super::xacts::Why;
use crate::types::Oid;

/// A file that may hold the rows of a relation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rival {
    pub spc_oid: Oid,
    pub filenode: u32,
    toast_oid: Oid,
    /// Why it is not known whether it does; `None` where there is no other.
    pub doubt: Option<Why>,
}

impl Relation {
    /// This relation by a newer row of `pg_class`, where an older one may count still. A commit empties the old file:
    /// where that has rows, it comes first.
    pub(super) fn following(mut self, mut older: Self, database: &DatabaseFiles) -> Self {
        let bytes =
            |relation: &Self| database.main_fork(relation.spc_oid, relation.filenode).map(DatabaseFiles::fork_bytes);
        if self.doubt.is_some() && older.filenode == self.filenode {
            (self.made_by, self.rivals, self.pages) = (older.made_by, older.rivals, older.pages);
            return self;
        }
        let older_bytes = bytes(&older);
        match bytes(&self) {
            // A rolled back change leaves no file, nor does a table that was dropped.
            None if self.filenode > 0 && (older.filenode == 0 || older_bytes.is_some()) => older,
            Some(_) if self.doubt.is_some() && older_bytes.is_some_and(|bytes| bytes > 0) => {
                if older.rivals.iter().all(|rival| rival.filenode != self.filenode) {
                    older.pages = 0;
                    older.rivals.push(self.own_file());
                }
                older
            }
            _ => self,
        }
    }

    const fn own_file(&self) -> Rival {
        Rival { spc_oid: self.spc_oid, filenode: self.filenode, toast_oid: self.toast_oid, doubt: self.doubt }
    }

    /// The files that may hold the rows.
    pub(super) fn files(&self) -> impl Iterator<Item = Rival> {
        let own = Rival { doubt: self.doubt.filter(|_| !self.rivals.is_empty()), ..self.own_file() };
        std::iter::once(own).chain(self.rivals.iter().copied())
    }
}

/// The files of one TOAST table: tablespace and number.
pub(crate) type ToastFiles = Vec<(Oid, u32)>;

/// The TOAST tables of a relation, with the files of each.
pub(crate) fn toast_tables(relations: &BTreeMap<Oid, Relation>, relation: &Relation) -> BTreeMap<Oid, ToastFiles> {
    let oids = relation.files().map(|file| (file.toast_oid, file.spc_oid)).filter(|(oid, _)| *oid > 0);
    oids.map(|(oid, spc_oid)| match relations.get(&oid) {
        Some(toast) => (oid, toast.files().map(|file| (file.spc_oid, file.filenode)).collect()),
        None => (oid, vec![(spc_oid, oid)]),
    })
    .collect()
}
