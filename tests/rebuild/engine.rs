//! Pages built by a server's redo from an older state and WAL, compared with the pages that the server itself wrote.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common;
use crate::common::unpack;
use pgforensics::DataDir;
use pgforensics::analysis::pages::page_mask::differences;
use pgforensics::analysis::wal::stretch::Stretch;
use pgforensics::analysis::wal::walk::walk_run;
use pgforensics::cluster::relation_path::{RelationFileName, RelationPaths};
use pgforensics::cluster::wal::{WalSet, WalSetOptions};
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::wal::block::Keep;
use pgforensics::rebuild::sandbox::SANDBOX_PREFIX;
use pgforensics::rebuild::{
    BaseBytes, BuiltPage, NotBuilt, Owner, RebuildError, ReplayReport, ReplayRequest, SandboxOptions, ServerProgram,
    WantedPage, find_server, replay,
};
use pgforensics::types::{DEFAULT_TABLESPACE_OID, ForkNumber, Lsn, PageId, RelFileLocator};
use serde_json::Value;

/// A fixture, and what its `truth.json` says of it.
struct Case {
    root: PathBuf,
    truth: Value,
    wal: WalSet,
    /// The newest record that builds each page anew.
    builds: HashMap<PageId, Lsn>,
    until: Lsn,
}

impl Case {
    fn open(name: &str) -> Self {
        let root = unpack::unpack(&format!("rebuild/{name}")).expect("unpack fixture").join(name);
        let truth = serde_json::from_slice(&fs::read(root.join("truth.json")).expect("truth")).expect("truth");
        let scratch = || tempfile::tempfile();
        let paths = [root.join("archive"), root.join("cluster")];
        let wal = WalSet::open(&paths, WalSetOptions::new(&scratch)).expect("WAL");
        let cluster = DataDir::open(&root.join("cluster")).expect("cluster");
        let until = cluster.control().trusted().expect("control").checkpoint.redo_lsn;
        let mut builds = HashMap::new();
        for run in wal.runs() {
            let stretch = Stretch { set: &wal, run, start_lsn: Lsn(0), end_lsn: until, keep: Keep::Heads };
            walk_run(&stretch, false, &mut |_| ControlFlow::Continue(()), |record| {
                for (_, head) in record.block_heads() {
                    if head.will_init() || head.has_image_to_apply(record.major) {
                        builds.extend(head.page_id().map(|page| (page, record.start_lsn)));
                    }
                }
                ControlFlow::Continue(())
            })
            .expect("WAL");
        }
        Self { root, truth, wal, builds, until }
    }

    fn control(&self) -> Vec<u8> {
        fs::read(self.root.join("cluster/global/pg_control")).expect("control")
    }

