//! docs/findings.md: each code that a finding, a skipped part or a state can have is in its table once, and no other is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pgforensics::analysis::cluster_condition::ClusterCondition;
use pgforensics::analysis::finding_kind::FindingKind;
use pgforensics::analysis::skipped::{SkipReason, SkippedPart};
use strum::VariantNames;

/// The first column of the tables below a heading, down to the next heading of the same or a higher level.
fn documented(heading: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/findings.md")).unwrap();
    let level = heading.split(' ').next().unwrap().len();
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with('#') {
            let depth = line.split(' ').next().unwrap().len();
            is_inside = line == heading || (is_inside && depth > level);
        } else if is_inside && let Some(rest) = line.strip_prefix("| `") {
            found.push(rest.split('`').next().unwrap().to_owned());
        }
    }
    assert!(!found.is_empty(), "{heading} has no table");
    found
}

fn assert_same<'a>(heading: &str, codes: impl Iterator<Item = &'a str>) {
    let codes: Vec<&str> = codes.collect();
    let unique: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(unique.len(), codes.len(), "{heading}: a code stands for two things");
    assert!(codes.iter().all(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_')), "{codes:?}");
    let rows = documented(heading);
    let table: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(table.len(), rows.len(), "{heading}: a code has two rows");
    assert_eq!(table, unique, "{heading}");
}

#[test]
fn every_kind_of_finding_is_documented() {
    assert_same("## Kinds of findings", FindingKind::codes());
}

#[test]
fn every_part_and_cause_of_what_is_skipped_is_documented() {
    assert_same("### Parts", SkippedPart::VARIANTS.iter().copied());
    let notes: BTreeSet<&str> = SkipReason::codes().filter(|code| code.starts_with("wal_")).collect();
    let findings: BTreeSet<&str> = FindingKind::codes().collect();
    assert!(notes.len() > 20 && notes.is_subset(&findings), "what notes say is in the table of findings");
    assert_same("### Causes", SkipReason::codes().filter(|code| !notes.contains(code)));
}

#[test]
fn every_state_of_a_cluster_is_documented() {
    assert_same("## What happened to the cluster", ClusterCondition::VARIANTS.iter().copied());
}
