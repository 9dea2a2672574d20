//! The last test target by name: sums up what the others could not test here, where nobody can miss it.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

/// What a list of skipped tests comes to, each counted once.
fn sum_of(list: &str) -> String {
    let lines: BTreeSet<&str> = list.lines().collect();
    let each: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("\nSKIPPED in all: {}\n{each}", lines.len())
}

/// Skips a test of this name as an example.
fn skip(name: &str, list: &Path) -> String {
    std::thread::scope(|scope| {
        let example = || {
            let mut printed = Vec::new();
            common::tell_skipped("as an example of a skipped test", list, &mut printed);
            String::from_utf8(printed).expect("text")
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, example).expect("thread");
        thread.join().expect("thread ends")
    })
}

#[test]
fn sum_of_skipped_tests() {
    let list = common::skipped_list();
    // Nothing is there when nothing was skipped since the last sum.
    let before = fs::read_to_string(&list).unwrap_or_default();
    // That each is listed with program, test and reason is tried on a list of its own: an example is not a skipped test.
    let directory = tempfile::tempdir().expect("temporary directory");
    let own = directory.path().join("skipped_tests");
    let of = |name: &str| format!("zz_skipped::{name}: as an example of a skipped test\n");
    for name in ["second", "first", "second"] {
        assert_eq!(skip(name, &own), format!("SKIPPED {}", of(name)));
    }
    let listed = fs::read_to_string(&own).expect("list");
    assert_eq!(listed, [of("second"), of("first"), of("second")].concat());
    assert_eq!(sum_of(&listed), format!("\nSKIPPED in all: 2\n  {}  {}", of("first"), of("second")));
    let after = fs::read_to_string(&list).unwrap_or_default();
    assert_eq!(after, before, "the list of what was really skipped");
    // Not the macros: what they print is caught with the output of a test that passes.
    let mut told = sum_of(&before);
    if !std::env::args().any(|argument| argument == "--include-ignored") {
        told +=
            "Left out: tests that take long, those with live servers among them. `cargo test-all` runs them, too.\n";
    }
    std::io::stderr().lock().write_all(told.as_bytes()).expect("standard error");
    if std::env::var_os("KEEP_SKIPPED").is_none() && list.exists() {
        fs::remove_file(&list).expect("list");
    }
}
