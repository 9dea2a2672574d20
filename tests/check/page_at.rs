//! Pages as they were: built by replay, and compared with the files of a server that was stopped at that moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::live::Server;
use crate::common::{Ran, arg, dwbinspect, unpack};
use pgforensics::DataDir;
use pgforensics::analysis::pages::page_mask::differences;
use pgforensics::analysis::verdict::rebuild::NotRebuildable;
use pgforensics::inspect::error::InspectError;
use pgforensics::inspect::error::NotThen;
use pgforensics::inspect::page_at::{Moment, PagesAt, PagesAtRequest, pages_at};
use pgforensics::inspect::rebuild::ReplayOptions;
use pgforensics::parsers::page::{PageHeader, is_all_zero};
use pgforensics::rebuild::find_server;
use pgforensics::types::{DEFAULT_TABLESPACE_OID, ForkNumber, Lsn, PageId, RelFileLocator};
use serde_json::Value;

const PAGE: usize = 8192;

fn request(data: &Path, wanted: Vec<(PageId, Moment)>) -> PagesAtRequest {
    let (data_dir, server) = (data.to_owned(), ReplayOptions::default());
    PagesAtRequest { data_dir, wal: Vec::new(), donors: Vec::new(), jobs: 2, server, wanted }
}

fn build(request: &PagesAtRequest) -> PagesAt {
    pages_at(request, &()).unwrap()
}

/// The data files of a stopped server at one moment.
struct Stopped {
    lsn: Lsn,
    /// By relation: all bytes of its main fork, and of no other.
    files: BTreeMap<RelFileLocator, Vec<u8>>,
}

fn relation(server: &Server, name: &str) -> RelFileLocator {
    let numbers = server.sql(&format!(
        "select (select oid from pg_database where datname = current_database()), pg_relation_filenode('{name}')"
    ));
    let (database, file) = numbers.trim().split_once('|').unwrap();
    RelFileLocator {
        spc_oid: DEFAULT_TABLESPACE_OID,
        db_oid: database.parse().unwrap(),
        rel_number: file.parse().unwrap(),
    }
}

/// Stops the server, takes its files, and starts it again.
fn stop_and_look(server: &Server, rels: &[RelFileLocator]) -> Stopped {
    server.stop("fast");
    let control = DataDir::open(&server.data()).unwrap();
    let lsn = control.control().trusted().unwrap().checkpoint_lsn;
    let read = |rel: &RelFileLocator| {
        let path = server.data().join(format!("base/{}/{}", rel.db_oid, rel.rel_number));
        (*rel, fs::read(path).unwrap_or_default())
    };
    let stopped = Stopped { lsn, files: rels.iter().map(read).collect() };
    assert!(server.launch(&[]), "{}", server.log());
    stopped
}

fn pages_of(stopped: &Stopped) -> impl Iterator<Item = (PageId, &[u8])> {
    stopped.files.iter().flat_map(|(rel, bytes)| {
        let page = |block| PageId { rel: *rel, fork: ForkNumber::Main, block };
        (0..).map(page).zip(bytes.chunks(PAGE))
    })
}

const FIRST: &str = "
create table t(id int primary key, k int, v text);
create index on t using hash(k);
create index on t using gist(point(id, k));
insert into t select i, i % 977, repeat(md5(i::text), 3) from generate_series(1, 4000) i;
create table c as select i, repeat('c', 100) v from generate_series(1, 3000) i;
";

