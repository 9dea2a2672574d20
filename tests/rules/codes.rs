//! Codes that programs compare: each stands for one thing, and the documentation names them all.

use std::collections::BTreeSet;

use pgforensics::analysis::pages::page_rows::RowFate;
use pgforensics::analysis::start::doubt::Doubt;
use pgforensics::analysis::verdict::evidence::Statement;
use pgforensics::analysis::verdict::fate::ReplayFate;
use pgforensics::analysis::verdict::judge::Reason;
use pgforensics::analysis::verdict::next_step::NextStep;
use pgforensics::analysis::verdict::rebuild::{BuildFailure, NotRebuildable};
use pgforensics::analysis::verdict::symptom::Symptom;
use pgforensics::cluster::donor::DonorGap;
use pgforensics::repair::plan::LeftReason;

/// A heading of the documentation, and the codes of the table below it.
fn families() -> [(&'static str, Vec<&'static str>); 10] {
    [
        ("### Doubts", Doubt::codes().collect()),
        ("### Evidence", Statement::codes().collect()),
        ("### Gaps of donors", DonorGap::CODES.to_vec()),
        ("### Reasons", Reason::codes().collect()),
        ("### Rebuild", NotRebuildable::codes().chain(BuildFailure::codes()).collect()),
        ("### Replay", ReplayFate::codes().collect()),
        ("### Damage", Symptom::codes().collect()),
        ("### Rows", RowFate::ALL.map(RowFate::code).to_vec()),
        ("### Next steps", NextStep::codes().collect()),
        ("### Repair", LeftReason::codes().collect()),
    ]
}

/// The first cell of each row of the table below `heading`, and what the row says of it.
fn table<'a>(text: &'a str, heading: &str) -> Vec<(&'a str, &'a str)> {
    let section = text.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let lines = section.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let (code, meaning) = line.trim_start_matches("| `").split_once("` | ").unwrap_or_else(|| panic!("{line}"));
            (code, meaning.trim_end_matches('|').trim())
        })
        .collect()
}

#[test]
fn every_code_is_documented_and_every_documented_code_exists() {
    let text = include_str!("../../docs/codes.md");
    for (heading, codes) in families() {
        let rows = table(text, heading);
        let documented: BTreeSet<&str> = rows.iter().map(|(code, _)| *code).collect();
        assert_eq!(documented.len(), rows.len(), "{heading}: a code stands there twice");
        let existing: BTreeSet<&str> = codes.into_iter().collect();
        let missing: Vec<_> = existing.difference(&documented).collect();
        let gone: Vec<_> = documented.difference(&existing).collect();
        assert!(missing.is_empty() && gone.is_empty(), "{heading}: not documented {missing:?}, no code {gone:?}");
        for (code, meaning) in rows {
            assert!(meaning.split(' ').count() >= 3, "{code}: {meaning:?} explains nothing");
        }
    }
}

#[test]
fn no_code_stands_for_two_things() {
    let mut seen = BTreeSet::new();
    for (heading, codes) in families() {
        for code in codes {
            assert!(seen.insert(code), "{code} stands for two things, the second in {heading}");
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(code.bytes().all(is_plain), "{code} is not lower case with underscores");
        }
    }
    assert!(seen.len() > 100, "{} codes", seen.len());
}
