//! The screen for MySQL and MariaDB: crashed directories of real servers, every key, every size, and on a terminal.

use std::cell::RefCell;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pgforensics::analysis::innodb::judge::InnodbPage;
use pgforensics::analysis::innodb::recovery::InnodbStart;
use pgforensics::analysis::innodb::scan::FoundPage;
use pgforensics::inspect::innodb::check::{InnodbStage, InnodbWatch, innodb_check};
use pgforensics::inspect::innodb::source::{InnodbRequest, InnodbSource};
use pgforensics::tui::backend::innodb::InnodbBackend;
use pgforensics::tui::facts::Progress;
use pgforensics::tui::innodb::action::{InnodbAction as Action, InnodbCommand, InnodbEffect as Effect};
use pgforensics::tui::innodb::export::{json_text, whole_text};
use pgforensics::tui::innodb::facts::{InnodbSurvey, PendingPage};
use pgforensics::tui::innodb::keymap::{INNODB_KEYS, action_of};
use pgforensics::tui::innodb::state::{InnodbPart, InnodbState as State, InnodbView as View, SlotColumn};
use pgforensics::tui::innodb::triage_rows::Grouping;
use pgforensics::tui::innodb::update::{begin, update};
use pgforensics::tui::innodb::view::view;
use pgforensics::tui::look::{Look, Theme};
use pgforensics::tui::outdated::Outdated;
use pgforensics::tui::worker::{ActionSender, Backend, Event};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use serde_json::Value;

use crate::common::screen::{FINE, SMALL, key, short_paths, text_of};
use crate::common::{arg, copy_tree, dwbinspect, unpack};
use crate::pty::Session;
use crate::views::{is_lost, painted};

const CASES: [&str; 6] =
    ["mysql97", "mysql97-detect", "mysql56", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"];

const SIZES: [((u16, u16), &str); 4] =
    [((60, 16), "60x16"), (SMALL, "80x24"), ((120, 40), "120x40"), ((200, 60), "200x60")];

fn data_dir(case: &str) -> PathBuf {
    unpack::data_dir(&format!("innodb/{case}")).expect("unpack fixture")
}

/// A copy that can be changed.
fn copy_of_innodb(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&data_dir(case), &data);
    (temporary, data)
}

/// A screen whose work is done on this thread, as soon as it is asked for.
struct Driven {
    state: State,
    asked: Vec<Effect>,
    backend: Arc<InnodbBackend>,
    sender: ActionSender<Action>,
    events: Receiver<Event<Action>>,
}

impl Driven {
    fn before(data: &Path, look: Look, size: (u16, u16)) -> Self {
        let backend = Arc::new(InnodbBackend::new(InnodbRequest::of(data)));
        let state = State::new(backend.subject(), look, size);
        Self::with(state, backend)
    }

    fn with(state: State, backend: Arc<InnodbBackend>) -> Self {
        let (sender, events) = channel();
        Self { state, asked: Vec::new(), backend, sender: ActionSender::new(sender), events }
    }

    fn open(data: &Path, look: Look, size: (u16, u16)) -> Self {
        let mut driven = Self::before(data, look, size);
        let effects = begin(&mut driven.state);
        driven.work(effects);
        driven
    }

    /// A directory under a name that is the same on every machine.
    fn of(case: &str, size: (u16, u16)) -> Self {
        let link = short_paths().join(case);
        if !link.exists() {
            // Another test may be quicker.
            drop(std::os::unix::fs::symlink(data_dir(case).canonicalize().expect("fixture"), &link));
        }
        Self::open(Path::new(case), FINE, size)
    }

    fn again(&self) -> Self {
        Self::with(self.state.clone(), Arc::clone(&self.backend))
    }

