//! The rows of one database: read, judged, put into a sandbox, printed, and handed out.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use super::catalogs::{Catalogs, Column, PG_AUTHID_OID, Reader, Relation};
use super::complete::{choose_columns, complete, count_columns, find_files, guess_shapes};
use super::keys::LostPlaces;
use super::layout::{Names, Offsets, SQL_ASCII, UTF8, encoding_name, in_utf8};
use super::objects::{LOOSE, add_loose};
use super::out::{Copies, Output, hand_out};
use super::pages::HeapWriter;
#[cfg(feature = "parquet")]
use super::parquet::write_beside;
use super::print::Session;
use super::rivals::{ToastFiles, toast_tables};
use super::rows::{Class, Row, Table, scan};
use super::schema::Schema;
use super::source::{DatabaseFiles, Source, mapped_number};
use super::templates::Templates;
use super::toast::{ToastCopies, ToastValues};
use super::transplant::{Transplant, libraries, relation_file, shapes_of};
use super::xacts::{WalFacts, Xacts};
use super::{LooseFile, NotSalvaged, RowFormat, SalvageError, TableReport, UnnamedFile};
use crate::cluster::open::{Links, read_small};
use crate::parsers::tuple::columns::ColumnShape;
use crate::rebuild::sandbox::{Sandbox, SandboxRun};
use crate::rebuild::server::ServerRun;
use crate::rebuild::{RebuildError, SandboxOptions, ServerEnd, ServerProgram};
use crate::types::Oid;

/// Makes the OIDs that follow those of a user's objects: a server that was never started normally begins with lower ones.
const NORMAL_OIDS: &[u8] = b"DO $x$ BEGIN WHILE lo_creat(-1) < 16384::oid LOOP END LOOP; END $x$;\n\n";

/// Longest schema of a user that is read.
const MAX_SCHEMA_BYTES: u64 = 256 << 20;

/// How long `initdb` may take.
const INIT_LIMIT: Duration = Duration::from_secs(600);

/// Room that a fresh cluster needs, in bytes.
pub(super) const CLUSTER_BYTES: u64 = 200 << 20;

/// The wanted part of a cluster.
pub(super) struct Work<'a> {
    pub source: &'a Source,
    /// Older copies of the cluster.
    pub donors: &'a [Source],
    pub wal: &'a WalFacts,
    pub server: Option<(&'a ServerProgram, &'a SandboxOptions)>,
    pub output: Option<&'a Output>,
    pub tables: &'a [String],
    /// Files that no catalog names, and the table whose columns they have.
    pub loose: Option<(&'a str, &'a [LooseFile])>,
    pub deleted: bool,
    pub format: RowFormat,
    pub schema: Option<&'a Path>,
    pub watch: &'a dyn Fn() -> ControlFlow<()>,
}

/// A table, with what is needed to read it.
pub(super) struct Wanted<'a> {
    pub relation: &'a Relation,
    pub shapes: Vec<ColumnShape>,
    pub report: usize,
}