/// What happens between two stops.
const PHASES: [&str; 4] = [
    "update t set k = k + 1, v = v || 'x' where id % 7 = 0; delete from t where id % 11 = 0;",
    "begin; select count(*) from (select * from t where id < 300 for update) s; rollback;
     update t set k = k where id % 3 = 0; vacuum t;",
    "insert into t select i, i, 'new' from generate_series(10001, 12000) i; vacuum freeze t;",
    "delete from t where id > 2000; vacuum t; delete from c where i > 1000; vacuum c;",
];

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn pages_are_those_of_the_stopped_server() {
    for settings in ["full_page_writes = on", "full_page_writes = off\nwal_log_hints = off"] {
        let Some(server) = Server::start(settings) else { return };
        server.sql(FIRST);
        let rels: Vec<RelFileLocator> =
            ["t", "t_pkey", "t_k_idx", "t_point_idx", "c"].iter().map(|name| relation(&server, name)).collect();
        let mut stops = vec![stop_and_look(&server, &rels)];
        for phase in PHASES {
            server.sql(phase);
            stops.push(stop_and_look(&server, &rels));
        }
        server.sql("drop table t, c; create table later(i int); insert into later values (1)");
        let later = relation(&server, "later");
        server.stop("fast");
        let (mut compared, mut moved) = (0, 0);
        for stopped in &stops {
            let wanted: Vec<(PageId, &[u8])> = pages_of(stopped).filter(|(_, bytes)| !is_all_zero(bytes)).collect();
            let of = wanted.iter().map(|(page, _)| (*page, Moment::At(stopped.lsn))).collect();
            let found = build(&request(&server.data(), of));
            for ((page, bytes), (_, _, result)) in wanted.iter().zip(&found.pages) {
                let at = result.as_ref().unwrap_or_else(|why| panic!("{page:?} at {}: {why}", stopped.lsn));
                assert!(
                    differences(*page, &at.built.bytes, bytes).is_empty(),
                    "{settings}: {page:?} at {}",
                    stopped.lsn
                );
                let lsn = |bytes: &[u8]| PageHeader::decode(0, bytes).unwrap().lsn;
                assert!(lsn(&at.built.bytes) <= lsn(bytes));
                compared += 1;
                moved += usize::from(at.built.records > 1);
            }
        }
        assert!(compared > 500 && moved > 300, "{compared} pages, {moved} of several records");
        not_there(&server, &stops, rels[4], later);
        by_command(&server, &stops, rels[0]);
    }
}

/// Pages before they came and after they went.
fn not_there(server: &Server, stops: &[Stopped], table: RelFileLocator, later: RelFileLocator) {
    let at = |rel, block, lsn| {
        let page = PageId { rel, fork: ForkNumber::Main, block };
        build(&request(&server.data(), vec![(page, Moment::At(lsn))])).pages.remove(0).2
    };
    let last_of = |stopped: &Stopped| u32::try_from(stopped.files[&table].len() / PAGE).unwrap() - 1;
    let (first, full, cut) = (&stops[0], &stops[3], &stops[4]);
    assert!(last_of(cut) < last_of(full), "the table was truncated");
    let gone = last_of(full);
    assert!(
        matches!(at(table, gone, cut.lsn), Err(NotThen::NotThere { event, .. }) if event.what.code() == "truncated")
    );
    assert!(at(table, gone, full.lsn).is_ok());
    let before = at(later, 0, first.lsn);
    assert!(matches!(&before, Err(NotThen::NotThere { event, .. }) if event.what.code() == "created"), "{before:?}");
    let history =
        dwbinspect(&["page", "--history", "--format", "ndjson", arg(&server.data()), &table.to_string(), "0"]);
    let rows = history.of_type("history");
    let end: Lsn = rows.last().unwrap()["lsn"].as_str().unwrap().parse().unwrap();
    let dropped = rows.iter().find(|row| row["action"] == "dropped").unwrap();
    let dropped: Lsn = dropped["end_lsn"].as_str().unwrap().parse().unwrap();
    assert!(end >= dropped);
    assert!(matches!(at(table, 0, dropped), Err(NotThen::NotThere { event, .. }) if event.what.code() == "dropped"));
    // A page that is cut off shows it between its records.
    let block = gone.to_string();
    let history =
        dwbinspect(&["page", "--history", "--format", "ndjson", arg(&server.data()), &table.to_string(), &block]);
    let kinds: Vec<Value> = history.of_type("history").iter().map(|row| row["action"].clone()).collect();
    assert!(kinds.contains(&"truncated".into()) && kinds.contains(&"created".into()), "{kinds:?}");
}

