//! Pictures of every view, from real crashed clusters, and what must hold for all of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common::screen;
use crate::common::screen::{Driven, LARGE, SMALL, draw, short_paths, text_of};
use crate::common::{DWB_CASES, arg, cluster, dwbinspect};
use pgforensics::analysis::skipped::{SkipReason, SkippedPart};
use pgforensics::analysis::start::cluster_condition::ClusterCondition;
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::inspect::check::{CheckRequest, check};
use pgforensics::output::check_text::{EvidencePart, evidence_parts};
use pgforensics::tui::action::Action;
use pgforensics::tui::checklist::tasks;
use pgforensics::tui::export::json_text;
use pgforensics::tui::facts::{Progress, Survey};
use pgforensics::tui::look::{Colours, Look, Theme};
use pgforensics::tui::view::start_words;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// Views and the keys that lead to them from the triage of a crash.
const WALK: [(&str, &[&str]); 12] = [
    ("triage", &[]),
    ("batches", &["2"]),
    ("slots", &["3", "n"]),
    ("page_verdict", &["1", "j", "enter"]),
    ("page_rows", &["p", "]"]),
    ("page_bytes", &["p", "n"]),
    ("page_header", &["p"]),
    ("page_records", &["p"]),
    ("wal", &["5", "j", "j"]),
    ("plan", &["6"]),
    ("findings", &["1", "F", "j"]),
    ("help", &["?"]),
];