    /// The damaged pages, with the pages that they were.
    fn pages(&self) -> Vec<(PageId, &Value, Vec<u8>)> {
        let pages = self.truth["pages"].as_array().expect("pages");
        let page = |entry: &Value| {
            let path = Path::new(entry["path"].as_str().expect("path"));
            let name = path.file_name().and_then(|name| name.to_str()).expect("name");
            let database = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).expect("database");
            let rel = RelFileLocator {
                spc_oid: DEFAULT_TABLESPACE_OID,
                db_oid: database.parse().expect("number"),
                rel_number: RelationFileName::parse(name).expect("relation").rel_number,
            };
            let fork = ForkNumber::from_code(i32::try_from(entry["fork"].as_i64().expect("fork")).expect("fork"));
            let block = u32::try_from(entry["block"].as_u64().expect("block")).expect("block");
            PageId { rel, fork: fork.expect("fork"), block }
        };
        let truth =
            |entry: &Value| fs::read(self.root.join(entry["truth_file"].as_str().expect("file"))).expect("page");
        pages.iter().map(|entry| (page(entry), entry, truth(entry))).collect()
    }

    /// The page as the donor has it; all zero where its file is not there or not so long.
    fn of_donor(&self, page: PageId) -> WantedPage {
        let donor = DataDir::open(&self.root.join("donor")).expect("donor");
        let control = donor.control().trusted().expect("control");
        let paths = RelationPaths::new(donor.major(), control.prefix.catalog_version_no, 131_072);
        let (path, block) = paths.path_and_block(page);
        let mut bytes = vec![0; 8192];
        if let Ok(file) = fs::File::open(donor.root().join(path)) {
            let there = file.read_exact_at(&mut bytes, u64::from(block) * 8192);
            assert!(there.is_ok() || bytes == [0; 8192]);
        }
        let from = control.checkpoint.redo_lsn;
        WantedPage { page, base: BaseBytes::Page(bytes), from, until: self.until }
    }

    /// From the newest record that builds it.
    fn of_wal(&self, page: PageId) -> Option<WantedPage> {
        let from = *self.builds.get(&page)?;
        Some(WantedPage { page, base: BaseBytes::Nothing, from, until: self.until })
    }

    fn server(&self) -> Option<ServerProgram> {
        let major = self.wal.major().expect("major");
        match find_server(major, None, &self.root.join("cluster")) {
            Ok(server) => Some(server),
            Err(why) => {
                common::skipped(&why.to_string());
                None
            }
        }
    }

    fn build(&self, server: &ServerProgram, pages: Vec<WantedPage>) -> Result<ReplayReport, RebuildError> {
        let parent = tempfile::tempdir().expect("temporary directory");
        let options = sandbox_in(parent.path());
        // The server's user must be able to reach it.
        open_to_all(parent.path());
        let control = self.control();
        let request = ReplayRequest { wal: &self.wal, control: &control, pages, jobs: 3, server, sandbox: &options };
        let report = replay(request, &|_| ControlFlow::Continue(()));
        assert_eq!(fs::read_dir(parent.path()).expect("list").count(), 0, "nothing is left behind");
        report
    }
}