/// The same through the program: by LSN, by number, and by an LSN inside the next record.
fn by_command(server: &Server, stops: &[Stopped], table: RelFileLocator) {
    let data = server.data();
    let (rel, stopped) = (table.to_string(), &stops[1]);
    let history = dwbinspect(&["page", "--history", "--format", "ndjson", arg(&data), &rel, "3"]).of_type("history");
    let records: Vec<&Value> = history.iter().filter(|row| row["kind"] == "record").collect();
    let lsn = |row: &Value, field: &str| row[field].as_str().unwrap().parse::<Lsn>().unwrap();
    let number = records.iter().filter(|row| lsn(row, "end_lsn") <= stopped.lsn).count();
    let next = lsn(records[number], "lsn");
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Vec::new();
    for (index, args) in [
        ["--at".to_owned(), stopped.lsn.to_string()],
        ["--at-record".to_owned(), number.to_string()],
        ["--at".to_owned(), Lsn(next.0 + 8).to_string()],
    ]
    .iter()
    .enumerate()
    {
        let images = directory.path().join(index.to_string());
        let all = ["page", &args[0], &args[1], "--images", arg(&images), "--format", "ndjson", arg(&data), &rel, "3"];
        let ran = dwbinspect(&all);
        assert_eq!(ran.status, 0, "{args:?}: {}", ran.stderr);
        let row = ran.of_type("page_at").remove(0);
        let files: Vec<PathBuf> = fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!((files.len(), row["file"].as_str()), (1, Some(arg(&files[0]))));
        let bytes = fs::read(&files[0]).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(row["page"], hex.as_str());
        let header = PageHeader::decode(0, &bytes).unwrap();
        assert_eq!(row["header"]["pd_lower"], header.lower);
        assert_eq!(row["items"].as_array().unwrap().len(), header.line_pointer_count());
        pages.push(bytes);
        // A file that is there is not overwritten.
        assert_eq!(dwbinspect(&all).status, 2);
    }
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[0], pages[2]);
    let page = PageId { rel: table, fork: ForkNumber::Main, block: 3 };
    let truth = &stopped.files[&table][3 * PAGE..4 * PAGE];
    assert!(differences(page, &pages[0], truth).is_empty());
    let text = dwbinspect(&["page", "--at", &stopped.lsn.to_string(), "--hex", arg(&data), &rel, "3"]);
    assert_eq!(text.status, 0, "{}", text.stderr);
}

/// Changes of an unlogged table are in no record: what a copy has of it says nothing of later moments.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn unlogged_pages_are_refused_though_a_donor_has_them() {
    let Some(server) = Server::start("") else { return };
    server.sql("create unlogged table u as select i from generate_series(1, 100) i; create table l as select 1 i;");
    let (unlogged, logged) = (relation(&server, "u"), relation(&server, "l"));
    server.stop("fast");
    let donor = server.copy();
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("update u set i = i + 1; update l set i = 2;");
    server.stop("fast");
    let control = DataDir::open(&server.data()).unwrap();
    let lsn = control.control().trusted().unwrap().checkpoint_lsn;
    let at = |rel| (PageId { rel, fork: ForkNumber::Main, block: 0 }, Moment::At(lsn));
    let mut of = request(&server.data(), vec![at(unlogged), at(logged)]);
    of.donors = vec![donor.data()];
    let found = build(&of);
    assert!(
        matches!(&found.pages[0].2, Err(NotThen::NotRebuildable(NotRebuildable::NotLogged))),
        "{:?}",
        found.pages[0].2
    );
    assert!(found.pages[1].2.is_ok());
}

