//! Keys, one by one: what each changes and what it asks for. And a repair from the screen, with its undo.

use std::fs;
use std::path::Path;

use crate::common::screen::{Driven, FINE, SMALL, short_paths};
use crate::common::{cluster, copy_tree, dwbinspect};
use pgforensics::analysis::pages::page_rows::RowFate;
use pgforensics::tui::action::{Action, Effect};
use pgforensics::tui::command_line::undo_command;
use pgforensics::tui::damage_map::Grouping;
use pgforensics::tui::export::whole_text;
use pgforensics::tui::keymap::KEYS;
use pgforensics::tui::state::{Column, PagePart, PromptKind, Scale, State, View, WalLevel};

/// Keys pressed one after the other from the triage, and what must hold then.
type Row = (&'static [&'static str], &'static str, fn(&State) -> bool);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (&["?"], "help opens", |s| s.help.is_open),
    (&["?", "?"], "help closes", |s| !s.help.is_open),
    (&["f1", "esc"], "help closes", |s| !s.help.is_open && s.view == View::Triage),
    (&["tab"], "next view", |s| s.view == View::Batches),
    (&["backtab"], "round the end", |s| s.view == View::Map),
    (&["7"], "the map", |s| s.view == View::Map && !s.map.is_open),
    (&["M", "enter", "enter"], "to blocks, to a page", |s| s.view == View::Page && s.page.wanted.is_some()),
    (&["M", "right", "down", "up", "left", "esc"], "from tile to tile", |s| s.view == View::Map),
    (&["backtab", "tab"], "and back", |s| s.view == View::Triage),
    (&["2"], "batches", |s| s.view == View::Batches),
    (&["3"], "slots", |s| s.view == View::Slots),
    (&["4"], "the selected page", |s| s.view == View::Page && s.page.sheet.is_some()),
    (&["5"], "WAL", |s| s.view == View::Wal),
    (&["6"], "plan, made at once", |s| s.view == View::Plan && s.plan.sheet.as_ref().is_some_and(|p| p.plan.steps.len() == 6)),
    (&["6", "1"], "triage", |s| s.view == View::Triage),
    (&["down"], "one down", |s| s.triage.selected == 1),
    (&["j", "j", "k"], "two down, one up", |s| s.triage.selected == 1),
    (&["up"], "the first stays", |s| s.triage.selected == 0),
    (&["end"], "the last", |s| s.triage.selected == 5),
    (&["G", "home"], "and the first", |s| s.triage.selected == 0),
    (&["j", "home"], "the first", |s| s.triage.selected == 0),
    (&["3", "n"], "slot of a damaged page", |s| {
        let survey = s.cluster.survey.as_ref().expect("survey");
        survey.slots()[s.slots.order[s.slots.selected]].page.is_some_and(|page| survey.damaged(page).is_some())
    }),
    (&["pagedown"], "a screen down", |s| s.triage.selected == 5),
    (&[" ", "pageup"], "and up", |s| s.triage.selected == 0),
    (&["enter"], "opens the first page of a relation whose pages are all as bad", |s| s.view == View::Page && s.page.wanted.map(|page| (page.rel.rel_number, page.block)) == Some((2663, 1))),
    (&["end", "enter"], "opens the only page of a relation", |s| s.view == View::Page && s.page.wanted.map(|page| page.block) == Some(56)),
    (&["right"], "unfolds", |s| s.triage.map.rows.len() == 8 && s.triage.selected == 0),
    (&["right", "l"], "and goes in", |s| s.triage.selected == 1),
    (&["right", "l", "j", "left"], "folds from within", |s| s.triage.map.rows.len() == 6 && s.triage.selected == 0),
    (&["h"], "nothing to fold is said", |s| s.message.is_some()),
    (&["j", "right"], "nothing to unfold is said", |s| s.message.is_some() && s.triage.map.rows.len() == 6),
    (&["j", "s"], "by verdict", |s| s.triage.order.grouping == Grouping::Verdict && s.triage.map.rows.len() == 2),
    (&["s", "s"], "the top stays selected", |s| s.triage.selected == 0),
    (&["j", "s", "s"], "page by page, the selected one stays", |s| s.triage.map.rows.len() == 7 && s.selected_page().is_some()),
    (&["s", "s", "s"], "by relation again", |s| s.triage.order.grouping == Grouping::Relation && s.triage.map.rows.len() == 6),
    (&["end", "S"], "the other way round", |s| s.triage.selected == 0 && s.selected_page().map(|page| page.block) == Some(56)),
    (&["j", "enter", "esc"], "and goes back", |s| s.view == View::Triage && s.triage.selected == 1),
    (&["j", "enter", "p"], "next part", |s| s.page.part == PagePart::Rows),
    (&["j", "enter", "P"], "part before", |s| s.page.part == PagePart::Wal),
    (&["j", "enter", "p", "p", "right", "l", "left"], "byte to the right", |s| s.page.cursor == 1),
    (&["j", "enter", "p", "p", "z", "down", "j", "k"], "row down", |s| s.page.is_unfolded && s.page.cursor == 8),
    (&["j", "enter", "p", "p", "end", "k"], "over a thousand rows that are equal", |s| !s.page.is_unfolded && s.page.cursor == 0x57),
    (&["j", "enter", "p", "p", "z", "z"], "folded again", |s| !s.page.is_unfolded),
    (&["j", "enter", "z"], "nothing to fold", |s| !s.page.is_unfolded && s.message.is_some()),
    (&["j", "enter", "p", "p", "h"], "first byte stays", |s| s.page.cursor == 0),
    (&["j", "enter", "p", "p", "end"], "last row", |s| s.page.cursor == 8191),
    (&["j", "enter", "p", "p", "end", "home"], "first byte", |s| s.page.cursor == 0),
    (&["j", "enter", "p", "]"], "row that differs", |s| s.page.part == PagePart::Rows && {
        let rows = s.page.sheet.as_ref().expect("page").rows(0).expect("rows").rows;
        rows.pairs[s.page.row].fate != RowFate::Same
    }),
    (&["j", "enter", "p", "p", "]"], "byte that differs", |s| {
        let sheet = s.page.sheet.as_ref().expect("page");
        sheet.versions[0].bytes[s.page.cursor] != sheet.versions[1].bytes[s.page.cursor]
    }),
    (&["j", "enter", "p", "p", "]", "]", "["], "and back", |s| s.page.part == PagePart::Bytes && s.page.cursor > 0),
    (&["j", "enter", "p", "enter"], "all about the row", |s| s.page.is_open && s.view == View::Page),
    (&["j", "enter", "p", "enter", "esc"], "the list again", |s| !s.page.is_open && s.view == View::Page),
    (&["j", "enter", "enter"], "nothing to open in the verdict", |s| !s.page.is_open && s.message.is_some()),
    (&["j", "enter", "p", "}"], "next damaged page", |s| s.triage.selected == 4 && s.page.part == PagePart::Rows && s.page.wanted == s.survey().map(|v| v.pages()[2].page)),
    (&["j", "enter", "{", "{"], "round the end", |s| s.triage.selected == 3 && s.page.sheet.as_ref().map(|p| p.report.page) == s.page.wanted),
    (&["j", "enter", "n"], "byte that differs", |s| s.page.part == PagePart::Bytes && {
        let sheet = s.page.sheet.as_ref().expect("page");
        sheet.versions[0].bytes[s.page.cursor] != sheet.versions[1].bytes[s.page.cursor]
    }),
    (&["j", "enter", "i"], "next image, round the end", |s| s.page.image < s.page.sheet.as_ref().expect("page").versions.len() - 1),
    (&["enter", "P", "P", "right"], "sideways only where it is wide", |s| s.page.left <= 8),
    (&["j", "enter", "P", "j", "j", "k"], "next record", |s| s.page.part == PagePart::Wal && s.page.record == 1),
    (&["j", "enter", "P", "j", "enter"], "all about the record", |s| s.page.is_open && s.page.record == 1),
    (&["end", "m"], "a page that heals is not marked", |s| s.plan.marks.is_empty() && s.message.is_some()),
    (&["m"], "all pages of the relation are marked", |s| s.plan.marks.len() == 2),
    (&["m", "m"], "and unmarked", |s| s.plan.marks.is_empty()),
    (&["j", "m"], "marked", |s| s.plan.marks.len() == 1),
    (&["j", "m", "m"], "unmarked", |s| s.plan.marks.is_empty()),
    (&["j", "enter", "m", "6"], "plan of the marked page", |s| s.plan.sheet.as_ref().is_some_and(|p| p.plan.steps.len() == 1 && p.plan.left.len() == 6)),
    (&["/"], "search prompt", |s| s.prompt.as_ref().is_some_and(|p| p.kind == PromptKind::Search)),
    (&["/", "q"], "keys are typed", |s| s.prompt.as_ref().is_some_and(|p| p.text == "q")),
    (&["/", "q", "backspace", "backspace"], "and erased", |s| s.prompt.is_none()),
    (&["/", "q", "esc"], "and left", |s| s.prompt.is_none() && s.query.is_empty()),
    (&["/", "2", "6", "6", "3"], "filtered while it is typed", |s| s.triage.map.pages.len() == 2 && s.triage.map.rows.len() == 1),
    (&["/", "f", "i", "x", "e", "d"], "a verdict as it is listed", |s| s.triage.map.pages.len() == 1),
    (&["/", "2", "6", "6", "3", "backspace", "backspace"], "nothing is called 26", |s| s.triage.map.pages.is_empty() && s.triage.map.total == 7),
    (&["/", "2", "6", "6", "3", "enter"], "and kept", |s| s.triage.map.pages.len() == 2 && s.prompt.is_none()),
    (&["/", "2", "6", "6", "3", "enter", "esc"], "all again", |s| s.triage.map.pages.len() == 7 && s.query.is_empty()),
    (&["/", "2", "6", "6", "3", "esc"], "all again at once", |s| s.triage.map.pages.len() == 7 && s.query.is_empty()),
    (&["/", "2", "6", "6", "3", "enter", "/"], "changed where it was left", |s| s.prompt.as_ref().is_some_and(|p| p.text == "2663")),
    (&["F"], "every finding", |s| s.view == View::Findings),
    (&["F", "j", "end", "k"], "last but one", |s| s.triage.finding == 3),
    (&["F", "down", "esc"], "back to what is damaged", |s| s.view == View::Triage && s.triage.finding == 1),
    (&["F", "1", "F"], "and again", |s| s.view == View::Findings),
    (&["F", "tab"], "from the tab it is on", |s| s.view == View::Batches),
    (&["2", "F"], "only from the triage, which is said", |s| s.view == View::Batches && s.message.as_ref().is_some_and(|m| m.words.contains("in Triage"))),
    (&["end", "n"], "round the end", |s| s.triage.selected == 0),
    (&["N"], "steps", |s| s.view == View::Steps),
    (&["N", " "], "ticked", |s| s.checklist.ticked.len() == 1),
    (&["N", "enter"], "where it is done", |s| s.view == View::Plan),
    (&["N", "esc"], "and back", |s| s.view == View::Triage),
    (&["/", "n", "o", "p", "e", "enter"], "nothing found is said", |s| s.message.as_ref().is_some_and(|m| m.is_bad)),
    (&["/", "a", "=", "b", "enter"], "a wrong term is said", |s| s.message.as_ref().is_some_and(|m| m.is_bad && m.words.contains("is not a term"))),
    (&["n"], "next damaged page", |s| s.triage.selected == 1),
    (&["3", "f"], "search first", |s| !s.slots.only && s.message.is_some()),
    (&["3", "/", "t", "o", "r", "n", "enter"], "only matches", |s| s.slots.only && s.slots.order.len() < 20 && !s.slots.order.is_empty()),
    (&["3", "/", "t", "o", "r", "n", "enter", "f"], "all again", |s| !s.slots.only && s.slots.order.len() == 3057),
    (&["3", "s"], "sorted by page", |s| s.slots.column == Column::Page && {
        let slots = s.survey().expect("survey").slots();
        s.slots.order.windows(2).all(|w| slots[w[0]].rel <= slots[w[1]].rel)
    }),
    (&["3", "s", "s", "S"], "sorted by LSN, highest first", |s| {
        let slots = s.survey().expect("survey").slots();
        s.slots.order.windows(2).all(|w| slots[w[0]].page_lsn >= slots[w[1]].page_lsn)
    }),
    (&["3", "s", "s", "s", "s", "s", "s"], "all columns, then the first", |s| s.slots.column == Column::Slot),
    (&["3", "end", "enter"], "opens the page of the slot", |s| s.view == View::Page),
    (&["3", "/", "t", "o", "r", "n"], "filtered while typing", |s| s.slots.only && s.slots.order.len() < 20 && s.prompt.is_some()),
    (&["3", "/", "t", "o", "r", "n", "esc"], "and not any more", |s| !s.slots.only && s.slots.order.len() == 3057 && s.query.is_empty()),
    (&["2", "enter"], "slots of the batch", |s| s.view == View::Slots && s.slots.batch == Some(0)),
    (&["2", "enter", "esc"], "and back", |s| s.view == View::Batches && s.slots.batch.is_none() && s.slots.order.len() == 3057),
    (&["2", "enter", "end", "enter", "esc", "esc"], "from the page as well", |s| s.view == View::Batches),
    (&["2", "l", "right", "h"], "cell to the right", |s| s.batches.cursor > 0 && s.batches.cursor < 20),
    (&["2", "J"], "row down", |s| s.batches.cursor > 60),
    (&["2", "J", "J", "K", "left"], "row up and a cell left", |s| s.batches.cursor > 60),
    (&["2", "K"], "not past the first row", |s| s.batches.cursor == 0 && s.message.is_some()),
    (&["2", "J", "enter"], "slot under the cursor", |s| s.view == View::Slots && s.slots.order[s.slots.selected] == s.batches.cursor),
    (&["2", " "], "played", |s| s.batches.played.is_some()),
    (&["2", " ", "x"], "and stopped", |s| s.batches.played.is_none()),
    (&["2", " ", "3"], "by any key", |s| s.batches.played.is_none() && s.view == View::Batches),
    (&["g"], "asks where to go", |s| s.prompt.as_ref().is_some_and(|p| p.kind == PromptKind::GoTo)),
    (&["b", "'"], "kept and listed", |s| s.bookmarks.len() == 1 && s.prompt.as_ref().is_some_and(|p| p.kind == PromptKind::Bookmarks)),
    (&["b", "3", "end", "b", "1", "'", "down", "enter"], "goes to what was kept", |s| s.view == View::Slots && s.slots.order[s.slots.selected] == 3056),
    (&["b", "3", "'", "1", "enter"], "and to a relation", |s| s.view == View::Triage && s.triage.selected == 0),
    (&["j", "b", "3", "'", "1", "enter"], "and to a page", |s| s.view == View::Page),
    (&["'", "enter"], "nothing was kept", |s| s.prompt.is_none() && s.view == View::Triage),
    (&[":"], "commands", |s| s.prompt.as_ref().is_some_and(|p| p.kind == PromptKind::Palette)),
    (&["3", ":", "r", "e", "v", "e", "r", "s", "e", "enter"], "runs one", |s| s.slots.descending && s.prompt.is_none()),
    (&[":", "a", "p", "p", "l", "y", "enter"], "one of another view", |s| s.view == View::Plan),
    (&[":", "u", "n", "d", "o", "enter"], "undo is in Plan", |s| s.view == View::Plan && s.message.as_ref().is_some_and(|m| m.words.contains("no journal"))),
    (&["3", "ctrl-d", "ctrl-u", "ctrl-d"], "half a screen down", |s| s.slots.selected > 5 && s.slots.selected < 12),
    (&["3", "ctrl-d", "g", "g"], "first line", |s| s.slots.selected == 0 && s.prompt.is_none()),
    (&["3", "end", "H"], "first line on the screen", |s| s.slots.selected > 3000 && s.slots.selected < 3056),
    (&["3", "L"], "last line on the screen", |s| s.slots.selected > 5 && s.slots.selected < 24),
    (&["j", "enter", "esc", "j", "enter", "ctrl-o"], "the page before", |s| s.view == View::Page && s.visited.is_empty()),
    (&["j", "enter", "esc", "j", "enter", "ctrl-o", "ctrl-n"], "and the one after it", |s| s.visited.len() == 1 && s.ahead.is_empty()),
    (&["ctrl-n"], "none was left", |s| s.message.as_ref().is_some_and(|m| m.words.contains("ctrl-o"))),
    (&["?", "/", "d", "r", "y", "esc"], "the search of the help ends", |s| s.help.is_open && s.help.filter.is_empty()),
    (&[":", "q", "z", "x", "enter"], "none is called so", |s| s.prompt.is_none() && s.view == View::Triage),
    (&["5", "down"], "next interval", |s| s.wal.selected == 1),
    (&["5", "down", "+"], "the window is wider than the interval", |s| window(s) == (15..17)),
    (&["5", "+", "-"], "and as before", |s| window(s) == (0..15)),
    (&["5", "+", "="], "wider twice", |s| window(s) == (0..60)),
    (&["5", "right"], "the window goes on by half", |s| window(s) == (7..22)),
    (&["5", "right", "left"], "and back", |s| window(s) == (0..15)),
    (&["5", "w"], "all WAL", |s| window(s).len() == s.wal.survey.as_ref().and_then(|wal| wal.timeline.as_ref()).map_or(0, |t| t.cells.len())),
    (&["5", "w", "w"], "the interval again", |s| window(s) == (0..15)),
    (&["5", "left"], "nothing before", |s| s.message.as_ref().is_some_and(|m| m.words == "WAL begins here")),
    (&["5", "z"], "zoomed", |s| s.wal.zoom == [window(s)]),
    (&["5", "z", "esc"], "and back", |s| s.wal.zoom.is_empty() && s.view == View::Wal),
    (&["5", "t"], "by address", |s| s.wal.by_address),
    (&["5", "s"], "the next scale", |s| s.wal.scale == Scale::Linear),
    (&["5", "f"], "nothing to follow", |s| !s.wal.is_following && s.message.is_some()),
    (&["5", "enter"], "stretches of the window", |s| s.wal.level == WalLevel::Stretches && s.wal.cell == 0),
    (&["5", "enter", "down", "enter"], "records of the stretch", |s| s.wal.level == WalLevel::Records && s.wal.cell == 1 && s.wal.list.is_some()),
    (&["5", "enter", "enter", "enter"], "a record", |s| s.wal.level == WalLevel::Record && matches!(&s.wal.sheet, Some(Ok(_)))),
    (&["5", "enter", "enter", "enter", "right", "enter"], "the page of its second block", |s| s.view == View::Page && s.page.wanted.is_some()),
    (&["5", "enter", "enter", "down", "enter", "enter", "esc"], "back at the record", |s| s.view == View::Wal && s.wal.level == WalLevel::Record && s.wal.record == 1),
    (&["5", "enter", "enter", "enter", "esc", "esc", "esc"], "back at the top", |s| s.view == View::Wal && s.wal.level == WalLevel::Timeline),
    (&["6", "down"], "plan is scrolled", |s| s.plan.top <= 1),
    (&["6", "a"], "what it would meet", |s| s.view == View::Apply && s.prompt.is_none() && s.plan.before.as_ref().is_some_and(|b| b.is_ready())),
    (&["6", "a", "esc"], "back to the plan", |s| s.view == View::Plan),
    (&["6", "a", "c"], "asks for a directory", |s| s.prompt.as_ref().is_some_and(|p| p.kind == PromptKind::Journal && p.text.contains("pgforensics_undo_"))),
    (&["6", "a", "o"], "nothing is refused", |s| s.prompt.is_none() && s.message.as_ref().is_some_and(|m| m.is_bad)),
    (&["6", "a", "a"], "asks for the word", |s| s.prompt.as_ref().is_some_and(|p| p.kind == PromptKind::Apply)),
    (&["6", "a", "a", "y", "enter"], "another word writes nothing", |s| !s.plan.is_applying && s.plan.applied.is_none() && s.message.as_ref().is_some_and(|m| m.words.contains("nothing was written"))),
    (&["?", "q"], "q closes the help", |s| !s.help.is_open && !s.is_leaving),
    (&["j", "m", "q"], "asks before marks are lost", |s| s.is_leaving && s.message.is_some()),
    (&["j", "m", "q", "j"], "another key stays", |s| !s.is_leaving && s.plan.marks.len() == 1),
    (&["6", "u"], "no repair to take back", |s| s.view == View::Plan && s.message.as_ref().is_some_and(|m| m.is_bad && m.words.contains("no journal"))),
    (&["6", "a", "a", "esc"], "left", |s| s.prompt.is_none() && s.plan.applied.is_none()),
    (&["r"], "read again", |s| !s.cluster.is_reading && s.cluster.survey.is_some()),
    (&["x"], "a key without meaning", |s| s.message.as_ref().is_some_and(|m| m.words.contains("unknown key x"))),
    (&["a"], "apply is for the plan only", |s| s.prompt.is_none() && s.message.as_ref().is_some_and(|m| m.words.contains("in Plan: apply the plan"))),
    (&["W"], "guided", |s| s.is_guided),
    (&["W", "W"], "no longer guided", |s| !s.is_guided),
    (&["up"], "says why nothing moved", |s| s.message.as_ref().is_some_and(|m| m.words == "this is the first line")),
    (&["?", "q"], "closes the help", |s| !s.help.is_open),
    (&["j", "m", "q"], "does not forget marks", |s| s.plan.marks.len() == 1 && s.message.as_ref().is_some_and(|m| m.is_bad)),
];

