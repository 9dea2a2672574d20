//! Colours and keys of the user: `screen.toml`.

use pgforensics::tui::keymap::KEYS;
use pgforensics::tui::look::{Colours, Look, Theme};
use pgforensics::tui::settings::Settings;
use ratatui::style::Color;

use crate::common::screen::{Driven, FINE, LARGE};

/// A screen of `checkpoint` with these settings.
fn with(settings: Settings, colours: Colours) -> Driven {
    let mut driven = Driven::of("checkpoint", LARGE);
    let look = Look { colours, own: settings.colours, ..FINE };
    driven.state = driven.state.with_settings(settings);
    driven.state.look = look;
    driven
}

const SOUND: &str = "# Mine\n\ntheme = 'light' # bright room\n\n[colors]\nbad = \"#010203\"\n\n[ keys ] # mine\nmark = [\"x\", 'ctrl-t']\npage-down = \"ctrl-v\"\nwhat-if = \"F2\"\n";

#[test]
fn colours_and_keys_of_the_user_are_used() {
    let settings = Settings::parse(SOUND);
    assert!(settings.faults.is_empty(), "{:?}", settings.faults);
    assert_eq!(settings.theme, Some(Theme::Light));
    // Dark on dark: own colours are taken as they are. Terminals with fewer colours get the nearest, or keep theirs.
    let full = [(Colours::Full, Color::Rgb(1, 2, 3)), (Colours::Indexed, Color::Indexed(16))];
    for (colours, bad) in full.into_iter().chain([(Colours::Sixteen, Color::LightRed)]) {
        let buffer = with(settings.clone(), colours).buffer();
        assert!(buffer.content.iter().any(|cell| cell.fg == bad), "{colours:?}");
    }
    assert!(with(settings.clone(), Colours::None).buffer().content.iter().all(|cell| cell.fg == Color::Reset));
    let mut driven = with(settings, Colours::Full);
    assert!(driven.picture().contains("x, ctrl-t, m mark"), "{}", driven.picture());
    driven.keys(&["j", "x"]);
    assert_eq!(driven.state.plan.marks.len(), 1);
    driven.keys(&["ctrl-t", "m"]);
    assert_eq!(driven.state.plan.marks.len(), 1, "taken back, and marked with the key of the table");
    driven.keys(&["?", "/"]).enter("mark");
    assert!(driven.picture().contains("x, ctrl-t, m"), "{}", driven.picture());
}

#[test]
fn wrong_lines_are_named_and_the_others_hold() {
    let text = "theme = \"blue\"\n[colors]\ngod = \"red\"\ngood = \"reddish\"\nbad = \"red\"\n[keys]\nfly = \"x\"\nmark = \"b\"\n\
                mark = \"ctrl-\"\nmark = x\nmark = \"x\"\nplan = \"x\"\nmark = [\"y\" \"z\"]\n[other]\n[keys\nloose";
    let driven = with(Settings::parse(text), Colours::Full);
    let said = driven.state.faults.join("\n");
    for (line, words) in [
        (1, "unknown theme blue"),
        (3, "unknown role god (roles: good, doubt, loss, bad, heading, faint, selected, bar)"),
        (4, "reddish is not a color"),
        (7, "unknown action fly"),
        (8, "b is taken in Triage: keep the selected line"),
        (9, "unknown key \"ctrl-\""),
        (10, "expected key = \"value\": mark = x"),
        (12, "x is taken in Triage: mark or unmark the page for repair"),
        (13, "expected key"),
        (14, "unknown section [other]"),
        (15, "unknown section [keys"),
        (16, "expected key"),
    ] {
        assert!(said.contains(&format!("screen.toml line {line}: {words}")), "{line}\n{said}");
    }
    assert_eq!(driven.state.faults.len(), 12, "{said}");
    let mut driven = driven;
    assert!(driven.picture().contains("screen.toml line 1: unknown theme blue (dark, light, auto) (and 11 more"));
    assert!(driven.buffer().content.iter().any(|cell| cell.fg == Color::Red));
    driven.keys(&["j", "x"]);
    assert_eq!(driven.state.plan.marks.len(), 1);
    driven.keys(&["?"]);
    assert!(driven.picture().contains("line 3: unknown role god"), "{}", driven.picture());
}

#[test]
fn a_file_that_cannot_be_read_is_said() {
    let directory = tempfile::tempdir().expect("temporary directory");
    assert!(Settings::read(&directory.path().join("missing.toml")).faults.is_empty());
    assert!(Settings::read(directory.path()).faults[0].contains("not a regular file"));
    let path = directory.path().join("screen.toml");
    std::fs::write(&path, b"theme = \"\xff\"").expect("write");
    assert!(Settings::read(&path).faults[0].contains("UTF-8"));
}

/// Every name that can be set is in the book; a role and an action that it names can be set.
#[test]
fn the_book_has_every_name() {
    let book = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tui.md")).expect("docs");
    let example = book.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    assert!(Settings::parse(example).faults.is_empty(), "{:?}", Settings::parse(example).faults);
    for binding in KEYS {
        let name = binding.command.name();
        assert!(book.split_whitespace().any(|word| word == name), "{name} is missing in docs/tui.md");
    }
    for role in
        Settings::parse("[colors]\nx = \"red\"").faults[0].split(['(', ')']).nth(1).expect("roles")[7..].split(", ")
    {
        assert!(book.contains(&format!("`{role}`")), "{role}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read(text in "(?s)[\\[\\]a-z=\"', #\n\\\\é]{0,200}") {
        let settings = Settings::parse(&text);
        proptest::prop_assert!(settings.faults.len() <= text.lines().count());
    }
}
