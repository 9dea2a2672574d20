//! The results as a table in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// Columns: a heading, and the number in a result.
const COLUMNS: [(&str, &str); 14] = [
    ("torn", "torn"),
    ("checksum wrong", "failing"),
    ("row changed", "changed"),
    ("found", "found"),
    ("missed", "missed"),
    ("row changed, unseen", "unseen"),
    ("of these harmless", "harmless"),
    ("false alarms", "false_alarms"),
    ("healed", "healed"),
    ("left", "left"),
    ("restored", "restored"),
    ("rebuilt", "rebuilt"),
    ("refused", "refused"),
    ("wrong", "wrong"),
];

/// Sums by server, checksums and full-page writes, then all; and why images were refused.
pub fn markdown(lines: &[Value]) -> String {
    let done: Vec<&Value> = lines.iter().filter(|line| line["failed"].is_null()).collect();
    let mut rows: BTreeMap<(u64, String), Vec<&Value>> = BTreeMap::new();
    for line in &done {
        let on = |name: &str| if line[name] == true { "on" } else { "off" };
        let buffer = match (&line["own_buffer"], &line["put_buffer"]) {
            (Value::Bool(true), _) => "own",
            (_, Value::Bool(true)) => "put in",
            _ => "-",
        };
        let major = line["major"].as_u64().unwrap_or(0);
        let name = format!("{major} | {} | {} | {buffer}", on("checksums"), on("full_page_writes"));
        rows.entry((major, name)).or_default().push(line);
    }
    let mut text = String::from("| server | checksums | full_page_writes | buffer | variants |");
    COLUMNS.iter().for_each(|(heading, _)| text.push_str(&format!(" {heading} |")));
    text.push_str("\n|---|---|---|---|--:|");
    COLUMNS.iter().for_each(|_| text.push_str("--:|"));
    for ((_, name), lines) in &rows {
        row(&mut text, name, lines);
    }
    for checksums in [true, false] {
        let part: Vec<&Value> = done.iter().filter(|line| line["checksums"] == checksums).copied().collect();
        row(&mut text, &format!("all | {} | | ", if checksums { "on" } else { "off" }), &part);
    }
    row(&mut text, "all | | | ", &done);
    text.push_str("\n\n");
    let mut refused: BTreeMap<&str, u64> = BTreeMap::new();
    for (why, number) in done.iter().filter_map(|line| line["refused"].as_object()).flatten() {
        *refused.entry(why).or_default() += number.as_u64().unwrap_or(0);
    }
    for (why, number) in refused {
        writeln!(text, "- refused, {why}: {number}").expect("a string grows");
    }
    let failed = lines.len() - done.len();
    writeln!(text, "- crashes that could not be used: {failed}").expect("a string grows");
    text
}

fn row(text: &mut String, name: &str, lines: &[&Value]) {
    text.push_str(&format!("\n| {name} | {} |", lines.len()));
    for (_, field) in COLUMNS {
        text.push_str(&format!(" {} |", lines.iter().map(|line| number(&line[field])).sum::<u64>()));
    }
}

/// A number, the length of a list, or the sum of numbers by name.
fn number(value: &Value) -> u64 {
    match value {
        Value::Array(list) => list.len() as u64,
        Value::Object(fields) => fields.values().filter_map(Value::as_u64).sum(),
        other => other.as_u64().unwrap_or(0),
    }
}