/// The stretches of the window on WAL.
fn window(state: &State) -> std::ops::Range<usize> {
    state.wal.window.as_ref().map_or(0..0, |window| window.cells.clone())
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_key_does_what_the_table_says() {
    // A copy: a key that writes by mistake must not reach the cluster that all tests share.
    let (_temporary, data) = copy_of("checkpoint");
    let fresh = Driven::open(&data, FINE, SMALL);
    for (keys, what, holds) in TABLE {
        let mut driven = fresh.again(fresh.state.clone());
        driven.keys(keys);
        assert!(holds(&driven.state), "{keys:?}: {what}\n{}", driven.picture());
    }
    // No key is left out.
    let pressed: Vec<&str> = TABLE.iter().flat_map(|(keys, ..)| keys.iter().copied()).collect();
    for binding in
        KEYS.iter().filter(|one| !one.views.iter().all(|view| View::OF_INNODB.contains(view)) || one.views.is_empty())
    {
        let names = binding.label().split(", ").map(|label| match label {
            "shift-tab" => "backtab",
            "space" => " ",
            "gg" => "g",
            "page up" => "pageup",
            "page down" => "pagedown",
            other => other,
        });
        let elsewhere = ["q", "y", "e", "d", "w", "R", "ctrl-z", "ctrl-l"];
        for name in names {
            assert!(pressed.contains(&name) || elsewhere.contains(&name), "{name} is in no test");
        }
    }
}

/// What a key does is found from any view, with the views in which it does so.
#[test]
fn help_is_searched_over_all_views() {
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.keys(&["?", "/"]).enter("dry run");
    let picture = driven.picture();
    assert!(picture.contains("dry run: every check") && picture.contains("(in Plan, Apply,"), "{picture}");
    assert!(!picture.contains("next view"), "{picture}");
    driven.keys(&["esc", "?"]);
    let picture = driven.picture();
    assert!(picture.contains("Keys in Triage") && picture.contains("next view"), "{picture}");
}

#[test]
fn keys_that_ask_for_something_outside() {
    let mut driven = Driven::of("checkpoint", SMALL);
    for (keys, effect) in [
        (&["y"][..], Effect::Copy("pg_dwbinspect repair checkpoint".to_owned())),
        (&["F", "y"], Effect::Copy("pg_dwbinspect check --explain checkpoint".to_owned())),
        (&["1", "j", "enter", "y"], Effect::Copy("pg_dwbinspect page checkpoint base/5/1259 0".to_owned())),
        (&["2", "y"], Effect::Copy("pg_dwbinspect batches checkpoint".to_owned())),
        (&["3", "y"], Effect::Copy("pg_dwbinspect dump checkpoint".to_owned())),
        (
            &["5", "y"],
            Effect::Copy(
                "pg_walfpi stats --by relation --start 0/00701048 --end 0/007EE668 --names checkpoint checkpoint"
                    .to_owned(),
            ),
        ),
        (&["5", "w", "y"], Effect::Copy("pg_walfpi stats --names checkpoint checkpoint".to_owned())),
        (&["6", "y"], Effect::Copy("pg_dwbinspect repair checkpoint".to_owned())),
        (&["ctrl-z"], Effect::Suspend),
        (&["ctrl-l"], Effect::Redraw),
        (&["q"], Effect::Quit),
        (&["ctrl-c"], Effect::Quit),
    ] {
        driven.asked.clear();
        driven.keys(keys);
        assert_eq!(driven.asked, [effect], "{keys:?}");
    }
}

#[test]
fn copied_commands_run() {
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.keys(&["j", "m", "3", "/"]).enter("5/1259:0 batch=current").keys(&["y"]);
    driven.keys(&["6", "y"]);
    let commands: Vec<&Effect> = driven.asked.iter().collect();
    assert_eq!(commands.len(), 2);
    let mut shown = Vec::new();
    for command in commands {
        let Effect::Copy(text) = command else { panic!("{command:?}") };
        let words: Vec<&str> = text.split(' ').skip(1).collect();
        shown.push(dwbinspect(&[&words[..], &["--format", "ndjson"]].concat()));
    }
    assert_eq!(shown[0].of_type("slot").len(), driven.state.slots.order.len());
    assert_eq!(shown[1].of_type("step").len(), 1);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn no_key_is_silent() {
    let (_temporary, data) = copy_of("checkpoint");
    let fresh = Driven::open(&data, FINE, SMALL);
    let before = Driven::before(&data, FINE, SMALL);
    let mut pressed = 0;
    for start in [&fresh, &before] {
        for view in ["1", "2", "3", "4", "5", "6"] {
            for name in
                ["x", "F", "0", "ctrl-x", "up", "left", "right", "enter", "esc", "i", "n", "N", "f", "s", "S", "m"]
                    .into_iter()
                    .chain([
                        "d", "g", "b", "'", ":", "J", "K", "w", "a", "p", "P", "y", "/", "home", "end", " ", "k", "j",
                        view,
                    ])
            {
                let mut driven = start.again(start.state.clone());
                driven.keys(&[view]);
                driven.asked.clear();
                let shown = driven.picture();
                let message = driven.state.message.take();
                driven.keys(&[name]);
                let says = driven.state.message.is_some() || !driven.asked.is_empty() || driven.picture() != shown;
                assert!(says, "{name} in {view} after {message:?}\n{}", driven.picture());
                pressed += 1;
            }
        }
    }
    assert!(pressed > 300);
}

#[test]
fn marks_are_not_lost_by_one_key() {
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.keys(&["j", "m", "q", "j", "q"]);
    assert!(driven.asked.is_empty(), "another key in between: asked again");
    driven.keys(&["q"]);
    assert_eq!(driven.asked, [Effect::Quit]);
}

#[test]
fn what_is_exported_is_what_the_command_prints() {
    let mut driven = Driven::of("checkpoint", SMALL);
    let page = ["page", "checkpoint", "base/5/1259", "0", "--hex"];
    for (keys, command) in [
        (&["1"][..], &["check", "--explain", "checkpoint"][..]),
        (&["2"], &["batches", "checkpoint"]),
        (&["1", "j", "enter"], &page),
        (&["6"], &["repair", "checkpoint"]),
    ] {
        driven.keys(keys);
        let text = whole_text(&driven.state);
        let text = text.split_once("\n\n").expect("title").1;
        let printed = dwbinspect(&[command, &["--width", "160"]].concat()).stdout;
        assert!(text.trim().len() > 200 && printed.contains(text.trim()), "{command:?}:\n{text}\n---\n{printed}");
    }
    driven.keys(&["3"]);
    let text = whole_text(&driven.state);
    let rows = dwbinspect(&["dump", "checkpoint", "--format", "ndjson"]).of_type("slot");
    let lines: Vec<Vec<&str>> =
        text.lines().skip(3).map(|line| line.split_whitespace().collect()).take(rows.len()).collect();
    for (row, line) in rows.iter().zip(lines).filter(|(row, _)| row["state"] == "used") {
        let of = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        let name = row["relation"].as_str().map(str::to_owned);
        assert_eq!(line[1], row["slot_index"].to_string());
        assert!(name.is_none_or(|name| line[2] == name), "{line:?}");
        assert_eq!([line[3], line[5], line[6]], [of("fork"), of("slot_lsn"), of("page_lsn")], "{line:?}");
    }
    driven.state.size = (60, 16);
    assert_eq!(whole_text(&driven.state), text, "whatever the width of the screen");
    assert!(!text.contains('…'));
}

#[test]
fn a_command_that_shows_something_else_is_not_copied() {
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.keys(&["3", "/"]).enter("pg_class").keys(&["y"]);
    assert!(driven.asked.is_empty(), "{:?}", driven.asked);
    assert!(driven.picture().contains("no command shows these slots"), "{}", driven.picture());
    driven.keys(&["/"]).enter("batch=current").keys(&["y"]);
    let copied = "pg_dwbinspect dump --batch current checkpoint".to_owned();
    assert_eq!(driven.asked, [Effect::Copy(copied)]);
    driven.asked.clear();
    driven.keys(&["esc", "esc", "2", "enter", "y"]);
    let [Effect::Copy(text)] = &driven.asked[..] else { panic!("{:?}", driven.asked) };
    let words: Vec<&str> = text.split(' ').skip(1).collect();
    let shown = dwbinspect(&[&words[..], &["--format", "ndjson"]].concat());
    assert_eq!(shown.of_type("slot").len(), driven.state.slots.order.len(), "{text}");
}

#[test]
fn what_is_typed_is_gone_to() {
    let fresh = Driven::of("checkpoint", SMALL);
    let row = fresh.state.survey().expect("survey").slots()[100];
    let lsn = row.page_lsn.to_string();
    let at = |typed: &str| {
        let mut driven = fresh.again(fresh.state.clone());
        driven.keys(&["g"]).enter(typed);
        driven.state
    };
    for typed in ["slot 100", "slot100"] {
        let state = at(typed);
        assert_eq!((state.view, state.slots.selected), (View::Slots, 100), "{typed}");
    }
    for typed in ["5/1259:7", "postgres.pg_catalog.pg_class:7"] {
        let page = at(typed).page.wanted.unwrap_or_else(|| panic!("{typed}"));
        assert_eq!((page.rel.rel_number, page.block), (1259, 7), "{typed}");
    }
    let state = at(&lsn);
    let selected = state.survey().expect("survey").slots()[state.slots.order[state.slots.selected]];
    assert_eq!((state.view, selected.page_lsn), (View::Slots, row.page_lsn));
    let end = fresh.state.wal.survey.as_ref().expect("WAL").intervals.last().expect("interval").start_lsn;
    assert!(matches!(at(&end.to_string()).view, View::Wal | View::Slots));
    // The class of each database is called so.
    assert_eq!(at("pg_class:7").prompt.map(|prompt| prompt.kind), Some(PromptKind::Relation));
    for wrong in ["", "slot x", "slot 99999", "nowhere:3", "1259", "FFFF/0", "5/1259:x"] {
        let state = at(wrong);
        assert!(state.message.is_some_and(|message| message.is_bad), "{wrong}");
        assert_eq!(state.view, View::Triage, "{wrong}");
    }
    let mut driven = fresh.again(fresh.state.clone());
    driven.keys(&["2", "g"]).enter("slot 100").keys(&["esc"]);
    assert_eq!(driven.state.view, View::Batches, "esc comes back");
}

#[test]
fn ring_is_shown_as_it_was_written_and_ends() {
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.keys(&["2", " "]);
    assert_eq!(driven.asked, [Effect::Tick]);
    let empty = driven.picture();
    let mut ticks = 0;
    while driven.state.batches.played.is_some() {
        driven.act(Action::Tick);
        ticks += 1;
        assert!(ticks < 1000);
    }
    assert!(ticks > 100 && driven.asked.len() == ticks, "{ticks}");
    assert_ne!(driven.picture(), empty);
    driven.act(Action::Tick);
    assert!(driven.state.batches.played.is_none(), "a late tick does nothing");
}

#[test]
fn mouse_knows_the_ring_and_the_detail() {
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.keys(&["2"]);
    // The first row of the map is below the tabs and the scale.
    driven.act(Action::Click(18, 2));
    let cursor = driven.state.batches.cursor;
    assert!(cursor > 0, "{}", driven.picture());
    driven.act(Action::Click(18, 2));
    assert_eq!((driven.state.view, driven.state.slots.order[driven.state.slots.selected]), (View::Slots, cursor));
    driven.keys(&["2"]);
    driven.act(Action::Click(3, 2));
    assert_eq!(driven.state.view, View::Batches, "the numbers in front are no cells");
}

#[test]
fn mouse_selects_opens_and_scrolls() {
    let mut driven = Driven::of("checkpoint", SMALL);
    let row = |driven: &Driven, words: &str| {
        u16::try_from(driven.picture().lines().position(|line| line.contains(words)).expect("row")).expect("small")
    };
    let class = row(&driven, ".pg_class  ");
    driven.act(Action::Click(5, class));
    assert_eq!((driven.state.view, driven.state.triage.selected), (View::Triage, 1));
    let again = row(&driven, ".pg_class  ");
    driven.act(Action::Click(5, again));
    assert_eq!(driven.state.view, View::Page);
    driven.act(Action::Click(25, 0));
    assert_eq!(driven.state.view, View::Slots);
    driven.act(Action::Scroll(3));
    assert_eq!(driven.state.slots.selected, 3);
    for (column, row) in [(0, 23), (79, 22), (200, 200), (79, 0)] {
        driven.act(Action::Click(column, row));
    }
}

/// A copy of a cluster to be written into.
fn copy_of(case: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&cluster(case), &data);
    (temporary, data)
}

fn page_0_of_pg_class(data: &Path) -> Vec<u8> {
    fs::read(data.join("base/5/1259")).expect("read")[..8192].to_vec()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn marked_page_is_rehearsed_repaired_and_taken_back() {
    let (_temporary, data) = copy_of("checkpoint");
    let before = page_0_of_pg_class(&data);
    let mut driven = Driven::open(&data, FINE, SMALL);
    driven.keys(&["j", "m", "6", "d"]);
    assert!(driven.picture().contains("1 page could be written now; nothing was written"), "{}", driven.picture());
    driven.keys(&["a"]).enter("Apply");
    assert_eq!(page_0_of_pg_class(&data), before, "only the very word lets a repair go");
    driven.keys(&["a"]).enter("apply");
    let applied = driven.state.plan.applied.clone().expect("applied");
    assert_eq!(applied.written, 1, "{}", driven.picture());
    assert_ne!(page_0_of_pg_class(&data), before);
    assert_eq!(
        driven.state.cluster.survey.as_ref().map(|survey| survey.pages().len()),
        Some(6),
        "read again by itself"
    );
    let undo = undo_command(&driven.state, &applied.journal);
    let words: Vec<&str> = undo.split(' ').skip(1).collect();
    let undone = dwbinspect(&words);
    assert_eq!(undone.status, 0, "{}", undone.stderr);
    assert_eq!(page_0_of_pg_class(&data), before);
    assert_eq!(applied.journal.parent(), data.canonicalize().expect("data").parent());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn page_that_changed_since_the_plan_is_not_written() {
    let (_temporary, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, SMALL);
    driven.keys(&["6"]);
    let file = data.join("base/5/1259");
    let mut bytes = fs::read(&file).expect("read");
    bytes[5000] ^= 1;
    fs::write(&file, &bytes).expect("write");
    assert!(driven.has_changed(), "the change is noticed");
    driven.act(Action::FilesChanged);
    assert!(driven.picture().contains("files have changed"), "{}", driven.picture());
    driven.keys(&["a", "a"]).enter("apply");
    assert!(driven.state.plan.applied.is_none() && driven.picture().contains("changed"), "{}", driven.picture());
    assert_eq!(fs::read(&file).expect("read"), bytes);
    driven.keys(&["r"]);
    assert!(!driven.state.cluster.has_changed && !driven.has_changed());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn guards_of_the_command_hold() {
    let (_temporary, data) = copy_of("checkpoint");
    fs::write(data.join("recovery.signal"), "").expect("write");
    let mut driven = Driven::open(&data, FINE, SMALL);
    driven.keys(&["6"]);
    let picture = driven.picture();
    assert!(picture.contains("refused") && picture.contains("recovery.signal"), "{picture}");
    driven.keys(&["a"]);
    assert!(driven.state.prompt.is_none());
    // One that comes up after the plan was made.
    fs::remove_file(data.join("recovery.signal")).expect("remove");
    driven.keys(&["1", "r", "6", "a", "a"]);
    fs::write(data.join("recovery.signal"), "").expect("write");
    let before = page_0_of_pg_class(&data);
    driven.enter("apply");
    assert!(driven.state.plan.applied.is_none() && driven.picture().contains("refused"), "{}", driven.picture());
    assert_eq!(page_0_of_pg_class(&data), before);
}

#[test]
fn plan_and_views_are_saved_as_new_files_only() {
    let mut driven = Driven::of("checkpoint", SMALL);
    let place = short_paths();
    // Other tests save plans in the same directory.
    let mut save = |keys: &[&str]| {
        let told = driven.keys(keys).state.message.clone().expect("told").words;
        told.strip_prefix("plan saved: ").expect("saved").to_owned()
    };
    let (first, second) = (save(&["6", "w"]), save(&["w"]));
    assert_ne!(first, second);
    let plan = |path: &str| fs::read_to_string(path).expect(path);
    assert_eq!(plan(&first), plan(&second));
    let saved: serde_json::Value = serde_json::from_str(&plan(&first)).expect("JSON");
    assert_eq!(saved["steps"].as_array().map(Vec::len), Some(6));
    for (view, name) in [("1", "triage"), ("2", "batches"), ("3", "slots"), ("4", "page"), ("5", "wal"), ("6", "plan")]
    {
        driven.keys(&[view, "e"]);
        let text = fs::read_to_string(place.join(format!("pg_dwbinspect_{name}.txt"))).expect("text");
        assert!(text.lines().count() > 5, "{name}: {text}");
        let json = fs::read_to_string(place.join(format!("pg_dwbinspect_{name}.json"))).expect("JSON");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(json.to_string().len() > 300, "{name}: {json}");
    }
    let slots: serde_json::Value = serde_json::from_str(&plan("pg_dwbinspect_slots.json")).expect("JSON");
    assert_eq!(slots["shown"]["slots"].as_array().map(Vec::len), Some(3057));
    let text = fs::read_to_string(place.join("pg_dwbinspect_slots.txt")).expect("text");
    assert!(text.lines().count() > 3057, "the whole list, not only what was on the screen");
}

#[test]
fn repair_is_finished_before_the_program_ends() {
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.state.plan.is_applying = true;
    driven.keys(&["q"]);
    driven.act(Action::Terminate);
    assert!(driven.asked.is_empty());
    driven.act(Action::Refused("cut off".to_owned()));
    assert_eq!(driven.asked, [Effect::Quit]);
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.act(Action::Terminate);
    assert_eq!(driven.asked, [Effect::Quit]);
}

#[test]
fn leaving_with_marks_is_asked_about_once() {
    for last in ["q", "y", "ctrl-c"] {
        let mut driven = Driven::of("checkpoint", SMALL);
        driven.keys(&["j", "m", "q"]);
        assert!(driven.asked.is_empty(), "{:?}", driven.asked);
        assert!(
            driven.picture().contains("1 page marked: w in Plan saves the plan; q or y leaves"),
            "{}",
            driven.picture()
        );
        driven.keys(&[last]);
        assert_eq!(driven.asked, [Effect::Quit], "{last}");
    }
    // What was saved is not lost.
    let mut driven = Driven::of("checkpoint", SMALL);
    driven.keys(&["j", "m", "6"]);
    driven.act(Action::PlanSaved("plan.json".into()));
    driven.keys(&["q"]);
    assert_eq!(driven.asked, [Effect::Quit]);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn unproven_page_takes_its_own_words_and_mark() {
    let (_temporary, data) = copy_of("checkpoint");
    // Without WAL nothing proves an image.
    fs::remove_dir_all(data.join("pg_wal")).expect("remove");
    let mut driven = Driven::open(&data, FINE, SMALL);
    let survey = driven.state.cluster.survey.clone().expect("survey");
    let unproven = |page: &pgforensics::analysis::verdict::survey::PageReport| {
        page.verdict.verdict == pgforensics::analysis::verdict::judge::Verdict::RestoreUnproven
    };
    let at = survey.pages().iter().position(unproven).expect("an unproven page");
    // One row for each page, in the order of the survey.
    driven.keys(&["s", "s"]);
    driven.state.triage.selected = at;
    driven.keys(&["m"]);
    assert!(driven.picture().contains("1 page is marked (?)"), "{}", driven.picture());
    let marked = driven.picture().lines().find(|line| line.contains('▶')).expect("the selected line").to_owned();
    assert!(marked.starts_with("▶?"), "{marked}");
    assert_eq!(driven.state.mark_sign(survey.pages()[at].page), "?");
    driven.keys(&["6"]);
    let file = data.join(survey.examined.path_of(survey.pages()[at].page));
    let before = fs::read(&file).expect("read");
    assert!(driven.state.plan.sheet.as_ref().is_some_and(|sheet| sheet.may_lose() && sheet.plan.steps.len() == 1));
    driven.act(Action::Resize(140, 45));
    let picture = driven.picture();
    assert!(
        picture.contains("1 not proven: changes may be lost") && picture.contains("may be lost or wrong: "),
        "{picture}"
    );
    driven.keys(&["a"]);
    assert!(
        driven.picture().contains("? base/") && driven.picture().contains("then type: apply unproven"),
        "{}",
        driven.picture()
    );
    for word in ["apply", "unproven", "Apply unproven", "apply  unproven"] {
        driven.keys(&["a"]).enter(word);
        assert!(driven.state.plan.applied.is_none(), "{word}");
        assert_eq!(fs::read(&file).expect("read"), before, "{word}");
    }
    driven.keys(&["a"]).enter("apply unproven");
    assert!(driven.state.plan.applied.is_some(), "{}", driven.picture());
    assert_ne!(fs::read(&file).expect("read"), before);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn journal_is_chosen_and_guards_are_allowed_before_anything_is_written() {
    let (kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, (140, 45));
    driven.keys(&["6", "a"]);
    let picture = driven.picture();
    for words in
        ["6 proven, no data is lost", "new, writable", "passed: no server runs", "afterwards  WILL START", "dry run"]
    {
        assert!(picture.contains(words), "{words}: {picture}");
    }
    // A directory that cannot be used is said at once, and nothing can be written.
    let choose = |driven: &mut Driven, path: &Path| {
        driven.keys(&["c"]);
        driven.state.prompt.as_mut().expect("prompt").text.clear();
        driven.enter(path.to_str().expect("path"));
    };
    choose(&mut driven, &data.join("journal"));
    assert!(driven.picture().contains("NOT USABLE"), "{}", driven.picture());
    driven.keys(&["a"]);
    assert!(driven.state.prompt.is_none());
    driven.keys(&["d"]);
    assert!(driven.picture().contains("failed  ") && driven.state.plan.rehearsed.is_none(), "{}", driven.picture());
    choose(&mut driven, &kept.path().join("kept"));
    assert!(driven.picture().contains("new, writable"), "{}", driven.picture());
    // A guard that a flag overrides is allowed by that flag alone.
    fs::write(data.join("recovery.signal"), "").expect("write");
    driven.keys(&["esc", "a"]);
    assert!(driven.picture().contains("REFUSED: recovery.signal"), "{}", driven.picture());
    driven.keys(&["a", "o"]).enter("--allow-other-user");
    assert!(driven.picture().contains("REFUSED"), "{}", driven.picture());
    driven.keys(&["o"]).enter("--allow-standby");
    assert!(driven.picture().contains("allowed by --allow-standby"), "{}", driven.picture());
    driven.keys(&["d"]);
    assert!(driven.picture().contains("passed: 6 pages could be written"), "{}", driven.picture());
    assert!(!kept.path().join("kept").exists());
    driven.keys(&["a"]).enter("apply");
    let applied = driven.state.plan.applied.clone().expect("applied");
    assert_eq!(applied.journal, kept.path().join("kept"));
    // Checked again: what a start would do now, and the plan of what remains.
    assert!(driven.state.view == View::Plan && driven.picture().contains("on startup"), "{}", driven.picture());
    assert!(driven.picture().contains("no page would be written"), "{}", driven.picture());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn reopened_screen_knows_the_journal_and_takes_the_repair_back_after_a_rehearsal() {
    let (_temporary, data) = copy_of("checkpoint");
    let before = page_0_of_pg_class(&data);
    let mut driven = Driven::open(&data, FINE, (140, 45));
    driven.keys(&["6", "a", "a"]).enter("apply");
    let applied = driven.state.plan.applied.clone().expect("applied");
    let after = page_0_of_pg_class(&data);
    assert_ne!(before, after);
    // Another screen, which has done nothing itself.
    let mut driven = Driven::open(&data, FINE, (140, 45));
    assert!(driven.picture().contains("takes back a repair of 6 pages, begun 20"), "{}", driven.picture());
    driven.keys(&["6"]);
    let journal = applied.journal.display().to_string();
    let flat = driven.picture().replace(['\n', ' '], "");
    assert!(flat.contains(&journal) && flat.contains("6astherepairwrotethem"), "{}", driven.picture());
    // Journals are filtered as pages are.
    let left = driven.state.plan.sheet.as_ref().expect("plan").plan.left.len();
    let name = applied.journal.file_name().expect("name").display().to_string();
    driven.keys(&["/"]).enter(&name);
    assert_eq!(driven.state.shown_counts(), Some((1, left + 1)), "{}", driven.picture());
    assert!(driven.picture().replace(['\n', ' '], "").contains(&journal), "{}", driven.picture());
    driven.keys(&["/"]).enter(" fixed by recovery");
    assert_eq!(driven.state.shown_counts(), Some((0, left + 1)), "{}", driven.picture());
    assert!(!driven.picture().contains("as the repair wrote them"), "{}", driven.picture());
    driven.keys(&["esc"]);
    assert!(driven.picture().contains("as the repair wrote them"), "{}", driven.picture());
    driven.keys(&["u"]);
    assert!(driven.picture().contains("passed: 6 pages would get the old bytes back"), "{}", driven.picture());
    assert_eq!(page_0_of_pg_class(&data), after, "a rehearsal writes nothing");
    let log = fs::read(applied.journal.join("audit.ndjson")).expect("log");
    driven.keys(&["d"]);
    assert_eq!(fs::read(applied.journal.join("audit.ndjson")).expect("log"), log, "not into the journal either");
    for word in ["apply", "Undo", ""] {
        driven.keys(&["u"]).enter(word);
        assert_eq!(page_0_of_pg_class(&data), after, "{word}");
    }
    // What forbids it is said, and a flag that allows it is taken.
    fs::write(data.join("recovery.signal"), "").expect("write");
    driven.keys(&["d"]);
    assert!(driven.picture().contains("refused  "), "{}", driven.picture());
    driven.keys(&["u"]);
    assert!(driven.state.prompt.is_none());
    driven.keys(&["o"]).enter("--allow-standby");
    assert!(driven.picture().contains("passed: 6 pages"), "{}", driven.picture());
    fs::remove_file(data.join("recovery.signal")).expect("remove");
    // The key that asks is the first letter of the word.
    driven.keys(&["u"]).enter("ndo");
    assert_eq!(page_0_of_pg_class(&data), before, "{}", driven.picture());
    assert!(driven.state.view == View::Plan && driven.picture().contains("6 pages as before the repair"));
    assert!(driven.state.survey().expect("survey").pages().len() == 7, "checked again");
    driven.keys(&["u"]);
    assert_eq!(driven.state.view, View::Plan, "once is enough");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn undo_of_a_directory_that_was_moved_is_allowed_by_its_flag_alone() {
    let (_temporary, data) = copy_of("checkpoint");
    let before = page_0_of_pg_class(&data);
    let mut driven = Driven::open(&data, FINE, (140, 45));
    driven.keys(&["6", "a", "a"]).enter("apply");
    assert!(driven.state.plan.applied.is_some(), "{}", driven.picture());
    let after = page_0_of_pg_class(&data);
    let moved = data.parent().expect("parent").join("moved");
    fs::rename(&data, &moved).expect("move");
    let mut driven = Driven::open(&moved, FINE, (140, 45));
    driven.keys(&["6", "u"]);
    assert!(driven.picture().contains("refused  ") && driven.picture().contains("--moved"), "{}", driven.picture());
    driven.keys(&["u"]);
    assert!(driven.state.prompt.is_none());
    assert_eq!(page_0_of_pg_class(&moved), after);
    driven.keys(&["o"]).enter("--moved");
    assert!(driven.picture().contains("passed: 6 pages"), "{}", driven.picture());
    driven.keys(&["u"]).enter("undo");
    assert_eq!(page_0_of_pg_class(&moved), before, "{}", driven.picture());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn undo_is_refused_where_something_else_has_changed_a_page() {
    let (_temporary, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, SMALL);
    driven.keys(&["6", "a", "a"]).enter("apply");
    assert!(driven.state.plan.applied.is_some());
    let file = data.join("base/5/1259");
    let mut bytes = fs::read(&file).expect("read");
    bytes[5000] ^= 1;
    fs::write(&file, &bytes).expect("write");
    driven.keys(&["u"]);
    assert!(driven.picture().contains("changed since by something else"), "{}", driven.picture());
    driven.keys(&["u"]);
    assert!(driven.state.prompt.is_none());
    assert_eq!(fs::read(&file).expect("read"), bytes);
}
