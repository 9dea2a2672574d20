//! The screen, `check` and the plan say the same to do next, and a repair accepts the commands that they name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::screen::{Driven, FINE, SMALL};
use crate::common::{DWB_CASES, Ran, arg, copy_of, dwbinspect, edit_control, unpack};
use pgforensics::repair::blocker::Overrides;
use pgforensics::tui::backend::cluster::ClusterBackend;
use pgforensics::tui::checklist::tasks;
use pgforensics::tui::command_line::command_line;

/// Puts a cluster into a state.
type MakeState = fn(&Path);

/// States of a cluster that forbid a repair unless it is told that they are known, or as they are.
fn make_shut_down(data: &Path) {
    // State 1 at byte 16.
    edit_control(data, 16, &1_u32.to_le_bytes());
}

fn make_standby(data: &Path) {
    fs::write(data.join("standby.signal"), "").expect("write");
}

fn make_base_backup(data: &Path) {
    let label = "START WAL LOCATION: 0/7FB918 (file 000000010000000000000000)\nCHECKPOINT LOCATION: 0/7FB918\n";
    fs::write(data.join("backup_label"), label).expect("write");
}

/// Words of a command, without the program, for the cluster instead of its copy. Paths of these tests hold no blanks.
fn words<'a>(command: &'a str, data: &'a Path) -> Vec<&'a str> {
    let words: Vec<&str> = command.split(' ').map(|word| if word == "COPY" { arg(data) } else { word }).collect();
    assert_eq!(words[0], "pg_dwbinspect", "{command}");
    words[1..].to_vec()
}

fn is_accepted(repair: &Ran) -> bool {
    assert!(!repair.stdout.is_empty(), "{}", repair.stderr);
    repair.of_type("summary")[0]["blockers"].as_array().expect("blockers").is_empty()
}

/// Compares all that is said of a cluster; the number of commands that repair something.
fn compare(name: &str, data: &Path) -> usize {
    let checked = dwbinspect(&["check", "--format", "ndjson", arg(data)]);
    let summary = checked.of_type("summary").remove(0);
    let mut screen = Driven::open(data, FINE, SMALL);
    let own = tasks(&screen.state);
    let mut repairs = 0;
    for step in summary["next"].as_array().expect("steps") {
        let sentence = step["sentence"].as_str().expect("sentence");
        let is_same = |own: &str| sentence.starts_with(own.trim_end_matches('.'));
        assert!(own.iter().any(|task| is_same(&task.sentence)), "{name}: {sentence}\n{own:?}");
        let is_refused = sentence.contains("Repair is refused");
        for command in step["commands"].as_array().expect("commands").iter().filter_map(|command| command.as_str()) {
            let mut words = if command.contains(" repair ") { words(command, data) } else { continue };
            repairs += 1;
            assert!(!is_refused || !words.contains(&"--apply"), "{name}: {command}");
            words.retain(|word| *word != "--apply" && *word != "--rebuild");
            let planned = dwbinspect(&[&words[..], &["--format", "ndjson"]].concat());
            assert_eq!(is_accepted(&planned), !is_refused, "{name}: {command}\n{}", planned.stdout);
            for flag in words.iter().filter(|word| word.starts_with("--allow")) {
                assert!(own.iter().any(|task| task.sentence.contains(flag)), "{name}: {flag} is explained: {own:?}");
            }
        }
    }
    // The plan of the screen: what forbids it is what its command overrides, and it is accepted so.
    screen.keys(&["6"]);
    let sheet = screen.state.plan.sheet.clone().expect("plan");
    let command = command_line(&screen.state);
    for blocker in &sheet.blockers {
        assert!(blocker.flag.is_none_or(|flag| command.contains(flag)), "{name}: {command}");
    }
    let planned = dwbinspect(&[&words(&command, data)[..], &["--format", "ndjson"]].concat());
    let can_be = sheet.blockers.iter().all(|blocker| blocker.flag.is_some());
    assert_eq!(is_accepted(&planned), can_be, "{name}: {command}");
    if sheet.blockers.is_empty() {
        return repairs;
    }
    let every = Overrides { shut_down: true, standby: true, other_user: true, ..Overrides::default() };
    let told_all = Driven::on(ClusterBackend::new(data, &[], &[], None, 2).overriding(every), FINE, SMALL);
    let mut told_all = told_all.begun();
    told_all.keys(&["6"]);
    let blockers = &told_all.state.plan.sheet.as_ref().expect("plan").blockers;
    assert_eq!(blockers.is_empty(), can_be, "{name}: {blockers:?}");
    let asked = tasks(&told_all.state).into_iter().find(|task| task.sentence.contains("Repair needs"));
    assert_eq!(asked, None, "{name}: the flags were given");
    repairs
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_cluster() {
    let mut repairs = 0;
    for case in DWB_CASES {
        repairs += compare(case, &common::cluster(case));
    }
    for case in ["brin", "map-leave", "nochecksums-mixed", "nochecksums-stops", "stale-tail", "standby-fresh"] {
        let data: PathBuf = unpack::unpack(&format!("cases/{case}")).expect("fixture").join(case);
        repairs += compare(case, &data);
    }
    assert!(repairs > 8, "{repairs}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn states_that_a_repair_refuses() {
    let states: [(&str, MakeState); 3] =
        [("shut down", make_shut_down), ("standby", make_standby), ("base backup", make_base_backup)];
    for case in ["checkpoint", "nochecksums"] {
        for (name, make) in states {
            let (_kept, data) = copy_of(case);
            make(&data);
            compare(&format!("{case}, {name}"), &data);
        }
    }
    // Stopped in order, and damaged since: proven images, and a flag without which none is put back.
    let (_kept, data) = copy_of("clean");
    let file = data.join("base/5/16399");
    let mut bytes = fs::read(&file).expect("read");
    bytes[1070 * 8192 + 6000..][..6].copy_from_slice(b"damage");
    fs::write(&file, &bytes).expect("write");
    assert_eq!(compare("clean, damaged", &data), 2);
    let screen = Driven::open(&data, FINE, (80, 40));
    let picture = screen.picture();
    assert!(picture.contains("--allow-shut-down") && !picture.contains("every page"), "{picture}");
}
