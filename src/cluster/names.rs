//! Names of relations by the identity of their files: labels for reports, never the base of a decision.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::name_gaps::NameGap;
use crate::parsers::catalog::{ClassRow, DatabaseRow, NamedRow, Persistence, RelKind};
use crate::types::{Lsn, Oid, RelFileLocator};

/// Most relations that are kept, in all databases together.
pub(super) const MAX_RELATIONS: usize = 1 << 24;

/// Schemas whose OIDs are the same in every cluster and that cannot be renamed.
///
/// Source: `PG_CATALOG_NAMESPACE`, `PG_TOAST_NAMESPACE`, `src/include/catalog/pg_namespace.dat`.
pub(super) const FIXED_SCHEMAS: [(Oid, &str); 2] = [(11, "pg_catalog"), (99, "pg_toast")];

/// Stands for a database in front of relations that all databases share, as does the directory that they lie in.
pub(crate) const SHARED_DATABASE: &str = "global";

/// Why a name may be wrong, out of date or of a relation that is gone. Later ones are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameDoubt {
    /// Its row is on a page that is sane but whose checksum fails: torn or damaged.
    PageChecksum,
    /// The row may have been deleted or replaced, by a member of a multixact or by a transaction that `pg_xact` does not
    /// tell of.
    PerhapsDeleted,
    /// `pg_xact` does not say whether the row's transaction was committed.
    InsertionUnknown,
    /// The row's transaction was unfinished when the server crashed, or finished in WAL that was not replayed.
    InsertionOpen,
    /// The row stands in WAL; whether it was committed, and whether it was still true later, is not examined.
    RowInWal,
    /// The file number is a guess, since `pg_filenode.map` cannot be used: that of a catalog never rewritten.
    GuessedNumber,
}

impl fmt::Display for NameDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PageChecksum => "from a page whose checksum fails",
            Self::PerhapsDeleted => "from a row that may have been deleted",
            Self::InsertionUnknown => "from a row that may never have been committed",
            Self::InsertionOpen => "from a row that was not committed when the server stopped",
            Self::RowInWal => "from a row in WAL",
            Self::GuessedNumber => "without a usable pg_filenode.map",
        })
    }
}

/// Rank of a source of a name: less doubt first, then the newer row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) doubt: Option<NameDoubt>,
    pub(super) age: RowAge,
}

/// Age of a row of a catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowAge {
    /// Transaction that inserted the row; kept in the row even when it is frozen.
    pub xmin: u32,
    /// LSN of its page: the row was there before anything that WAL says later.
    pub page_lsn: Lsn,
}

impl Trust {
    /// Source of the comparison of transaction ids: `TransactionIdPrecedes`, `src/backend/access/transam/transam.c`.
    pub(super) fn is_better_than(self, other: Self) -> bool {
        // Ids up to 2 belong to the server itself and precede all others.
        let (own, of_other) = (self.age.xmin, other.age.xmin);
        let newer = match (own > 2, of_other > 2) {
            (true, true) => own.wrapping_sub(of_other).cast_signed() > 0,
            _ => own > of_other,
        };
        if self.doubt == other.doubt { newer } else { self.doubt < other.doubt }
    }
}

/// Name of a relation. All texts are as stored: escape them before they reach a terminal. Displays as
/// `database.schema.relation`, with `SHARED_DATABASE` in front of shared relations and `?` for an unknown schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationName {
    /// Database; its OID where `pg_database` has no readable row; `None` for shared relations.
    pub database: Option<Arc<str>>,
    /// Schema; `None` where `pg_namespace` has no readable row.
    pub schema: Option<Arc<str>>,
    /// Name without schema.
    pub relation: Box<str>,
    /// OID of the relation, which is not its file number; `None` when a list of names does not say.
    pub oid: Option<Oid>,
    /// Kind; `None` when a list of names does not say.
    pub kind: Option<RelKind>,
    /// Access method, of an index; `None` when a list of names does not say.
    pub access_method_oid: Option<Oid>,
    /// A table, TOAST table or materialised view that certainly is a heap.
    pub is_heap: bool,
    /// OID of the table that an index or a TOAST table is of, where it is known.
    pub owner_oid: Option<Oid>,
    /// Permanent, unlogged or temporary; `None` when a list of names does not say.
    pub persistence: Option<Persistence>,
    /// Lowest transaction and multixact of its rows: `relfrozenxid` and `relminmxid`; zeros if unknown.
    pub oldest: (u32, u32),
    /// Pages that the server counted, where it counted some of them in a visibility map; else 0.
    pub mapped_pages: u32,
    /// An index that no server reads: `CREATE INDEX CONCURRENTLY` was interrupted before it filled it, or it is about to be
    /// dropped.
    pub is_unfilled: bool,
    /// Why the name may be wrong; `None` when its row is committed and its page is sound.
    pub doubt: Option<NameDoubt>,
    pub(super) age: RowAge,
}

