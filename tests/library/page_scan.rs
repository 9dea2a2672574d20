//! The scan of relation files as a library: order, threads, files that change or end oddly.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common;
use crate::common::cluster;
use pgforensics::analysis::pages::page_check::PageCondition;
use pgforensics::analysis::pages::page_scan::{BadPage, PageScan, ScanOptions, scan_pages};
use pgforensics::analysis::skipped::{ByteRange, Coverage, Lacking, SkipReason, Skipped, SkippedPart};
use pgforensics::cluster::open::{Links, ReadFile};
use pgforensics::cluster::relation_walk::{RelationFile, walk_relations};
use pgforensics::types::Geometry;

const BLOCK: usize = 8192;
const GEOMETRY: Geometry =
    Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 1 << 20 };

struct Scanned {
    scan: PageScan,
    bad: Vec<BadPage>,
    coverage: Coverage,
    progress: u64,
}

fn scanned(root: &Path, files: &[RelationFile], jobs: usize, geometry: Geometry, interrupted: bool) -> Scanned {
    let interrupted = AtomicBool::new(interrupted);
    let progress = AtomicU64::new(0);
    let options = ScanOptions {
        jobs,
        checksums: true,
        geometry,
        read_again: false,
        interrupted: &interrupted,
        look: &|_, _| {},
        links_at: None,
        progress: &|bytes| {
            progress.fetch_add(bytes, Ordering::Relaxed);
        },
    };
    let (mut bad, mut coverage) = (Vec::new(), Coverage::default());
    let scan = scan_pages(root, files, &options, &mut coverage, |page| bad.push(page));
    Scanned { scan, bad, coverage, progress: progress.into_inner() }
}

/// A directory with these files in database 5.
fn directory(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Vec<RelationFile>) {
    let root = tempfile::tempdir().unwrap();
    for part in ["global", "base/5", "pg_tblspc"] {
        fs::create_dir_all(root.path().join(part)).unwrap();
    }
    for (name, bytes) in files {
        fs::write(root.path().join("base/5").join(name), bytes).unwrap();
    }
    let walk = walk_relations(root.path(), "none");
    assert!(walk.skipped.is_empty(), "{:?}", walk.skipped);
    (root, walk.files)
}

#[test]
fn result_is_the_same_for_any_number_of_threads() {
    let data = cluster("wrapped");
    let files = walk_relations(&data, "none").files;
    let one = scanned(&data, &files, 1, GEOMETRY, false);
    assert_eq!((one.bad.len(), one.scan.counts.checksum_failures, one.scan.counts.pages), (22, 20, 8167));
    let total: u64 = files.iter().map(|file| file.size_bytes).sum();
    assert_eq!((one.progress, one.scan.counts.bytes, one.coverage.examined), (total, total, 8167));
    let places: Vec<_> = one.bad.iter().map(|bad| (bad.file, bad.page.block)).collect();
    assert!(places.is_sorted(), "{places:?}");
    for bad in &one.bad {
        let file = fs::File::open(data.join(&files[bad.file].path)).unwrap();
        let mut bytes = vec![0; BLOCK];
        file.read_exact_at(&mut bytes, bad.offset).unwrap();
        assert_eq!((bytes == bad.bytes, bad.offset), (true, u64::from(bad.page.block) * BLOCK as u64));
    }
    for jobs in [2, 3, 7, 64] {
        let more = scanned(&data, &files, jobs, GEOMETRY, false);
        assert_eq!((more.scan.counts, more.progress), (one.scan.counts, one.progress), "{jobs} threads");
        assert_eq!(more.bad, one.bad, "{jobs} threads");
    }
}

