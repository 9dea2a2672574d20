//! Every page of every logged relation of a real server, of each major that is there, built by replay from an early copy of
//! the cluster or from WAL alone, and compared with the page that the server itself wrote.
//!
//! `PGFORENSICS_PG_BINS` lists more directories of server programs, as `PATH` does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::live;
use crate::common::live::{Server, all_programs};
use pgforensics::DataDir;
use pgforensics::analysis::pages::page_mask::{differences, sequence_values_differ};
use pgforensics::analysis::wal::stretch::Stretch;
use pgforensics::analysis::wal::walk::walk_run;
use pgforensics::cluster::relation_path::RelationPaths;
use pgforensics::cluster::relation_walk::relations_of;
use pgforensics::cluster::wal::{WalSet, WalSetOptions};
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::wal::block::Keep;
use pgforensics::rebuild::{
    BaseBytes, BuiltPage, NotBuilt, Owner, ReplayRequest, SandboxOptions, ServerProgram, WantedPage, find_server,
    replay,
};
use pgforensics::types::{DEFAULT_TABLESPACE_OID, ForkNumber, Lsn, PageId};

const PAGE: usize = 8192;

/// `GistBuildLSN`, `src/include/access/gist.h`.
const GIST_BUILD: Lsn = Lsn(1);

/// How a cluster is made besides its major.
#[derive(Clone, Copy, Debug)]
struct Variant {
    /// `full_page_writes`.
    images: bool,
    /// Data checksums.
    checksums: bool,
    /// Further settings.
    settings: &'static str,
}

const VARIANTS: [Variant; 3] = [
    Variant { images: false, checksums: true, settings: "" },
    Variant { images: true, checksums: false, settings: "wal_compression = on\n" },
    Variant { images: false, checksums: false, settings: "wal_log_hints = on\nwal_level = logical\n" },
];

/// Tables with an index of every access method.
const TABLES: &str = "
create table h(id int primary key, a int, b text, c int default 0) with (fillfactor = 75);
create index h_a on h(a); create index h_b on h(b);
create table t(id serial primary key, big text); alter table t alter big set storage external;
create table x(id int, v int[], p point, q text, r int4range);
create index x_gin on x using gin(v); create index x_gist on x using gist(p); create index x_range on x using gist(r);
create index x_quad on x using spgist(p); create index x_text on x using spgist(q); create index x_hash on x using hash(id);
create table br(k int, f text) with (fillfactor = 60); create index br_k on br using brin(k) with (pages_per_range = 4);
create sequence s; create table tail(id int, f text); create table gone(id int primary key, f text);
create table anew(id int primary key, f text); create table cut(id int primary key, f text);
create table frozen(id int, f text); create unlogged table unlogged(id int primary key, f text);
insert into h select g, g % 97, md5(g::text) from generate_series(1, 3000) g;
insert into t(big) select repeat(md5(g::text), 150) from generate_series(1, 30) g;
insert into x select g, array[g % 50, g % 7, g], point(g * 37 % 1000, g * 91 % 1000), md5((g % 500)::text) || g,
  int4range(g, g + g % 20) from generate_series(1, 2000) g;
insert into br select g, md5(g::text) from generate_series(1, 2000) g;
insert into tail select g, repeat('x', 200) from generate_series(1, 1500) g;
insert into gone select g, 'g' from generate_series(1, 400) g;
insert into anew select g, md5(g::text) from generate_series(1, 1000) g;
insert into cut select g, md5(g::text) from generate_series(1, 600) g;
insert into frozen select g, md5(g::text) from generate_series(1, 1500) g;
vacuum analyze;
";