impl Work<'_> {
    /// Salvages a database.
    pub fn database(
        &self,
        database: &DatabaseFiles,
        xacts: &mut Xacts<'_>,
        (unnamed, skipped): (&mut Vec<UnnamedFile>, &mut Vec<String>),
    ) -> Result<Vec<TableReport>, SalvageError> {
        let offsets = Offsets::of(self.source.major);
        let mut catalogs = Reader { source: self.source, database, xacts, offsets }.read();
        let mut reports: Vec<TableReport> = Vec::new();
        let is_all = self.tables.is_empty() && self.loose.is_none();
        unnamed.extend(self.unnamed(database, &catalogs).filter(|_| is_all));
        let is_any = self.loose.is_some()
            || is_all && self.object_bytes(database, &catalogs) > 0
            || catalogs.relations.values().any(|relation| relation.has_rows() && self.is_asked(&catalogs, relation));
        if !is_any {
            return Ok(reports);
        }
        count_columns(self.source, database, &mut catalogs, xacts);
        let sandbox = match self.server.zip(self.output) {
            Some(((server, options), output)) => Some((Fresh::make(self, database, server, options)?, output)),
            None => None,
        };
        if let (Some((fresh, _)), Some(schema)) = (&sandbox, self.schema) {
            let given = fresh.schema(self, schema)?;
            complete(&mut catalogs, &given, &offsets);
        }
        for donor in self.donors {
            let is_same = |other: &&DatabaseFiles| {
                other.oid == database.oid || other.name.is_some() && other.name == database.name
            };
            let Some(other) = donor.databases.iter().find(is_same) else { continue };
            let facts = WalFacts::default();
            let mut xacts = Xacts::new(donor, &facts);
            let given = Reader { source: donor, database: other, xacts: &mut xacts, offsets }.read();
            complete(&mut catalogs, &given, &offsets);
        }
        if let Some((like, files)) = self.loose {
            add_loose(&mut catalogs, like, files);
        }
        find_files(self.source, database, &mut catalogs);
        for relation in catalogs.relations.values_mut().filter(|relation| relation.has_rows()) {
            if let Some(files) = database.main_fork(relation.spc_oid, relation.filenode) {
                choose_columns(self.source, files, relation);
                guess_shapes(self.source, files, relation);
            }
        }
        let wanted = self.wanted(database, &catalogs, &mut reports);
        match sandbox {
            Some((fresh, output)) => {
                let names = fresh.extract(self, database, &catalogs, wanted, (&mut reports, &mut *xacts), output)?;
                self.sequences(database, &catalogs, (&names, output))?;
                skipped.extend(self.large_objects(database, &catalogs, (xacts, output), &fresh.run)?);
                fresh.sandbox.close(fresh.options.keep).map_err(RebuildError::from)?;
            }
            None => {
                wanted.iter().for_each(|table| self.count(database, &catalogs, table, xacts, &mut reports));
                skipped.extend(self.object_pages(database, &catalogs, xacts, &mut |_| None).1);
            }
        }
        Ok(reports)
    }

    /// Files that no catalog names.
    fn unnamed<'d>(
        &self,
        database: &'d DatabaseFiles,
        catalogs: &Catalogs,
    ) -> impl Iterator<Item = UnnamedFile> + use<'_, 'd> {
        let of_users = catalogs.relations.values().flat_map(Relation::files).map(|file| file.filenode);
        let known = of_users.chain(catalogs.system_files.values().copied()).collect();
        let name = in_utf8(&database.label(), database.encoding);
        let found = database.unnamed(&known).into_iter();
        found.map(move |(path, bytes)| {
            let root = self.source.root.as_deref().unwrap_or(&database.directory);
            let path = path.strip_prefix(root).unwrap_or(path).display().to_string();
            UnnamedFile { database: name.clone(), path, bytes }
        })
    }

    /// Bytes of the wanted tables of a database, and of their TOAST.
    pub fn table_bytes(&self, database: &DatabaseFiles, xacts: &mut Xacts<'_>) -> (u64, u64) {
        let offsets = Offsets::of(self.source.major);
        let mut catalogs = Reader { source: self.source, database, xacts, offsets }.read();
        if let Some((like, files)) = self.loose {
            add_loose(&mut catalogs, like, files);
        }
        let bytes_of = |sum: u64, (spc, number)| {
            sum.saturating_add(database.main_fork(spc, number).map_or(0, DatabaseFiles::fork_bytes))
        };
        let relations = catalogs.relations.values();
        relations.filter(|relation| relation.has_rows() && self.is_asked(&catalogs, relation)).fold(
            (self.object_bytes(database, &catalogs), 0),
            |(heap, toast): (u64, u64), relation| {
                let parts = toast_tables(&catalogs.relations, relation).into_values().flatten();
                let own = relation.files().map(|file| (file.spc_oid, file.filenode));
                (own.fold(heap, bytes_of), parts.fold(toast, bytes_of))
            },
        )
    }

    fn is_asked(&self, catalogs: &Catalogs, relation: &Relation) -> bool {
        if self.loose.is_some_and(|(_, files)| !files.is_empty()) {
            return relation.name.starts_with(LOOSE.as_bytes());
        }
        let name = String::from_utf8_lossy(&relation.name);
        let schema = schema_of(catalogs, relation);
        let full = format!("{}.{name}", String::from_utf8_lossy(&schema));
        let is_like = |pattern: &String| {
            let pattern = glob::Pattern::new(pattern).ok();
            pattern.is_some_and(|pattern| pattern.matches(&full) || pattern.matches(&name))
        };
        self.tables.is_empty() || self.tables.iter().any(is_like)
    }

    fn wanted<'c>(
        &self,
        database: &DatabaseFiles,
        catalogs: &'c Catalogs,
        reports: &mut Vec<TableReport>,
    ) -> Vec<Wanted<'c>> {
        let mut wanted = Vec::new();
        let relations = catalogs.relations.values();
        for relation in relations.filter(|relation| relation.has_rows() && self.is_asked(catalogs, relation)) {
            let mut report = TableReport::of(database, &schema_of(catalogs, relation), &relation.name);
            report.oid = relation.oid;
            match shapes_of(relation) {
                _ if relation.filenode == 0 => report.problem = Some(NotSalvaged::NoFile),
                Some(shapes) => wanted.push(Wanted { relation, shapes, report: reports.len() }),
                None => {
                    let names = relation.lost_columns().unwrap_or_default();
                    let name = |number: &u16| {
                        relation
                            .columns
                            .get(number)
                            .map_or_else(|| number.to_string().into_bytes(), |column| column.name.clone())
                    };
                    report.problem = Some(NotSalvaged::ColumnsLost(names.iter().map(name).collect()));
                }
            }
            reports.push(report);
        }
        wanted
    }

    fn toast(&self, database: &DatabaseFiles, catalogs: &Catalogs, relation: &Relation) -> ToastValues {
        let mut values = ToastValues::default();
        for (oid, files) in toast_tables(&catalogs.relations, relation) {
            values.add(self.source, oid, &database.forks(&files));
        }
        values
    }

    /// Shows the rows of a table and takes up what was found into its report.
    pub fn rows(
        &self,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        table: &Wanted<'_>,
        (xacts, report): (&mut Xacts<'_>, &mut TableReport),
        show: &mut dyn FnMut(&Row<'_>),
    ) -> LostPlaces {
        let relation = table.relation;
        let toast = self.toast(database, catalogs, relation);
        let is_guessed = report.is_guessed || relation.is_guessed();
        let is_made = |column: &Column| column.row.is_none() && column.known.is_some_and(|known| !known.is_dropped);
        let made = relation.columns.iter().filter(|(_, column)| is_made(column)).map(|(number, _)| *number);
        let (least_columns, least_pages, made_by) = (made.max().unwrap_or_default(), relation.pages, relation.made_by);
        let mut places = None;
        for file in relation.files() {
            let (rel, shapes, doubt) = ((database.oid, file.filenode), &table.shapes, file.doubt);
            let Some(files) = database.main_fork(file.spc_oid, file.filenode) else { continue };
            let read = Table { rel, files, shapes, is_guessed, least_columns, least_pages, doubt, made_by };
            let mut end = scan(self.source, &read, (xacts, self.wal, &toast), &mut |row| {
                report.add(row);
                show(row);
            });
            self.forget_unused((database, catalogs), table, &mut end);
            report.pages = report.pages.saturating_add(end.pages);
            report.lost_pages.extend(end.lost);
            report.unreadable = report.unreadable.saturating_add(end.failed.len() as u64);
            places.get_or_insert(end.places);
        }
        places.unwrap_or_else(|| {
            report.problem = Some(NotSalvaged::FileMissing);
            LostPlaces::default()
        })
    }

    fn count(
        &self,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        table: &Wanted<'_>,
        xacts: &mut Xacts<'_>,
        reports: &mut [TableReport],
    ) {
        if let Some(report) = reports.get_mut(table.report) {
            self.rows(database, catalogs, table, (xacts, report), &mut |_| {});
        }
    }
}

pub(super) fn schema_of(catalogs: &Catalogs, relation: &Relation) -> Vec<u8> {
    let known = catalogs.schemas.get(&relation.schema_oid);
    known.cloned().unwrap_or_else(|| relation.schema_oid.to_string().into_bytes())
}

/// A fresh cluster in a sandbox.
pub(super) struct Fresh<'a> {
    pub sandbox: Sandbox,
    pub run: SandboxRun,
    pub server: &'a ServerProgram,
    pub options: &'a SandboxOptions,
    /// Rows are printed in UTF-8, from another encoding.
    to_utf8: bool,
    /// Text is in UTF-8, or in an unknown encoding: other text is uncertain.
    is_utf8: bool,
}

