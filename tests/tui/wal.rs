//! The WAL view: its windows have the figures of `stats`, and its levels lead down to single records and back.

use crate::common::screen;
use crate::common::screen::{Driven, FINE};
use crate::common::{arg, cluster, copy_of, run};
use pgforensics::analysis::wal::cause::Cause;
use pgforensics::output::record_text::type_words;
use pgforensics::tui::action::Action;
use pgforensics::tui::export::json_text;
use pgforensics::tui::facts::Progress;
use pgforensics::tui::look::{Colours, Look};
use pgforensics::tui::state::{State, View, WalLevel};
use serde_json::Value;

/// Fields of JSON that a tally has.
fn tally_of(row: &Value) -> [u64; 5] {
    ["records", "record_bytes", "fpi_count", "fpi_bytes", "fpi_raw_bytes"]
        .map(|field| row[field].as_u64().unwrap_or_else(|| panic!("{field} of {row}")))
}

fn figures(tally: &pgforensics::analysis::wal::tally::Tally) -> [u64; 5] {
    [tally.records, tally.record_bytes, tally.fpi_count, tally.fpi_bytes, tally.fpi_raw_bytes]
}

fn cell_count(state: &State) -> usize {
    state.wal.survey.as_ref().and_then(|wal| wal.timeline.as_ref()).map_or(0, |timeline| timeline.cells.len())
}

/// The window has what `stats --by relation` and `--by cause` say of its range.
fn assert_window(screen: &Driven, data: &str, what: &str) {
    let sheet = screen.state.wal.window.clone().expect("a window");
    let Some((start, end)) = sheet.window.range else { return };
    let (start, end) = (start.to_string(), end.to_string());
    let rows = |by: &str| {
        run("pg_walfpi", &["stats", data, "--by", by, "--start", &start, "--end", &end, "--format", "ndjson"])
    };
    let relations = rows("relation");
    let summary = relations.of_type("summary")[0].clone();
    assert_eq!(figures(&sheet.window.tally), tally_of(&summary), "{what}: {start} to {end}");
    let mut told: Vec<[u64; 5]> = relations.of_type("group").iter().map(tally_of).collect();
    let mut own: Vec<[u64; 5]> = sheet.window.relations.iter().map(|row| figures(&row.tally)).collect();
    told.sort_unstable();
    own.sort_unstable();
    assert_eq!(own, told, "{what}: {start} to {end}");
}