/// Changes that each major can make, in transactions of their own.
fn changes(round: i32) -> String {
    let base = round * 100_000;
    let mut sql = String::new();
    sql += "copy h from stdin;\n";
    for row in 0..600 {
        writeln!(sql, "{}\t{}\tcopied {row}\t0", base + row, row * 31 % 200).unwrap();
    }
    sql += "\\.\n";
    for step in 0..150 {
        let (id, old) = (base + 5000 + step, 1 + step * 37 % 3000);
        writeln!(
            sql,
            "insert into h values ({id}, {step} % 50, 'row {step}'); update h set c = c + 1 where id = {old};
             insert into x values ({id}, array[{step}, {old}], point({old}, {step}), 'q{old}', int4range({step}, {id}));
             insert into t(big) values (repeat('t{step}', 400)); select nextval('s');"
        )
        .unwrap();
        if step % 3 == 0 {
            writeln!(
                sql,
                "update h set a = a + 1, b = b || 'x' where id = {}; delete from h where id = {};",
                old + 1,
                old + 9
            )
            .unwrap();
        }
        if step % 10 == 0 {
            writeln!(
                sql,
                "begin; select 1 from h where id = {old} for share; savepoint a; update h set c = 9 where id between {old}
                 and {old} + 3; savepoint b; delete from h where id = {old} + 5; rollback to b; commit;
                 begin; insert into h values ({id} + 500, 1, 'undone'); rollback;
                 insert into br select g, md5(g::text) from generate_series({id}, {id} + 20) g;
                 update br set k = k + 5 where k = {old}; select gin_clean_pending_list('x_gin');"
            )
            .unwrap();
        }
    }
    writeln!(
        sql,
        "insert into h select g, g % 3, 'same' from generate_series({base} + 20000, {base} + 22000) g;
         delete from h where id between {base} + 20300 and {base} + 21800;
         insert into x select g, array[g % 50, g], point(g * 17 % 1000, g * 71 % 1000), md5((g % 300)::text) || g,
           int4range(g, g + g % 20) from generate_series({base} + 20000, {base} + 20600) g;
         delete from x where id % 5 = {round}; update t set big = repeat('q{round}', 2500) where id % 4 = {round};
         delete from t where id % 9 = {round}; update unlogged set f = 'u';
         select brin_summarize_new_values('br_k');"
    )
    .unwrap();
    sql += match round {
        1 => {
            "vacuum h; vacuum x; vacuum t; vacuum br; delete from tail where id > 300; vacuum tail;
             vacuum freeze frozen; update frozen set f = 'thawed' where id % 40 = 0; delete from frozen where id % 41 = 0;
             drop table gone; vacuum full anew; update anew set f = 'w' where id % 9 = 0;
             truncate cut; insert into cut select g, 'c' from generate_series(1, 400) g;
             create table late as select * from x limit 400; create index on late using gin(v);
             create index on late using gist(p); create index on late using spgist(p); create index on late using hash(id);
             create index on late using brin(id); create index on late(q);
             begin; insert into h values (-1, 1, 'prepared'); update h set c = 5 where id < 30; prepare transaction 'p';
             commit prepared 'p'; create database other;\n"
        }
        _ => {
            "insert into tail select g, repeat('y', 150) from generate_series(5000, 6000) g; delete from tail where id > 5200;
             vacuum tail; insert into tail select g, 'z' from generate_series(7000, 7300) g;
             reindex index h_a; update h set a = a + 1 where id % 50 = 0; vacuum freeze h;
             delete from x where id % 3 = 0; vacuum x; vacuum br; cluster anew using anew_pkey;
             select sum(c) from h; update h set b = b || 'x' where id % 31 = 0;\n"
        }
    };
    sql
}

/// A cluster that was stopped cleanly, an early copy of it, and all WAL since then.
struct Case {
    server: Server,
    donor: Server,
    program: ServerProgram,
    wal: WalSet,
    begin: Lsn,
    until: Lsn,
}

