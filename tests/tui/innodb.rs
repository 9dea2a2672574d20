//! The screen for MySQL and MariaDB: crashed directories of real servers in every size, its keys, and how it begins and ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgforensics::inspect::innodb::check::innodb_check;
use pgforensics::inspect::innodb::source::InnodbRequest;
use pgforensics::tui::action::{Action, Effect};
use pgforensics::tui::backend::innodb::InnodbBackend;
use pgforensics::tui::guide::{Step, next_key};
use pgforensics::tui::innodb::InnodbSurvey;
use pgforensics::tui::look::{Colours, Look, Theme};
use pgforensics::tui::state::{Outdated, State, View};

use crate::common::screen::{Driven, FINE, SMALL, short_paths, text_of};
use crate::common::{arg, copy_tree, dwbinspect, unpack};
use crate::pty::Session;
use crate::views::{is_lost, painted};

/// Directories of real servers after a crash, and how many damaged pages the README of the fixtures counts in each.
const CASES: [(&str, usize); 6] = [
    ("mysql97", 17),
    ("mysql97-detect", 3),
    ("mysql56", 15),
    ("mariadb1011", 17),
    ("mariadb1011-crc32", 16),
    ("mariadb1011-compressed", 15),
];

const SIZES: [((u16, u16), &str); 4] =
    [((60, 16), "60x16"), (SMALL, "80x24"), ((120, 40), "120x40"), ((200, 60), "200x60")];

fn data_dir(case: &str) -> PathBuf {
    unpack::data_dir(&format!("innodb/{case}")).expect("unpack fixture")
}

fn copy_of(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&data_dir(case), &data);
    (temporary, data)
}

fn before(data: &Path, look: Look, size: (u16, u16)) -> Driven {
    let backend = InnodbBackend::new(InnodbRequest::of(data));
    let state = State::new(backend.subject(), look, size);
    Driven::with(Arc::new(backend), state)
}

fn open(data: &Path, look: Look, size: (u16, u16)) -> Driven {
    before(data, look, size).begun()
}

/// A directory under a name that is the same on every machine.
fn of(case: &str, size: (u16, u16)) -> Driven {
    let link = short_paths().join(case);
    if !link.exists() {
        // Another test may be quicker.
        drop(std::os::unix::fs::symlink(data_dir(case).canonicalize().expect("fixture"), &link));
    }
    open(Path::new(case), FINE, size)
}

fn survey(driven: &Driven) -> &InnodbSurvey {
    driven.state.innodb.survey.as_deref().expect("survey")
}

/// How many lines the list has.
fn listed(state: &State) -> usize {
    state.shown_lines().map_or_else(|| state.innodb.survey.as_ref().map_or(0, |one| one.words().len()), <[usize]>::len)
}

/// Pictures, and the keys that lead from each to the next.
const WALK: [(&str, &[&str]); 5] = [
    ("pages", &["down"]),
    ("page", &["enter"]),
    ("findings", &["esc", "F"]),
    ("filter", &["esc", "/", "o", "r", "d"]),
    ("help", &["enter", "?"]),
];

#[test]
fn every_view_in_every_size_on_dark_and_light() {
    for (size, word) in SIZES {
        let mut dark = of("mysql97", size);
        let mut light = of("mysql97", size);
        light.state.look = Look { theme: Theme::Light, ..FINE };
        for (name, keys) in WALK {
            let (dark, light) = (dark.keys(keys).buffer(), light.keys(keys).buffer());
            for (buffer, theme) in [(&dark, Theme::Dark), (&light, Theme::Light)] {
                assert_eq!(buffer.content.iter().find(|cell| is_lost(theme, cell)), None, "{name} {word} {theme:?}");
            }
            insta::assert_snapshot!(format!("innodb_{name}_{word}"), painted(&dark, &light));
        }
    }
}

