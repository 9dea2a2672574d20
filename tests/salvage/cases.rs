//! Every row that is left is found, and none that is not one is called certain.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use pgforensics::inspect::salvage::{SalvageRequest, salvage as salvage_rows};
use pgforensics::parsers::checksum::page_checksum;
use pgforensics::salvage::{Interrupt, TableReport};

use crate::common::{Ran, arg, copy_tree, dwbinspect, skipped};
use crate::judge::{Score, case, judge, listed, tables, truth};

/// Programs of the server that made the cases.
pub const BIN: &str = "/usr/lib/postgresql/15/bin";

/// Salvages a case into a new directory; `None`, said loudly, where its server is not installed.
fn salvage(name: &str, out: &Path, more: &[&str]) -> Option<Ran> {
    if !Path::new(BIN).join("initdb").exists() {
        skipped("no server of major 15 is installed here");
        return None;
    }
    let data = case(name);
    let mut words = vec!["salvage", arg(&data), "-o", arg(out), "--pg-bin", BIN];
    words.extend(more);
    Some(dwbinspect(&words))
}

fn sum(scores: &BTreeMap<(String, String), Score>) -> Score {
    scores.values().fold(Score::default(), |sum, score| Score {
        found: sum.found + score.found,
        uncertain: sum.uncertain + score.uncertain,
        false_rows: sum.false_rows + score.false_rows,
        missed: sum.missed + score.missed,
    })
}

/// Rows and uncertain rows of each table, as `--list` counts them.
fn counted(data: &Path) -> BTreeMap<String, (u64, u64)> {
    let ran = dwbinspect(&["salvage", "--list", arg(data)]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let numbers = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        Some(((*fields.first()?).to_owned(), (number(1)?, number(2)?)))
    };
    ran.stdout.lines().filter_map(numbers).collect()
}

#[test]
fn rows_that_only_wal_has_are_counted() {
    let counted = counted(&case("13-whole"));
    let mut only_in_wal = 0;
    for table in tables("13-whole").iter().filter(|table| !table.name.contains(' ') && table.database == "salv") {
        let (rows, uncertain) = counted[&format!("salv.{}", table.name)];
        only_in_wal += table.live - table.live_intact;
        // A prepared transaction deleted the uncertain ones, or inserted them.
        let is_open = table.name == "app.mv_prep";
        assert!(rows <= table.live && rows + uncertain >= table.live, "{}: {rows} and {uncertain}", table.name);
        assert!(rows == table.live || is_open, "{}: {rows} of {}", table.name, table.live);
    }
    assert_eq!(only_in_wal, 30);
}

/// A server keeps more WAL than memory can hold: what is not held is read again, and tells the same.
#[test]
fn rows_do_not_depend_on_the_memory_for_wal() {
    for name in ["13-whole", "15-open"] {
        let rows = |kept_wal_bytes| {
            let request = SalvageRequest { path: case(name), jobs: 2, kept_wal_bytes, ..SalvageRequest::default() };
            let interrupt: Arc<Interrupt> = Arc::new(|| ControlFlow::Continue(()));
            let report = salvage_rows(&request, &interrupt, &mut |_| ()).unwrap();
            let of = |table: TableReport| (table.oid, table.rows, table.uncertain, table.deleted, table.whys);
            (report.wal_trust, report.tables.into_iter().map(of).collect::<Vec<_>>())
        };
        assert_eq!(rows(Some(0)), rows(None), "{name}");
    }
}

/// What was read before an interruption is not told as a result.
#[test]
fn interrupted_list_has_no_result() {
    let run = |last: u64| {
        let calls = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&calls);
        let interrupt: Arc<Interrupt> = Arc::new(move || match seen.fetch_add(1, Ordering::Relaxed) {
            call if call >= last => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        let request =
            SalvageRequest { path: case("15-open"), jobs: 1, kept_wal_bytes: Some(0), ..SalvageRequest::default() };
        (salvage_rows(&request, &interrupt, &mut |_| ()).is_ok(), calls.load(Ordering::Relaxed))
    };
    let (is_done, calls) = run(u64::MAX);
    assert!(is_done && calls > 20, "{calls} calls");
    for last in [0, 1, calls / 3, calls / 2, calls - 2, calls - 1] {
        assert!(!run(last).0, "interrupted at call {last} of {calls}");
    }
}

#[test]
fn list_counts_no_more_rows_than_there_are_and_misses_none() {
    counts_fit_the_truth(&counted(&case("15-heap")));
}

/// A copy of the case `15-heap` to be damaged, and its data directory.
fn heap() -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().unwrap();
    copy_tree(case("15-heap").parent().unwrap(), place.path());
    let data = place.path().join("data");
    (place, data)
}