impl Case {
    fn make(bin: &Path, client: &Path, variant: Variant) -> Self {
        let major: u32 = {
            let version = std::process::Command::new(bin.join("postgres")).arg("--version").output().expect("postgres");
            let text = String::from_utf8(version.stdout).expect("UTF-8");
            let digits: String =
                text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
            digits.parse().expect("major")
        };
        let mut initdb = Vec::new();
        initdb.extend((major >= 11).then_some("--wal-segsize=1"));
        initdb.extend(match variant.checksums {
            true => Some("-k"),
            false => (major >= 18).then_some("--no-data-checksums"),
        });
        let keep = if major >= 13 { "wal_keep_size = 2GB" } else { "wal_keep_segments = 2000" };
        let images = if variant.images { "on" } else { "off" };
        let settings = format!(
            "full_page_writes = {images}\nmax_prepared_transactions = 5\nmax_wal_size = 2GB\n{keep}\n{}",
            variant.settings
        );
        let server = Server::create_with(bin.to_owned(), client.to_owned(), &initdb, &settings);
        assert!(server.launch(&[]), "{}", server.log());
        server.sql(TABLES);
        server.stop("fast");
        let donor = server.copy();
        assert!(server.launch(&[]), "{}", server.log());
        server.sql(&changes(1));
        server.sql(&changes(2));
        server.stop("fast");
        let redo = |server: &Server| {
            let data = DataDir::open(&server.data()).expect("data directory");
            data.control().trusted().expect("pg_control").checkpoint.redo_lsn
        };
        let (begin, until) = (redo(&donor), redo(&server));
        let scratch = || tempfile::tempfile();
        let wal = WalSet::open(&[server.data()], WalSetOptions::new(&scratch)).expect("WAL");
        let program = find_server(wal.major().expect("major"), Some(bin), &server.data()).expect("server");
        Self { server, donor, program, wal, begin, until }
    }

    /// The newest record that builds each page that WAL names; `None` where none does.
    fn touched(&self) -> HashMap<PageId, Option<Lsn>> {
        let mut touched: HashMap<PageId, Option<Lsn>> = HashMap::new();
        for run in self.wal.runs() {
            let stretch =
                Stretch { set: &self.wal, run, start_lsn: self.begin, end_lsn: self.until, keep: Keep::Heads };
            let walked = walk_run(&stretch, false, &mut |_| ControlFlow::Continue(()), |record| {
                for (_, head) in record.block_heads() {
                    let Some(page) = head.page_id() else { continue };
                    let builds = head.will_init() || head.has_image_to_apply(record.major);
                    let known = touched.entry(page).or_default();
                    *known = builds.then_some(record.start_lsn).or(*known);
                }
                ControlFlow::Continue(())
            });
            walked.expect("WAL");
        }
        touched
    }

    /// The pages of logged relations with their bytes: all that are there.
    fn truth(&self) -> BTreeMap<PageId, Vec<u8>> {
        let data = DataDir::open(&self.server.data()).expect("data directory");
        let files = relations_of(&data).files;
        let unlogged: HashSet<_> =
            files.iter().filter(|file| file.name.fork == ForkNumber::Init).map(|file| file.rel).collect();
        let mut truth = BTreeMap::new();
        for file in files {
            let is_logged = !unlogged.contains(&file.rel);
            if !is_logged || !matches!(file.name.fork, ForkNumber::Main | ForkNumber::Vm) || file.name.rel_segment > 0 {
                continue;
            }
            let bytes = fs::read(data.root().join(&file.path)).expect("relation");
            for (block, bytes) in (0..).zip(bytes.chunks_exact(PAGE)) {
                truth.insert(PageId { rel: file.rel, fork: file.name.fork, block }, bytes.to_vec());
            }
        }
        truth
    }

    /// The page as the early copy has it; all zero where it has none.
    fn of_donor(&self, page: PageId) -> WantedPage {
        let donor = DataDir::open(&self.donor.data()).expect("donor");
        let catalog = donor.control().trusted().expect("pg_control").prefix.catalog_version_no;
        let (path, block) = RelationPaths::new(donor.major(), catalog, 131_072).path_and_block(page);
        let mut bytes = vec![0; PAGE];
        if let Ok(file) = fs::File::open(donor.root().join(path)) {
            let read = file.read_at(&mut bytes, u64::from(block) * PAGE as u64).expect("page");
            assert!(read == PAGE || read == 0);
        }
        WantedPage { page, base: BaseBytes::Page(bytes), from: self.begin, until: self.until }
    }

    fn build(&self, pages: Vec<WantedPage>) -> Vec<(PageId, Result<BuiltPage, NotBuilt>)> {
        let control = fs::read(self.server.data().join("global/pg_control")).expect("pg_control");
        let sandbox = SandboxOptions {
            parent: None,
            keep: false,
            owner: Owner::of(&self.server.data()),
            protected: vec![self.server.data()],
        };
        let (wal, server) = (&self.wal, &self.program);
        let request = ReplayRequest { wal, control: &control, pages, jobs: 4, server, sandbox: &sandbox };
        replay(request, &|_| ControlFlow::Continue(())).expect("replay").pages
    }
}

