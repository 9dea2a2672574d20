//! Names of relations read from the catalogs, against an independent reader and against SQL of the same clusters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::{DWB_CASES, cluster, packed_rows, unpack};
use pgforensics::cluster::data_dir::DataDir;
use pgforensics::cluster::name_gaps::NameGap;
use pgforensics::cluster::names::{NameDoubt, RelationName, RelationNames};
use pgforensics::parsers::catalog::{Persistence, RelKind};
use pgforensics::types::RelFileLocator;

fn read(data: &Path) -> (RelationNames, Vec<NameGap>) {
    RelationNames::read(&DataDir::open(data).expect("data directory"))
}

fn texts(gaps: &[NameGap]) -> Vec<String> {
    gaps.iter().map(ToString::to_string).collect()
}

/// The independent reader puts a minus sign in front of relations that all databases share.
fn with_shared(name: &str) -> String {
    name.strip_prefix("-.").map_or_else(|| name.to_owned(), |name| format!("global.{name}"))
}

/// Names of the independent reader, by the identity of the files.
fn expected_names(case: &str) -> BTreeMap<RelFileLocator, String> {
    packed_rows(&unpack::fixtures().join(format!("dwb/expected/{case}.relations.tsv.zst")))
        .into_iter()
        .map(|row| {
            let number = |column: &str| row[column].parse().unwrap();
            let rel = RelFileLocator { spc_oid: number("spc"), db_oid: number("db"), rel_number: number("rel") };
            (rel, with_shared(&row["name"]))
        })
        .collect()
}

#[test]
fn every_name_of_the_independent_reader() {
    for case in DWB_CASES {
        let (names, gaps) = read(&cluster(case));
        let mut known = 0;
        for (rel, expected) in expected_names(case) {
            match names.get(rel) {
                _ if expected == "-" => {}
                Some(name) => {
                    assert_eq!(name.to_string(), expected, "{case} {rel}");
                    known += 1;
                }
                None => panic!("{case}: {rel} is {expected}, we have no name\n{:#?}", texts(&gaps)),
            }
        }
        assert!(known > 700, "{case}: only {known} names");
        // What it does not name we may, but never without a doubt.
        for (rel, name) in expected_names(case).iter().filter(|(_, name)| *name == "-") {
            assert!(
                names.get(*rel).is_none_or(|ours| ours.doubt.is_some()),
                "{case} {rel} {name}: {:?}",
                names.get(*rel)
            );
        }
        let (torn, reported) = (usize::from(case == "checkpoint"), texts(&gaps));
        assert_eq!(reported.len(), torn, "{case}: {reported:#?}");
        assert!(reported.iter().all(|gap| gap.contains("base/5/1259 block 0: checksum is 0xd2a4")), "{reported:?}");
    }
    let (names, _) = read(&cluster("checkpoint"));
    let doubtful = names.iter().filter(|(_, name)| name.doubt == Some(NameDoubt::PageChecksum)).count();
    assert!(doubtful > 0, "the torn page still gives names");
}

/// `19` is a development tree.
const MAJORS: [&str; 11] = ["10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "19rc1"];

fn server(major: &str) -> (PathBuf, PathBuf) {
    let data = unpack::data_dir(&format!("names/pg{major}")).expect("unpack fixture");
    let list = data.parent().unwrap().join("names.json");
    (data, list)
}

fn sorted(names: &RelationNames) -> BTreeMap<RelFileLocator, &RelationName> {
    names.iter().collect()
}

#[test]
fn every_relation_of_every_major_has_the_name_that_sql_gives() {
    for major in MAJORS {
        let (data, list) = server(major);
        let (truth, doubled) = RelationNames::from_json(&list).unwrap();
        assert!(doubled.is_empty(), "{major}: {:#?}", texts(&doubled));
        let (names, gaps) = read(&data);
        assert!(gaps.is_empty(), "{major}: {:#?}", texts(&gaps));
        assert!(truth.len() > 1400, "{major}: {}", truth.len());
        for (rel, name) in &sorted(&truth) {
            let ours = names.get(*rel);
            let same = ours.is_some_and(|ours| {
                (ours.to_string(), ours.oid, ours.kind, ours.persistence)
                    == (name.to_string(), name.oid, name.kind, name.persistence)
            });
            assert!(same, "{major}: {rel} is {name:?}, ours {ours:?}");
        }
        for (rel, ours) in &sorted(&names) {
            assert!(truth.get(*rel).is_some(), "{major}: {rel} is not a relation any more, ours {ours:?}");
            assert_eq!(ours.doubt, None, "{major} {rel} {ours}");
        }
    }
}

#[test]
fn dropped_renamed_and_rolled_back_are_not_found_and_the_rest_is() {
    for major in MAJORS {
        let (data, _) = server(major);
        let (names, _) = read(&data);
        let all: Vec<_> = names.iter().map(|(_, name)| name.to_string()).collect();
        assert!(!all.iter().any(|name| name.contains("gone") || name.contains("ghost")), "{major}");
        for wanted in [
            "shop.sales.orders",
            "shop.sales.kept_in_savepoint",
            "shop.sales.renamed_in_multixact",
            "shop.sales.many_12",
            "shop.public.many_9",
            "shop.Sch\u{e9}ma, new.quoted \"name\"",
            "shop.public.a_name_of_sixty_three_bytes_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "archive.public.ledger_pkey",
            "final \"cut\".pg_catalog.pg_class",
            "global.pg_catalog.pg_database",
        ] {
            assert_eq!(all.iter().filter(|name| *name == wanted).count(), 1, "{major}: {wanted}");
        }
        let (kind, persistence) = names
            .iter()
            .find(|(_, name)| name.to_string() == "shop.sales.cart")
            .map(|(_, name)| (name.kind, name.persistence))
            .unwrap();
        assert_eq!((kind, persistence), (Some(RelKind::TABLE), Some(Persistence::Unlogged)), "{major}");
        let log_2 = names.iter().find(|(_, name)| name.to_string() == "shop.sales.log_2").unwrap().0;
        assert_eq!((names.tablespace(log_2.spc_oid), names.database(log_2.db_oid)), (Some("fast"), Some("shop")));
    }
}