impl RelationName {
    /// A name from a committed row that nothing contradicts, of a relation with files that recovery keeps and servers read.
    pub fn is_certain(&self) -> bool {
        self.doubt.is_none() && self.persistence == Some(Persistence::Permanent) && !self.is_unfilled
    }

    /// True for kinds of relations that have files.
    fn has_files(&self) -> bool {
        let kinds = [RelKind::TABLE, RelKind::INDEX, RelKind::TOAST, RelKind::SEQUENCE, RelKind::MATERIALIZED_VIEW];
        self.kind.is_some_and(|kind| kinds.contains(&kind))
    }

    /// True for `relation`, `schema.relation` and `database.schema.relation`; names themselves may hold dots.
    fn is_called(&self, text: &str) -> bool {
        let schema = self.schema.as_deref().unwrap_or("?");
        let is_in_schema = |text: &str| after_dot(text, schema) == Some(&*self.relation);
        let database = self.database.as_deref().unwrap_or(SHARED_DATABASE);
        *self.relation == *text || is_in_schema(text) || after_dot(text, database).is_some_and(is_in_schema)
    }

    /// Temporary relations have files of their own kind, and may share numbers with permanent ones.
    fn is_better_than(&self, other: &Self) -> bool {
        let temporary = |name: &Self| name.persistence == Some(Persistence::Temporary);
        if temporary(self) != temporary(other) {
            return temporary(other);
        }
        let trust = |name: &Self| Trust { doubt: name.doubt, age: name.age };
        trust(self).is_better_than(trust(other))
    }
}

impl fmt::Display for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database.as_deref().unwrap_or(SHARED_DATABASE);
        f.pad(&format!("{database}.{}.{}", self.schema.as_deref().unwrap_or("?"), self.relation))
    }
}

/// Text after `word` and a dot.
fn after_dot<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_prefix(word)?.strip_prefix('.')
}

/// Location of a database according to a committed row of `pg_database` that nothing contradicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseHome {
    pub spc_oid: Oid,
    pub age: RowAge,
    /// Nothing tried to delete the row or to replace it. A server removes the directory only once the deletion is on disk.
    ///
    /// Source: `dropdb` and `movedb`, `src/backend/commands/dbcommands.c`, which wait for a checkpoint.
    pub was_never_deleted: bool,
}

/// A tablespace by a row of `pg_tablespace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TablespaceRow {
    pub name: Arc<str>,
    pub age: RowAge,
    /// The row was committed, and nothing contradicts it.
    pub is_certain: bool,
}

/// Names of relations, databases and tablespaces of one cluster: see [`Self::read`] and [`Self::from_json`].
#[derive(Debug, Default)]
pub struct RelationNames {
    relations: HashMap<RelFileLocator, RelationName>,
    databases: BTreeMap<Oid, Arc<str>>,
    homes: BTreeMap<Oid, DatabaseHome>,
    tablespaces: BTreeMap<Oid, TablespaceRow>,
    schemas: HashMap<(Oid, Oid), Arc<str>>,
    system_identifier: Option<u64>,
    left_out: u64,
}

impl RelationNames {
    /// Name of the relation that these files belong to. Forks and segments of a relation share its name.
    pub fn get(&self, rel: RelFileLocator) -> Option<&RelationName> {
        self.relations.get(&rel)
    }

    /// The catalog has a relation with these files, beyond doubt.
    pub(crate) fn has(&self, rel: RelFileLocator) -> bool {
        self.get(rel).is_some_and(RelationName::is_certain)
    }

    /// The name of a relation, or its numbers without one.
    pub(crate) fn called(&self, rel: RelFileLocator) -> String {
        self.full_name(rel).unwrap_or_else(|| rel.to_string())
    }

    /// OID of the table that a relation is, or that it belongs to: an index of a TOAST table to the table with the values.
    pub(crate) fn table_of(&self, rel: RelFileLocator) -> Option<Oid> {
        let name = self.get(rel)?;
        let owner_of = |oid: Oid| {
            let is_named =
                |(other, name): &(&RelFileLocator, &RelationName)| other.db_oid == rel.db_oid && name.oid == Some(oid);
            self.relations.iter().find(is_named).and_then(|(_, name)| name.owner_oid)
        };
        let Some(owner) = name.owner_oid else { return name.oid };
        // An index of a TOAST table has one more step.
        Some(owner_of(owner).unwrap_or(owner))
    }