impl<'a> Fresh<'a> {
    fn make(
        work: &Work<'_>,
        database: &DatabaseFiles,
        server: &'a ServerProgram,
        options: &'a SandboxOptions,
    ) -> Result<Self, SalvageError> {
        let mut sandbox = Sandbox::create(options)?;
        if let Some((directory, uid)) = sandbox.not_reachable() {
            return Err(RebuildError::NotReachable { directory, uid }.into());
        }
        let run = sandbox.begin_bare_run().map_err(RebuildError::from)?;
        // What is in UTF-8, or in no known encoding, is printed byte by byte.
        let name = database.encoding.map_or("SQL_ASCII", encoding_name);
        let is_utf8 = matches!(database.encoding, None | Some(UTF8));
        let to_utf8 = name != "SQL_ASCII" && database.encoding != Some(SQL_ASCII);
        let mut settings = vec!["-E", name];
        if work.source.major.number() >= 18 {
            settings.push("--no-data-checksums");
        }
        sandbox.hand_over(&run).map_err(RebuildError::from)?;
        let log = run.log();
        let ended = server
            .init(run.data(), &settings, (&log, options.owner, INIT_LIMIT), work.watch)
            .map_err(RebuildError::from)?;
        sandbox.take_back().map_err(RebuildError::from)?;
        match ended {
            ServerRun::BrokenOff => return Err(RebuildError::Interrupted.into()),
            ServerRun::Ended(failure) if failure.end != ServerEnd::Exit(0) => {
                return Err(RebuildError::Server(failure).into());
            }
            ServerRun::Ended(_) => {}
        }
        Ok(Self { sandbox, run, server, options, to_utf8, is_utf8 })
    }