/// Every rule of a page holds on every page of a sound cluster, with the help of checksums and without.
#[test]
fn every_page_of_a_sound_cluster_is_sound() {
    let data = cluster("clean");
    let mut pages = 0;
    for relation in walk_relations(&data, "none").files {
        let file = ReadFile::open(&data.join(&relation.path), Links::Refuse).unwrap();
        for block in 0_u32.. {
            let Some(page) = file.bytes_at(u64::from(block) * BLOCK as u64, BLOCK).unwrap() else { break };
            for checksums in [true, false] {
                let condition = PageCondition::of(&page, relation.name.fork, block, checksums);
                assert!(condition.damage().is_none(), "{} block {block}: {condition}", relation.path.display());
            }
            pages += 1;
        }
    }
    assert_eq!(pages, 5562);
}

#[test]
fn blocks_are_counted_across_segments() {
    let geometry = Geometry { rel_segment_blocks: 2, ..GEOMETRY };
    let mut second = vec![0; 2 * BLOCK];
    second[BLOCK] = 1;
    let (root, files) = directory(&[("7", &[0; 2 * BLOCK]), ("7.1", &second), ("7.2", &[9; 100])]);
    let found = scanned(root.path(), &files, 2, geometry, false);
    assert_eq!((found.bad.len(), found.bad[0].page.block, found.bad[0].offset), (1, 3, BLOCK as u64));
    let partial = &found.scan.partial_pages[0];
    assert_eq!((partial.page.block, partial.offset, partial.have_bytes), (4, 0, 100));
    assert_eq!(partial.bytes, [9; 100]);
    assert_eq!((found.scan.counts.pages, found.scan.counts.zeroed, found.scan.counts.new_not_zero), (4, 3, 1));
    assert_eq!(found.coverage.skipped, []);
}

#[test]
fn files_that_vanish_shrink_or_grow_are_told_once_each() {
    let long = vec![0; 3 << 20];
    let names = ["10", "11", "12", "13"];
    let (root, files) = directory(&names.map(|name| (name, &long[..])));
    let base = root.path().join("base/5");
    fs::remove_file(base.join("10")).unwrap();
    fs::File::options().write(true).open(base.join("11")).unwrap().set_len(1 << 20).unwrap();
    fs::File::options().write(true).open(base.join("12")).unwrap().set_len(4 << 20).unwrap();
    for jobs in [1, 3] {
        let found = scanned(root.path(), &files, jobs, GEOMETRY, false);
        let skipped: Vec<_> = found
            .coverage
            .skipped
            .iter()
            .map(|skipped| (skipped.what.to_string(), skipped.bytes, &skipped.reason))
            .collect();
        assert_eq!(skipped.len(), 3, "{skipped:?}");
        assert!(skipped[0].0 == "base/5/10" && skipped[0].1.is_none(), "{skipped:?}");
        assert!(matches!(skipped[0].2, SkipReason::Unreadable(error) if error.to_string().contains("No such file")));
        let shorter = ByteRange { offset: 1 << 20, length: 2 << 20 };
        assert_eq!(skipped[1], ("base/5/11".to_owned(), Some(shorter), &SkipReason::FileShorter));
        let grown = ByteRange { offset: 3 << 20, length: 1 << 20 };
        assert_eq!(skipped[2], ("base/5/12".to_owned(), Some(grown), &SkipReason::FileGrown));
        assert_eq!(found.scan.counts.pages * BLOCK as u64, 7 << 20);
    }
}

