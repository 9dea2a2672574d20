//! Keys of the screen for MySQL and MariaDB: each does what the table says, or says why it does nothing.

use pgforensics::tui::innodb::action::InnodbEffect as Effect;
use pgforensics::tui::innodb::keymap::INNODB_KEYS;
use pgforensics::tui::innodb::state::{InnodbPart, InnodbState as State, InnodbView as View, SlotColumn};
use pgforensics::tui::innodb::triage_rows::Grouping;

use crate::common::screen::SMALL;
use crate::innodb::{Driven, told};

/// Keys pressed one after the other from the triage, and what must hold then.
type KeyRow = (&'static [&'static str], &'static str, fn(&State) -> bool);

fn sides_differ(state: &State) -> bool {
    let sheet = state.page.sheet.as_ref().expect("page");
    let (left, right) = sheet.sides(state.page.image);
    left[state.page.cursor] != right.expect("image")[state.page.cursor]
}

#[rustfmt::skip]
const TABLE: &[KeyRow] = &[
    (&["?"], "help opens", |s| s.help.is_some()),
    (&["?", "?"], "help closes", |s| s.help.is_none()),
    (&["f1", "q"], "q closes the help", |s| s.help.is_none()),
    (&["?", "esc"], "esc closes it", |s| s.help.is_none() && s.view == View::Triage),
    (&["tab"], "next view", |s| s.view == View::Batches),
    (&["backtab"], "round the end, to a page", |s| s.view == View::Page && s.page.sheet.is_some()),
    (&["2"], "batches", |s| s.view == View::Batches),
    (&["3"], "slots", |s| s.view == View::Slots),
    (&["4"], "a page", |s| s.view == View::Page && s.page.sheet.is_some()),
    (&["4", "1"], "triage", |s| s.view == View::Triage),
    (&["down"], "one down", |s| s.triage.selected == 1),
    (&["j", "k"], "and up", |s| s.triage.selected == 0),
    (&["up"], "the first stays, which is said", |s| s.triage.selected == 0 && told(s, "first line")),
    (&["end", "home"], "first", |s| s.triage.selected == 0),
    (&["3", "G"], "last slot", |s| s.slots.selected + 1 == s.slots.order.len()),
    (&["3", "pagedown", "pageup"], "a screen down and up", |s| s.slots.selected == 0),
    (&["3", " "], "a screen down", |s| s.slots.selected > 10),
    (&["enter"], "shows the pages of the tablespace", |s| s.view == View::Triage && s.triage.rows.is_open(0)),
    (&["right", "left"], "and hides them", |s| !s.triage.rows.is_open(0)),
    (&["l", "j", "h"], "from within as well", |s| !s.triage.rows.is_open(0) && s.triage.selected == 0),
    (&["h"], "nothing to hide is said", |s| s.message.is_some()),
    (&["l", "j", "enter"], "opens the page", |s| s.view == View::Page && s.page.wanted.is_some_and(|page| page.listed.is_some())),
    (&["l", "j", "enter", "esc"], "and goes back", |s| s.view == View::Triage && s.triage.selected == 1),
    (&["s"], "by image", |s| s.triage.grouping == Grouping::Held),
    (&["s", "s"], "page by page", |s| s.triage.grouping == Grouping::Page && s.triage.rows.rows.len() == 18),
    (&["s", "s", "s"], "by tablespace again", |s| s.triage.grouping == Grouping::Tablespace),
    (&["s", "s", "S", "}"], "the other way round, one down", |s| s.triage.is_reversed && s.triage.rows.page_at(0) == Some(17) && s.triage.selected == 1),
    (&["s", "s", "}", "{"], "and up", |s| s.triage.selected == 0),
    (&["4", "}"], "next damaged page", |s| s.page.wanted.and_then(|page| page.listed) == Some(1) && s.page.sheet.is_some()),
    (&["4", "{"], "round the end", |s| s.page.wanted.and_then(|page| page.listed) == Some(17)),
    (&["4", "p"], "bytes", |s| s.page.part == InnodbPart::Bytes),
    (&["4", "P"], "header", |s| s.page.part == InnodbPart::Header),
    (&["4", "]"], "bytes that differ", |s| s.page.part == InnodbPart::Bytes && sides_differ(s)),
    (&["4", "]", "]", "["], "and back", sides_differ),
    (&["4", "p", "right", "l", "left"], "a byte right", |s| s.page.cursor == 1),
    (&["4", "p", "z", "down"], "a row down", |s| s.page.is_unfolded && s.page.cursor == 8),
    (&["4", "p", "end"], "last row", |s| s.page.cursor >= 16384 - 8),
    (&["4", "z"], "nothing to fold in the verdict", |s| !s.page.is_unfolded && told(s, "p leads")),
    (&["4", "i"], "the next image, or why not", |s| s.page.image == 1 || told(s, "image of the page")),
    (&["F"], "findings", |s| s.view == View::Findings && !s.findings.is_empty()),
    (&["F", "esc"], "and back", |s| s.view == View::Triage),
    (&["2", "F"], "only from the triage, which is said", |s| told(s, "in Triage")),
    (&["/", "o", "r", "d", "e", "r", "s"], "filtered while it is typed", |s| s.prompt.is_some() && s.triage.rows.groups.len() == 1),
    (&["/", "o", "r", "d", "e", "r", "s", "enter"], "and kept", |s| s.prompt.is_none() && s.triage.rows.groups.len() == 1),
    (&["/", "o", "r", "d", "e", "r", "s", "enter", "esc"], "all again", |s| s.triage.filter.is_empty() && s.triage.rows.shown() == 18),
    (&["/", "q", "backspace", "backspace"], "erased", |s| s.prompt.is_none() && s.triage.rows.shown() == 18),
    (&["/", "z", "q", "x", "enter"], "nothing matches is said", |s| told(s, "nothing matches")),
    (&["3", "/", "t", "o", "r", "n", "enter"], "torn pages only", |s| !s.slots.order.is_empty() && s.slots.order.len() < 40),
    (&["2", "/", "s", "t", "a", "l", "e"], "stale batches only", |s| s.batches.order.len() < s.survey.as_ref().map_or(0, |v| v.batches.len())),
    (&["3", "s"], "by page", |s| s.slots.column == SlotColumn::Page),
    (&["3", "s", "s", "S"], "newest first", |s| {
        let survey = s.survey.as_ref().expect("survey");
        let lsn = |at: &usize| survey.slot_line(*at).expect("slot").lsn();
        s.slots.order.windows(2).all(|pair| lsn(&pair[0]) >= lsn(&pair[1]))
    }),
    (&["3", "end", "enter"], "the page of a slot", |s| s.view == View::Page && s.page.sheet.is_some()),
    (&["2", "enter"], "slots of the batch", |s| s.view == View::Slots && s.slots.batch == Some(0) && {
        let survey = s.survey.as_ref().expect("survey");
        s.slots.order.len() as u64 == survey.batches[0].slots
    }),
    (&["2", "enter", "esc"], "and back", |s| s.view == View::Batches && s.slots.batch.is_none()),
    (&["g", "s", "h", "o", "p", "/", "o", "r", "d", "e", "r", "s", ":", "7", "enter"], "goes to a page", |s| s.view == View::Page && s.page.sheet.as_ref().is_some_and(|sheet| sheet.page.as_ref().is_some_and(|page| page.page.page_no == 7))),
    (&["g", "s", "l", "o", "t", " ", "2", "enter"], "goes to a slot", |s| s.view == View::Slots && s.slots.selected == 2),
    (&["4", "g", "x", "esc"], "esc closes the prompt alone", |s| s.view == View::Page && s.prompt.is_none()),
    (&["g", "x", "enter"], "what is not understood is said", |s| told(s, "not understood")),
    (&["g", "x", ":", "1", "enter"], "no such tablespace", |s| told(s, "no tablespace")),
    (&[":", "f", "i", "n", "d", "i", "n", "g", "enter"], "runs the command that was picked", |s| s.view == View::Findings && s.prompt.is_none()),
    (&[":", "down", "down", "up", "enter"], "or the one the arrow is at", |s| s.prompt.is_none() && s.view != View::Findings),
    (&[":", "q", "esc"], "esc picks none", |s| s.prompt.is_none() && s.view == View::Triage),
    (&["l", "j", "j", "b", "3", "'", "enter"], "to the page that was kept", |s| s.view == View::Page && s.page.wanted.is_some_and(|target| target.page.page_no == 101)),
    (&["b", "3", "'", "1", "enter"], "of a group, to its first page", |s| s.view == View::Page && s.page.wanted.is_some_and(|target| target.page.page_no == 72)),
    (&["3", "end", "b", "home", "1", "'", "enter"], "to the slot that was kept", |s| s.view == View::Slots && s.slots.selected + 1 == s.slots.order.len()),
    (&["2", "b", "1", "'", "enter"], "to the view that was kept", |s| s.view == View::Batches),
    (&["'", "enter"], "nothing was kept", |s| s.prompt.is_none() && s.view == View::Triage),
    (&["3", "/", "t", "o", "r", "n", "enter", "y"], "the command shows more than is listed, which is said", |s| told(s, "of all lines")),
    (&["3", "y"], "or just that", |s| told(s, "copied: pg_dwbinspect innodb dump")),
    (&["a"], "no repair, which is said", |s| told(s, "not repaired here")),
    (&["4", "m"], "nor a mark", |s| told(s, "not repaired here")),
    (&["4", "u"], "nor an undo", |s| told(s, "not repaired here")),
    (&["d"], "nor a dry run", |s| told(s, "not repaired here")),
    (&["w"], "nor a plan", |s| told(s, "not repaired here")),
    (&["esc"], "nothing to go back to", |s| told(s, "q leaves")),
    (&["r"], "read again", |s| !s.is_reading && s.survey.is_some()),
    (&["4", "r"], "the page, too", |s| !s.is_reading && s.page.sheet.is_some()),
    (&["x"], "a key without meaning", |s| told(s, "is not a key here")),
];