/// Every damaged page is listed, before all others, and opens as `page` prints it.
#[test]
fn damaged_pages_are_listed_first_and_open_as_page_prints_them() {
    for (case, damaged) in CASES {
        let mut driven = of(case, (120, 60));
        // The answer of `check` comes first.
        let told = dwbinspect(&["innodb", "check", "--width", "400", case]).stdout;
        let (badge, sentence) = told.trim_start().split_once("   ").expect("badge and sentence");
        let sentence = sentence.lines().next().expect("a sentence");
        let picture = driven.picture();
        assert!(picture.contains(&format!("\n {badge}  ")) && picture.contains(sentence), "{case}\n{picture}");
        let pages = &survey(&driven).examined.pages;
        assert_eq!(listed(&driven.state), pages.len(), "{case}");
        let page = |line| survey(&driven).page(line).expect("a page");
        assert!((0..damaged).all(|line| page(line).state.is_damaged()), "{case}");
        let (path, page_no) = (page(0).path.clone(), page(0).page.page_no);
        let printed = dwbinspect(&["innodb", "page", "--width", "120", case, &path, &page_no.to_string()]).stdout;
        let opened = driven.keys(&["enter"]).picture();
        let shown: Vec<&str> = opened.lines().map(str::trim_end).collect();
        let evidence =
            printed.lines().take_while(|line| !line.contains("is not predicted")).filter(|line| !line.is_empty());
        for line in evidence {
            assert!(shown.contains(&line.trim_end()), "{case}: {line}\n{opened}");
        }
    }
}

#[test]
fn ascii_means_ascii_and_no_colours_none() {
    let plain = Look { colours: Colours::None, ascii: true, ..FINE };
    let mut driven = open(&data_dir("mariadb1011"), plain, (200, 60));
    for (name, keys) in WALK {
        let buffer = driven.keys(keys).buffer();
        assert!(text_of(&buffer).is_ascii(), "{name}\n{}", text_of(&buffer));
        assert!(buffer.content.iter().all(|cell| cell.fg == ratatui::style::Color::Reset), "{name}");
    }
}

#[test]
fn tiny_windows_and_new_sizes_are_survived() {
    let mut driven = of("mysql97", SMALL);
    for (columns, rows) in [(1, 1), (10, 3), (59, 40), (300, 15), (60, 16), (1, 200), SMALL] {
        driven.act(Action::Resize(columns, rows));
        for (_, keys) in WALK {
            drop(driven.keys(keys).buffer());
        }
        driven.keys(&["esc", "esc", "esc"]);
    }
    assert!(driven.picture().contains("step 1 of 4"), "{}", driven.picture());
    // The command of the next step is whole on the smallest screen, and the heading of the list stays.
    driven.act(Action::Resize(60, 16));
    let picture = driven.picture();
    assert!(picture.contains("pg_dwbinspect innodb dump --images") && picture.contains("  file "), "{picture}");
}

#[test]
fn first_picture_comes_before_anything_is_read() {
    let mut driven = before(&data_dir("mysql97"), FINE, SMALL);
    // Keys are answered meanwhile.
    for (_, keys) in WALK {
        driven.keys(keys);
        assert!(driven.picture().contains("Pages"), "{}", driven.picture());
    }
    assert!(driven.keys(&["esc", "esc", "esc"]).picture().contains("is being read"), "{}", driven.picture());
}

#[test]
fn mouse_selects_a_line_and_opens_it() {
    let mut driven = of("mysql97", SMALL);
    let row = driven.picture().lines().position(|line| line.contains("shop/orders.ibd")).expect("orders") as u16;
    driven.act(Action::Scroll(3));
    assert_eq!(driven.state.innodb.selected, 3);
    driven.act(Action::Click(5, row));
    driven.act(Action::Click(5, row));
    assert!(driven.state.view == View::InnodbPage && driven.picture().contains("buffer holds"), "{}", driven.picture());
}

/// A hundred thousand pages: drawing touches those on the screen, filtering reads a text each.
#[test]
fn keys_are_answered_at_once_with_many_pages() {
    const COUNT: u32 = 100_000;
    let watch = |_, _| std::ops::ControlFlow::Continue(());
    let mut examined = innodb_check(&InnodbRequest::of(data_dir("mysql97")), false, &watch).expect("check");
    let one = examined.pages[0].clone();
    let numbered = |number| {
        let mut page = one.clone();
        page.page.page_no = number;
        page
    };
    examined.pages = (0..COUNT).map(numbered).collect();
    let mut driven = of("mysql97", SMALL);
    driven.act(Action::InnodbSurveyed(Arc::new(InnodbSurvey::new(examined, "mysql97"))));
    assert_eq!(listed(&driven.state), COUNT as usize);
    // Far more than is wanted, for a machine that is busy with other tests and code that is not optimised.
    for keys in [&["j"] as &[&str], &["end"], &["pageup"], &["/", "9", "9"], &["esc"]] {
        let start = Instant::now();
        drop(driven.keys(keys).buffer());
        assert!(start.elapsed() < Duration::from_secs(2), "{keys:?}: {:?}", start.elapsed());
    }
}