fn sandbox_in(parent: &Path) -> SandboxOptions {
    SandboxOptions {
        parent: Some(parent.to_owned()),
        keep: false,
        owner: Owner::of(Path::new(env!("CARGO_MANIFEST_DIR"))),
        protected: Vec::new(),
    }
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

fn lsn(page: &[u8]) -> Lsn {
    PageHeader::decode(0, page).expect("page").lsn
}

/// The page that was built is the server's own, but for what no record says.
fn assert_same(built: &BuiltPage, entry: &Value, truth: &[u8]) {
    let found = differences(built.page, &built.bytes, truth);
    assert!(found.is_empty(), "{entry}: {found:?}");
    // Where hint bits changed without an image, the server sets the LSN of the page, and redo does not.
    let is_older = entry["prototype"] == "masked-equal+LSN";
    assert_eq!(lsn(&built.bytes) < lsn(truth), is_older, "{entry}");
    assert!(lsn(&built.bytes) <= lsn(truth), "{entry}");
    if entry["prototype"] == "identical" {
        assert!(built.bytes == truth, "{entry}");
    }
}

fn built(report: &ReplayReport) -> HashMap<PageId, &BuiltPage> {
    let pages = report.pages.iter();
    pages.map(|(page, result)| (*page, result.as_ref().unwrap_or_else(|why| panic!("{page:?}: {why}")))).collect()
}

#[test]
fn every_page_is_built_on_a_donor_in_one_start() {
    let case = Case::open("pg15_fpwoff");
    let Some(server) = case.server() else { return };
    let pages = case.pages();
    let wanted = pages.iter().map(|(page, ..)| case.of_donor(*page)).collect();
    let report = case.build(&server, wanted).expect("replay");
    assert_eq!(report.stats.runs, 1);
    assert!(report.stats.server_time < Duration::from_secs(60));
    let built = built(&report);
    for (page, entry, truth) in &pages {
        assert_same(built[page], entry, truth);
        // Told by another program from WAL since the donor.
        let last: Lsn = entry["last_lsn"].as_str().expect("LSN").parse().expect("LSN");
        assert_eq!(built[page].end_lsn, Some(last), "{entry}");
        assert_eq!(Some(built[page].records), entry["records"].as_u64(), "{entry}");
    }
}

#[test]
fn page_that_wal_builds_needs_no_donor_and_is_built_alone() {
    let case = Case::open("pg15_fpwoff");
    let Some(server) = case.server() else { return };
    let mut alone = 0;
    for (page, entry, truth) in &case.pages() {
        let Some(wanted) = case.of_wal(*page).filter(|_| page.fork == ForkNumber::Main) else { continue };
        let report = case.build(&server, vec![wanted]).expect("replay");
        assert_same(built(&report)[page], entry, truth);
        alone += 1;
    }
    assert_eq!(alone, 9, "truth.json names 9 pages with such a record");
}

#[test]
fn gap_in_wal_is_never_bridged() {
    let case = Case::open("pg15_fpwon_gap");
    let Some(server) = case.server() else { return };
    let pages = case.pages();
    // From the donor none can be built: a segment is missing since.
    let from_donor = pages.iter().map(|(page, ..)| case.of_donor(*page)).collect();
    let report = case.build(&server, from_donor).expect("replay");
    for (page, result) in &report.pages {
        assert!(matches!(result, Err(NotBuilt::ChainBroken { .. })), "{page:?}: {result:?}");
    }
    assert_eq!(report.stats.runs, 0);
    // From the newest record that builds it, where that stands after the gap.
    let from_wal = pages.iter().filter_map(|(page, ..)| case.of_wal(*page)).collect();
    let report = case.build(&server, from_wal).expect("replay");
    let results: HashMap<_, _> = report.pages.iter().map(|(page, result)| (*page, result)).collect();
    let mut solved = 0;
    for (page, entry, truth) in &pages {
        match (entry["solvable"].as_bool(), results.get(page)) {
            (Some(true), Some(Ok(page))) => {
                assert_same(page, entry, truth);
                solved += 1;
            }
            (Some(false), Some(Err(NotBuilt::ChainBroken { .. })) | None) => {}
            other => panic!("{entry}: {other:?}"),
        }
    }
    assert_eq!(solved, 16);
}

#[test]
fn each_page_stops_at_its_own_end() {
    let case = Case::open("pg15_fpwoff");
    let Some(server) = case.server() else { return };
    // Each page as of its own last record but one: pages that share records are in each other's way.
    let pages = case.pages();
    let full = case.build(&server, pages.iter().map(|(page, ..)| case.of_donor(*page)).collect()).expect("replay");
    let ends: HashMap<PageId, Lsn> = full
        .pages
        .iter()
        .map(|(page, result)| (*page, result.as_ref().expect("built").last_lsn.expect("records")))
        .collect();
    let wanted: Vec<WantedPage> =
        pages.iter().map(|(page, ..)| WantedPage { until: ends[page], ..case.of_donor(*page) }).collect();
    let twice: Vec<WantedPage> =
        wanted.iter().cloned().chain(pages.iter().map(|(page, ..)| case.of_donor(*page))).collect();
    let report = case.build(&server, twice).expect("replay");
    let (earlier, whole) = report.pages.split_at(pages.len());
    for ((page, result), (_, full)) in whole.iter().zip(&full.pages) {
        assert_eq!(result.as_ref().expect("built").bytes, full.as_ref().expect("built").bytes, "{page:?}");
    }
    let mut differ = 0;
    for ((page, result), (_, full)) in earlier.iter().zip(&full.pages) {
        let (page_then, full) =
            (result.as_ref().unwrap_or_else(|why| panic!("{page:?}: {why}")), full.as_ref().expect("built"));
        assert_eq!(page_then.records + 1, full.records, "{page:?}");
        assert!(lsn(&page_then.bytes) <= ends[page], "{page:?}");
        differ += usize::from(page_then.bytes != full.bytes);
    }
    // The last record of one changed nothing but hint bits.
    assert_eq!(differ, 19);
}

/// After replay the server writes into the next segment, and must leave alone the one that shows how far it came.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn replay_may_end_at_the_end_of_a_segment() {
    let case = Case::open("pg15_fpwoff");
    let Some(server) = case.server() else { return };
    let mut last_of_segment: BTreeMap<u64, (PageId, Lsn)> = BTreeMap::new();
    for run in case.wal.runs() {
        let stretch = Stretch { set: &case.wal, run, start_lsn: Lsn(0), end_lsn: case.until, keep: Keep::Heads };
        walk_run(&stretch, false, &mut |_| ControlFlow::Continue(()), |record| {
            let page = record.block_heads().find_map(|(_, head)| head.page_id());
            if let Some(page) = page.filter(|page| page.fork == ForkNumber::Main) {
                last_of_segment.insert((record.end_lsn.0 - 1) >> 20, (page, record.end_lsn));
            }
            ControlFlow::Continue(())
        })
        .expect("WAL");
    }
    assert_eq!(last_of_segment.len(), 17);
    let mut at_the_end = 0;
    for (page, until) in last_of_segment.into_values() {
        at_the_end += usize::from((1 << 20) - until.0 % (1 << 20) < 200);
        let report = case.build(&server, vec![WantedPage { until, ..case.of_donor(page) }]).expect("replay");
        assert_eq!(built(&report)[&page].end_lsn, Some(until));
    }
    assert!(at_the_end > 8, "{at_the_end}");
}