#[test]
fn every_key_does_what_the_table_says() {
    let fresh = Driven::of("mysql97", SMALL);
    for (keys, what, holds) in TABLE {
        let mut driven = fresh.again();
        driven.keys(keys);
        assert!(holds(&driven.state), "{keys:?}: {what}\n{}", driven.picture());
    }
    let pressed: Vec<&str> = TABLE.iter().flat_map(|(keys, ..)| keys.iter().copied()).collect();
    for binding in INNODB_KEYS {
        for name in binding.label.split(", ") {
            let name = match name {
                "shift-tab" => "backtab",
                "space" => " ",
                "page up" => "pageup",
                "page down" => "pagedown",
                other => other,
            };
            let elsewhere = ["y", "e", "R", "ctrl-z", "ctrl-l"];
            assert!(pressed.contains(&name) || elsewhere.contains(&name), "{name} is in no test");
        }
    }
}

#[test]
fn keys_that_ask_for_something_outside() {
    let fresh = Driven::of("mysql97", SMALL);
    let asked = |keys: &[&str]| {
        let mut driven = fresh.again();
        driven.keys(keys);
        driven.asked
    };
    assert_eq!(asked(&["q"]), [Effect::Quit]);
    assert_eq!(asked(&["ctrl-c"]), [Effect::Quit]);
    assert_eq!(asked(&["ctrl-z"]), [Effect::Suspend]);
    assert_eq!(asked(&["ctrl-l"]), [Effect::Redraw]);
    let copied = |command: &str| [Effect::Copy(format!("pg_dwbinspect innodb {command}"))];
    assert_eq!(asked(&["y"]), copied("check --explain mysql97"));
    assert_eq!(asked(&["3", "y"]), copied("dump mysql97"));
    assert_eq!(asked(&["2", "y"]), copied("batches mysql97"));
    let page = fresh.survey().examined.pages[0].clone();
    assert_eq!(
        asked(&["g", "1", "2", ":", "7", "esc", "4", "y"]),
        copied(&format!("page mysql97 {} {}", page.path, page.page.page_no))
    );
}