#[test]
fn hostile_names_do_not_drive_the_terminal() {
    let (_kept, data) = copy_of("mysql97");
    fs::rename(data.join("shop/orders.ibd"), data.join("shop/\u{1b}[2J.ibd")).expect("rename");
    let mut driven = open(&data, FINE, (120, 40));
    driven.state.subject.path = "evil\u{1b}[2J".to_owned();
    for keys in [&["down"] as &[&str], &["enter"], &["esc", "F"]] {
        driven.keys(keys);
        assert!(driven.buffer().content.iter().all(|cell| !cell.symbol().contains('\u{1b}')), "{keys:?}");
    }
    assert!(driven.keys(&["esc"]).picture().contains("[2J.ibd"), "{}", driven.picture());
}

/// Keys pressed one after the other, and what must hold then.
type KeyRow = (&'static [&'static str], &'static str, fn(&State) -> bool);

fn told(state: &State, words: &str) -> bool {
    state.message.as_ref().is_some_and(|message| message.words.contains(words))
}

#[rustfmt::skip]
const TABLE: &[KeyRow] = &[
    (&["?"], "help opens", |s| s.help.is_open),
    (&["?", "?"], "help closes", |s| !s.help.is_open),
    (&["f1", "q"], "q closes the help", |s| !s.help.is_open),
    (&["?", "esc"], "esc closes it", |s| !s.help.is_open && s.view == View::Pages),
    (&["down"], "one down", |s| s.innodb.selected == 1),
    (&["j", "k", "up"], "the first stays", |s| s.innodb.selected == 0),
    (&["end", "home"], "first", |s| s.innodb.selected == 0),
    (&["G"], "last", |s| s.innodb.selected + 1 == listed(s)),
    (&["pagedown", "pageup"], "a screen down and up", |s| s.innodb.selected == 0),
    (&[" "], "a screen down", |s| s.innodb.selected > 1),
    (&["enter"], "opens the page", |s| s.view == View::InnodbPage),
    (&["enter", "j"], "and scrolls it", |s| s.view == View::InnodbPage && s.innodb.selected == 0),
    (&["enter", "}", "}", "{"], "or goes to the next", |s| s.view == View::InnodbPage && s.innodb.selected == 1),
    (&["enter", "esc"], "and goes back", |s| s.view == View::Pages),
    (&["F"], "findings", |s| s.view == View::Findings),
    (&["F", "esc"], "and back", |s| s.view == View::Pages),
    (&["N"], "next steps", |s| s.view == View::Steps),
    (&["N", " ", "esc"], "ticked", |s| s.view == View::Pages && s.checklist.ticked.len() == 1),
    (&["n", "n"], "the next page", |s| s.innodb.selected == 2),
    (&["G", "n"], "past the last one the first", |s| s.innodb.selected == 0),
    (&["enter", "n"], "also in a page", |s| s.view == View::InnodbPage && s.innodb.selected == 1),
    (&["W"], "guided mode", |s| s.is_guided),
    (&["2", "1", "2"], "every tab has its number", |s| s.view == View::InnodbPage),
    (&["tab", "backtab", "backtab"], "and goes round", |s| s.view == View::InnodbPage),
    (&["}"], "only in a page, which is said", |s| told(s, "in Page")),
    (&["/", "o", "r", "d", "e", "r", "s"], "filtered while it is typed", |s| s.prompt.is_some() && listed(s) < 18),
    (&["/", "o", "r", "d", "enter"], "and kept", |s| s.prompt.is_none() && listed(s) < 18),
    (&["/", "o", "r", "d", "enter", "esc"], "all again", |s| s.shown_lines().is_none() && listed(s) == 18),
    (&["/", "q", "backspace", "backspace"], "erased", |s| s.prompt.is_none() && listed(s) == 18),
    (&["/", "z", "q", "x", "enter", "enter"], "nothing to open is said", |s| told(s, "no page")),
    (&["esc"], "nothing to go back to", |s| told(s, "q quits")),
    (&["r"], "read again", |s| !s.cluster.is_reading && s.innodb.survey.is_some()),
    (&["x"], "a key without meaning", |s| told(s, "unknown key")),
];

#[test]
fn every_key_does_what_the_table_says() {
    let data = of("mysql97", SMALL);
    for (keys, what, holds) in TABLE {
        let mut driven = before(Path::new("mysql97"), FINE, SMALL);
        driven.state = data.state.clone();
        driven.keys(keys);
        assert!(holds(&driven.state), "{keys:?}: {what}\n{}", driven.picture());
    }
}