    fn work(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Survey | Effect::ReadPage(_) | Effect::Export { .. } => self.backend.work(effect, &self.sender),
                other => self.asked.push(other),
            }
        }
        while let Ok(Event::Action(action)) = self.events.try_recv() {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        let effects = update(&mut self.state, action);
        self.work(effects);
    }

    fn keys(&mut self, names: &[&str]) -> &mut Self {
        for name in names {
            if let Some(action) = action_of(key(name), &self.state) {
                self.act(action);
            }
        }
        self
    }

    fn buffer(&self) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(self.state.size.0, self.state.size.1)).expect("terminal");
        terminal.draw(|frame| view(&self.state, frame)).expect("draw");
        terminal.backend().buffer().clone()
    }

    fn picture(&self) -> String {
        text_of(&self.buffer())
    }

    fn survey(&self) -> &InnodbSurvey {
        self.state.survey.as_deref().expect("survey")
    }
}

/// Pictures, and the keys that lead from each to the next.
const WALK: [(&str, &[&str]); 10] = [
    ("triage", &[]),
    ("pages", &["down", "down", "right", "down"]),
    ("page_verdict", &["enter"]),
    ("page_bytes", &["]"]),
    ("page_header", &["p"]),
    ("slots", &["3"]),
    ("batches", &["2"]),
    ("findings", &["1", "F"]),
    ("palette", &[":", "s", "o", "r", "t"]),
    ("help", &["esc", "?"]),
];

#[test]
fn every_view_in_every_size_on_dark_and_light() {
    let mut first = Driven::of("mysql97", SMALL);
    for (size, word) in SIZES {
        let mut dark = first.again();
        dark.act(Action::Resize(size.0, size.1));
        let mut light = dark.again();
        light.state.look = Look { theme: Theme::Light, ..FINE };
        for (name, keys) in WALK {
            let (dark, light) = (dark.keys(keys).buffer(), light.keys(keys).buffer());
            for (buffer, theme) in [(&dark, Theme::Dark), (&light, Theme::Light)] {
                assert_eq!(buffer.content.iter().find(|cell| is_lost(theme, cell)), None, "{name} {word} {theme:?}");
            }
            insta::assert_snapshot!(format!("innodb_{name}_{word}"), painted(&dark, &light));
        }
    }
    first.keys(&["end"]);
}

#[test]
fn triage_of_every_directory() {
    for case in CASES {
        insta::assert_snapshot!(format!("innodb_triage_of_{case}"), Driven::of(case, (120, 40)).picture());
    }
}

#[test]
fn ascii_means_ascii_and_no_colours_none() {
    let plain = Look { colour: false, theme: Theme::Dark, ascii: true };
    let mut driven = Driven::open(&data_dir("mariadb1011"), plain, (200, 60));
    for (name, keys) in WALK {
        let buffer = driven.keys(keys).buffer();
        assert!(text_of(&buffer).is_ascii(), "{name}\n{}", text_of(&buffer));
        assert!(buffer.content.iter().all(|cell| cell.fg == ratatui::style::Color::Reset), "{name}");
    }
}

/// Keys pressed one after the other from the triage, and what must hold then.
type KeyRow = (&'static [&'static str], &'static str, fn(&State) -> bool);

fn told(state: &State, words: &str) -> bool {
    state.message.as_ref().is_some_and(|message| message.words.contains(words))
}

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
    (&["s"], "by verdict", |s| s.triage.grouping == Grouping::Verdict),
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
            let elsewhere = ["y", "e", "ctrl-z", "ctrl-l"];
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

/// What the screen exports is what the commands print.
#[test]
fn exports_are_the_documents_of_the_commands() {
    for case in CASES {
        let mut driven = Driven::of(case, SMALL);
        let data = data_dir(case);
        let command = |words: &[&str]| -> Value {
            let ran = dwbinspect(&[&["innodb"], words, &["--format", "json", arg(&data)]].concat());
            serde_json::from_str(&ran.stdout).expect("JSON")
        };
        let shown = |driven: &Driven| -> Value { serde_json::from_str(&json_text(&driven.state)).expect("JSON") };
        let (mut ours, mut theirs) = (shown(&driven), command(&["check"]));
        ours["begin"]["paths"] = Value::Null;
        theirs["begin"]["paths"] = Value::Null;
        assert_eq!(ours, theirs, "{case}");
        let dumped = command(&["dump"]);
        let used: Vec<&Value> =
            dumped["slots"].as_array().expect("slots").iter().filter(|slot| slot["state"] == "used").collect();
        let listed = shown(driven.keys(&["3"]));
        assert_eq!(listed["slots"].as_array().map_or_else(Vec::new, |slots| slots.iter().collect()), used, "{case}");
        assert_eq!(listed["entries"], dumped["entries"], "{case}");
        assert_eq!(shown(driven.keys(&["2"]))["batches"], command(&["batches"])["batches"], "{case}");
        driven.keys(&["4"]);
        let page = &shown(&driven)["pages"][0];
        assert_eq!(*page, theirs["pages"][0], "{case}");
        assert!(whole_text(&driven.state).contains(page["verdict"].as_str().expect("verdict")), "{case}");
    }
}