/// A fixture with a gap in its archive.
fn case(name: &str) -> PathBuf {
    unpack::unpack(&format!("rebuild/{name}")).unwrap().join(name)
}

fn shown(case: &Path, args: &[&str], page: [&str; 2]) -> Ran {
    let (data, archive) = (case.join("cluster"), case.join("archive"));
    let mut all = vec!["page", "--format", "ndjson", "--wal", arg(&archive)];
    all.extend(args);
    all.extend([arg(&data), page[0], page[1]]);
    dwbinspect(&all)
}

#[test]
fn moments_without_wal_are_refused() {
    let case = case("pg15_fpwon_gap");
    let page = ["base/5/16384", "137"];
    let rows = shown(&case, &["--history"], page).of_type("history");
    let gap = rows.iter().find(|row| row["kind"] == "gap").unwrap();
    let truth: Value = serde_json::from_slice(&fs::read(case.join("truth.json")).unwrap()).unwrap();
    let missing = truth["missing_segment"].as_str().unwrap();
    assert_eq!(gap["missing_segments"], serde_json::json!([missing]));
    let records = rows.iter().filter(|row| row["kind"] == "record").count();
    let inside = Lsn(gap["lsn"].as_str().unwrap().parse::<Lsn>().unwrap().0 + 64).to_string();
    let past = (records + 1).to_string();
    for (args, words) in [
        (["--at", "0/1000"], "is before the WAL that was read".to_owned()),
        (["--at", "F/1000"], "is after the end of the WAL that was read".to_owned()),
        (["--at", inside.as_str()], format!("is in a gap from {}", gap["lsn"].as_str().unwrap())),
        (["--at-record", past.as_str()], format!("there is no record {past} of this page")),
        (["--at-record", "0"], "invalid value '0'".to_owned()),
        (["--at", "0/zz"], "invalid value '0/zz'".to_owned()),
    ] {
        let ran = shown(&case, &args, page);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(&words), "{args:?}: {}", ran.stderr);
    }
    let there = records.to_string();
    let ran = shown(&case, &["--at-record", &there, "--pg-bin", "/nonexistent"], page);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("/nonexistent/postgres"), "{}", ran.stderr);
    let ran = shown(&case, &["--at-record", &there, "--history"], page);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(shown(&case, &["--at-record", &there], ["no_such_table", "0"]).stderr.contains("no_such_table"));
}

/// Pages whose records are partly in the gap are refused, all others are those of the fixture's truth.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn damaged_pages_are_built_as_they_were_at_the_end() {
    for (name, donors, least) in [("pg15_fpwoff", true, 20), ("pg15_fpwon_gap", false, 14)] {
        let case = case(name);
        let cluster = case.join("cluster");
        let control = DataDir::open(&cluster).unwrap();
        let major = control.major();
        if let Err(why) = find_server(major, None, &cluster) {
            common::skipped(&why.to_string());
            return;
        }
        let until = control.control().trusted().unwrap().checkpoint_lsn;
        let truth: Value = serde_json::from_slice(&fs::read(case.join("truth.json")).unwrap()).unwrap();
        let entries = truth["pages"].as_array().unwrap();
        let page = |entry: &Value| {
            let path = entry["path"].as_str().unwrap().split('_').next().unwrap();
            let numbers: Vec<u32> = path.split('/').skip(1).map(|part| part.parse().unwrap()).collect();
            let rel = RelFileLocator { spc_oid: DEFAULT_TABLESPACE_OID, db_oid: numbers[0], rel_number: numbers[1] };
            let fork = ForkNumber::from_code(i32::try_from(entry["fork"].as_i64().unwrap()).unwrap()).unwrap();
            PageId { rel, fork, block: u32::try_from(entry["block"].as_u64().unwrap()).unwrap() }
        };
        let wanted: Vec<(PageId, Moment)> = entries.iter().map(|entry| (page(entry), Moment::At(until))).collect();
        let mut of = request(&cluster, wanted);
        of.wal = vec![case.join("archive")];
        of.donors = if donors { vec![case.join("donor")] } else { Vec::new() };
        let mut built = 0;
        for (entry, (page, _, result)) in entries.iter().zip(build(&of).pages) {
            let is_possible = !entry["base_available"].as_array().unwrap().is_empty();
            match result {
                Ok(at) => {
                    let truth = fs::read(case.join(entry["truth_file"].as_str().unwrap())).unwrap();
                    assert!(differences(page, &at.built.bytes, &truth).is_empty(), "{name}: {entry}");
                    assert!(is_possible || page.fork == ForkNumber::Vm, "{entry}");
                    built += 1;
                }
                Err(why) => assert!(!is_possible || page.fork != ForkNumber::Main || !donors, "{entry}: {why}"),
            }
        }
        assert!(built >= least, "{name}: {built} pages were built");
    }
}

