//! Columns, rows and entries of an index as the server shows them: values by SQL, heads of tuples by pageinspect.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::live::Server;
use pgforensics::cluster::columns::RelationColumns;
use pgforensics::cluster::data_dir::DataDir;
use pgforensics::cluster::names::RelationNames;
use pgforensics::output::words::rows::{flag_words, type_words, value_words};
use pgforensics::parsers::heap::{TupleHeader, page_tuples};
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::page_kind::PageKind;
use pgforensics::parsers::tuple::columns::{Stored, ToastPointer, row_columns};
use pgforensics::parsers::tuple::index::{IndexEntry, Target};
use pgforensics::types::{ForkNumber, Lsn, RelFileLocator};

/// A stopped cluster with names.
struct Opened {
    dir: DataDir,
    names: RelationNames,
}

impl Opened {
    fn of(server: &Server) -> Self {
        let dir = DataDir::open(&server.data()).expect("data directory");
        let (names, gaps) = RelationNames::read(&dir);
        assert!(gaps.is_empty(), "{gaps:?}");
        Self { dir, names }
    }

    fn rel(&self, name: &str) -> RelFileLocator {
        let found = self.names.find(&format!("postgres.public.{name}"));
        assert_eq!(found.len(), 1, "{name}");
        found[0]
    }

    fn columns(&self, name: &str) -> RelationColumns {
        let columns = RelationColumns::read(&self.dir, &self.names, self.rel(name)).expect("columns");
        assert_eq!(columns.doubt, None, "{name}");
        columns
    }

    fn page(&self, name: &str, block: usize) -> Vec<u8> {
        let rel = self.rel(name);
        let path = self.dir.root().join(format!("base/{}/{}", rel.db_oid, rel.rel_number));
        let bytes = std::fs::read(Path::new(&path)).expect("relation");
        bytes[block * 8192..(block + 1) * 8192].to_vec()
    }
}

/// Every type whose values are decoded, with values of it.
const KINDS: &[(&str, &[&str])] = &[
    ("boolean", &["true", "false"]),
    ("\"char\"", &["'x'", "'y'"]),
    ("smallint", &["-32768", "32767"]),
    ("integer", &["-2147483648", "2147483647"]),
    ("bigint", &["-9223372036854775808", "9223372036854775807"]),
    ("oid", &["0", "4294967295"]),
    ("xid8", &["'5'", "'18446744073709551615'"]),
    ("tid", &["'(70000,3)'", "'(0,1)'"]),
    ("real", &["1e-5", "3.4028235e38", "'-0'", "123456", "1234567", "0.0001", "'NaN'", "1e6", "0.1"]),
    (
        "double precision",
        &["1e-5", "1e15", "123456789012345", "-0.1", "'-Infinity'", "5e-324", "100", "0.5", "1.5e300"],
    ),
    (
        "numeric",
        &[
            "0",
            "-0.00012",
            "12345678901234567890.123450",
            "1e50",
            "'NaN'",
            "'-Infinity'",
            "0.0000000001",
            "9999",
            "10000",
        ],
    ),
    ("numeric(10,2)", &["1", "-12345678.9"]),
    ("text", &["'it''s'", "''", "'null'", "repeat('long ', 40)", "'\u{e9}\u{65e5}'"]),
    ("varchar(20)", &["'abc'", "'x y'"]),
    ("character(5)", &["'ab'", "'abcde'"]),
    ("name", &["'a_name'", "''"]),
    ("json", &["'{\"a\": [1, 2]}'", "'null'"]),
    ("xml", &["'<a>b</a>'", "'<c/>'"]),
    ("bytea", &["'\\x00ff10'", "''"]),
    ("date", &["'2000-01-01'", "'1999-12-31'", "'infinity'", "'0044-03-15 BC'", "'2024-02-29'", "'5874897-12-31'"]),
    ("time", &["'00:00'", "'23:59:59.999999'", "'24:00:00'", "'12:30:00.5'"]),
    ("timetz", &["'12:30:00+02'", "'01:02:03.25-05:30'"]),
    (
        "timestamp",
        &["'2000-01-01'", "'1999-12-31 23:59:59.999999'", "'-infinity'", "'0001-01-01 BC'", "'294276-12-31 23:59:59'"],
    ),
    ("timestamptz", &["'2024-02-29 12:00:00.123+00'", "'infinity'", "'0044-03-15 12:00:00+00 BC'"]),
    (
        "interval",
        &[
            "'0'",
            "'1 year 2 mons 3 days 04:05:06.7'",
            "'-1 year -2 mons +3 days -04:05:06'",
            "'-1 days'",
            "'-1 mon 2 hours'",
            "'-00:00:01'",
        ],
    ),
    ("uuid", &["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'"]),
    ("inet", &["'192.168.1.5'", "'10.0.0.0/8'", "'::1'", "'2001:db8::/32'"]),
    ("cidr", &["'10.0.0.0/8'", "'1.2.3.4/32'"]),
    ("macaddr", &["'08:00:2b:01:02:03'"]),
    ("macaddr8", &["'08:00:2b:01:02:03:04:05'"]),
    ("bit(10)", &["B'1010101010'", "B'0000000001'"]),
    ("bit varying", &["B'101'", "B''"]),
    ("pg_lsn", &["'0/16B3748'", "'FF/FF000028'"]),
    ("regclass", &["'pg_class'", "'pg_type'"]),
    ("integer[]", &["'{1,2,NULL}'", "'{}'"]),
    ("text[]", &["'{a,\"b c\",NULL,\"\",\"nu\\\"ll\",NULL}'", "ARRAY['NULL','{x}','a,b']"]),
    ("timestamptz[]", &["ARRAY['2024-01-01 00:00+00'::timestamptz]"]),
    ("boolean[]", &["'{t,f}'"]),
    ("uuid[]", &["'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"]),
    ("int2vector", &["'1 2 3'"]),
    ("oidvector", &["'23 25'"]),
    ("small_number", &["7"]),
    ("double_domain", &["'deep'"]),
];

