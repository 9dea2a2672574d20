//! Relation files of real clusters: found, named, measured and checksummed as an independent reader does it.

use std::collections::BTreeMap;

use crate::common::{DWB_CASES, cluster, packed_rows, unpack};
use pgforensics::cluster::control_file::read_control;
use pgforensics::cluster::open::{Links, ReadFile};
use pgforensics::cluster::page_source::{RelationPaths, tablespace_version_directory};
use pgforensics::cluster::relation_walk::walk_relations;
use pgforensics::parsers::checksum::page_checksum;
use pgforensics::parsers::page::{PageHeader, line_pointer_faults, page_faults};
use pgforensics::parsers::page_kind::PageKind;
use pgforensics::parsers::wal::version::Major;

const BLOCK: usize = 8192;

#[test]
fn every_relation_file_and_page_equals_the_independent_reader() {
    for case in DWB_CASES {
        let data = cluster(case);
        let control = read_control(&data);
        let control = control.trusted().expect("sound control file");
        let catalog = control.prefix.catalog_version_no;
        let walk = walk_relations(&data, &tablespace_version_directory(Major::V19, catalog));
        assert!(walk.skipped.is_empty(), "{case}: {:?}", walk.skipped);
        let rows = packed_rows(&unpack::fixtures().join(format!("dwb/expected/{case}.relations.tsv.zst")));
        let expected: BTreeMap<_, _> = rows.iter().map(|row| (row["path"].clone(), row)).collect();
        assert_eq!(walk.files.len(), expected.len(), "{case}");
        let paths = RelationPaths::new(Major::V19, catalog, control.geometry.rel_segment_blocks);
        for file in &walk.files {
            let name = file.path.to_str().unwrap();
            let row = expected[name];
            let identity = (file.rel.spc_oid.to_string(), file.rel.db_oid.to_string(), file.rel.rel_number.to_string());
            assert_eq!(identity, (row["spc"].clone(), row["db"].clone(), row["rel"].clone()), "{name}");
            assert_eq!(file.name.fork.to_string(), row["fork"], "{name}");
            assert_eq!((file.size_bytes / BLOCK as u64).to_string(), row["pages"], "{name}");
            assert_eq!(paths.segment_file(file.rel, file.name.fork, file.name.rel_segment), file.path);
            if row.contains_key("bad_checksum_count") && control.checksums.is_enforced() {
                assert_eq!(bad_pages(&data.join(&file.path)).to_string(), row["bad_checksum_count"], "{case} {name}");
            }
        }
    }
}

fn bad_pages(path: &std::path::Path) -> usize {
    let file = ReadFile::open(path, Links::Refuse).unwrap();
    let mut bad = 0;
    for block in 0.. {
        let Some(page) = file.bytes_at(u64::from(block) * BLOCK as u64, BLOCK).unwrap() else { break };
        let header = PageHeader::decode(0, &page).unwrap();
        bad += usize::from(!header.is_new() && header.checksum != page_checksum(&page, block));
    }
    bad
}

/// On a cluster that was shut down cleanly no rule is broken, so every rule that we know must hold on every page.
#[test]
fn no_false_alarm_on_a_sound_cluster() {
    let data = cluster("clean");
    let walk = walk_relations(&data, "PG_19_202602051");
    let mut kinds = BTreeMap::<&str, usize>::new();
    for relation in &walk.files {
        let file = ReadFile::open(&data.join(&relation.path), Links::Refuse).unwrap();
        for block in 0_u32.. {
            let Some(page) = file.bytes_at(u64::from(block) * BLOCK as u64, BLOCK).unwrap() else { break };
            let header = PageHeader::decode(0, &page).unwrap();
            let kind = PageKind::of(&header, &page, relation.name.fork);
            let place = format!("{} block {block} ({})", relation.path.display(), kind.name());
            assert_eq!(page_faults(&header, &page), [], "{place}");
            assert_eq!(header.oddities(BLOCK), [], "{place}");
            assert_ne!(kind, PageKind::Unknown, "{place}");
            if kind.has_line_pointers() {
                assert_eq!(line_pointer_faults(&header, &page), [], "{place}");
            }
            *kinds.entry(kind.name()).or_default() += 1;
        }
    }
    for kind in ["heap", "btree", "btree meta or deleted", "fsm", "vm"] {
        assert!(kinds.get(kind).is_some_and(|count| *count > 10), "{kinds:?}");
    }
}