/// What a change should show, by what the record is known to do: its action was compared with pg_waldump elsewhere.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn changes_are_those_of_the_records() {
    let case = case("pg15_fpwoff");
    let (cluster, archive) = (case.join("cluster"), case.join("archive"));
    let page = ["base/5/16384", "137"];
    let ran = shown(&case, &["--history", "--diff"], page);
    if ran.status == 2 && find_server(DataDir::open(&cluster).unwrap().major(), None, &cluster).is_err() {
        common::skipped(&ran.stderr);
        return;
    }
    let (rows, changes) = (ran.of_type("history"), ran.of_type("page_change"));
    let records: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "record").collect();
    assert_eq!(changes.len(), 20);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (change, record) in changes.iter().zip(&records[records.len() - 20..]) {
        assert_eq!((&change["number"], &change["lsn"]), (&record["number"], &record["lsn"]));
        assert_eq!(change["reason"], Value::Null);
        let field = |name: &str| {
            change["fields"]
                .as_array()
                .unwrap()
                .iter()
                .find(|field| field["field"] == name)
                .map(|field| &field["after"])
        };
        if record["record"] != "Heap2/VISIBLE" {
            assert_eq!(field("pd_lsn"), Some(&record["end_lsn"]), "{change}");
        }
        let items = change["items"].as_array().unwrap();
        let item =
            |number: &Value| items.iter().find(|item| item["item"] == *number).unwrap_or_else(|| panic!("{change}"));
        let (xid, own) = (&record["xid"], record["items"].as_array());
        let action = record["action"].as_str().unwrap();
        match (action, own.map(Vec::as_slice)) {
            ("insert", Some([new])) => assert_eq!(&item(new)["after"]["xmin"], xid, "{change}"),
            ("update" | "hot_update", Some([old, new])) => {
                assert_eq!(&item(old)["after"]["xmax"], xid, "{change}");
                assert_eq!(&item(old)["after"]["ctid_item"], new, "{change}");
                assert_eq!(&item(new)["after"]["xmin"], xid, "{change}");
            }
            ("delete" | "update_old", Some([old])) => assert_eq!(&item(old)["after"]["xmax"], xid, "{change}"),
            ("lock", Some([locked])) => assert_eq!(&item(locked)["after"]["xmax"], xid, "{change}"),
            ("prune", _) => {
                let gone =
                    items.iter().filter(|item| item["after"]["state"] == "dead" && item["before"]["state"] != "dead");
                assert_eq!(gone.count() as u64, record["counts"]["dead"].as_u64().unwrap_or(0), "{change}");
            }
            _ => continue,
        }
        *seen.entry(action.to_owned()).or_default() += 1;
    }
    for action in ["insert", "update", "lock", "prune"] {
        assert!(seen.contains_key(action), "{seen:?}");
    }
    // Each version is what the next one starts from.
    for pair in changes.windows(2) {
        let lsn = |change: &Value, side: &str| {
            change["fields"]
                .as_array()
                .unwrap()
                .iter()
                .find(|field| field["field"] == "pd_lsn")
                .map(|field| field[side].clone())
        };
        if let (Some(after), Some(before)) = (lsn(&pair[0], "after"), lsn(&pair[1], "before")) {
            assert_eq!(after, before);
        }
    }
    // A page without a base: every step says so.
    let ran = dwbinspect(&[
        "page",
        "--history",
        "--diff",
        "--format",
        "ndjson",
        "--wal",
        arg(&archive),
        arg(&cluster),
        "base/5/16384",
        "60",
    ]);
    assert!(ran.of_type("page_change").iter().all(|change| change["reason_code"] == "no_base"), "{}", ran.stdout);
    assert!(dwbinspect(&["page", "--diff", arg(&cluster), "base/5/16384", "60"]).status == 2);
}