/// The directory of the doublewrite buffer belongs to the server, wherever it is: here it is the one that exports go into.
#[test]
fn nothing_is_exported_into_a_directory_of_the_server() {
    // The current directory of all tests of this program.
    let here = short_paths();
    let option_file = tempfile::NamedTempFile::new().expect("file");
    fs::write(option_file.path(), format!("[mysqld]\ninnodb_doublewrite_dir = {}\n", here.display())).expect("write");
    let request =
        InnodbRequest { my_cnf: Some(option_file.path().to_owned()), ..InnodbRequest::of(data_dir("mysql97")) };
    let backend = Arc::new(InnodbBackend::new(request));
    let mut driven = Driven::with(State::new(backend.subject(), FINE, SMALL), backend);
    let effects = begin(&mut driven.state);
    driven.work(effects);
    driven.keys(&["e"]);
    let message = driven.state.message.clone().expect("message");
    assert!(message.is_bad && !message.words.starts_with("written"), "{}", message.words);
    assert!(!here.join("innodb_triage.txt").exists() && !here.join("innodb_triage.json").exists());
}

/// The damaged pages that the README of the fixtures counts, each in one group.
#[test]
fn triage_gathers_every_damaged_page() {
    let damaged = [17, 3, 15, 17, 16, 15];
    for (case, damaged) in CASES.into_iter().zip(damaged) {
        let driven = Driven::of(case, (120, 40));
        assert!(driven.picture().contains(&format!("{damaged} pages damaged")), "{case}\n{}", driven.picture());
        let mut grouped: Vec<usize> =
            driven.state.triage.rows.groups.iter().flat_map(|group| group.pages.iter().copied()).collect();
        grouped.sort_unstable();
        assert!(grouped.into_iter().eq(0..driven.survey().examined.pages.len()), "{case}");
    }
}

/// A check that is done again: what was made of the one before is not shown for it, however late it comes.
#[test]
fn sheets_of_a_check_before_are_dropped() {
    let mut driven = Driven::of("mysql97", SMALL);
    driven.keys(&["l", "j", "enter"]);
    let (slots, page) = (driven.state.compared.clone().expect("slots"), driven.state.page.sheet.clone().expect("page"));
    let effects = update(&mut driven.state, Action::Do(InnodbCommand::Reload));
    assert!(effects == [Effect::Survey] && driven.state.page.sheet.is_none(), "{}", driven.picture());
    assert_eq!(driven.state.outdated(), Some(Outdated::Again), "who leaves now has no answer");
    driven.act(Action::PageRead(Arc::clone(&page)));
    assert!(driven.state.page.sheet.is_none(), "it is read again when the check has ended");
    driven.work(effects);
    let of_now = driven.state.survey.clone().expect("survey");
    assert!(!Arc::ptr_eq(&page.survey, &of_now));
    driven.act(Action::Compared(slots));
    driven.act(Action::PageRead(page));
    let (slots, page) =
        (driven.state.compared.as_ref().expect("slots"), driven.state.page.sheet.as_ref().expect("page"));
    assert!(Arc::ptr_eq(&slots.survey, &of_now) && Arc::ptr_eq(&page.survey, &of_now));
}