#[test]
fn keys_that_ask_for_something_outside() {
    let mut driven = of("mysql97", SMALL);
    driven.keys(&["ctrl-z", "ctrl-l", "y", "enter", "y", "q"]);
    let page = survey(&driven).page(0).expect("a page");
    let copied = |command: &str| Effect::Copy(format!("pg_dwbinspect innodb {command}"));
    let of_page = copied(&format!("page mysql97 {} {}", page.path, page.page.page_no));
    let of_step = copied("dump --images NEW_DIR mysql97");
    let expected = [Effect::Suspend, Effect::Redraw, of_step, of_page, Effect::Quit];
    assert_eq!(driven.asked, expected);
}

/// A check that fails when it is done again leaves what is shown, says so, and is no answer; and so do files that change.
/// A value without fields that are not known.
fn known(value: &serde_json::Value) -> serde_json::Value {
    let Some(fields) = value.as_object() else { return value.clone() };
    fields.iter().filter(|(_, field)| !field.is_null()).map(|(name, field)| (name.clone(), known(field))).collect()
}

/// The files of `e` hold what the commands print, for programs too.
#[test]
fn views_are_exported_as_the_commands_print_them() {
    let mut driven = of("mysql97", SMALL);
    for (keys, args) in [(&["e"][..], vec!["check"]), (&["enter", "e"], vec!["page"])] {
        driven.keys(keys);
        let page = survey(&driven).page(0).expect("a page").clone();
        let number = page.page.page_no.to_string();
        let of_page = if args == ["page"] { vec![page.path.as_str(), &number] } else { Vec::new() };
        let message = driven.state.message.as_ref().map_or("", |message| &message.words).to_owned();
        let path = message.strip_prefix("written: ").and_then(|rest| rest.split(" and ").next()).expect("a path");
        let text = fs::read_to_string(path).expect("text");
        assert!(text.contains(&format!("{} page {number} ", page.path)), "{text}");
        assert!(text.contains("Startup is not predicted"), "{text}");
        let written = fs::read_to_string(Path::new(path).with_extension("json")).expect("json");
        let written: serde_json::Value = serde_json::from_str(&written).expect("json");
        let printed = [&["innodb", args[0], "--format", "json", "mysql97"][..], &of_page].concat();
        let printed: serde_json::Value = serde_json::from_str(&dwbinspect(&printed).stdout).expect("json");
        let sorted = |value: &serde_json::Value| {
            let pages = value.as_array().expect("pages").iter();
            let mut lines: Vec<String> = pages.map(|page| known(page).to_string()).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&written["shown"]["pages"]), sorted(&printed["pages"]), "{args:?}");
    }
}

#[test]
fn check_that_fails_again_is_said() {
    let (_kept, data) = copy_of("mariadb1011-crc32");
    let mut driven = open(&data, FINE, (120, 40));
    assert_eq!(driven.state.cluster.outdated(), None);
    driven.act(Action::FilesChanged);
    assert_eq!(driven.state.cluster.outdated(), Some(Outdated::Changed));
    let moved = data.with_extension("away");
    fs::rename(&data, &moved).expect("rename");
    driven.keys(&["r"]);
    assert!(matches!(driven.state.cluster.outdated(), Some(Outdated::Failed(_))), "{}", driven.picture());
    assert!(driven.picture().contains("outdated: the last check failed"), "{}", driven.picture());
    fs::rename(&moved, &data).expect("rename");
    driven.keys(&["r"]);
    assert_eq!(driven.state.cluster.outdated(), None, "{}", driven.picture());
    assert!(!driven.picture().contains("outdated"), "{}", driven.picture());
}

#[test]
fn on_a_terminal_a_check_that_fails_again_ends_with_status_2() {
    let (_kept, data) = copy_of("mariadb1011-crc32");
    let mut session = Session::start("pg_dwbinspect", &["innodb", "tui", arg(&data)]);
    session.see("step 1 of 4");
    fs::rename(&data, data.with_extension("away")).expect("rename");
    session.send("r");
    session.see("outdated");
    session.send("q");
    assert_eq!(session.end(), 2);
    session.see("the check was done again and failed: ");
    session.see("outdated since then:");
}