    /// `database.schema.relation`; a question mark follows a name that may be wrong.
    pub(crate) fn full_name(&self, rel: RelFileLocator) -> Option<String> {
        let name = self.get(rel)?;
        Some(if name.doubt.is_some() { format!("{name}?") } else { name.to_string() })
    }

    /// Name of the database of a relation, whether or not the relation has a name; `None` for shared relations and where
    /// it is not known.
    pub(crate) fn database_of(&self, rel: RelFileLocator) -> Option<&str> {
        let by_relation = || {
            let label = self.get(rel)?.database.as_deref()?;
            // The OID stands for a database without a name.
            (label.parse() != Ok(rel.db_oid)).then_some(label)
        };
        self.database(rel.db_oid).or_else(by_relation)
    }

    /// Every relation that is called so: by its name, with or without schema and database in front, and with or without
    /// the question mark of `Self::full_name`. Sorted.
    pub fn find(&self, text: &str) -> Vec<RelFileLocator> {
        let doubtful = text.strip_suffix('?');
        let is_meant = |name: &RelationName| {
            name.is_called(text) || (name.doubt.is_some() && doubtful.is_some_and(|text| name.is_called(text)))
        };
        let mut found: Vec<_> = self.relations.iter().filter(|(_, name)| is_meant(name)).map(|(rel, _)| *rel).collect();
        found.sort_unstable();
        found
    }

    /// Every relation of this OID, one in each database at most. Sorted.
    pub(crate) fn of_oid(&self, oid: Oid) -> Vec<RelFileLocator> {
        let mut found: Vec<_> =
            self.relations.iter().filter(|(_, name)| name.oid == Some(oid)).map(|(rel, _)| *rel).collect();
        found.sort_unstable();
        found
    }

    /// The table of each index, TOAST table and index of a TOAST table, as far as that is known.
    pub fn tables(&self) -> HashMap<RelFileLocator, RelFileLocator> {
        let owners = self.owners();
        // An index of a TOAST table is two steps from its table.
        let table = |first: &RelFileLocator| owners.get(first).copied().unwrap_or(*first);
        owners.iter().map(|(rel, first)| (*rel, table(first))).collect()
    }

    /// The owner of each index, a table or a TOAST table, and the table of each TOAST table, as far as that is known.
    pub(crate) fn owners(&self) -> HashMap<RelFileLocator, RelFileLocator> {
        let with_oid = self.relations.iter().filter_map(|(rel, name)| Some(((rel.db_oid, name.oid?), *rel)));
        let by_oid: HashMap<(Oid, Oid), RelFileLocator> = with_oid.collect();
        let owner =
            |(rel, name): (&RelFileLocator, &RelationName)| Some((*rel, *by_oid.get(&(rel.db_oid, name.owner_oid?))?));
        self.relations.iter().filter_map(owner).collect()
    }

    /// The cluster that the names are of, where that is known.
    pub const fn system_identifier(&self) -> Option<u64> {
        self.system_identifier
    }

    /// Name of a database.
    pub fn database(&self, db_oid: Oid) -> Option<&str> {
        self.databases.get(&db_oid).map(AsRef::as_ref)
    }

    /// The databases that certainly are, with where each of them is.
    pub(crate) fn homes(&self) -> impl Iterator<Item = (Oid, &DatabaseHome)> {
        self.homes.iter().map(|(oid, home)| (*oid, home))
    }

    pub(crate) fn certain_tablespaces(&self) -> impl Iterator<Item = (Oid, &TablespaceRow)> {
        self.tablespaces.iter().filter(|(_, row)| row.is_certain).map(|(oid, row)| (*oid, row))
    }

    /// Relations with a name from a committed row that nothing contradicts, sorted, each with the age of the row.
    pub(crate) fn certain(&self) -> Vec<(RelFileLocator, &RelationName, RowAge)> {
        self.sorted(RelationName::is_certain)
    }

    /// Like `certain`, of unlogged relations, which recovery recreates from their init forks.
    pub fn unlogged(&self) -> Vec<(RelFileLocator, &RelationName, RowAge)> {
        self.sorted(|name| name.doubt.is_none() && name.persistence == Some(Persistence::Unlogged) && name.has_files())
    }