/// Forty bytes of zeros inside a sector: the transactions in it are neither open nor rolled back.
#[test]
fn hole_in_pg_xact_makes_rows_uncertain_and_neither_dead_nor_alive() {
    let (_place, data) = heap();
    let file = data.join("pg_xact/0000");
    let mut bytes = fs::read(&file).unwrap();
    bytes[170..210].fill(0);
    fs::write(file, bytes).unwrap();
    counts_fit_the_truth(&counted(&data));
}

/// Four overwritten bytes would have rolled back 16 transactions; one of the four is of a kind that a crash leaves seldom.
#[test]
fn overwritten_bytes_of_pg_xact_make_rows_uncertain_and_not_dead() {
    let (_place, data) = heap();
    let file = data.join("pg_xact/0000");
    let mut bytes = fs::read(&file).unwrap();
    bytes[196..200].copy_from_slice(&[0xAA, 0xFF, 0xAA, 0xAA]);
    fs::write(file, bytes).unwrap();
    counts_fit_the_truth(&counted(&data));
}

/// A lost file of `pg_xact` that someone filled with 0x55, as if every transaction had been committed, proves nothing.
#[test]
fn pg_xact_that_was_filled_by_hand_makes_no_row_certain() {
    let (_place, data) = heap();
    let file = data.join("pg_xact/0000");
    let length = fs::metadata(&file).unwrap().len();
    fs::write(file, vec![0x55; usize::try_from(length).unwrap()]).unwrap();
    for segment in fs::read_dir(data.join("pg_wal")).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file()) {
        fs::remove_file(segment.unwrap().path()).unwrap();
    }
    counts_fit_the_truth(&counted(&data));
}

/// Nothing tells whether the open transaction was committed: the rows of both files of a table may count.
#[test]
fn rows_of_a_file_that_an_open_transaction_replaced_are_uncertain() {
    let data = case("15-open");
    let found = |more: &[&str]| -> BTreeMap<String, String> {
        let ran = dwbinspect(&[&["salvage", "--list", arg(&data)], more].concat());
        let of_table = |line: &str| {
            let (name, numbers) = line.trim().strip_prefix("data.public.")?.split_once(' ')?;
            let numbers: Vec<&str> = numbers.split_whitespace().collect();
            // Without lossy pages: none but those of `widened` has any.
            Some((name.to_owned(), [&numbers[..2], &numbers[5..]].concat().join(" ")))
        };
        ran.stdout.lines().filter_map(of_table).collect()
    };
    let expected = [
        ("kept", "40 0 0"),
        ("emptied", "0 40 0"),
        ("refilled", "0 45 0"),
        ("sorted", "0 80 0"),
        ("widened", "0 40 0"),
        ("refreshed", "0 80 0"),
        ("loaded", "0 10 0"),
    ];
    let expected = expected.map(|(name, numbers)| (name.to_owned(), numbers.to_owned()));
    assert_eq!(found(&["--major", "15", "--database", "data"]), BTreeMap::from(expected));
}

/// The checksum is right, and yet a tuple of the page has more columns than the table: it may be a page of another table.
#[test]
fn rows_beside_a_tuple_of_another_table_are_not_certain() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    copy_tree(&case("15-open"), &data);
    let file = data.join("16385");
    let mut page = fs::read(&file).unwrap();
    let pointer = u32::from_le_bytes(page[24..28].try_into().unwrap());
    // Bits 0 to 10 of `t_infomask2`: the number of columns.
    page[(pointer & 0x7FFF) as usize + 18] = 3;
    let checksum = page_checksum(&page, 0);
    page[8..10].copy_from_slice(&checksum.to_le_bytes());
    fs::write(file, page).unwrap();
    let ran = dwbinspect(&["salvage", "--list", arg(&data), "--database", "data", "--table", "kept"]);
    assert!(ran.stdout.contains("page_of_other_table (39)"), "{}", ran.stdout);
}

/// Row types and `pg_attribute` still have the tables. The file of one that was truncated has another number, which only an index has then.
#[test]
fn tables_are_listed_without_pg_class_and_its_indexes() {
    for (files, of_truncated) in [(&["1259", "2662", "2663", "3455"][..], (0, 0)), (&["1259", "2663"], (1, 0))] {
        let (_place, data) = heap();
        for file in files {
            let path = data.join("base/16385").join(file);
            let length = fs::metadata(&path).unwrap().len();
            fs::write(&path, vec![0; usize::try_from(length).unwrap()]).unwrap();
        }
        let mut counted = counted(&data);
        assert_eq!(counted.insert("salv.app.mv_trunc".to_owned(), (1, 0)), Some(of_truncated));
        counts_fit_the_truth(&counted);
    }
}