#[test]
fn extract_writes_the_same_pages() {
    let case = case("pg15_fpwoff");
    let (cluster, archive) = (case.join("cluster"), case.join("archive"));
    if let Err(why) = find_server(DataDir::open(&cluster).unwrap().major(), None, &cluster) {
        common::skipped(&why.to_string());
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let (many, one) = (out.path().join("many"), out.path().join("one"));
    let extract = |directory: &Path, more: &[&str]| {
        let mut args = vec!["extract", "--at", "0/1B05D80", "--format", "ndjson", arg(directory)];
        args.extend(more);
        common::run("pg_walfpi", &args)
    };
    let paths = [arg(&cluster), arg(&archive)];
    let ran = extract(&many, &["--relation", "public.h", "--block", "130-139", paths[0], paths[1]]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let lines = ran.of_type("page_at");
    let blocks: Vec<u64> = lines.iter().map(|line| line["block"].as_u64().unwrap()).collect();
    assert_eq!(blocks, (130..=139).collect::<Vec<_>>());
    for line in &lines {
        let bytes = fs::read(many.join(line["file"].as_str().unwrap())).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(line["page"], hex.as_str());
    }
    let name = "00000001-00000000-01B05D80.1663.5.16384.137_main";
    let ran = shown(&case, &["--at", "0/1B05D80", "--images", arg(&one)], ["base/5/16384", "137"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(fs::read(many.join(name)).unwrap(), fs::read(one.join(name)).unwrap());
    // Pages that cannot be built are counted.
    let rest = out.path().join("rest");
    let ran = extract(&rest, &["--relation", "16384", "--block", "60-60", paths[0], paths[1]]);
    assert_eq!((ran.status, fs::read_dir(&rest).unwrap().count()), (2, 0));
    assert_eq!(ran.of_type("skipped")[0]["cause"], "not_rebuilt");
    let donor = case.join("donor");
    let more = ["--relation", "16384", "--block", "60-60", "--donor", arg(&donor), paths[0], paths[1]];
    assert_eq!(extract(&rest, &more).status, 0);
    for (args, words) in [
        (&["--relation", "16384", "--block", "60-60", paths[1]][..], "only for a data directory"),
        (&["--block", "60-60", paths[0]], "pass the pages to rebuild"),
        (&["--relation", "16384", "--block", "60-", paths[0]], "pass the pages to rebuild"),
        (&["--relation", "16384", "--block", "0-99999999", paths[0]], "more than are built at once"),
        (&["--relation", "77777", "--block", "0-1", paths[0]], "no relation"),
        (&["--relation", "16384", "--block", "1-1", "--raw", paths[0]], "cannot be used with"),
    ] {
        let ran = extract(&out.path().join("none"), args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn library_says_where_there_is_no_cluster() {
    let nowhere = tempfile::tempdir().unwrap();
    let result = pages_at(&request(nowhere.path(), Vec::new()), &());
    assert!(matches!(result, Err(InspectError::NotADataDir(_))));
}