/// A check that fails when it is done again leaves what is shown, says so, and is no answer.
#[test]
fn check_that_fails_again_is_said() {
    let (_kept, data) = copy_of_innodb("mariadb1011-crc32");
    let mut driven = Driven::open(&data, FINE, (120, 40));
    assert_eq!(driven.state.outdated(), None);
    let moved = data.with_extension("away");
    fs::rename(&data, &moved).expect("rename");
    driven.keys(&["r"]);
    assert!(matches!(driven.state.outdated(), Some(Outdated::Failed(_))), "{}", driven.picture());
    driven.keys(&["j", "2", "1"]);
    assert!(driven.picture().contains("this is of before: the check after it failed"), "{}", driven.picture());
    fs::rename(&moved, &data).expect("rename");
    driven.keys(&["r"]);
    assert_eq!(driven.state.outdated(), None, "{}", driven.picture());
    assert!(!driven.picture().contains("of before"), "{}", driven.picture());
}

#[test]
fn on_a_terminal_a_check_that_fails_again_ends_with_status_2() {
    let (_kept, data) = copy_of_innodb("mariadb1011-crc32");
    let mut session = Session::start("pg_dwbinspect", &["innodb", "tui", arg(&data)]);
    session.see("next step");
    fs::rename(&data, data.with_extension("away")).expect("rename");
    session.send("r");
    session.see("this is of before");
    session.send("q");
    assert_eq!(session.end(), 2);
    session.see("the check was done again and failed: ");
    session.see("what follows is of before:");
}

#[test]
fn mouse_opens_tabs_and_lines() {
    let mut driven = Driven::of("mysql97", SMALL);
    driven.act(Action::Click(12, 0));
    assert_eq!(driven.state.view, View::Batches);
    driven.act(Action::Click(2, 0));
    assert_eq!(driven.state.view, View::Triage);
    let picture = driven.picture();
    let row = picture.lines().position(|line| line.contains("shop/orders.ibd")).expect("orders") as u16;
    driven.act(Action::Click(5, row));
    driven.act(Action::Click(5, row));
    assert!(driven.picture().contains("torn"), "{}", driven.picture());
    driven.keys(&["3"]);
    driven.act(Action::Scroll(3));
    assert_eq!(driven.state.slots.selected, 3);
}

#[test]
fn first_picture_comes_before_anything_is_read() {
    let driven = Driven::before(&data_dir("mysql97"), FINE, SMALL);
    assert!(driven.picture().contains("is being read"), "{}", driven.picture());
    let mut driven = driven;
    // Keys are answered meanwhile.
    for (name, keys) in WALK.into_iter().rev() {
        driven.keys(keys);
        assert!(driven.picture().contains("1 Triage"), "{name}");
    }
}

/// Who is told of damaged pages as they are found.
#[derive(Default)]
struct Told {
    stages: RefCell<Vec<InnodbStage>>,
    damaged: RefCell<Vec<(String, u32)>>,
}

impl InnodbWatch for Told {
    fn at(&self, stage: InnodbStage, done: u64, total: u64) -> ControlFlow<()> {
        assert!(total == 0 || done <= total, "{stage:?}: {done} of {total}");
        let mut stages = self.stages.borrow_mut();
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
        ControlFlow::Continue(())
    }

    fn found(&self, source: &InnodbSource, found: &[FoundPage]) {
        let damaged = found.iter().filter(|page| page.state.is_damaged());
        self.damaged.borrow_mut().extend(damaged.map(|page| (source.spaces.all[page.space].name(), page.page_no)));
    }
}

#[test]
fn damaged_pages_are_told_before_they_are_judged() {
    for case in CASES {
        let told = Told::default();
        let examined = innodb_check(&InnodbRequest::of(data_dir(case)), false, &told).expect("check");
        let stages = [InnodbStage::Buffer, InnodbStage::Scan, InnodbStage::Judge];
        assert!(told.stages.borrow().ends_with(&stages[1..]), "{case}: {:?}", told.stages.borrow());
        assert!(told.stages.borrow().len() <= stages.len(), "{case}: {:?}", told.stages.borrow());
        let named = |page: &InnodbPage| (examined.source.spaces.all[page.space].name(), page.page.page_no);
        let mut judged: Vec<_> = examined.pages.iter().filter(|page| page.state.is_damaged()).map(named).collect();
        let mut found = told.damaged.borrow().clone();
        judged.sort();
        found.sort();
        assert_eq!(found, judged, "{case}");
    }
}

