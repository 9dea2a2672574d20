//! What a start of the server will do, on clusters where a server was seen to do it.

use std::process::Command;

use crate::common::edit::{ClusterCopy, Key};
use crate::common::truth::{check, check_with};
use crate::common::unpack::data_dir;
use crate::common::{arg, copy_tree, dwbinspect};
use pgforensics::types::Lsn;

/// The BRIN index of the cluster `brin`, dropped before the crash.
const DROPPED_INDEX: Key = Key::main(16_389, 2);

/// Where the server of the cluster `brin` dies: the first BRIN `INSERT` that `pg_waldump` shows for that page.
const DEADLY: Lsn = Lsn(0x0186_1A28);

#[test]
fn start_dies_of_a_brin_insert_and_the_printed_command_cures_it() {
    // The command writes into the file that is there, so this is not a copy of links.
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
    assert!(text.starts_with("WILL NOT START "), "{text}");
    assert!(!text.contains("pg_ctl start"), "{text}");
    let commands: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("printf ")).collect();
    assert_eq!(commands.len(), 1, "{text}");
    assert!(Command::new("sh").args(["-c", commands[0]]).status().unwrap().success());
    let mended = check_with(&data, &[]);
    assert_eq!(
        (mended.pages.len(), &mended.summary["on_start"]["start"]),
        (0, &"completes".into()),
        "{:#?}",
        mended.pages
    );
}

/// The torn visibility map page of the cluster `map-leave`.
const TORN_MAP: Key = Key { fork: 2, ..Key::main(16_398, 0) };

#[test]
fn damaged_map_page_is_foretold_in_one_voice_and_can_be_blanked_and_brought_back() {
    let copy = ClusterCopy::of_archive("cases/map-leave");
    let torn = copy.page(TORN_MAP);
    // Parts the file from the original, which repair will write to in place.
    copy.set_page(TORN_MAP, &torn);
    let checked = check_with(copy.data(), &[]);
    let row = checked.page(TORN_MAP).unwrap();
    assert_eq!((&row["verdict"], &row["on_start"]["what"]), (&"leave".into(), &"taken_for_empty".into()), "{row}");
    let on_start = &checked.summary["on_start"];
    assert_eq!(
        (&on_start["start"], &on_start["maps_damaged"], &on_start["stay_damaged"]),
        (&"completes".into(), &1.into(), &0.into())
    );
    let text = dwbinspect(&["check", "--explain", "--width", "400", arg(copy.data())]).stdout;
    assert!(text.contains("base backups fail") && text.contains("--blank-maps"), "{text}");
    assert!(!text.contains("wrong rows") && !text.contains("Nothing to repair"), "{text}");

    // Not without the flag.
    let journal = copy.beside("journal");
    let repair = |more: &[&str]| {
        dwbinspect(&[&["repair", arg(copy.data()), "--apply", "--journal", arg(&journal)], more].concat())
    };
    repair(&[]);
    assert_eq!(copy.page(TORN_MAP), torn);
    assert!(!journal.exists());

    let saved = copy.beside("plan.json");
    let planned = dwbinspect(&["repair", arg(copy.data()), "--blank-maps", "--plan", arg(&saved)]);
    assert!(planned.stdout.contains("a zero-filled page"), "{}{}", planned.stdout, planned.stderr);
    let refused = repair(&["--plan", arg(&saved)]);
    assert!(refused.status == 2 && refused.stderr.contains("--blank-maps"), "{}", refused.stderr);
    assert_eq!(copy.page(TORN_MAP), torn);
    let done = repair(&["--plan", arg(&saved), "--blank-maps"]);
    assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
    assert!(copy.page(TORN_MAP).iter().all(|byte| *byte == 0));
    let mended = check_with(copy.data(), &[]);
    assert_eq!((mended.pages.len(), mended.ran.status), (0, 0), "{:#?}", mended.pages);

    let undone = dwbinspect(&["undo", arg(copy.data()), arg(&journal)]);
    assert_eq!(undone.status, 0, "{}{}", undone.stdout, undone.stderr);
    assert_eq!(copy.page(TORN_MAP), torn);
}
