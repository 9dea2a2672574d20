//! What a stranger needs first: the badge, the next step with its key, the page that an error message names, and more with
//! more room.

use std::path::Path;
use std::sync::Arc;

use crate::common::screen::{Driven, FINE, LARGE, SMALL, draw, short_paths, text_of};
use crate::common::{arg, copy_of, dwbinspect, unpack};
use pgforensics::analysis::pages::page_rows::RowFate;
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::output::start_words::StartWords;
use pgforensics::tui::action::{Action, Effect};
use pgforensics::tui::checklist::tasks;
use pgforensics::tui::keymap::action_of;
use pgforensics::tui::look::{Colours, Look};
use pgforensics::tui::state::{Scale, State, View};
use pgforensics::tui::update::update;
use ratatui::style::Color;
use serde_json::json;

#[test]
fn badge_and_next_key_are_on_the_first_screen_of_every_size() {
    for (case, badge) in [("checkpoint", "WILL NOT START"), ("wrapped", "MAY NOT START"), ("clean", "WILL START")] {
        let mut screen = Driven::of(case, SMALL);
        let survey = screen.state.cluster.survey.clone().expect("survey");
        let report = &survey.examined.report;
        let said = StartWords::of(&report.replay, &report.outlook, &report.pages, &|page| survey.examined.called(page));
        assert_eq!(said.badge.label(), badge, "{case}");
        for size in [(60, 16), SMALL, LARGE, (200, 60)] {
            screen.state.size = size;
            let picture = screen.picture();
            let line = picture.lines().nth(1).expect("a second line");
            assert!(line.starts_with(&format!(" {badge} ")), "{case} {size:?}\n{picture}");
            assert!(!picture.contains("printed by"), "{case} {size:?}\n{picture}");
            if case != "clean" {
                assert!(
                    picture.contains("[6] review the plan") && picture.contains("[N]"),
                    "{case} {size:?}\n{picture}"
                );
            }
        }
    }
}

/// Two keys lead from the first screen to the proof of the worst page and to the repair, and no code is on the way.
#[test]
fn two_keys_lead_to_the_worst_page_and_to_the_repair() {
    let data = unpack::unpack("cases/nochecksums-mixed").expect("fixture").join("nochecksums-mixed");
    let told = dwbinspect(&["check", "--format", "ndjson", arg(&data)]).of_type("page");
    let worst: Vec<_> = told.iter().filter(|row| row["verdict"] == "no_image").collect();
    assert_eq!(worst.len(), 1, "{worst:?}");
    for size in [(60, 16), SMALL, LARGE, (200, 60)] {
        let mut screen = Driven::open(&data, FINE, size);
        screen.keys(&["enter"]);
        let open = screen.state.page.wanted.expect("a page");
        let (number, block) = (u64::from(open.rel.rel_number), u64::from(open.block));
        assert_eq!((&worst[0]["rel_number"], &worst[0]["block"]), (&json!(number), &json!(block)));
        assert!(screen.picture().contains("no image: No usable image"), "{}", screen.picture());
        screen.keys(&["6"]);
        let mut picture = screen.picture();
        assert!(picture.contains("38 pages would be overwritten"), "{picture}");
        assert!(picture.contains("a apply (asks first"), "{picture}");
        screen.keys(&["end"]);
        picture.push_str(&screen.picture());
        for verdict in Verdict::ALL.into_iter().filter(|verdict| verdict.name() != verdict.facts().label) {
            assert!(!picture.contains(verdict.name()), "{} is a code\n{picture}", verdict.name());
        }
    }
    // A page with an image says which key restores it.
    let picture = Driven::of("checkpoint", SMALL).keys(&["enter"]).picture();
    assert!(picture.contains("loses no committed data (6: plan)\n"), "{picture}");
    // Nothing that is written: nothing that refuses it.
    let picture = Driven::of("clean", SMALL).keys(&["6"]).picture();
    assert!(picture.contains("no page would be written") && !picture.contains("refused"), "{picture}");
}

