//! What a DBA reads first, and the order of the steps, on clusters whose servers showed what is right.

use serde_json::Value;

use crate::common::truth::check_with;
use crate::common::unpack::{data_dir, unpack};
use crate::common::{arg, dwbinspect};

/// Codes of the steps, and all of each.
fn steps(data: &std::path::Path) -> Vec<(String, Value)> {
    let summary = check_with(data, &[]).summary;
    let steps = summary["next"].as_array().unwrap().clone();
    steps.into_iter().map(|step| (step["step"].as_str().unwrap().to_owned(), step)).collect()
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const CHANGES: [&str; 6] =
    ["repair", "rebuild_pages", "make_stand_ins", "decide", "blank_maps", "blank_maps_of_replay"];

#[test]
fn every_change_is_followed_by_another_check() {
    for case in ["cases/stale-tail", "cases/standby-fresh", "cases/map-leave", "cases/brin", "field/pg18.6_vm_clear"] {
        let data = data_dir(case).unwrap();
        let steps = steps(&data);
        let place = |code: &str| steps.iter().position(|(found, _)| found == code);
        let last = CHANGES.iter().filter_map(|code| place(code)).max();
        let (Some(last), Some(again)) = (last, place("check_again")) else { panic!("{case}: {steps:#?}") };
        assert!(last < again, "{case}: {steps:#?}");
        let (_, again) = &steps[again];
        assert!(again["what"].as_str().unwrap().contains("only if the answer is WILL START"), "{again}");
        // What is written into a copy is checked there.
        let is_copied = steps.iter().any(|(code, _)| code == "decide");
        let checked = if is_copied { "COPY" } else { arg(&data) };
        assert_eq!(again["commands"][0], format!("pg_dwbinspect check {checked}"));
    }
}

#[test]
fn new_copy_of_a_primary_comes_before_a_repair_of_its_standby() {
    for data in [data_dir("cases/standby-fresh").unwrap(), data_dir("dwb-b/standby").unwrap()] {
        let told = steps(&data);
        let place = |code: &str| told.iter().position(|(found, _)| found == code).unwrap();
        assert!(place("copy_primary") < place("repair"), "{told:#?}");
        let text = flat(&dwbinspect(&["check", arg(&data)]).stdout);
        assert!(text.contains("Leave signal files in place"), "{text}");
        assert!(!text.contains("remove it"), "without the file the server becomes a primary: {text}");
        assert_eq!(text.matches("Repair needs --allow-standby").count(), 1, "{text}");
    }
}

#[test]
fn silent_corruption_and_backups_are_told_where_they_are_true() {
    for data in [data_dir("dwb/nochecksums").unwrap(), data_dir("cases/nochecksums-stops").unwrap()] {
        let text = flat(&dwbinspect(&["check", arg(&data)]).stdout);
        assert!(text.contains("if recovery does not stop, the server starts and these pages stay corrupt"), "{text}");
        assert!(!text.contains("base backups fail"), "nothing checks pages without checksums: {text}");
        let verified = dwbinspect(&["verify", arg(&data)]);
        assert!(verified.stdout.starts_with("DAMAGED   at least "), "{}", verified.stdout);
        assert_eq!(verified.status, 1, "{}", verified.stdout);
    }
    let text = flat(&dwbinspect(&["check", arg(&data_dir("cases/map-leave").unwrap())]).stdout);
    assert!(text.contains("base backups fail"), "{text}");
}

#[test]
fn unproven_images_are_restored_in_the_copy_only() {
    let data = data_dir("cases/stale-tail").unwrap();
    let told = steps(&data);
    let step = |code: &str| &told.iter().find(|(found, _)| found == code).unwrap().1;
    assert_eq!(told[0].0, "copy_first");
    let commands = step("decide")["commands"].as_array().unwrap();
    let repairs: Vec<&str> =
        commands.iter().filter_map(Value::as_str).filter(|command| command.contains(" repair ")).collect();
    assert!(repairs.len() == 2 && repairs.iter().all(|command| command.contains(" repair COPY ")), "{commands:?}");
    let start = told.iter().position(|(code, _)| code == "get_past").unwrap() + 1;
    for code in ["salvage_table", "salvage_toast"] {
        let why = step(code)["why"].as_str().unwrap();
        assert!(why.contains(&format!("psql only after step {start}.")), "{why}");
    }
    let system = step("reindex_system");
    assert!(system["commands"][0].as_str().unwrap().contains(" -D COPY "), "{system}");
    // What stands in the way is named, not listed.
    assert!(flat(step("get_past")["why"].as_str().unwrap()).len() < 160);
}

#[test]
fn plan_says_what_stays_damaged_and_what_to_do_then() {
    let clean = dwbinspect(&["repair", arg(&data_dir("dwb/clean").unwrap())]).stdout;
    assert!(clean.starts_with("NOTHING TO WRITE\n") && !clean.contains("blocked"), "{clean}");
    assert!(!clean.contains("What to do"), "{clean}");
    let data = data_dir("cases/stale-tail").unwrap();
    let plan = dwbinspect(&["repair", arg(&data)]).stdout;
    let (_, steps) = plan.split_once("\nWhat to do\n").unwrap();
    let lines: Vec<&str> = steps.lines().map(str::trim).collect();
    let place = |start: &str| lines.iter().position(|line| line.starts_with(start));
    let copy = place("cp -a ").unwrap();
    let apply = lines.iter().position(|line| line.ends_with(" --apply")).unwrap();
    let again = place(&format!("pg_dwbinspect check {}", arg(&data))).unwrap();
    assert!(copy < apply && apply < again, "{steps}");
    // Without an image 37, and one that is not proven.
    assert!(flat(steps).contains("38 pages that stay damaged"), "{steps}");
}

/// The server, of these: the index has a page of its table, VACUUM fails, an index-only scan counts deleted rows; the
/// content of an encrypted relation is not known.
#[test]
fn problem_besides_damaged_pages_is_in_the_first_lines() {
    for (case, answer) in [
        ("misplaced_write_other_kind", "WILL START, DAMAGE REMAINS\n    1 problem remains after startup"),
        ("heap_tuple_multixact_future", "WILL START, DAMAGE REMAINS\n    1 problem remains after startup"),
        ("older_visibility_map_after_crash", "WILL START, DAMAGE REMAINS\n    14 problems remain after startup"),
        ("pg_tde_encrypted_relation", "UNKNOWN "),
        ("standby_forked_history_in_pg_wal", "WILL NOT START   the files do not belong together"),
    ] {
        let data = unpack(&format!("field/{case}")).unwrap().join("data");
        let text = dwbinspect(&["check", "--width", "80", arg(&data)]).stdout;
        assert!(text.starts_with(answer), "{case}\n{text}");
        assert!(!text.contains(&format!("pg_ctl start -D {}", arg(&data))), "{case}\n{text}");
    }
    let data = unpack("field/misplaced_write_other_kind").unwrap().join("data");
    let plan = dwbinspect(&["repair", arg(&data)]);
    assert_eq!(plan.status, 1);
    assert!(plan.stdout.contains(&format!("pg_dwbinspect check {}", arg(&data))), "{}", plan.stdout);
}

/// Only names and catalogs are in this fixture: most files of the server are missing.
#[test]
fn finding_about_a_file_names_it_once() {
    let data = data_dir("names/pg18").unwrap();
    let checked = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
    let missing = checked.of_type("finding").into_iter().filter(|found| found["kind"] == "server_directory");
    let told: Vec<(Value, Value)> = missing.map(|found| (found["file"].clone(), found["what"].clone())).collect();
    assert!(told.contains(&("pg_notify".into(), "missing".into())), "{told:?}");
    assert!(told.iter().all(|(_, what)| !what.as_str().unwrap().contains(arg(&data))), "{told:?}");
}

/// The server repaired all of these pages by itself.
#[test]
fn repair_that_startup_would_do_as_well_does_not_forbid_it() {
    let text = dwbinspect(&["check", arg(&data_dir("dwb-b/torn").unwrap())]).stdout;
    assert!(text.starts_with("WILL START   ") && text.contains("Startup would restore them"), "{text}");
    assert!(!text.contains("Do not start"), "{text}");
}

#[test]
fn answer_about_innodb_is_short_and_comes_first() {
    for (case, answer) in [
        ("innodb/mysql97", "DAMAGED "),
        ("innodb/mariadb1011", "DAMAGED "),
        ("innodb/mysql56", "DAMAGED "),
        ("field/mariadb-newer-than-log", "AT RISK   43 of 1235 pages are intact but newer than the redo log\n"),
    ] {
        let data = data_dir(case).unwrap();
        let text = dwbinspect(&["innodb", "check", "--width", "80", arg(&data)]).stdout;
        assert!(text.starts_with(answer), "{text}");
        assert!(text.lines().count() <= 42, "{case}: {} lines\n{text}", text.lines().count());
    }
}

#[test]
fn copy_that_the_first_step_makes_shares_no_file_with_the_original() {
    let data = data_dir("salvage/15-heap").unwrap();
    let told = steps(&data);
    assert_eq!(told[0].0, "copy_first");
    let place = tempfile::tempdir().unwrap();
    for command in told[0].1["commands"].as_array().unwrap() {
        let ran = std::process::Command::new("sh")
            .args(["-c", command.as_str().unwrap()])
            .current_dir(place.path())
            .status()
            .unwrap();
        assert!(ran.success(), "{command}");
    }
    let link = place.path().join("COPY/pg_tblspc/16384");
    let (own, theirs) = (link.canonicalize().unwrap(), data.join("pg_tblspc/16384").canonicalize().unwrap());
    assert!(own.starts_with(place.path().canonicalize().unwrap()), "{}", own.display());
    let names = |path: &std::path::Path| -> std::collections::BTreeSet<_> {
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert!(!names(&own).is_empty() && names(&own) == names(&theirs));
    // What is written later is written there.
    for (code, step) in &told[1..] {
        for command in step["commands"].as_array().unwrap().iter().filter_map(Value::as_str) {
            let writes = command.contains(" repair ") || command.contains("pg_ctl") || command.contains("pg_resetwal");
            assert!(!writes || command.contains(" COPY"), "{code}: {command}");
        }
    }
}