    pub fn session<'s>(&'s self, work: &'s Work<'_>) -> Session<'s> {
        let mut session = Session::new(&self.sandbox, &self.run, self.server, self.options.owner, work.watch);
        session.to_utf8 = self.to_utf8;
        session.has_generated = Offsets::of(work.source.major).generated.is_some();
        session.format = work.format;
        session
    }

    /// The catalogs of a database that a schema of the user makes.
    fn schema(&self, work: &Work<'_>, path: &Path) -> Result<Catalogs, SalvageError> {
        let text = read_small(path, Links::Follow, MAX_SCHEMA_BYTES).map_err(RebuildError::from)?;
        // Lines for psql alone.
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"\\"));
        let script: Vec<u8> = NORMAL_OIDS.iter().chain(lines.flatten()).copied().collect();
        self.session(work).run_script("template1", &script)?;
        let fresh =
            Source::with_templates(self.run.data(), Some(work.source.major)).map_err(|_| SalvageError::NotFresh)?;
        let facts = WalFacts { is_complete: true, ..WalFacts::default() };
        let mut xacts = Xacts::new(&fresh, &facts);
        let named = |database: &&DatabaseFiles| database.name.as_deref() == Some(b"template1");
        let database = fresh.databases.iter().find(named).ok_or(SalvageError::NotFresh)?;
        let offsets = Offsets::of(work.source.major);
        Ok(Reader { source: &fresh, database, xacts: &mut xacts, offsets }.read())
    }

    fn extract(
        &self,
        work: &Work<'_>,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        wanted: Vec<Wanted<'_>>,
        (reports, xacts): (&mut [TableReport], &mut Xacts<'_>),
        output: &Output,
    ) -> Result<Names, SalvageError> {
        let source = work.source;
        let fresh = Source::open(self.run.data(), Some(source.major)).map_err(|_| SalvageError::NotFresh)?;
        let home = fresh
            .databases
            .iter()
            .find(|found| found.name.as_deref() == Some(b"postgres"))
            .ok_or(SalvageError::NotFresh)?;
        if fresh.block_size != source.block_size {
            return Err(SalvageError::OtherBlockSize { found: fresh.block_size, expected: source.block_size });
        }
        let templates = Templates::read(&fresh, home).ok_or(SalvageError::NotFresh)?;
        let directory = Path::new("base").join(home.oid.to_string());
        let mut session = self.session(work);
        let relations = catalogs.relations.values();
        let columns = relations.clone().flat_map(|relation| relation.columns.values().map(|column| &column.name));
        let all = relations.map(|relation| &relation.name).chain(columns).chain(catalogs.schemas.values());
        let names = Names {
            encoding: database.encoding,
            converted: session.names(all.map(Vec::as_slice)).map_err(SalvageError::from)?,
        };
        for report in reports.iter_mut() {
            if let Some(relation) = catalogs.relations.get(&report.oid) {
                report.name = names.text(&relation.name);
                report.schema = names.text(&schema_of(catalogs, relation));
            }
        }
        let loaded = self.loaded(&mut session, libraries(&templates, catalogs))?;
        let mut transplant = Transplant::new(&templates, catalogs, Offsets::of(source.major), &loaded);
        let mut copies: Vec<(Wanted<'_>, Copies)> = Vec::new();
        let own: HashSet<Oid> = wanted.iter().map(|table| table.relation.oid).collect();
        for table in wanted {
            let relation = table.relation;
            let Some(report) = reports.get_mut(table.report) else { continue };
            let oids = std::array::from_fn(|kind| if kind == 0 { relation.oid } else { transplant.make_oid() });
            let added: Option<Vec<bool>> = oids.iter().map(|oid| transplant.add_table(relation, *oid)).collect();
            match added {
                Some(guessed) => {
                    report.is_guessed = guessed.contains(&true);
                    copies.push((table, Copies { oids, counts: Default::default() }));
                }
                None => report.problem = Some(NotSalvaged::TypeLost),
            }
        }
        for relation in catalogs
            .relations
            .values()
            .filter(|relation| !own.contains(&relation.oid) && !matches!(relation.kind, b't' | b'i'))
        {
            transplant.add_name(relation);
        }
        for relation in catalogs.relations.values().filter(|relation| relation.kind == b'i') {
            transplant.add_index(relation);
        }
        let mut toasted = ToastCopies::new(source, &self.run, session.lacks_lz4(source.major)?);
        let mut indexes = Vec::new();
        let toast: BTreeMap<Oid, ToastFiles> =
            copies.iter().flat_map(|(table, _)| toast_tables(&catalogs.relations, table.relation)).collect();
        for (toast_oid, files) in toast {
            let files = database.forks(&files);
            let Some(index) = transplant.add_toast(toast_oid) else { continue };
            toasted.copy(toast_oid, &files, &relation_file(&directory, toast_oid)).map_err(RebuildError::from)?;
            self.run.create(&relation_file(&directory, index), 0).map_err(RebuildError::from)?;
            indexes.push(format!("DO $x$ BEGIN EXECUTE 'REINDEX INDEX ' || {index}::regclass; END $x$"));
        }
        let global = Path::new("global");
        let roles = mapped_number(&self.run.data().join(global), PG_AUTHID_OID).unwrap_or(PG_AUTHID_OID);
        let roles = relation_file(global, roles);
        transplant.write(&self.run, &directory, &roles, source.block_size).map_err(RebuildError::from)?;
        for (table, copies) in &mut copies {
            let into = (directory.as_path(), output, &mut toasted);
            self.write_rows(work, (database, catalogs), table, copies, (reports, xacts), into)?;
        }
        toasted.finish().map_err(RebuildError::from)?;
        if !indexes.is_empty() {
            session.run(&indexes)?;
        }
        hand_out(database, &copies, (&mut session, reports, output), self.is_utf8)?;
        #[cfg(feature = "parquet")]
        if work.format == super::RowFormat::Parquet {
            for (table, _) in &copies {
                let report = reports.get(table.report);
                report.map_or(Ok(()), |report| write_beside(table.relation, report, (&names, database, output)))?;
            }
        }
        let text = |name: &[u8]| names.text(name);
        let schema =
            Schema { database, catalogs, text: &text, has_generated: session.has_generated, format: work.format };
        let printed: Vec<&TableReport> = copies.iter().filter_map(|(table, _)| reports.get(table.report)).collect();
        schema.write(&mut session, &printed, output)?;
        Ok(names)
    }

    /// Which of these libraries the server has.
    fn loaded(&self, session: &mut Session<'_>, libraries: HashSet<String>) -> Result<HashSet<String>, SalvageError> {
        if libraries.is_empty() {
            return Ok(libraries);
        }
        let mark = |library: &str| format!("library-{library}");
        let load = |library: &String| session.marked(&format!("LOAD '$libdir/{library}'"), &mark(library));
        let statements: Vec<String> = libraries.iter().map(load).collect();
        session.run(&statements)?;
        Ok(libraries.into_iter().filter(|library| session.out(&mark(library)).is_some()).collect())
    }

    /// Writes the rows of a table into the tables of the sandbox.
    fn write_rows(
        &self,
        work: &Work<'_>,
        (database, catalogs): (&DatabaseFiles, &Catalogs),
        table: &Wanted<'_>,
        copies: &mut Copies,
        (reports, xacts): (&mut [TableReport], &mut Xacts<'_>),
        (directory, output, toasted): (&Path, &Output, &mut ToastCopies<'_>),
    ) -> Result<(), SalvageError> {
        let Some(report) = reports.get_mut(table.report) else { return Ok(()) };
        let mut writers = Vec::new();
        for oid in copies.oids {
            writers.push(
                HeapWriter::create(&self.run, &relation_file(directory, oid), work.source.block_size)
                    .map_err(RebuildError::from)?,
            );
        }
        let base = report.file_name();
        let mut notes = output.notes(database, &base);
        let mut failed = Ok(());
        let places = work.rows(database, catalogs, table, (xacts, report), &mut |row| {
            let kind = match row.class {
                Class::Row => 0,
                Class::Uncertain(_) => 1,
                Class::Dead => 2,
            };
            if kind == 2 && !work.deleted || failed.is_err() {
                return;
            }
            failed = toasted
                .printable(row, &table.shapes, table.relation.toast_oid)
                .and_then(|tuple| writers.get_mut(kind).map_or(Ok(None), |writer| writer.add(&tuple)))
                .map(drop)
                .map_err(|error| SalvageError::from(RebuildError::from(error)));
            if failed.is_ok() {
                failed = notes.add(row, table.relation);
            }
        });
        failed?;
        work.missing(database, catalogs, table, (xacts, report), &places, &mut |tid, tuple| {
            let added = writers.last_mut().map_or(Ok(None), |writer| writer.add(tuple));
            added.map_err(RebuildError::from)?;
            notes.missing(tid)
        })?;
        notes.finish(&report.lost_pages)?;
        for (counts, writer) in copies.counts.iter_mut().zip(writers) {
            *counts = writer.finish().map_err(RebuildError::from)?;
        }
        Ok(())
    }
}