/// Compares a picture with the one that was approved. Whether some process has the number of the one that crashed, and
/// what the sentence about it says, differs from machine to machine.
fn assert_picture(name: String, screen: &Driven) {
    let filters = [("postmaster.pid: names process .*", "postmaster.pid: names process […]")];
    insta::with_settings!({filters => filters}, { insta::assert_snapshot!(name, screen.picture()) });
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_view_of_a_crash() {
    let sizes =
        [((60, 16), "60x16"), (SMALL, "80x24"), ((120, 40), "120x40"), (LARGE, "140x45"), ((200, 60), "200x60")];
    for (size, word) in sizes {
        let mut screen = Driven::of("checkpoint", size);
        for (name, keys) in WALK {
            screen.keys(keys);
            assert_picture(format!("{name}_{word}"), &screen);
        }
    }
}

/// How a cell looks, in words.
fn style_of(cell: &Cell) -> String {
    let mut style: Vec<String> = Vec::new();
    if cell.fg != Color::Reset {
        style.push(format!("{:?}", cell.fg));
    }
    if cell.bg != Color::Reset {
        style.push(format!("on {:?}", cell.bg));
    }
    style.extend(cell.modifier.iter_names().map(|(name, _)| name.to_lowercase()));
    style.join(" ")
}

/// A picture with the names of its colours: each run of cells that look alike after how they look on dark, then what each of
/// these looks is on light.
pub fn painted(dark: &Buffer, light: &Buffer) -> String {
    let width = usize::from(dark.area.width);
    let mut text = String::new();
    for row in dark.content.chunks(width) {
        let mut line = String::new();
        let mut last = String::new();
        for cell in row {
            let style = style_of(cell);
            if style != last {
                line.push_str(&format!("<{style}>"));
                last = style;
            }
            line.push_str(cell.symbol());
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let both: BTreeSet<(String, String)> =
        dark.content.iter().zip(&light.content).map(|(dark, light)| (style_of(dark), style_of(light))).collect();
    text.push_str("on dark: on light\n");
    both.iter().for_each(|(dark, light)| text.push_str(&format!("<{dark}>: <{light}>\n")));
    text
}

/// Colours that cannot be read on white, or on black.
pub fn is_lost(theme: Theme, cell: &Cell) -> bool {
    match theme {
        Theme::Light => matches!(
            cell.fg,
            Color::Yellow
                | Color::LightYellow
                | Color::White
                | Color::Gray
                | Color::Cyan
                | Color::LightCyan
                | Color::LightGreen
                | Color::LightBlue
                | Color::LightMagenta
        ),
        Theme::Dark => matches!(cell.fg, Color::Black | Color::Blue | Color::DarkGray),
    }
}

/// The same in guided mode.
const GUIDED: [(&str, &[&str]); 3] =
    [("guided_triage", &["?", "1", "home", "W"]), ("guided_page", &["j", "enter"]), ("guided_plan", &["6"])];

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn colours_of_every_view_on_dark_and_light() {
    short_paths();
    for (size, word) in [((60, 16), "60x16"), (SMALL, "80x24"), ((120, 40), "120x40"), ((200, 60), "200x60")] {
        let look = |theme| Look { theme, ..screen::FINE };
        let mut dark = Driven::open(Path::new("checkpoint"), look(Theme::Dark), size);
        let mut light = dark.again(dark.state.clone());
        light.state.look = look(Theme::Light);
        for (name, keys) in WALK.into_iter().chain(GUIDED) {
            let (dark, light) = (dark.keys(keys).buffer(), light.keys(keys).buffer());
            for (buffer, theme) in [(&dark, Theme::Dark), (&light, Theme::Light)] {
                assert_eq!(buffer.content.iter().find(|cell| is_lost(theme, cell)), None, "{name} {word} {theme:?}");
            }
            assert_eq!(text_of(&dark), text_of(&light), "{name} {word}: the same words");
            let filters = [("postmaster.pid: names process .*", "postmaster.pid: names process […]")];
            insta::with_settings!({filters => filters}, {
                insta::assert_snapshot!(format!("colours_{name}_{word}"), painted(&dark, &light));
            });
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn triage_and_batches_of_every_cluster() {
    for case in DWB_CASES {
        let mut screen = Driven::of(case, SMALL);
        assert_picture(format!("triage_of_{case}"), &screen);
        assert_picture(format!("batches_of_{case}"), screen.keys(&["2"]));
    }
}

#[test]
fn first_picture_is_there_before_any_work() {
    short_paths();
    let mut screen = Driven::before(Path::new("checkpoint"), screen::FINE, SMALL);
    assert!(screen.picture().contains("The cluster is being read"), "{}", screen.picture());
    screen.state.cluster.is_reading = true;
    let progress = Progress { what: "checking every page", done: 1 << 20, total: 4 << 20, ..Progress::default() };
    screen.act(Action::Progressed(progress));
    screen.act(Action::Opened(ClusterCondition::ShutDown));
    let picture = screen.picture();
    assert!(picture.contains("25% 1.0M of 4.0M") && picture.contains("state       shut down cleanly"), "{picture}");
    for view in ["2", "3", "4", "5", "6", "?"] {
        assert!(!screen.keys(&[view]).picture().is_empty());
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn counts_and_words_are_those_of_check() {
    short_paths();
    for case in DWB_CASES {
        let check = dwbinspect(&["check", case, "--format", "ndjson"]);
        let summary = &check.of_type("summary")[0];
        let screen = Driven::of(case, LARGE);
        let survey = screen.state.cluster.survey.clone().expect("survey");
        assert_eq!(survey.pages().len() as u64, summary["damaged_pages"], "{case}");
        for verdict in Verdict::ALL {
            let count = survey.pages().iter().filter(|page| page.verdict.verdict == verdict).count() as u64;
            assert_eq!(count, summary["verdicts"][verdict.name()], "{case} {}", verdict.name());
            let shown = screen.picture().lines().any(|line| {
                let rest = line.strip_prefix(verdict.facts().label);
                rest.and_then(|rest| rest.split_whitespace().next()) == Some(&*count.to_string())
            });
            assert_eq!(shown, count > 0, "{case} {}: {}", verdict.name(), screen.picture());
        }
        assert_eq!(i32::from(survey.answer.status()), check.status, "{case}");
        assert_eq!(survey.examined.coverage.skipped.len() as u64, summary["skipped"], "{case}");
        let text = dwbinspect(&["check", case, "--width", "1200"]).stdout;
        let state = survey.examined.state.to_string();
        assert!(text.contains(&state), "{case}: {state}\n{text}");
        // The screen has on one line what the command begins with.
        let screen_words = start_words(&survey);
        let (badge, sentences) = screen_words.split_once(": ").expect("badge and sentences");
        let head = text.split("\n\n").next().expect("a headline").replace("\n", " ");
        let flat = |text: &str| text.replace("; ", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat(&head).starts_with(&flat(&format!("{badge} {sentences}"))), "{case}: {screen_words}\n{text}");
        for step in summary["next"].as_array().expect("steps") {
            let sentence = step["sentence"].as_str().expect("sentence");
            assert!(text.contains(sentence), "{case}: {sentence}\n{text}");
            let is_same = |own: &str| sentence.starts_with(own.trim_end_matches('.'));
            assert!(tasks(&screen.state).iter().any(|task| is_same(&task.sentence)), "{case}: {sentence}");
        }
        // What is exported is what the command prints.
        let exported: serde_json::Value = serde_json::from_str(&json_text(&screen.state)).expect("JSON");
        let printed: serde_json::Value =
            serde_json::from_str(&dwbinspect(&["check", case, "--format", "json"]).stdout).expect("JSON");
        assert_eq!(exported, printed, "{case}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn batches_of_the_screen_are_those_of_the_command() {
    short_paths();
    for case in DWB_CASES {
        let listed = dwbinspect(&["batches", case, "--format", "ndjson"]).of_type("batch");
        let survey = Driven::of(case, SMALL).state.cluster.survey.expect("survey");
        assert_eq!(survey.batches.len(), listed.len(), "{case}");
        for (batch, listed) in survey.batches.iter().zip(&listed) {
            let held = survey.slots().iter().filter(|row| batch.holds(row)).count() as u64;
            assert_eq!(held, listed["slots"], "{case}: every slot of a batch is found in the strip");
        }
    }
}

#[test]
fn nothing_is_said_by_colour_alone() {
    short_paths();
    let plain = Look { colours: Colours::None, ascii: true, ..screen::FINE };
    let mut screen = Driven::open(Path::new("checkpoint"), plain, SMALL);
    let mut coloured = Driven::of("checkpoint", SMALL);
    let mut colours = 0;
    for (name, keys) in WALK {
        let buffer = screen.keys(keys).buffer();
        assert!(text_of(&buffer).is_ascii(), "{name}: {}", text_of(&buffer));
        assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset), "{name}");
        let buffer = coloured.keys(keys).buffer();
        let sixteen = |colour: Color| !matches!(colour, Color::Rgb(..) | Color::Indexed(_));
        assert!(buffer.content.iter().all(|cell| sixteen(cell.fg) && sixteen(cell.bg)), "{name}");
        // What is drawn as a share of its cell would show the opposite.
        let is_share = |cell: &Cell| matches!(cell.symbol(), "█" | "░" | "▁" | "▂" | "▃" | "▄" | "▅" | "▆" | "▇");
        let is_turned = |cell: &&Cell| is_share(cell) && cell.modifier.contains(Modifier::REVERSED);
        assert_eq!(buffer.content.iter().find(is_turned), None, "{name}");
        colours += buffer.content.iter().filter(|cell| cell.fg != Color::Reset).count();
    }
    assert!(colours > 100, "there are colours where they are wanted");
}

#[test]
fn any_size_can_be_drawn() {
    let mut screen = Driven::of("evict", SMALL);
    for (name, keys) in WALK {
        screen.keys(keys);
        for (columns, rows) in [(1, 1), (2, 50), (79, 23), (60, 16), (59, 16), (80, 5), (300, 100), (61, 17), (1, 40)] {
            screen.act(Action::Resize(columns, rows));
            let buffer = screen.buffer();
            assert_eq!((buffer.area.width, buffer.area.height), (columns, rows), "{name}");
            assert!(!text_of(&buffer).trim().is_empty(), "{name} {columns}x{rows}");
        }
    }
}

#[test]
fn names_from_disk_cannot_drive_the_terminal() {
    let mut screen = Driven::of("checkpoint", LARGE);
    let hostile = "a\u{1b}]52;c;AAAA\u{7}\u{9b}2J\u{202e}b\r\n";
    let survey = screen.state.cluster.survey.clone().expect("survey");
    let request = CheckRequest { jobs: 2, keep_slots: true, ..CheckRequest::of("checkpoint") };
    let mut examined = check(&request, &()).expect("examined");
    examined.state = ClusterCondition::MayBeRunning(hostile.to_owned());
    for file in &mut examined.source.set.files {
        hostile.clone_into(&mut file.name);
    }
    for finding in &mut examined.findings {
        finding.file = Some(hostile.to_owned());
    }
    examined.coverage.skip(SkippedPart::file(hostile), SkipReason::FileEmpty);
    let mut changed = Survey::of(Arc::new(examined));
    assert_eq!((changed.pages().len(), changed.slots().len()), (survey.pages().len(), survey.slots().len()));
    for name in changed.names.values_mut() {
        hostile.clone_into(name);
    }
    screen.state.subject.path = hostile.to_owned();
    screen.act(Action::Surveyed(Arc::new(changed)));
    screen.act(Action::Failed(hostile.to_owned()));
    for view in ["1", "2", "3", "5", "6"] {
        screen.keys(&[view]);
        let buffer = draw(&screen.state);
        // It is told, not swallowed: at least in the path or the message.
        assert!(text_of(&buffer).contains("\\u{1b}"), "view {view}: {}", text_of(&buffer));
        let is_harmful = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
        let harmful = buffer.content.iter().find(|cell| cell.symbol().chars().any(is_harmful));
        assert_eq!(harmful, None, "view {view}");
    }
}

#[test]
fn page_that_is_in_order_is_shown_as_page_shows_it() {
    let mut screen = Driven::of("evict", LARGE);
    let survey = screen.state.cluster.survey.clone().expect("survey");
    let sound = survey.slots().iter().position(|row| row.page.is_some_and(|page| survey.damaged(page).is_none()));
    screen.keys(&["3"]);
    screen.state.slots.selected = sound.expect("a slot of a page in order");
    screen.keys(&["enter"]);
    assert!(screen.picture().contains("nothing is wrong with it"), "{}", screen.picture());
    let sheet = screen.state.page.sheet.clone().expect("page");
    let page = sheet.report.page;
    let (file, block) = (sheet.examined.path_of(page), page.block.to_string());
    let printed = dwbinspect(&["page", arg(&cluster("evict")), &file, &block, "--width", "400"]).stdout;
    let parts = evidence_parts(&sheet.report);
    assert!(parts.len() > 3, "{parts:?}");
    for part in parts {
        let words = match part {
            EvidencePart::Fact(_, words) | EvidencePart::Image(words) | EvidencePart::Step(_, words) => words,
            EvidencePart::Verdict(verdict, _) => verdict.facts().label.to_owned(),
        };
        assert!(printed.contains(&words), "{words}\n{printed}");
    }
}