#[test]
fn windows_have_the_figures_of_stats() {
    for case in ["checkpoint", "evict"] {
        let data = cluster(case);
        let mut screen = Driven::open(&data, FINE, (120, 40));
        let stats = run("pg_walfpi", &["stats", arg(&data), "--format", "ndjson"]);
        let rows = stats.of_type("interval");
        assert!(rows.len() > 1, "{case}");
        screen.keys(&["5"]);
        for (index, row) in rows.iter().enumerate() {
            let sheet = screen.state.wal.window.clone().expect("a window");
            assert_eq!(figures(&sheet.window.tally), tally_of(row), "{case}: interval {index}");
            assert_eq!(screen.state.wal.selected, index);
            if index < 3 {
                assert_window(&screen, arg(&data), case);
            }
            screen.keys(&["down"]);
        }
        // Windows that are no interval.
        for keys in [&["home", "+", "+"][..], &["right"], &["right"], &["-", "-"], &["w"]] {
            assert_window(screen.keys(keys), arg(&data), case);
        }
        let sheet = screen.state.wal.window.clone().expect("a window");
        assert_eq!(figures(&sheet.window.tally), tally_of(&stats.of_type("summary")[0]), "{case}: all WAL");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn records_are_those_of_the_stretch_and_each_can_be_opened() {
    let data = cluster("checkpoint");
    let mut screen = Driven::open(&data, FINE, (200, 60));
    screen.keys(&["5", "w", "enter"]);
    let mut records = 0;
    for at in 0..cell_count(&screen.state) {
        screen.keys(&["enter"]);
        let list = screen.state.wal.list.clone().expect("a list");
        assert!(list.next.is_none() && !list.lines.is_empty());
        records += list.lines.len();
        assert!(list.lines.iter().all(|line| (line.images > 0) == line.cause.is_some()), "stretch {at}");
        // Beside the list, without another key.
        let Some(Ok(sheet)) = screen.state.wal.sheet.clone() else { panic!("stretch {at}: no record") };
        assert_eq!(sheet.start_lsn, list.lines[0].start_lsn);
        assert_eq!(sheet.bytes.len(), (sheet.header.tot_len as usize).min(64 << 10));
        let words = type_words(sheet.major, sheet.header.rmgr_id, sheet.header.info);
        assert!(screen.picture().contains(&words), "{words}\n{}", screen.picture());
        screen.keys(&["esc", "down"]);
    }
    let stats = run("pg_walfpi", &["stats", arg(&data), "--format", "ndjson"]);
    assert_eq!(records as u64, stats.of_type("summary")[0]["records"]);
}

#[test]
fn esc_comes_back_to_where_one_was() {
    let mut screen = Driven::open(&cluster("checkpoint"), FINE, (80, 24));
    screen.keys(&["5", "w", "enter", "down", "down"]);
    let stretches = screen.picture();
    screen.keys(&["enter", "down"]);
    let records = screen.picture();
    screen.keys(&["enter"]);
    assert_eq!(screen.state.wal.level, WalLevel::Record);
    let record = screen.picture();
    assert!(record.contains("block reference 0") && record.contains("main data"), "{record}");
    // The keys in the last line follow from what was looked at.
    let body = |picture: &str| picture.lines().take(22).map(str::to_owned).collect::<Vec<_>>();
    screen.keys(&["enter", "esc"]);
    assert_eq!(body(&screen.picture()), body(&record));
    assert_eq!(body(&screen.keys(&["esc"]).picture()), body(&records));
    assert_eq!(body(&screen.keys(&["esc"]).picture()), body(&stretches));
}

/// A byte in the middle of the records of the second stretch is turned over.
#[test]
fn damage_is_seen_on_the_timeline_and_in_the_list() {
    let (_temporary, data) = copy_of("checkpoint");
    let segment = data.join("pg_wal/000000010000000000000007");
    let mut bytes = std::fs::read(&segment).expect("segment");
    bytes[0x1_2000] ^= 0xFF;
    std::fs::write(&segment, bytes).expect("segment");
    let verify = run("pg_walfpi", &["verify", arg(&data), "--format", "ndjson"]);
    assert_ne!(verify.status, 0, "{}", verify.stdout);
    let mut screen = Driven::open(&data, FINE, (120, 40));
    screen.keys(&["5"]);
    let picture = screen.picture();
    let marks = picture.lines().find(|line| line.starts_with('^') || line.contains("───")).expect("marks").to_owned();
    assert!(marks.contains('!') && picture.contains("! damage"), "{picture}");
    screen.keys(&["w", "enter", "end"]);
    assert!(screen.picture().contains("! "), "{}", screen.picture());
    screen.keys(&["enter"]);
    let list = screen.state.wal.list.clone().expect("a list");
    let stopped = list.stopped.as_ref().expect("an end").to_string();
    assert!(stopped.contains("0/0071"), "{stopped}");
    assert!(screen.picture().contains("WAL ends at 0/0071"), "{}", screen.picture());
}

#[test]
fn nothing_but_ascii_where_that_is_wanted() {
    let look = Look { colours: Colours::None, ascii: true, ..FINE };
    let mut screen = Driven::open(&cluster("checkpoint"), look, (120, 40));
    for keys in [&["5"][..], &["down"], &["enter"], &["enter"], &["enter"]] {
        let picture = screen.keys(keys).picture();
        assert!(picture.is_ascii(), "{picture}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_level_at_every_size() {
    for (size, word) in [((60, 16), "60x16"), ((80, 24), "80x24"), ((120, 40), "120x40"), ((200, 60), "200x60")] {
        screen::short_paths();
        let mut screen = Driven::of("checkpoint", size);
        screen.keys(&["5"]);
        for (level, keys) in
            [("window", &["end", "up"][..]), ("stretches", &["enter"]), ("records", &["enter"]), ("record", &["enter"])]
        {
            screen.keys(keys);
            insta::assert_snapshot!(format!("{level}_{word}"), screen.picture());
        }
    }
}

/// People read why an image was written; programs get its code.
#[test]
fn causes_are_words_on_the_screen_and_codes_in_json() {
    let mut screen = Driven::open(&cluster("checkpoint"), FINE, (200, 60));
    screen.keys(&["5", "w"]);
    let json: Value = serde_json::from_str(&json_text(&screen.state)).expect("json");
    let codes: Vec<&str> = Cause::all().map(Cause::name).chain(["(no image)"]).collect();
    let causes = json["shown"]["causes"].as_array().expect("causes");
    assert!(causes.len() > 3 && causes.iter().all(|row| codes.contains(&row["name"].as_str().expect("a name"))));
    assert!(screen.picture().contains("hint bits only"), "{}", screen.picture());
    for _ in 0..4 {
        let picture = screen.picture();
        let code = codes.iter().find(|code| code.contains('_') && picture.contains(*code));
        assert_eq!(code, None, "{picture}");
        screen.keys(&["enter"]);
    }
}

/// While WAL is read there is one bar, whichever view is open.
#[test]
fn progress_has_one_bar() {
    let mut screen = Driven::before(&cluster("checkpoint"), FINE, (80, 24));
    let progress = Progress { what: "reading WAL", done: 10, total: 100, ..Progress::default() };
    screen.act(Action::WalProgressed(progress));
    for view in [View::Triage, View::Wal] {
        screen.state.view = view;
        let picture = screen.picture();
        assert_eq!(picture.matches("reading WAL ").count(), 1, "{view:?}\n{picture}");
    }
}