/// As a value is printed: texts in quotes, OIDs of names as numbers, LSNs with all digits.
fn as_ours(kind: &str, shown: &str) -> String {
    if shown == "<null>" {
        return "null".to_owned();
    }
    let is_text = ["\"char\"", "text", "varchar(20)", "character(5)", "name", "json", "xml", "double_domain"];
    match kind {
        _ if is_text.contains(&kind) => format!("'{}'", shown.replace('\'', "''")),
        "pg_lsn" => shown.parse::<Lsn>().expect("LSN").to_string(),
        _ => shown.to_owned(),
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn every_type_is_shown_as_the_server_shows_it() {
    let Some(server) = Server::start("timezone = 'UTC'") else { return };
    server.sql("CREATE DOMAIN small_number AS int; CREATE DOMAIN inner_domain AS text; CREATE DOMAIN double_domain AS inner_domain;");
    let (mut tables, mut questions) = (String::new(), String::new());
    for (index, (kind, values)) in KINDS.iter().enumerate() {
        // A column of one byte before it and one after it: alignment counts. A null before it: the bitmap does.
        let rows: String = values.iter().map(|value| format!(", (NULL, true, {value}, 1)")).collect();
        tables.push_str(&format!(
            "CREATE TABLE kind_{index} (none int, before bool, value {kind}, after smallint);\n\
             INSERT INTO kind_{index} VALUES (NULL, true, NULL, 1){rows};\n"
        ));
        let shown = if *kind == "regclass" { "value::oid" } else { "value" };
        questions.push_str(&format!(
            "SELECT {index} || '|' || ctid || '|' || CASE WHEN value IS NULL THEN '<null>' ELSE format('%s', {shown}) END \
             FROM kind_{index};\n"
        ));
    }
    server.sql(&tables);
    let mut expected: Vec<BTreeMap<String, String>> = vec![BTreeMap::new(); KINDS.len()];
    for row in server.sql(&questions).lines() {
        let mut parts = row.splitn(3, '|');
        let index: usize = parts.next().and_then(|index| index.parse().ok()).expect("number of the table");
        let (ctid, value) = parts.next().zip(parts.next()).expect("ctid and value");
        expected[index].insert(ctid.to_owned(), as_ours(KINDS[index].0, value));
    }
    let types = server.sql("SELECT c.relname || '|' || format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE c.relname LIKE 'kind\\_%' AND attname = 'value';");
    let types: BTreeMap<&str, &str> = types.lines().filter_map(|line| line.split_once('|')).collect();
    server.stop("fast");
    let opened = Opened::of(&server);
    for (index, (kind, values)) in KINDS.iter().enumerate() {
        let name = format!("kind_{index}");
        let columns = opened.columns(&name);
        let names: Vec<&str> = columns.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["none", "before", "value", "after"], "{kind}");
        let short = [
            ("timestamp without time zone", "timestamp"),
            ("timestamp with time zone", "timestamptz"),
            ("time without time zone", "time"),
            ("time with time zone", "timetz"),
            ("timestamp with time zone[]", "timestamptz[]"),
            ("bit(10)", "bit"),
        ];
        let declared = types[name.as_str()];
        let declared = short.iter().find(|(long, _)| *long == declared).map_or(declared, |(_, short)| short);
        assert_eq!(type_words(&columns.columns[2]), declared, "{kind}");
        let page = opened.page(&name, 0);
        let header = PageHeader::decode(0, &page).unwrap();
        let mut found = BTreeMap::new();
        for tuple in page_tuples(&header, &page) {
            let head = TupleHeader::decode(0, tuple.bytes).unwrap();
            let stored = row_columns(&head, tuple.bytes, &columns.shapes());
            let words: Vec<String> =
                columns.columns.iter().zip(&stored).map(|(column, stored)| value_words(column, stored)).collect();
            assert_eq!((words[0].as_str(), words[1].as_str(), words[3].as_str()), ("null", "t", "1"), "{kind}");
            found.insert(format!("(0,{})", tuple.item), words[2].clone());
        }
        assert_eq!(found.len(), values.len() + 1, "{kind}");
        assert_eq!(found, expected[index], "{kind}");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn heads_dropped_added_compressed_and_outside_values() {
    let Some(server) = Server::start("default_toast_compression = 'pglz'") else { return };
    server.sql(
        "CREATE EXTENSION pageinspect; CREATE TYPE mood AS ENUM ('sad', 'glad');\n\
         CREATE TABLE t (id int, gone text, packed text, outside text, feeling mood);\n\
         ALTER TABLE t ALTER outside SET STORAGE EXTERNAL;\n\
         INSERT INTO t VALUES (1, 'was here', repeat('abcd', 1000), repeat('0123456789', 500), 'glad');\n\
         ALTER TABLE t DROP gone; ALTER TABLE t ADD later int DEFAULT 42; ALTER TABLE t ADD empty int;\n\
         INSERT INTO t VALUES (2, NULL, 'plain', 'glad', 43, NULL); UPDATE t SET id = 3 WHERE id = 2;\n\
         BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE; COMMIT; CHECKPOINT;",
    );
    let heads = server.sql(
        "SELECT lp, t_xmin, t_xmax, t_ctid, array_to_string(f.raw_flags, ' ') FROM heap_page_items(get_raw_page('t', 0)), \
         LATERAL heap_tuple_infomask_flags(t_infomask, t_infomask2) f ORDER BY lp;",
    );
    let toast = server.sql(
        "SELECT reltoastrelid FROM pg_class WHERE relname = 't';\n\
         SELECT oid FROM pg_enum WHERE enumlabel = 'glad';",
    );
    let toast_oid = toast.lines().next().expect("toast table").to_owned();
    let value_oid = server.sql(&format!(
        "SELECT chunk_id FROM pg_toast.{} LIMIT 1;",
        server.sql(&format!("SELECT relname FROM pg_class WHERE oid = {toast_oid};")).trim()
    ));
    let packed = server.sql("SELECT pg_column_size(packed) FROM t WHERE id = 1;");
    server.stop("fast");
    let opened = Opened::of(&server);
    let columns = opened.columns("t");
    let page = opened.page("t", 0);
    let header = PageHeader::decode(0, &page).unwrap();
    let mut ours = String::new();
    let mut rows = Vec::new();
    for tuple in page_tuples(&header, &page) {
        let head = TupleHeader::decode(0, tuple.bytes).unwrap();
        let flags = flag_words(&head).split(' ').map(|flag| format!("HEAP_{flag}")).collect::<Vec<_>>().join(" ");
        let line =
            format!("{}|{}|{}|({},{})|{flags}\n", tuple.item, head.xmin, head.xmax, head.ctid_block, head.ctid_item);
        ours.push_str(&line);
        let stored = row_columns(&head, tuple.bytes, &columns.shapes());
        if let Stored::External(pointer) = stored[3] {
            let (value_oid, toast_oid) = (value_oid.trim().parse().unwrap(), toast_oid.parse().unwrap());
            let expected = ToastPointer { raw_bytes: 5000, stored_bytes: 5000, method: None, value_oid, toast_oid };
            assert_eq!(pointer, expected);
        }
        rows.push(
            columns.columns.iter().zip(&stored).map(|(column, stored)| value_words(column, stored)).collect::<Vec<_>>(),
        );
    }
    assert_eq!(ours, heads);
    assert!(columns.columns[1].is_dropped && columns.columns[5].has_missing && !columns.columns[6].has_missing);
    let packed_bytes: usize = packed.trim().parse().unwrap();
    let enum_oid: u32 = toast.lines().nth(1).unwrap().parse().unwrap();
    let glad = format!("0x{}", enum_oid.to_le_bytes().map(|byte| format!("{byte:02x}")).join(""));
    assert_eq!(rows[0][0], "1");
    assert_eq!(rows[0][1], format!("0x{}", b"was here".map(|byte| format!("{byte:02x}")).join("")));
    let text = format!("'{}' (compressed with pglz, {} bytes for 4000)", "abcd".repeat(1000), packed_bytes - 8);
    assert_eq!(rows[0][2], text);
    assert_eq!(rows[0][4], glad);
    assert_eq!(rows[0][5], "the default that the column was added with");
    assert_eq!(rows[0][6], "null: the row is older than the column");
    assert_eq!(rows[2], ["3", "null", "null", "'plain'", &glad, "43", "null"]);
    assert_eq!(columns.columns[4].type_name.as_deref(), Some("mood"));
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn entries_of_a_btree_are_those_that_pageinspect_lists() {
    let Some(server) = Server::start("") else { return };
    server.sql(
        "CREATE EXTENSION pageinspect; CREATE TABLE t (a int, b text);\n\
         INSERT INTO t SELECT CASE WHEN g % 10 = 0 THEN NULL ELSE g / 3 END, 'text ' || g / 3 FROM generate_series(1, 3000) g;\n\
         CREATE INDEX i ON t (a, b); CHECKPOINT;",
    );
    let blocks: usize = server.sql("SELECT pg_relation_size('i') / 8192;").trim().parse().unwrap();
    let listed: Vec<String> = (1..blocks)
        .map(|block| {
            server.sql(&format!(
                "SELECT itemoffset, itemlen, nulls, htid, tids[1:16], ctid, data FROM bt_page_items('i', {block}) ORDER BY 1;"
            ))
        })
        .collect();
    let keys = server.sql("SELECT ctid || ' ' || coalesce(a::text, 'null') || ' ''' || b || '''' FROM t;");
    let keys: BTreeMap<&str, &str> = keys.lines().filter_map(|line| line.split_once(' ')).collect();
    server.stop("fast");
    let opened = Opened::of(&server);
    let columns = opened.columns("i");
    let (mut rows, mut children, mut high_keys) = (0, 0, 0);
    for block in 1..blocks {
        let page = opened.page("i", block);
        let header = PageHeader::decode(0, &page).unwrap();
        let kind = PageKind::of(&header, &page, ForkNumber::Main);
        assert_eq!(kind, PageKind::Btree);
        let mut theirs = listed[block - 1].lines();
        for tuple in page_tuples(&header, &page) {
            let entry = IndexEntry::decode(&header, &page, kind, tuple.item, tuple.bytes).expect("entry");
            let line = theirs.next().expect("as many entries");
            let fields: Vec<&str> = line.split('|').collect();
            assert_eq!(fields[0], tuple.item.to_string(), "{line}");
            assert_eq!(fields[1], entry.length.to_string(), "{line}");
            let data: String = entry.data.iter().map(|byte| format!("{byte:02x} ")).collect();
            assert!(data.starts_with(fields[6]), "{line}: {data}");
            let tids: Vec<String> = match &entry.target {
                Target::Row(tid) => vec![format!("({},{})", tid.0, tid.1)],
                Target::Rows { rows, .. } => rows.iter().map(|tid| format!("({},{})", tid.0, tid.1)).collect(),
                Target::Child(child) => {
                    children += 1;
                    assert!(fields[5].starts_with(&format!("({child},")), "{line}");
                    continue;
                }
                Target::HighKey => {
                    high_keys += 1;
                    assert_eq!(tuple.item, 1, "{line}");
                    continue;
                }
                Target::Other(_) => panic!("{line}"),
            };
            assert_eq!(fields[3], tids[0], "{line}");
            if !fields[4].is_empty() {
                assert_eq!(
                    fields[4],
                    format!("{{{}}}", tids.iter().map(|tid| format!("\"{tid}\"")).collect::<Vec<_>>().join(",")),
                    "{line}"
                );
            }
            let stored = entry.stored(&columns.shapes());
            let words: Vec<String> =
                columns.columns.iter().zip(&stored).map(|(column, stored)| value_words(column, stored)).collect();
            for tid in &tids {
                assert_eq!(keys[tid.as_str()], words.join(" "), "{line}");
                rows += 1;
            }
        }
        assert_eq!(theirs.next(), None, "block {block}");
    }
    assert!(rows == 3000 && children > 1 && high_keys > 0, "{rows} {children} {high_keys}");
}