/// The end of a file is lost inside its last page, in a cluster without checksums: zeros are not the end of its row.
#[test]
fn row_across_the_end_of_a_cut_file_is_not_certain() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    copy_tree(&case("13-whole"), &data);
    let list = fs::read_to_string(truth("13-whole").join("tables.tsv")).unwrap();
    let line = list.lines().find(|line| line.contains("\tapp.part_rest_1\t")).unwrap();
    let fields: Vec<&str> = line.split('\t').collect();
    let live: u64 = fields[8].parse().unwrap();
    assert_eq!(counted(&data)["salv.app.part_rest_1"], (live, 0));
    let file = fs::OpenOptions::new().write(true).open(data.join(fields[6])).unwrap();
    file.set_len(file.metadata().unwrap().len() - 8).unwrap();
    assert_eq!(counted(&data)["salv.app.part_rest_1"].0, live - 1);
}

fn counts_fit_the_truth(counted: &BTreeMap<String, (u64, u64)>) {
    let mut compared = 0;
    for table in tables("15-heap").iter().filter(|table| !table.name.contains(' ') && table.database == "salv") {
        let name = format!("salv.{}", table.name);
        let (rows, uncertain) = counted[&name];
        assert!(rows <= table.live, "{name}: {rows} of {}", table.live);
        assert!(rows + uncertain >= table.live_intact, "{name}: {rows} and {uncertain} of {}", table.live_intact);
        compared += 1;
    }
    assert_eq!(compared, 38);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn rows_of_damaged_tables_are_those_of_a_healthy_server() {
    for (name, least_found) in [("15-heap", 3000), ("15-xact", 2900)] {
        let out = tempfile::tempdir().unwrap();
        let Some(ran) = salvage(name, out.path(), &[]) else { return };
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        let scores = judge(name, out.path());
        let Score { found, false_rows, missed, .. } = sum(&scores);
        assert_eq!((false_rows, missed), (0, 0), "{name}: {scores:#?}");
        assert!(found > least_found, "{name}: {found}");
        if name == "15-heap" {
            keys_of_lost_rows_are_those_of_the_truth(out.path());
        }
    }
}

/// Each id of the truth is that of a row or of a lost one, and none is both.
fn keys_of_lost_rows_are_those_of_the_truth(out: &Path) {
    let listed = listed(out);
    let ids = |text: &[u8]| -> BTreeSet<Vec<u8>> {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| line.split(|byte| *byte == b'\t').next().unwrap().to_vec()).collect()
    };
    let mut lost = 0;
    for table in tables("15-heap").iter().filter(|table| ["app.big", "app.in_ts", "app.t_doc"].contains(&&*table.name))
    {
        let fields = &listed[&(table.database.clone(), table.name.clone())];
        let read = |field: &str| match fields[field].as_str() {
            "" => BTreeSet::new(),
            file => ids(&std::fs::read(out.join(file)).unwrap()),
        };
        let (found, missing) = (&read("rows_file") | &read("uncertain_file"), read("missing_file"));
        let live = table.rows.iter().filter(|row| row.class.starts_with("live"));
        let of_truth: BTreeSet<Vec<u8>> = live.flat_map(|row| ids(&row.text)).collect();
        assert!(found.is_disjoint(&missing), "{}", table.name);
        assert_eq!(&found | &missing, of_truth, "{}", table.name);
        assert_eq!(fields["missing_keys"], missing.len().to_string(), "{}", table.name);
        lost += missing.len();
    }
    assert!(lost > 400, "{lost}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn schema_of_the_user_gives_the_columns_that_catalogs_lost() {
    let out = tempfile::tempdir().unwrap();
    let schema = truth("15-catalog").join("schema.sql");
    let Some(ran) = salvage("15-catalog", out.path(), &["--schema", arg(&schema)]) else { return };
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let scores = judge("15-catalog", out.path());
    let Score { false_rows, missed, found, uncertain } = sum(&scores);
    assert_eq!((false_rows, missed), (0, 0), "{scores:#?}");
    // A prepared transaction deleted the others.
    assert_eq!((found, uncertain), (3883, 7));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn without_a_schema_each_table_with_lost_columns_is_named() {
    let out = tempfile::tempdir().unwrap();
    let Some(_) = salvage("15-catalog", out.path(), &[]) else { return };
    let listed = listed(out.path());
    let scores = judge("15-catalog", out.path());
    assert_eq!(sum(&scores).false_rows, 0, "{scores:#?}");
    for (table, score) in scores.iter().filter(|(_, score)| score.missed > 0) {
        let fields = &listed[table];
        let is_named = !fields["problem"].is_empty() || fields["guessed_columns"] == "true";
        assert!(is_named, "{table:?} lacks {} rows, and nothing says why", score.missed);
    }
    assert!(listed.values().any(|fields| fields["problem"].contains("--schema")));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn names_from_catalogs_become_no_paths_and_deleted_rows_have_a_file_of_their_own() {
    let out = tempfile::tempdir().unwrap();
    let Some(_) = salvage("15-xact", out.path(), &["--deleted", "--table", "mv_*", "--table", "Weird Schema.*"]) else {
        return;
    };
    let listed = listed(out.path());
    let file = &listed[&("salv".to_owned(), "Weird Schema.quo\"te.tab/le".to_owned())]["rows_file"];
    assert!(out.path().join(file).is_file() && file.contains("%2F"), "{file}");
    let deleted = tables("15-xact").into_iter().find(|table| table.name == "app.mv_abort").unwrap();
    let file = &listed[&("salv".to_owned(), "app.mv_abort".to_owned())]["deleted_file"];
    let text = std::fs::read(out.path().join(file)).unwrap();
    let live: Vec<&Vec<u8>> = deleted.rows.iter().filter(|row| row.class == "live").map(|row| &row.text).collect();
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| !live.iter().any(|row| row == line)));
}

#[test]
fn rows_of_pages_that_lost_a_write_before_the_checkpoint_are_not_certain() {
    // base/ of an older backup below the WAL of a later clean shutdown: only a record from before its checkpoint shows it.
    let data = crate::common::unpack::data_dir("field/old_base_new_wal_beyond_end").expect("fixture");
    let ran = dwbinspect(&["salvage", "--list", arg(&data)]);
    let fields: Vec<&str> =
        ran.stdout.lines().find(|line| line.contains(".acct ")).expect("the table").split_whitespace().collect();
    assert_eq!(fields[1..3], ["0", "5000"], "{}", ran.stdout);
    assert!(ran.status == 2 && ran.stdout.contains("page_behind_wal (5000)"), "{}", ran.stdout);
}

/// A value of COPY text; `None` for NULL.
fn plain(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = field.iter();
    while let Some(byte) = rest.next() {
        let escaped = if *byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => *byte,
            Some(b'N') => return None,
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'v') => 11,
            Some(other) => *other,
        });
    }
    Some(bytes)
}