#[test]
fn file_that_becomes_a_link_is_not_followed() {
    let (root, files) = directory(&[("10", &[0; BLOCK])]);
    let path = root.path().join("base/5/10");
    fs::rename(&path, root.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../../elsewhere", &path).unwrap();
    let found = scanned(root.path(), &files, 1, GEOMETRY, false);
    assert_eq!(found.scan.counts.pages, 0);
    assert!(found.coverage.skipped[0].reason.to_string().contains("symbolic link"), "{:?}", found.coverage);
}

#[test]
fn interruption_gives_a_partial_result_that_says_so() {
    let data = cluster("clean");
    let files = walk_relations(&data, "none").files;
    let found = scanned(&data, &files, 2, GEOMETRY, true);
    assert!(found.scan.interrupted && found.scan.counts.pages == 0);
    let skipped: Vec<_> = found.coverage.skipped.iter().map(|skipped| (&skipped.what, &skipped.reason)).collect();
    assert_eq!(skipped, [(&SkippedPart::RestOfRelationFiles, &SkipReason::Interrupted(Lacking::Counts))]);
    assert!(found.coverage.is_interrupted());
}

#[test]
fn numbers_that_no_server_has_are_refused_in_words() {
    let (root, files) = directory(&[("7", &[0; BLOCK]), ("7.4000000", &[0; BLOCK]), ("7.32767", &[0; 2 * BLOCK])]);
    let found = scanned(root.path(), &files, 2, GEOMETRY, false);
    assert_eq!(found.scan.counts.pages, 3);
    assert_eq!(found.coverage.skipped[0].what, SkippedPart::file("base/5/7.4000000"));
    for (block_size, rel_segment_blocks) in [(0, 1), (8191, 1), (512, 1), (65_536, 1), (8192, 0)] {
        let geometry = Geometry { block_size, rel_segment_blocks, ..GEOMETRY };
        let found = scanned(root.path(), &files, 2, geometry, false);
        assert_eq!((found.scan.counts.pages, found.coverage.skipped.len()), (0, 1), "{block_size}");
        let reason = SkipReason::ImpossibleSizes { block_size, segment_blocks: rel_segment_blocks };
        assert_eq!(found.coverage.skipped[0].reason, reason);
    }
    // The last block that can be: 0xFFFFFFFE is one before the number that means "none".
    let geometry = Geometry { rel_segment_blocks: 131_072, ..GEOMETRY };
    let (root, files) = directory(&[("7.32767", &[])]);
    let path = root.path().join("base/5/7.32767");
    fs::File::options().write(true).open(path).unwrap().set_len(131_072 * BLOCK as u64).unwrap();
    let files = vec![RelationFile { size_bytes: 131_072 * BLOCK as u64, ..files[0].clone() }];
    let found = scanned(root.path(), &files, 2, geometry, false);
    assert_eq!((found.scan.counts.zeroed, found.coverage.skipped.len()), (131_071, 1), "{:?}", found.coverage);
}

#[test]
fn holes_count_as_zero_pages_and_nothing_is_read_past_the_end_of_a_segment() {
    let (root, _) = directory(&[("16384", &[]), ("16385", &[])]);
    let set_length = |name: &str, bytes: u64| {
        fs::OpenOptions::new().write(true).open(root.path().join("base/5").join(name)).unwrap().set_len(bytes)
    };
    // 1 GiB of hole with one broken page near its end; 8 TiB of nothing under a name that stands for 1 GiB.
    set_length("16384", 1 << 30).unwrap();
    let file = fs::OpenOptions::new().write(true).open(root.path().join("base/5/16384")).unwrap();
    file.write_all_at(&[7; BLOCK], (1 << 30) - 2 * BLOCK as u64).unwrap();
    if let Err(error) = set_length("16385", 8 << 40) {
        common::skipped(&format!("the file system makes no file of 8 TiB: {error}"));
        return;
    }
    let files = walk_relations(root.path(), "none").files;
    let started = std::time::Instant::now();
    let found = scanned(root.path(), &files, 2, GEOMETRY, false);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    let counts = &found.scan.counts;
    assert_eq!((counts.pages, counts.zeroed, counts.damaged), (262_144, 262_143, 1));
    assert_eq!(found.bad[0].page.block, 131_070);
    assert!(counts.holes_bytes > (1 << 31) - (8 << 20), "{}", counts.holes_bytes);
    assert_eq!(found.progress, 1 << 31);
    let bytes = Some(ByteRange { offset: 1 << 30, length: (8 << 40) - (1 << 30) });
    let what = SkippedPart::file("base/5/16385");
    assert_eq!(found.coverage.skipped, [Skipped { what, bytes, reason: SkipReason::PastSegmentEnd }]);
}