fn lsn(page: &[u8]) -> Lsn {
    PageHeader::decode(0, page).expect("page").lsn
}

/// True when every bit that `built` has is in `disk` too.
fn has_no_more_bits(built: &[u8], disk: &[u8]) -> bool {
    built[24..].iter().zip(&disk[24..]).all(|(built, disk)| built & !disk == 0)
}

/// Builds all pages that WAL names and compares them. `from_wal`: from the record that builds a page, where there is one.
fn compare_all(case: &Case, from_wal: bool, what: &str) {
    let (truth, touched) = (case.truth(), case.touched());
    let mut wanted = Vec::new();
    for page in truth.keys().filter(|page| touched.contains_key(page)) {
        match touched[page].filter(|_| page.fork == ForkNumber::Main) {
            Some(from) if from_wal => {
                wanted.push(WantedPage { page: *page, base: BaseBytes::Nothing, from, until: case.until });
            }
            // Bits of a map are cleared by records that do not name it: only a whole map is exact.
            _ if from_wal => {}
            _ => wanted.push(case.of_donor(*page)),
        }
    }
    let all = wanted.len();
    assert!(all > 300, "{what}: {all} pages");
    // Files of a new database are copied without WAL up to major 14.
    let copies_files = case.program.version.major.number() < 15;
    let known_db = truth.keys().map(|page| page.rel.db_oid).filter(|oid| *oid > 0).collect::<HashSet<_>>();
    let new_db = known_db.iter().max().copied().filter(|oid| *oid >= 16_384);
    let (mut same, mut older, mut sequences) = (0, 0, 0);
    for (page, result) in case.build(wanted) {
        let disk = &truth[&page];
        let is_new_db = Some(page.rel.db_oid) == new_db;
        let built = match result {
            Ok(built) => built,
            Err(why) => {
                assert!(is_new_db && copies_files, "{what}: {page:?}: {why}");
                continue;
            }
        };
        let found = differences(page, &built.bytes, disk);
        if page.fork == ForkNumber::Vm && is_new_db {
            // The images of a new database leave out the bits, which then are zero: nothing is visible to all.
            assert!(has_no_more_bits(&built.bytes, disk), "{what}: {page:?}");
            continue;
        }
        assert!(found.is_empty(), "{what}: {page:?}: {found:?}, {} records", built.records);
        // A page of a GiST index that was built by sorting keeps the LSN of that, whatever its image in WAL has.
        let of_build = lsn(disk) == GIST_BUILD;
        assert!(of_build || lsn(&built.bytes) <= lsn(disk), "{what}: {page:?}: {:?}", lsn(&built.bytes));
        same += 1;
        older += i32::from(lsn(&built.bytes) < lsn(disk));
        if sequence_values_differ(page, &built.bytes, disk) {
            assert_eq!(page.rel.spc_oid, DEFAULT_TABLESPACE_OID);
            sequences += 1;
        }
    }
    assert!(sequences <= 2, "{what}: {sequences} sequences");
    // Hints move the LSN of few pages; up to major 10 so does the record that makes a page all visible.
    assert!(older * 4 < same, "{what}: {older} of {same} pages have an older LSN");
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn every_page_of_every_major_is_built_as_the_server_wrote_it() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        for variant in VARIANTS {
            let what = format!("{}, {variant:?}", bin.display());
            let case = Case::make(&bin, &client, variant);
            compare_all(&case, false, &format!("{what}, donor"));
            compare_all(&case, true, &format!("{what}, WAL alone"));
        }
    }
}

/// WAL carries images of the pages after each record, which the server compares while it replays: a second witness.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn server_itself_finds_no_difference_from_the_images_of_consistency_checks() {
    let Some((bins, client)) = all_programs() else { return };
    let variant =
        Variant { images: true, checksums: true, settings: "wal_consistency_checking = all\nwal_compression = on\n" };
    let bin: PathBuf = bins.into_iter().max_by_key(|bin| live::version_of(bin)).expect("a server");
    let case = Case::make(&bin, &client, variant);
    compare_all(&case, false, "consistency checks");
}