/// The steps are those of `check`, each command whole on its own lines; a tick is kept; what a repair did is ticked.
#[test]
fn steps_are_a_checklist() {
    let (_kept, data) = copy_of("nochecksums");
    let mut screen = Driven::open(&data, FINE, (120, 40));
    let summary =
        dwbinspect(&["check", "--format", "ndjson", data.to_str().expect("path")]).of_type("summary").remove(0);
    let told = summary["next"].as_array().expect("steps").clone();
    let own = tasks(&screen.state);
    assert_eq!(own.len(), told.len());
    assert_eq!(told[0]["step"], "copy_first", "first what nothing takes back");
    screen.keys(&["N"]);
    let picture = screen.picture();
    for (step, task) in told.iter().zip(&own) {
        let commands: Vec<&str> =
            step["commands"].as_array().expect("list").iter().filter_map(|one| one.as_str()).collect();
        assert_eq!(commands, task.commands, "{}", task.sentence);
    }
    assert!(picture.contains("What to do: 0 of 3 done"), "{picture}");
    screen.keys(&[" ", "down", "y"]);
    assert_eq!(screen.asked, [Effect::Copy(own[1].commands[0].clone())]);
    let picture = screen.picture();
    assert!(picture.contains("1 of 3 done") && picture.contains("[x]"), "{picture}");
    screen.keys(&["enter"]);
    assert_eq!(screen.state.view, View::Plan);
    screen.keys(&["a", "a"]).enter("apply");
    screen.keys(&["N"]);
    let after = tasks(&screen.state);
    let repair = after.iter().find(|task| task.code == "repair").expect("the step of the repair stays");
    assert!(repair.is_done, "{after:?}");
}

/// Message of a server about the page, and other ways to name it: each opens it.
#[test]
fn error_messages_open_their_page() {
    let mut screen = Driven::of("checkpoint", LARGE);
    let survey = screen.state.cluster.survey.clone().expect("survey");
    let report = survey.pages().iter().find(|report| report.page.rel.rel_number == 2663).expect("the page");
    let page = report.page;
    let block = page.block;
    let name = survey.relation(page.rel);
    for typed in [
        format!("2026-11-27 03:12:01.123 CET [812] ERROR:  invalid page in block {block} of relation base/5/2663"),
        format!("could not read block {block} in file \"base/5/2663\": read only 0 of 8192 bytes"),
        format!("base/5/2663:{block}"),
        format!("5/2663:{block}"),
        format!("index \"pg_class_relname_nsp_index\" contains unexpected zero page at block {block}"),
        format!("{name}:{block}"),
        format!("{name} ({block},1)"),
    ] {
        screen.keys(&["1", "g"]).enter(&typed);
        // The name stands for a catalog of each database.
        if screen.state.prompt.is_some() {
            assert!(screen.picture().contains("relations match"), "{typed}\n{}", screen.picture());
            screen.enter("postgres");
        }
        assert_eq!(screen.state.page.wanted, Some(page), "{typed}\n{}", screen.picture());
    }
    // The filter understands the same.
    screen.keys(&["1", "/"]).enter(&format!("ERROR:  invalid page in block {block} of relation base/5/2663"));
    assert_eq!(screen.state.triage.map.pages.len(), 1);
    screen.keys(&["esc"]);
}

#[test]
fn refused_text_stays_in_the_prompt() {
    let mut screen = Driven::of("checkpoint", SMALL);
    screen.keys(&["g"]).enter("nobody_has_this_name:7");
    let picture = screen.picture();
    assert!(picture.contains("nobody_has_this_name:7") && picture.contains("no relation is called"), "{picture}");
    assert!(screen.state.prompt.is_some());
    screen.keys(&["backspace"]);
    assert!(!screen.picture().contains("no relation is called"), "{}", screen.picture());
    screen.keys(&["esc"]);
    // A part of a name opens the picker, letters of it choose.
    screen.keys(&["g"]).enter("pg_class_rel");
    let picture = screen.picture();
    assert!(picture.contains("relations match") && picture.contains("pg_class_relname_nsp_index"), "{picture}");
    // A relation without a block is its line.
    screen.keys(&["esc", "g"]).enter("postgres.pg_catalog.pg_class_relname_nsp_index");
    assert_eq!(screen.state.view, View::Triage, "{}", screen.picture());
    assert_eq!(screen.state.triage.selected, 0);
}

