//! docs/findings.md: each code that a finding, a skipped part or a state can have is in its table once, and no other is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pgforensics::analysis::skipped::{SkipReason, SkippedPart};
use pgforensics::analysis::start::cluster_condition::ClusterCondition;
use pgforensics::inspect::finding_rules::rules;
use pgforensics::report::Part;
use strum::{IntoEnumIterator, VariantNames};

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

/// The tables of rules, a part after the other.
fn tables() -> String {
    let table = |part: Part| {
        let heading = match part {
            Part::Cluster => "The cluster",
            Part::ServerFiles => "Files of the server, other than those with pages and WAL",
            Part::DoubleWriteBuffer => "The double write buffer",
            Part::Ring => "A double write buffer with a control file",
            Part::Innodb => "Data directories of MySQL and MariaDB",
            Part::Pages => "Pages",
            Part::Wal => "WAL",
        };
        let rows = rules().filter(|rule| rule.part == part);
        let rows: String =
            rows.map(|rule| format!("| `{}` | {} | {} |\n", rule.code, rule.means, rule.action)).collect();
        format!("### {heading}\n\n| kind | meaning | what to do |\n|---|---|---|\n{rows}\n")
    };
    Part::iter().map(table).collect()
}

#[test]
fn tables_of_findings_are_those_of_the_rules() {
    const BEGIN: &str = "some kinds are one or the other.\n\n";
    const END: &str = "## What was not examined\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/findings.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (written, tail) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, [head, BEGIN, &tables(), END, tail].concat()).unwrap();
    } else {
        assert_eq!(written, tables(), "UPDATE_DOCS=1 writes the tables of docs/findings.md anew");
    }
    assert_same("## Kinds of findings", rules().map(|rule| rule.code));
}

/// A module whose rules are not listed would find things that no table explains.
#[test]
fn every_declared_rule_is_listed() {
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut declared = BTreeSet::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let of_rules = text.split("\nrules! {\n").skip(1).flat_map(|block| block.split("\n}").next().unwrap().lines());
        let heads = of_rules.filter(|line| line.starts_with("    ") && !line.starts_with("     "));
        declared.extend(heads.map(|line| line.split('"').nth(1).unwrap().to_owned()));
    }
    let listed: BTreeSet<String> = rules().map(|rule| rule.code.to_owned()).collect();
    assert!(listed.len() > 150);
    assert_eq!(declared, listed, "src/inspect/finding_rules.rs lists the rules of all modules");
}

#[test]
fn every_part_and_cause_of_what_is_skipped_is_documented() {
    assert_same("### Parts", SkippedPart::VARIANTS.iter().copied());
    let notes: BTreeSet<&str> = SkipReason::codes().filter(|code| code.starts_with("wal_")).collect();
    let findings: BTreeSet<&str> = rules().map(|rule| rule.code).collect();
    assert!(notes.len() > 20 && notes.is_subset(&findings), "what notes say is in the table of findings");
    assert_same("### Causes", SkipReason::codes().filter(|code| !notes.contains(code)));
}

#[test]
fn every_state_of_a_cluster_is_documented() {
    assert_same("## What happened to the cluster", ClusterCondition::VARIANTS.iter().copied());
}
