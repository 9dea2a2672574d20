//! What a start of the server will do, on clusters where a server was seen to do it.

mod common;

use std::process::Command;

use common::edit::Key;
use common::truth::check;
use common::unpack::data_dir;
use common::{arg, copy_tree, dwbinspect};
use pgforensics::types::Lsn;

/// The BRIN index of the cluster `brin`, dropped before the crash.
const DROPPED_INDEX: Key = Key::main(16_389, 2);

/// Where the server of the cluster `brin` dies: the first BRIN `INSERT` that `pg_waldump` shows for that page.
const DEADLY: Lsn = Lsn(0x0186_1A28);

#[test]
fn start_dies_of_a_brin_insert_and_the_printed_command_cures_it() {
    // The command writes into the file that is there, so this is no copy of links.
    let temporary = tempfile::tempdir().unwrap();
    let data = temporary.path().join("the data");
    copy_tree(&data_dir("cases/brin").unwrap(), &data);
    let checked = check(&data);
    let on_start = &checked.summary["on_start"];
    assert_eq!(on_start["start"], "stops", "{on_start}");
    assert_eq!(on_start["stops_at"].as_str().unwrap().parse::<Lsn>().unwrap(), DEADLY);
    assert_eq!(checked.page(DROPPED_INDEX).unwrap()["on_start"]["record"], "BRIN/INSERT");
    assert_eq!((checked.pages.len(), checked.ran.status), (1, 1));

    let text = dwbinspect(&["check", "--width", "100", arg(&data)]).stdout;
    assert!(text.contains("the server will NOT start"), "{text}");
    assert!(!text.contains("can be started"), "{text}");
    let commands: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("printf ")).collect();
    assert_eq!(commands.len(), 1, "{text}");
    assert!(Command::new("sh").args(["-c", commands[0]]).status().unwrap().success());
    let mended = check(&data);
    assert_eq!(
        (mended.pages.len(), &mended.summary["on_start"]["start"]),
        (0, &"completes".into()),
        "{:#?}",
        mended.pages
    );
}