#[test]
fn wal_zooms_and_goes_back() {
    let mut screen = Driven::of("checkpoint", LARGE);
    screen.keys(&["5"]);
    let whole = screen.picture();
    assert!(whole.contains("█ images  █ other WAL  ^ redo point  C checkpoint"), "{whole}");
    screen.keys(&["home", "z"]);
    let zoomed = screen.picture();
    assert!(zoomed.contains("all WAL ▶ ") && zoomed != whole, "{zoomed}");
    screen.keys(&["esc", "t"]);
    let by_address = screen.picture();
    assert!(by_address.contains("share by address") && by_address.contains("100%┤"), "{by_address}");
    screen.keys(&["t", "s"]);
    assert_eq!(screen.state.wal.scale, Scale::Linear);
}

#[test]
fn heights_and_shares_are_inverse() {
    for scale in [Scale::Root, Scale::Linear, Scale::Log] {
        for share in [0.0, 0.001, 0.01, 0.25, 0.5, 1.0] {
            let height = scale.height(share);
            assert!(
                (0.0..=1.0).contains(&height) && (scale.share_at(height) - share).abs() < 1e-9,
                "{scale:?} {share}"
            );
        }
    }
}

/// Images and other WAL differ where there are no colours.
#[test]
fn chart_needs_no_colour() {
    short_paths();
    let look = Look { colours: Colours::None, ..FINE };
    let mut screen = Driven::open(Path::new("checkpoint"), look, LARGE);
    screen.keys(&["5", "t"]);
    let picture = screen.picture();
    let chart: String = picture.lines().filter(|line| line.contains('┤')).collect();
    assert!(chart.contains('█') && chart.contains('░'), "{picture}");
    assert!(screen.buffer().content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

/// Cells of the strip of blocks of the first relation.
fn strip_cells(state: &State) -> usize {
    let picture = text_of(&draw(state));
    let row = picture.lines().find(|line| line.starts_with('▶')).unwrap_or_default().to_owned();
    row.chars().skip_while(|c| !c.is_ascii_digit()).filter(|c| matches!(c, '·' | 'R' | 'r')).count()
}

/// A wider screen shows at least what a narrower one of the same height does.
#[test]
fn wider_is_never_less() {
    let mut screen = Driven::of("wrapped", SMALL);
    for (name, keys) in
        [("triage", &["1"][..]), ("steps", &["N"]), ("findings", &["1", "F"]), ("plan", &["6"]), ("wal", &["5"])]
    {
        screen.keys(keys);
        for rows in [24, 45] {
            let mut before: Vec<String> = Vec::new();
            let mut cells = 0;
            for columns in (60..=240).step_by(4) {
                screen.state.size = (columns, rows);
                let picture = screen.picture();
                if name == "triage" {
                    let now = strip_cells(&screen.state);
                    assert!(now >= cells, "{columns}x{rows}: {now} cells, {cells} before\n{picture}");
                    cells = now;
                }
                // Commands and keys are what must not go.
                let has: Vec<String> =
                    ["[6]", "[N]", "pg_dwbinspect repair", "WILL", "MAY NOT START", "What to do", "^ redo point"]
                        .iter()
                        .filter(|words| picture.contains(**words))
                        .map(|words| (*words).to_owned())
                        .collect();
                assert!(
                    before.iter().all(|words| has.contains(words)),
                    "{name} {columns}x{rows}: {before:?}\n{picture}"
                );
                before = has;
            }
        }
    }
}

/// Every fork of the cluster is on the map: the damaged ones first, each page with the verdict that `check` has for it.
#[test]
fn map_shows_the_whole_cluster_and_leads_to_pages() {
    let mut screen = Driven::of("wrapped", LARGE);
    let survey = screen.state.cluster.survey.clone().expect("survey");
    let (pages, _) = survey.forks.iter().fold((0, 0), |(pages, at), fork| (pages + fork.blocks, at + 1));
    let scanned = survey.examined.scanned.expect("all pages were read");
    assert_eq!(pages, scanned.pages, "the map has every page that was read");
    let damaged: usize = survey.forks.iter().map(|fork| fork.damaged).sum();
    assert_eq!(damaged, survey.pages().len());
    assert!(survey.forks.is_sorted_by_key(|fork| std::cmp::Reverse(fork.worst)), "the worst first");
    screen.keys(&["M"]);
    let picture = screen.picture();
    assert!(picture.contains("22 damaged in 2") && picture.contains("pgbench_accounts"), "{picture}");
    screen.keys(&["enter"]);
    let picture = screen.picture();
    assert!(picture.contains("cell") && picture.contains("block"), "{picture}");
    screen.keys(&["enter"]);
    let page = screen.state.page.wanted.expect("a page");
    assert!(survey.damaged(page).is_some(), "the cursor begins on damage");
    screen.keys(&["esc", "esc"]);
    assert_eq!((screen.state.view, screen.state.map.is_open), (View::Map, false));
    for size in [(60, 16), SMALL, (200, 60)] {
        screen.state.size = size;
        let picture = screen.picture();
        assert!(picture.contains("accounts"), "{picture}");
        assert!(picture.contains('r') && picture.contains('░'), "{picture}");
    }
}

/// Each change of files is read while WAL is followed, also one that comes while it is read.
#[test]
fn wal_is_followed_until_it_is_paused() {
    let mut screen = Driven::of("checkpoint", SMALL);
    let state = &mut screen.state;
    state.subject.views.retain(|view| *view == View::Wal);
    state.view = View::Wal;
    let press =
        |state: &mut State, key: &str| update(state, action_of(crate::common::screen::key(key), state).expect("a key"));
    assert_eq!(press(state, "f"), [Effect::ReadWal]);
    assert_eq!(update(state, Action::FilesChanged), [], "it is being read");
    let mut survey = state.wal.survey.as_deref().expect("WAL").clone();
    survey.intervals.truncate(2);
    assert_eq!(update(state, Action::WalRead(Arc::new(survey))), []);
    assert_eq!(state.wal.selected, 1, "the newest interval");
    assert_eq!(press(state, "k"), []);
    assert_eq!(update(state, Action::FilesChanged), [Effect::ReadWal]);
    assert!(!state.cluster.has_changed);
    let survey = state.wal.survey.clone().expect("WAL");
    assert_eq!(update(state, Action::WalRead(survey)), []);
    assert_eq!(state.wal.selected, 0, "who went back stays there");
    assert_eq!(press(state, "enter"), []);
    assert_eq!(update(state, Action::FilesChanged), [], "below the timeline the picture stays");
    press(state, "esc");
    assert_eq!(press(state, "f"), []);
    assert_eq!(update(state, Action::FilesChanged), []);
    assert!(state.cluster.has_changed, "paused: only told");
}

/// Rows that are the same are folded, and a filter looks into all of them.
#[test]
fn rows_open_on_what_differs() {
    let mut screen = Driven::of("checkpoint", (140, 45));
    screen.keys(&["j", "enter", "p"]);
    let sheet = screen.state.page.sheet.clone().expect("page");
    let rows = sheet.rows(0).expect("rows");
    let (same, all) = (rows.rows.count(RowFate::Same), rows.rows.pairs.len());
    assert!(0 < same && same < all, "{same} of {all}");
    let listed = |screen: &Driven| screen.state.shown_lines().map_or(all, <[usize]>::len);
    assert_eq!(listed(&screen), all - same, "{}", screen.picture());
    assert_ne!(rows.rows.pairs[screen.state.page.row].fate, RowFate::Same);
    assert!(screen.picture().contains("z shows the same ones"), "{}", screen.picture());
    screen.keys(&["z"]);
    assert_eq!(listed(&screen), all);
    screen.keys(&["z", "/"]).enter("same");
    assert!(listed(&screen) >= same && screen.state.shown_counts().is_some(), "{}", screen.picture());
}

/// Header fields that differ are marked, and the third pane decodes what is under the cursor.
#[test]
fn header_marks_what_differs_and_bytes_are_decoded_beside() {
    let mut screen = Driven::of("checkpoint", (160, 45));
    let pages = screen.state.cluster.survey.clone().expect("survey").pages().len();
    let mut marked = 0;
    screen.keys(&["j", "enter", "p", "p"]);
    for _ in 0..pages {
        let picture = screen.picture();
        let first = picture.lines().find(|line| line.starts_with("0000")).unwrap_or_else(|| panic!("{picture}"));
        let bytes = |word: &&str| word.len() == 2 && word.chars().all(|c| c.is_ascii_hexdigit());
        assert!(first.split_whitespace().filter(bytes).count() >= 32, "{picture}");
        assert!(picture.contains("No row is under the cursor"), "{picture}");
        // The header is decoded beside the bytes, each side where they differ.
        let sheet = screen.state.page.sheet.clone().expect("page");
        let differs =
            sheet.disk().zip(sheet.images().first()).is_some_and(|(disk, image)| disk.bytes[..8] != image.bytes[..8]);
        let field = picture.lines().find(|line| line.contains("pd_lsn  ")).unwrap_or_else(|| panic!("{picture}"));
        assert_eq!((field.contains("! pd_lsn"), field.contains("disk: 0/")), (differs, differs), "{picture}");
        assert!(picture.contains("pd_lower"), "{picture}");
        screen.keys(&["p"]);
        let lsn_of = |at: usize| sheet.versions[at].bytes[..8].to_vec();
        let differs = (0..sheet.versions.len()).any(|at| lsn_of(at) != lsn_of(0));
        marked += usize::from(differs);
        let picture = screen.picture();
        assert_eq!(picture.contains("! pd_lsn"), differs, "{picture}");
        screen.keys(&["P", "}"]);
    }
    assert!(marked > 0, "no page has another LSN than its image");
}

/// A relation tells its kind, what may be lost with its damaged pages, and the step that is about them.
#[test]
fn relation_says_what_is_lost() {
    let mut screen = Driven::of("checkpoint", (200, 45));
    let mut pictures = Vec::new();
    for _ in 0..screen.state.triage.map.rows.len() {
        pictures.push(screen.picture());
        screen.keys(&["j"]);
    }
    let has = |words: &[&str]| pictures.iter().any(|one| words.iter().all(|word| one.contains(word)));
    let words = ["btree index of postgres.pg_catalog.pg_class", "REINDEX makes the index from its table"];
    assert!(
        has(&[words[0], words[1], "2 of 6 blocks: 1-2", "1 of 2 (N)", "proof       dwbuf_000 slot 1608:"]),
        "{}",
        pictures[0]
    );
}

/// The next key is the first in the bottom line, and the repair is in it on the smallest screen.
#[test]
fn bottom_line_offers_what_matters_first() {
    let mut screen = Driven::of("checkpoint", (60, 16));
    let last = |screen: &Driven| screen.picture().lines().last().expect("a line").to_owned();
    for (keys, first, also) in [
        (&["1"][..], "enter open", "6 plan"),
        (&["enter"], "p part", "6 plan"),
        (&["6"], "d dry run", "a apply"),
        (&["d", "esc"], "a apply", "u undo"),
    ] {
        let line = last(screen.keys(keys));
        assert!(line.starts_with(first) && line.contains(also) && line.contains("q quit"), "{keys:?}: {line}");
    }
    // Without anything to restore there is no plan to offer.
    assert!(!last(&Driven::of("clean", (60, 16))).contains("plan"));
}

/// `y` copies the selected row of a page, and says which it is.
#[test]
fn selected_row_is_copied() {
    let mut screen = Driven::of("checkpoint", SMALL);
    screen.keys(&["enter", "p", "j", "y"]);
    let [Effect::Copy(text)] = &screen.asked[..] else { panic!("{:?}", screen.asked) };
    let first = text.lines().next().expect("a line");
    assert!(first.starts_with("item ") && text.lines().count() > 3, "{text}");
    let message = screen.state.message.as_ref().map_or("", |message| &message.words);
    assert!(message.contains("clipboard") && message.ends_with(first), "{message}");
    assert!(screen.picture().contains(first), "{}", screen.picture());
}