    fn sorted(&self, takes: impl Fn(&RelationName) -> bool) -> Vec<(RelFileLocator, &RelationName, RowAge)> {
        let taken = self.relations.iter().filter(|(_, name)| takes(name));
        let mut found: Vec<_> = taken.map(|(rel, name)| (*rel, name, name.age)).collect();
        found.sort_unstable_by_key(|(rel, ..)| *rel);
        found
    }

    /// Name of a tablespace.
    pub fn tablespace(&self, spc_oid: Oid) -> Option<&str> {
        self.tablespaces.get(&spc_oid).map(|row| row.name.as_ref())
    }

    /// Number of relations with a name.
    pub fn len(&self) -> usize {
        self.relations.len()
    }

    /// True when no relation has a name.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// All names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (RelFileLocator, &RelationName)> {
        self.relations.iter().map(|(rel, name)| (*rel, name))
    }

    /// Adds the name of a database that has none, from a row of `pg_database` in WAL.
    pub(crate) fn add_database_of_wal(&mut self, row: &DatabaseRow) {
        if self.databases.len() < MAX_RELATIONS {
            self.databases.entry(row.oid).or_insert_with(|| row.name.text().into());
        }
    }

    /// Adds the name of a schema that has none, from a row of `pg_namespace` in WAL.
    pub(crate) fn add_schema_of_wal(&mut self, db_oid: Oid, row: &NamedRow) {
        self.add_schema(db_oid, row.oid, row.name.text().into());
    }

    pub(super) fn add_schema(&mut self, db_oid: Oid, oid: Oid, name: Arc<str>) {
        if self.schemas.len() < MAX_RELATIONS {
            self.schemas.entry((db_oid, oid)).or_insert(name);
        }
    }

    /// Adds files without a name that `of` had before or after, by rows of `pg_class` in WAL. That is doubtful.
    pub(crate) fn add_files_of_wal(&mut self, rel: RelFileLocator, of: RelFileLocator) {
        if self.relations.contains_key(&rel) || self.relations.len() >= MAX_RELATIONS {
            return;
        }
        if let Some(name) = self.relations.get(&of) {
            let name = RelationName { doubt: Some(NameDoubt::RowInWal), ..name.clone() };
            self.relations.insert(rel, name);
        }
    }

    /// Adds the name of a relation whose files have none, from a row of `pg_class` in WAL. It is doubtful.
    pub(crate) fn add_relation_of_wal(&mut self, rel: RelFileLocator, row: &ClassRow) {
        if self.relations.contains_key(&rel) || self.relations.len() >= MAX_RELATIONS {
            return;
        }
        let fixed =
            || FIXED_SCHEMAS.iter().find(|(oid, _)| *oid == row.namespace_oid).map(|(_, name)| Arc::from(*name));
        let database = || self.databases.get(&rel.db_oid).cloned().unwrap_or_else(|| rel.db_oid.to_string().into());
        let name = RelationName {
            database: (rel.db_oid != 0).then(database),
            schema: self.schemas.get(&(rel.db_oid, row.namespace_oid)).cloned().or_else(fixed),
            relation: row.name.text().into(),
            oid: Some(row.oid),
            kind: Some(row.kind),
            access_method_oid: Some(row.access_method_oid).filter(|_| row.kind == RelKind::INDEX),
            is_heap: false,
            owner_oid: None,
            persistence: Some(row.persistence),
            oldest: (0, 0),
            mapped_pages: 0,
            is_unfilled: false,
            doubt: Some(NameDoubt::RowInWal),
            age: RowAge::default(),
        };
        self.relations.insert(rel, name);
    }

    pub(super) const fn set_system_identifier(&mut self, system_identifier: u64) {
        self.system_identifier = Some(system_identifier);
    }

    pub(super) fn add_database(&mut self, oid: Oid, name: Arc<str>) {
        self.databases.insert(oid, name);
    }

    pub(super) fn add_home(&mut self, oid: Oid, home: DatabaseHome) {
        self.homes.insert(oid, home);
    }

    pub(super) fn add_tablespace(&mut self, oid: Oid, name: Arc<str>, trust: Trust) {
        self.tablespaces.insert(oid, TablespaceRow { name, age: trust.age, is_certain: trust.doubt.is_none() });
    }

    /// Adds a name, or keeps the better one of two. Two sound names of two relations are a contradiction.
    pub(super) fn add(&mut self, rel: RelFileLocator, name: RelationName, gaps: &mut Vec<NameGap>) {
        if self.relations.len() >= MAX_RELATIONS && !self.relations.contains_key(&rel) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let Some(held) = self.relations.get_mut(&rel) else {
            self.relations.insert(rel, name);
            return;
        };
        let same = (held.oid.is_some() && held.oid == name.oid) || held.to_string() == name.to_string();
        let both_sound = held.doubt.is_none() && name.doubt.is_none() && held.persistence == name.persistence;
        let other = if name.is_better_than(held) { std::mem::replace(held, name) } else { name };
        if both_sound && !same {
            gaps.push(NameGap::TwoNames { rel, kept: held.to_string(), other: other.to_string() });
        }
    }

    /// Says that relations were left out, if so.
    pub(super) fn report_left_out(&mut self, gaps: &mut Vec<NameGap>) {
        let count = std::mem::take(&mut self.left_out);
        if count > 0 {
            gaps.push(NameGap::TooMany { what: "relations", count, limit: MAX_RELATIONS });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REL: RelFileLocator = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 };

    fn name(relation: &str, oid: Oid, doubt: Option<NameDoubt>, xmin: u32) -> RelationName {
        RelationName {
            database: Some("postgres".into()),
            schema: None,
            relation: relation.into(),
            oid: Some(oid),
            kind: None,
            access_method_oid: None,
            is_heap: false,
            owner_oid: None,
            persistence: Some(Persistence::Permanent),
            oldest: (0, 0),
            mapped_pages: 0,
            is_unfilled: false,
            doubt,
            age: RowAge { xmin, page_lsn: Lsn::INVALID },
        }
    }

    fn kept(first: RelationName, second: RelationName) -> (String, usize) {
        let (mut names, mut gaps) = (RelationNames::default(), Vec::new());
        names.add(REL, first, &mut gaps);
        names.add(REL, second, &mut gaps);
        (names.get(REL).unwrap().to_string(), gaps.len())
    }

    #[test]
    fn less_doubt_wins_then_the_newer_row() {
        let old = name("old", 1, None, 3_000_000_000);
        let new = name("new", 1, None, 5);
        assert_eq!(kept(old.clone(), new.clone()), ("postgres.?.new".to_owned(), 0), "ids have wrapped around");
        assert_eq!(kept(new.clone(), old.clone()).0, "postgres.?.new");
        let doubtful = RelationName { doubt: Some(NameDoubt::PageChecksum), ..new };
        assert_eq!(kept(doubtful, old).0, "postgres.?.old");
        assert_eq!(kept(name("frozen", 1, None, 2), name("later", 1, None, 3_000_000_000)).0, "postgres.?.later");
    }

    #[test]
    fn relations_are_found_by_any_part_that_ends_their_name() {
        let (mut names, mut gaps) = (RelationNames::default(), Vec::new());
        let other = RelFileLocator { rel_number: 16_385, ..REL };
        let shared = RelFileLocator { spc_oid: 1664, db_oid: 0, rel_number: 1262 };
        let in_schema = |relation| RelationName { schema: Some("public".into()), ..name(relation, 1, None, 5) };
        names.add(REL, in_schema("note"), &mut gaps);
        names.add(other, in_schema("old.note"), &mut gaps);
        names.add(shared, RelationName { database: None, ..in_schema("pg_database") }, &mut gaps);
        for text in ["note", "public.note", "postgres.public.note"] {
            assert_eq!(names.find(text), [REL], "{text}");
        }
        assert_eq!(names.find("public.old.note"), [other]);
        assert_eq!(names.find("note?"), [], "nothing is doubtful about it");
        let doubtful = RelFileLocator { rel_number: 16_386, ..REL };
        names.add(doubtful, RelationName { doubt: Some(NameDoubt::PageChecksum), ..in_schema("torn") }, &mut gaps);
        for text in ["torn", "torn?", "postgres.public.torn?"] {
            assert_eq!(names.find(text), [doubtful], "{text}, as it is printed");
        }
        assert_eq!(names.find("global.public.pg_database"), [shared]);
        for text in ["", "ote", ".note", "postgres.note", "postgres..note", "template1.public.note", "Note"] {
            assert_eq!(names.find(text), [], "{text}");
        }
    }

    #[test]
    fn two_sound_names_of_two_relations_are_reported() {
        assert_eq!(kept(name("a", 1, None, 700), name("b", 2, None, 701)), ("postgres.?.b".to_owned(), 1));
        let temporary = RelationName { persistence: Some(Persistence::Temporary), ..name("t", 3, None, 800) };
        assert_eq!(kept(temporary, name("a", 1, None, 700)), ("postgres.?.a".to_owned(), 0));
    }
}
