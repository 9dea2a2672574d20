//! Files under the screen for MySQL and MariaDB: what it writes and where never, files that change, and how it begins and ends on a
//! terminal.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use pgforensics::inspect::innodb::source::InnodbRequest;
use pgforensics::tui::backend::innodb::InnodbBackend;
use pgforensics::tui::innodb::action::{InnodbAction as Action, InnodbCommand, InnodbEffect as Effect};
use pgforensics::tui::innodb::export::{json_text, whole_text};
use pgforensics::tui::innodb::state::InnodbState as State;
use pgforensics::tui::innodb::update::{begin, update};
use pgforensics::tui::outdated::Outdated;
use serde_json::Value;

use crate::common::screen::{FINE, SMALL, short_paths};
use crate::common::{arg, dwbinspect};
use crate::innodb::{CASES, Driven, copy_of_innodb, data_dir, told};
use crate::pty::Session;

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
        assert!(whole_text(&driven.state).contains(page["holds"].as_str().expect("holds")), "{case}");
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
    for key in ["e", "R"] {
        driven.keys(&[key]);
        let message = driven.state.message.clone().expect("message");
        assert!(message.is_bad && message.words.contains("lies inside"), "{key}: {}", message.words);
    }
    assert!(!here.join("innodb_triage.txt").exists() && !here.join("innodb_triage.json").exists());
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

#[test]
fn startup_is_tried_on_a_copy_alone() {
    for case in CASES {
        let driven = Driven::of(case, (200, 60));
        let step = driven.survey().steps.last().expect("a step");
        assert!(step.words.starts_with("Start a server only on the copy"), "{case}: {}", step.words);
        assert_eq!(step.command.as_deref(), Some("pg_dwbinspect innodb verify COPY"), "not the directory itself");
    }
}

/// Words of the last message.
fn said(driven: &Driven) -> String {
    driven.state.message.clone().expect("message").words
}

/// The path in a message that says what was written.
fn written(driven: &Driven) -> PathBuf {
    let words = said(driven);
    let path = words.strip_prefix("written: ").and_then(|rest| rest.strip_suffix(", .json"));
    PathBuf::from(path.unwrap_or_else(|| panic!("{words}")))
}

/// `R` in any view: the whole answer of `check` in two new files, never over those that are there.
#[test]
fn crash_report_is_the_answer_of_check_in_new_files() {
    for case in CASES {
        let mut driven = Driven::of(case, SMALL);
        // What is filtered and opened does not change it.
        driven.keys(&["/", "x", "x", "x", "enter", "3", "R"]);
        let first = written(&driven);
        let text = fs::read_to_string(&first).expect("text");
        assert!(text.starts_with("Crash report\n"), "{text}");
        let explained = dwbinspect(&["innodb", "check", "--explain", "--width", "160", case]);
        assert!(text.contains(explained.stdout.trim_end()), "{case}\n{text}\n--\n{}", explained.stdout);
        for step in &driven.survey().steps {
            let command = step.command.as_deref().unwrap_or_default();
            assert!(text.contains(command), "{case}: {command}\n{text}");
        }
        let json = fs::read_to_string(first.with_extension("json")).expect("JSON");
        assert_eq!(json, dwbinspect(&["innodb", "check", "--format", "json", case]).stdout, "{case}");
        driven.keys(&["R"]);
        assert_ne!(written(&driven), first, "{case}");
        assert_eq!(fs::read_to_string(&first).expect("text"), text, "{case}: the first one stays");
    }
}

/// A report says what is so: not while the directory is read, nor after files have changed or a check of them failed.
#[test]
fn no_crash_report_of_what_may_not_be_so_any_more() {
    let mut driven = Driven::before(&data_dir("mysql56"), FINE, SMALL);
    drop(begin(&mut driven.state));
    assert!(told(&driven.keys(&["R"]).state, "still being read"), "{}", said(&driven));
    assert!(told(&driven.keys(&["e"]).state, "still being read"), "{}", said(&driven));

    let (_kept, data) = copy_of_innodb("mysql56");
    let mut driven = Driven::open(&data, FINE, SMALL);
    let table = data.join("shop/orders.ibd");
    fs::write(&table, fs::read(&table).expect("read")).expect("write");
    // Before the screen has seen it.
    assert!(told(&driven.keys(&["R"]).state, "files have changed: r reads them again"), "{}", said(&driven));
    driven.act(Action::FilesChanged);
    assert!(told(&driven.keys(&["R"]).state, "no report of what may not be so any more"), "{}", said(&driven));
    assert!(told(&driven.keys(&["r", "R"]).state, "written: innodb_crash_report"), "{}", said(&driven));
    fs::rename(&data, data.with_extension("away")).expect("rename");
    assert!(told(&driven.keys(&["r", "R"]).state, "failed"), "{}", said(&driven));
    assert!(driven.state.message.as_ref().is_some_and(|message| message.is_bad));
}
