//! The last test target by name: sums up what the others could not test here, where nobody can miss it.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

#[test]
fn sum_of_skipped_tests() {
    let list = common::skipped_list();
    // Nothing is there when nothing was skipped since the last sum.
    let before = fs::read_to_string(&list).unwrap_or_default();
    // That each is listed with program, test and reason is tried on an example, which is taken out again.
    let example = || common::skipped("as an example of a skipped test");
    std::thread::Builder::new().name("example".to_owned()).spawn(example).expect("thread").join().expect("thread ends");
    let after = fs::read_to_string(&list).expect("list");
    assert_eq!(after, format!("{before}zz_skipped::example: as an example of a skipped test\n"));
    let lines: BTreeSet<&str> = before.lines().collect();
    let mut sum = format!("\nSKIPPED in all: {}\n", lines.len());
    lines.iter().for_each(|line| sum.push_str(&format!("  {line}\n")));
    // Not the macros: what they print is caught with the output of a test that passes.
    std::io::stderr().lock().write_all(sum.as_bytes()).expect("standard error");
    match std::env::var_os("KEEP_SKIPPED") {
        Some(_) => fs::write(&list, before).expect("list"),
        None => fs::remove_file(&list).expect("list"),
    }
}
