//! Segment files of relations by their lengths: pages that are missing between, and files that are too long.

use crate::cluster::relation_walk::RelationFile;
use crate::report::{Finding, rules};
use crate::types::{ForkNumber, Geometry, RelFileLocator};

/// Findings about the segment files of each fork. `files` are all files of the cluster, ordered as a walk orders them;
/// forks without a file that `selected` takes are left out.
///
/// All segments of a fork but the last are full. Empty ones may follow, left by a truncation.
///
/// Source: `mdnblocks`, `src/backend/storage/smgr/md.c`.
pub(crate) fn segment_findings(
    files: &[RelationFile],
    geometry: Geometry,
    selected: impl Fn(&RelationFile) -> bool,
) -> Vec<Finding> {
    let full = u64::from(geometry.rel_segment_blocks).saturating_mul(u64::from(geometry.block_size));
    let mut findings = Vec::new();
    for segments in files.chunk_by(|a, b| fork_of(a) == fork_of(b)) {
        if segments.iter().any(&selected) {
            inspect_fork(segments, full, &mut findings);
        }
    }
    findings
}

fn fork_of(file: &RelationFile) -> (RelFileLocator, ForkNumber) {
    (file.rel, file.name.fork)
}

fn inspect_fork(segments: &[RelationFile], full: u64, findings: &mut Vec<Finding>) {
    for file in segments.iter().filter(|file| file.size_bytes > full) {
        findings.push(
            SEGMENT_TOO_LONG
                .problem(format!("{} bytes, a segment has at most {full}", file.size_bytes))
                .in_file(&path(file))
                .at(full),
        );
    }
    let filled: Vec<&RelationFile> = segments.iter().filter(|file| file.size_bytes > 0).collect();
    let Some(last) = filled.last() else { return };
    let mut expected = 0;
    for file in &filled {
        let number = file.name.rel_segment;
        if number > expected {
            let gone = match number.saturating_sub(1) {
                last if last == expected => format!("segment {last} is missing or empty"),
                last => format!("segments {expected} to {last} are missing or empty"),
            };
            let what = format!("{gone}, while {} has {} bytes", path(file), file.size_bytes);
            findings.push(MISSING_PAGES.problem(what).in_file(&path(file)));
        }
        if number < last.name.rel_segment && file.size_bytes < full {
            let size_bytes = file.size_bytes;
            let missing_bytes = full.saturating_sub(size_bytes);
            findings.push(
                MISSING_PAGES
                    .problem(format!(
                        "ends at {size_bytes:#X}, {missing_bytes} bytes short, though later segments follow"
                    ))
                    .in_file(&path(file))
                    .at(size_bytes),
            );
        }
        expected = number.saturating_add(1);
    }
}

fn path(file: &RelationFile) -> String {
    file.path.display().to_string()
}

rules! {
    SEGMENT_TOO_LONG: Pages "segment_too_long",
        why: "the server reads nothing past the end of a segment, and did not write this file",
        means: "A segment file is longer than a segment",
        action: "The server does not read the rest";
    MISSING_PAGES: Pages "missing_pages",
        why: "for the server the relation ends there: it does not see the later segments",
        means: "Pages or segment files are missing before others",
        action: "Find them: for the server the relation ends there";
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cluster::relation_path::RelationFileName;

    const GEOMETRY: Geometry =
        Geometry { block_size: 8192, rel_segment_blocks: 2, wal_block_size: 8192, wal_segment_size: 1 << 20 };
    const FULL: u64 = 16_384;

    fn found(sizes: &[(&str, u64)]) -> Vec<(&'static str, String)> {
        let files: Vec<RelationFile> = sizes
            .iter()
            .map(|(name, size_bytes)| {
                let name = RelationFileName::parse(name).unwrap();
                let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: name.rel_number };
                RelationFile { path: PathBuf::from(name.to_string()), rel, name, size_bytes: *size_bytes }
            })
            .collect();
        segment_findings(&files, GEOMETRY, |_| true)
            .into_iter()
            .map(|finding| (finding.rule.code, finding.file.unwrap()))
            .collect()
    }

    #[test]
    fn full_segments_with_empty_ones_after_them_are_sound() {
        assert_eq!(found(&[("7", FULL), ("7.1", FULL), ("7.2", 8192), ("7.3", 0), ("8", 0), ("9", 100)]), []);
        assert_eq!(found(&[("7", 8192), ("7.1", 0), ("7.2", 0)]), []);
    }

    #[test]
    fn short_and_missing_segments_before_others_are_found() {
        let missing = |file: &str| ("missing_pages", file.to_owned());
        assert_eq!(found(&[("7", FULL - 1), ("7.1", 8192)]), [missing("7")]);
        assert_eq!(found(&[("7", FULL), ("7.2", 8192)]), [missing("7.2")]);
        assert_eq!(found(&[("7", 0), ("7.1", 8192)]), [missing("7.1")]);
        assert_eq!(found(&[("7_fsm", FULL), ("7_fsm.1", 8192), ("7_vm", 8192), ("7_vm.4294967295", 1)]).len(), 2);
    }

    #[test]
    fn segment_past_the_end_is_found() {
        assert_eq!(found(&[("7", FULL + 1)]), [("segment_too_long", "7".to_owned())]);
    }
}