/// Every value of the server's text is in the Parquet file next to it, numbers as numbers.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn parquet_has_the_values_that_the_server_printed() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let more = ["--format", "parquet", "--deleted"];
    let Some(ran) = salvage("15-heap", &out, &more) else { return };
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let (mut files, mut kinds, mut without) = (0, HashSet::new(), BTreeSet::new());
    for path in ["salv", "latin", "ascii"].iter().flat_map(|database| fs::read_dir(out.join(database)).unwrap()) {
        let path = path.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "copy") {
            continue;
        }
        let text = fs::read(&path).unwrap();
        let parquet = path.with_extension("parquet");
        if !parquet.exists() {
            without.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
            continue;
        }
        files += 1;
        let reader = SerializedFileReader::new(fs::File::open(&parquet).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(rows.len(), lines.len(), "{}", path.display());
        for (row, line) in rows.iter().zip(lines) {
            let fields: Vec<&[u8]> = line[..line.len() - 1].split(|byte| *byte == b'\t').collect();
            assert_eq!(row.len(), fields.len(), "{}", path.display());
            for ((name, found), field) in row.get_column_iter().zip(fields) {
                let expected = plain(field);
                let text = || std::str::from_utf8(expected.as_deref().unwrap()).unwrap();
                let is_same = match found {
                    Field::Null => expected.is_none(),
                    Field::Bool(value) => text() == if *value { "t" } else { "f" },
                    Field::Int(number) => text() == number.to_string(),
                    Field::Long(number) => text() == number.to_string(),
                    Field::Float(number) => text().parse::<f32>().unwrap().total_cmp(number).is_eq(),
                    Field::Double(number) => text().parse::<f64>().unwrap().total_cmp(number).is_eq(),
                    Field::Str(found) => text() == found,
                    Field::Bytes(found) => expected.as_deref() == Some(found.data()),
                    _ => false,
                };
                assert!(is_same, "{} {name}: {found} instead of {:?}", path.display(), expected.map(String::from_utf8));
                kinds.insert(std::mem::discriminant(found));
            }
        }
    }
    assert!(files > 40 && kinds.len() >= 7, "{files} files, {} kinds of values", kinds.len());
    // A table without columns has nothing to store.
    assert_eq!(without.into_iter().collect::<Vec<_>>(), ["app.nocols.copy"]);
}
