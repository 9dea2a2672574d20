//! Text of `pg_walfpi` has no line that is wider than the screen.

use std::fs;
use std::process::Command;

use crate::common::wal::Fixture;
use textwrap::core::display_width;

/// All that prints text but `list` and `extract`, of which each image has a line of its own.
const COMMANDS: [&[&str]; 12] = [
    &["stats"],
    &["stats", "--by", "relation"],
    &["stats", "--by", "relation,cause"],
    &["stats", "--by", "time", "--bucket", "1s"],
    &["stats", "--by", "since-redo"],
    &["advise", "--sample", "20"],
    &["whatif", "--sample", "20"],
    &["dwb-size"],
    &["verify"],
    &["compare", "a=.", "b=."],
    &["compare", "before=.", "after=.", "later_still=.", "at_last=."],
    &["stats", "--end", "0/10000000", "--start", "0/2000000"],
];

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn no_line_is_wider_than_the_screen() {
    for major in [10, 18] {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in &Fixture::load(major).segments {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        for command in COMMANDS {
            let path = if command[0] == "compare" { vec![] } else { vec!["."] };
            let mut narrow = String::new();
            for width in ["60", "80", "100", "120"] {
                let ran = Command::new(assert_cmd::cargo::cargo_bin("pg_walfpi"))
                    .current_dir(directory.path())
                    .args(command)
                    .args(["--width", width])
                    .args(&path)
                    .output()
                    .unwrap();
                let text = String::from_utf8(ran.stdout).unwrap();
                assert!(text.lines().count() > 2, "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
                for line in text.lines() {
                    assert!(
                        display_width(line) <= width.parse().unwrap(),
                        "{major} {width} {command:?}: {line}\n{text}"
                    );
                }
                if width == "60" {
                    narrow = text;
                } else {
                    // Digits are what matters, and none of them is cut off.
                    let longest = |text: &str| text.split_whitespace().filter(|word| word.ends_with('M')).count();
                    assert!(longest(&narrow) >= longest(&text), "{major} {width} {command:?}:\n{narrow}\n{text}");
                }
            }
        }
    }
}