#[test]
fn on_a_terminal_it_shows_and_leaves_with_the_status_of_check() {
    let data = data_dir("mariadb1011");
    let mut session = Session::start("pg_dwbinspect", &["innodb", "tui", arg(&data)]);
    session.see("step 1 of 4");
    session.send("a");
    session.see("unknown key");
    session.send("\r");
    session.see("buffer holds");
    session.send("q");
    assert_eq!(session.end(), 1);
    session.see("damaged pages: 18");
    session.assert_given_back();
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
    for (case, _) in CASES {
        let driven = of(case, SMALL);
        let step = survey(&driven).steps.last().expect("a step");
        assert!(step.words.starts_with("Start a server only on the copy"), "{case}: {}", step.words);
        assert_eq!(step.command.as_deref(), Some("pg_dwbinspect innodb verify COPY"), "not the directory itself");
    }
}

/// Nothing can be read at all: that no page is damaged is not good news.
#[test]
fn directory_of_which_nothing_can_be_read_is_no_good_news() {
    let temporary = tempfile::tempdir().expect("directory");
    let path = temporary.path().join("ibdata1");
    std::os::unix::fs::symlink(&path, &path).expect("link");
    let mut driven = open(temporary.path(), FINE, SMALL);
    let buffer = driven.buffer();
    let picture = text_of(&buffer);
    assert!(picture.lines().nth(1).is_some_and(|line| line.starts_with(" INCOMPLETE")), "{picture}");
    assert_ne!(Some(buffer[(1, 1)].fg), FINE.good().fg, "{picture}");
    let picture = driven.keys(&["F"]).picture();
    assert!(picture.contains("which server wrote the directory is unknown"), "{picture}");
}

/// Worse is what the buffer cannot replace; each kind is counted, and problems are named below the list.
#[test]
fn the_worst_pages_come_first_under_their_counts() {
    let driven = of("mariadb1011", (120, 50));
    let held: Vec<_> = (0..listed(&driven.state)).filter_map(|at| survey(&driven).page(at)).collect();
    assert!(held.is_sorted_by_key(|page| (!page.state.is_damaged(), page.held)), "{held:?}");
    let picture = driven.picture();
    let row = |label: &str, count: usize| {
        let count = format!(" {count} ");
        picture.lines().any(|line| line.starts_with(label) && line.contains(&count) && line.contains('█'))
    };
    assert!(row("no image", 1) && row("older", 1) && row("newer", 7), "{picture}");
    assert!(picture.contains("problem  ") && !picture.contains("damaged pages: 1"), "{picture}");
}

/// The keys that the guide names lead from the first picture past a page to the last step.
#[test]
fn guide_leads_from_the_damage_to_a_verified_copy() {
    for size in [(60, 16), SMALL, (120, 40)] {
        let mut driven = of("mysql97", size);
        driven.keys(&["W"]);
        let mut steps = vec![Step::of(&driven.state)];
        for _ in 0..30 {
            let next = next_key(&driven.state);
            assert!(driven.picture().contains(&format!("next: {}  {}", next.key, next.words)), "{}", driven.picture());
            if next.key == "q" {
                break;
            }
            driven.keys(&[if next.key == "space" { " " } else { next.key }]);
            let step = Step::of(&driven.state);
            if steps.last() != Some(&step) {
                steps.push(step);
            }
        }
        assert_eq!(steps, Step::OF_INNODB, "{}", driven.picture());
        assert_eq!(next_key(&driven.state).key, "q", "{}", driven.picture());
    }
    let text = include_str!("../../docs/innodb.md");
    for step in Step::OF_INNODB {
        assert!(text.contains(&format!("| {} | {} |", step.name(), step.sentence())), "{}", step.name());
    }
}

/// The report has the answer, the steps, and every listed page as `page` prints it.
#[test]
fn crash_report_is_written_as_a_page_and_as_markdown() {
    let mut driven = of("mysql97", SMALL);
    driven.keys(&["down", "R"]);
    let message = driven.state.message.as_ref().map_or("", |message| &message.words).to_owned();
    let path = message.strip_prefix("crash report written: ").and_then(|rest| rest.split(" and ").next());
    let path = Path::new(path.unwrap_or_else(|| panic!("{message}"))).to_owned();
    let [html, markdown] = ["html", "md"].map(|ending| fs::read_to_string(path.with_extension(ending)).expect(ending));
    let row = survey(&driven).page(0).expect("a page");
    let title = format!("{} page {} (space {})", row.path, row.page.page_no, row.page.space_id);
    for text in [&html, &markdown] {
        assert!(text.contains(&title) && text.contains("DAMAGED") && text.contains("dump --images NEW_DIR"), "{text}");
        assert!(text.contains("Actions in the terminal UI") && text.contains("is not predicted"), "{text}");
    }
}