#[test]
fn what_watches_breaks_off_and_nothing_is_left() {
    let case = Case::open("pg15_fpwoff");
    let Some(server) = case.server() else { return };
    for at in [0, 3, 30] {
        let parent = tempfile::tempdir().expect("temporary directory");
        open_to_all(parent.path());
        let options = sandbox_in(parent.path());
        let control = case.control();
        let pages = case.pages().iter().map(|(page, ..)| case.of_donor(*page)).collect();
        let request =
            ReplayRequest { wal: &case.wal, control: &control, pages, jobs: 2, server: &server, sandbox: &options };
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let watch = |_| {
            let count = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if count >= at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let broken_off = replay(request, &watch);
        assert!(matches!(broken_off, Err(RebuildError::Interrupted)), "{at}: {broken_off:?}");
        assert_eq!(fs::read_dir(parent.path()).expect("list").count(), 0);
    }
}

#[test]
fn sandbox_is_never_made_inside_a_data_directory() {
    let case = Case::open("pg15_fpwoff");
    let Some(server) = case.server() else { return };
    let copy = tempfile::tempdir().expect("temporary directory");
    fs::write(copy.path().join("PG_VERSION"), "15\n").expect("write");
    fs::create_dir(copy.path().join("base")).expect("make directory");
    let options = sandbox_in(&copy.path().join("base"));
    let control = case.control();
    let request = ReplayRequest {
        wal: &case.wal,
        control: &control,
        pages: Vec::new(),
        jobs: 1,
        server: &server,
        sandbox: &options,
    };
    let refused = replay(request, &|_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(RebuildError::Outside(_))), "{refused:?}");
}

#[test]
fn sandbox_that_is_kept_is_for_its_user_alone() {
    let case = Case::open("pg15_fpwoff");
    let Some(server) = case.server() else { return };
    let parent = tempfile::tempdir().expect("temporary directory");
    open_to_all(parent.path());
    let options = SandboxOptions { keep: true, ..sandbox_in(parent.path()) };
    let control = case.control();
    let pages = case.pages().iter().take(1).map(|(page, ..)| case.of_donor(*page)).collect();
    let request =
        ReplayRequest { wal: &case.wal, control: &control, pages, jobs: 2, server: &server, sandbox: &options };
    let report = replay(request, &|_| ControlFlow::Continue(())).expect("replay");
    let kept = report.sandbox.expect("kept");
    assert!(kept.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SANDBOX_PREFIX)));
    assert_eq!(kept.metadata().expect("there").mode() & 0o7777, 0o700);
    assert!(kept.join("run-1/data/global/pg_control").is_file() && kept.join("run-1/server.log").is_file());
}
