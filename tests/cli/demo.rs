//! The demo: what it prints runs, and it spoils nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common;
use crate::common::{arg, cluster, dwbinspect};

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn printed_commands_answer_as_for_the_fixture() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("a demo");
    let put = dwbinspect(&["demo", arg(&directory)]);
    assert_eq!((put.status, put.stderr.as_str()), (0, ""));
    let data = directory.join("data");
    let commands: Vec<&str> = put.stdout.lines().filter_map(|line| line.strip_prefix("  pg_dwbinspect ")).collect();
    let path = format!("'{}'", data.display());
    assert!(commands.len() == 4 && commands.iter().all(|command| command.ends_with(&path)), "{}", put.stdout);
    for words in ["check", "repair"] {
        let args = [words, "--format", "ndjson"];
        let (of_demo, of_fixture) = (
            dwbinspect(&[&args[..], &[arg(&data)]].concat()),
            dwbinspect(&[&args[..], &[arg(&cluster("checkpoint"))]].concat()),
        );
        assert_eq!(of_demo.status, of_fixture.status, "{words}");
        let summary = |ran: &common::Ran| {
            let all = &ran.of_type("summary")[0];
            [&all["verdicts"], &all["damaged_pages"], &all["steps"]].map(Clone::clone)
        };
        assert_eq!(summary(&of_demo), summary(&of_fixture), "{words}");
    }
}

#[test]
fn what_is_there_stays_as_it_is() {
    let temporary = tempfile::tempdir().unwrap();
    fs::write(temporary.path().join("mine"), "mine").unwrap();
    let data = cluster("checkpoint");
    // Anything that was made or renamed in it would have changed its time.
    let look = || fs::metadata(&data).map(|metadata| (metadata.mtime(), metadata.mtime_nsec())).unwrap();
    let before = look();
    for directory in [temporary.path().to_owned(), data.clone(), data.join("demo"), temporary.path().join("mine")] {
        let put = dwbinspect(&["demo", arg(&directory)]);
        assert!(put.status == 2 && put.stdout.is_empty() && !put.stderr.is_empty(), "{}", directory.display());
    }
    assert_eq!(look(), before);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);
    // A link is not followed, wherever it leads.
    let (empty, link) = (temporary.path().join("empty"), temporary.path().join("link"));
    fs::create_dir(&empty).unwrap();
    std::os::unix::fs::symlink(&empty, &link).unwrap();
    for directory in [link.clone(), link.join(""), link.join(".")] {
        let put = dwbinspect(&["demo", arg(&directory)]);
        assert!(put.status == 2 && put.stderr.contains("symbolic link"), "{}", put.stderr);
    }
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    // Without a terminal there is no screen, and what to do instead is said.
    let put = dwbinspect(&["demo"]);
    assert!(put.status == 2 && put.stderr.contains("pg_dwbinspect demo DIR"), "{}", put.stderr);
}