#[test]
fn pages_appear_as_pending_until_they_are_judged() {
    let pending = |called: &str, space, page_no| PendingPage { space, called: called.into(), pages: 100, page_no };
    for (size, word) in [((60, 16), "60x16"), ((120, 40), "120x40")] {
        let mut driven = Driven::before(Path::new("mysql97"), FINE, size);
        drop(begin(&mut driven.state));
        let (what, step) = ("checking every page", Some((2, 4)));
        driven.act(Action::Progressed(Progress { what, done: 30 << 20, total: 90 << 20, step, left_s: Some(40) }));
        let found = [pending("shop/orders", 3, 7), pending("shop/orders", 3, 60), pending("shop/logs", 4, 2)];
        driven.act(Action::Found(Arc::new(found.to_vec())));
        driven.keys(&["right"]);
        insta::assert_snapshot!(format!("innodb_pending_{word}"), driven.picture());
    }
    let mut driven = Driven::before(&data_dir("mysql97"), FINE, SMALL);
    let effects = begin(&mut driven.state);
    driven.act(Action::Found(Arc::new(vec![pending("shop/orders", 3, 7), pending("shop/logs", 4, 2)])));
    driven.keys(&["enter"]);
    assert!(told(&driven.state, "not judged yet"), "{}", driven.picture());
    driven.keys(&["s", "s"]);
    assert!(driven.picture().contains("pending"), "{}", driven.picture());
    driven.keys(&["/", "l", "o", "g", "s", "enter"]);
    assert_eq!(driven.state.counts(), Some((1, 2)));
    driven.keys(&["esc"]).work(effects);
    assert!(driven.state.triage.pending.is_empty() && !driven.picture().contains("pending"), "{}", driven.picture());
    // A check that is done again leaves what is shown until it has ended.
    driven.act(Action::Found(Arc::new(vec![pending("shop/orders", 3, 7)])));
    assert!(driven.state.triage.pending.is_empty());
}

/// A hundred thousand damaged pages: drawing touches those on the screen, filtering reads a text each.
#[test]
fn keys_are_answered_at_once_with_many_pages() {
    const COUNT: u32 = 100_000;
    let mut driven = Driven::of("mysql97", (120, 40));
    let mut survey = Arc::into_inner(driven.state.survey.take().expect("survey")).unwrap_or_else(|| {
        // The backend keeps the first one: another is read.
        let data = data_dir("mysql97");
        let mut other = Driven::open(&data, FINE, SMALL);
        let survey = other.state.survey.take().expect("survey");
        (other.state.compared, other.state.page.sheet) = (None, None);
        drop((other.backend, other.events, other.sender));
        Arc::into_inner(survey).expect("the only one")
    });
    let one = survey.examined.pages[0].clone();
    survey.examined.pages = (0..COUNT)
        .map(|number| {
            let mut page = one.clone();
            page.page.page_no = number;
            page
        })
        .collect();
    survey.page_texts = survey.examined.pages.iter().map(|page| survey.page_text(page)).collect();
    driven.act(Action::Surveyed(Arc::new(survey)));
    driven.keys(&["s", "s"]);
    assert_eq!(driven.state.triage.rows.rows.len(), COUNT as usize);
    let timed = |driven: &mut Driven, keys: &[&str]| {
        let start = Instant::now();
        driven.keys(keys);
        drop(driven.buffer());
        start.elapsed()
    };
    // Far more than is wanted, for a machine that is busy with other tests and code that is not optimised.
    for keys in [&["j"] as &[&str], &["end"], &["pageup"], &["/", "9", "9"], &["esc"], &["S"]] {
        let taken = timed(&mut driven, keys);
        assert!(taken < Duration::from_secs(2), "{keys:?}: {taken:?}");
    }
    let drawn = timed(&mut driven, &[]);
    assert!(drawn < Duration::from_secs(1), "{drawn:?}");
}

#[test]
fn hostile_names_do_not_drive_the_terminal() {
    let mut driven = Driven::of("mysql97", SMALL);
    driven.state.subject.path = "evil\u{1b}[2J".to_owned();
    assert!(driven.buffer().content.iter().all(|cell| !cell.symbol().contains('\u{1b}')));
}

#[test]
fn on_a_terminal_it_shows_exports_and_leaves_with_the_status_of_check() {
    let data = data_dir("mariadb1011");
    let mut session = Session::start("pg_dwbinspect", &["innodb", "tui", arg(&data)]);
    session.see("1 Triage");
    session.see("next step");
    session.send("e");
    session.see("written:");
    session.send("a");
    session.see("not repaired here");
    session.send("\u{1b}[6~4");
    session.see("verdict");
    session.send("q");
    assert_eq!(session.end(), 1);
    session.see("damaged pages: 17");
    session.assert_given_back();
    let exported = fs::read_to_string(session.directory.path().join("innodb_triage.json")).expect("export");
    let exported: Value = serde_json::from_str(&exported).expect("JSON");
    assert_eq!(exported["pages"][0]["engine"], "innodb");
}

#[test]
fn a_directory_of_another_kind_is_refused_on_the_normal_screen() {
    let empty = tempfile::tempdir().expect("directory");
    let mut session = Session::start("pg_dwbinspect", &["innodb", "tui", arg(empty.path())]);
    assert_ne!(session.end(), 0);
    session.see("not a data directory");
}

/// Signs after a heading of the page view.
fn signs_after(picture: &str, heading: &str) -> String {
    let line = picture.lines().find_map(|line| line.trim_start().strip_prefix(heading));
    let line = line.unwrap_or_else(|| panic!("no {heading}:\n{picture}"));
    line.split_whitespace().next().expect("signs").to_owned()
}

#[test]
fn image_has_one_letter_in_both_maps_and_it_is_that_of_the_bytes() {
    let mut compared = 0;
    for case in CASES {
        let mut driven = Driven::of(case, (200, 60));
        driven.keys(&["4"]);
        for _ in 0..driven.survey().examined.pages.len() {
            let sheet = driven.state.page.sheet.clone().expect("sheet");
            let page = sheet.page.as_ref().expect("page");
            if page.tear.is_some() {
                let picture = driven.picture();
                let above = signs_after(&picture, "sectors  ");
                let below = signs_after(&picture, "sectors of 512 bytes");
                let disk = sheet.disk.as_deref().expect("disk");
                assert_eq!((above.len(), below.len()), (disk.len() / 512, disk.len() / 512), "{picture}");
                for (at, sector) in disk.chunks(512).enumerate() {
                    for signs in [&above, &below] {
                        let sign = signs.as_bytes()[at] as char;
                        let Some(image) = sheet.images.iter().find(|image| image.letter == sign) else { continue };
                        assert_eq!(&image.bytes[at * 512..at * 512 + 512], sector, "{case}: sector {at}\n{picture}");
                        compared += 1;
                    }
                }
                for image in &sheet.images {
                    let slot = image.title.split(" at ").next().expect("slot");
                    assert!(picture.contains(&format!("image {}                  {slot},", image.letter)), "{picture}");
                }
            }
            driven.keys(&["}"]);
        }
    }
    assert!(compared > 1000, "{compared} sectors");
}

#[test]
fn next_step_promises_no_more_than_what_a_start_does() {
    let mut seen = 0;
    for case in CASES {
        let driven = Driven::of(case, (200, 60));
        let survey = driven.survey();
        let tried = survey.steps.iter().find(|step| step.words.starts_with("Start a server on the copy alone"));
        let Some(step) = tried else { continue };
        let may_stop = survey.examined.start == InnodbStart::MayStop;
        assert_eq!(step.words.contains("may stop"), may_stop, "{case}: {}", step.words);
        assert_eq!(step.command.as_deref(), Some("pg_dwbinspect innodb verify COPY"), "not the directory itself");
        seen += usize::from(may_stop);
    }
    assert!(seen > 0);
}
