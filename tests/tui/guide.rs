//! Guided mode: its keys alone lead from a crash to a repaired cluster, and its words are those of the documentation.

use std::collections::BTreeSet;

use crate::common::screen::{Driven, FINE, SMALL};
use crate::common::{cluster, copy_of};
use pgforensics::analysis::verdict::judge::Verdict;
use pgforensics::tui::action::Effect;
use pgforensics::tui::guide::{Step, next_key};
use pgforensics::tui::look::{Colours, Look, Theme};
use pgforensics::tui::state::View;

/// Rows of a table in `docs/verdicts.md` that begin with this name.
fn documented(name: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/verdicts.md");
    let text = std::fs::read_to_string(path).expect("docs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    let plain = |text: &str| text.replace('`', "");
    rows.filter(|(first, _)| plain(first) == name).map(|(_, words)| plain(words)).collect()
}

#[test]
fn words_are_those_of_the_documentation() {
    for step in Step::ALL {
        assert_eq!(documented(step.name()), [step.sentence()]);
    }
    for verdict in Verdict::ALL {
        assert!(documented(verdict.name()).contains(&verdict.facts().meaning.to_owned()), "{}", verdict.name());
    }
}

/// Presses the key that is named, or types the word.
fn follow(driven: &mut Driven) {
    let key = next_key(&driven.state).key;
    assert!(driven.picture().contains(&format!("next: {key}  ")), "{key}\n{}", driven.picture());
    if driven.state.prompt.is_some() {
        driven.enter(key);
    } else {
        driven.keys(&[key]);
    }
}

#[test]
fn its_keys_alone_lead_from_the_crash_to_a_repaired_cluster() {
    let (_temporary, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, SMALL);
    driven.keys(&["W"]);
    let mut steps = vec![Step::of(&driven.state)];
    for _ in 0..30 {
        if next_key(&driven.state).key == "q" {
            break;
        }
        follow(&mut driven);
        let step = Step::of(&driven.state);
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    assert_eq!(steps, Step::ALL, "{}", driven.picture());
    let applied = driven.state.plan.applied.as_ref().expect("pages were written");
    assert_eq!((applied.written, driven.state.view), (6, View::Triage));
    follow(&mut driven);
    assert_eq!(driven.asked, [Effect::Quit]);
    // A screen that is opened on it again is at the last step: a journal shows it.
    let again = Driven::open(&data, FINE, SMALL);
    assert_eq!(Step::of(&again.state), Step::Verify);
}

#[test]
fn undone_repair_begins_anew() {
    let (_temporary, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, SMALL);
    driven.keys(&["W", "6", "d", "a"]).enter("apply").keys(&["6", "u"]);
    assert_eq!(next_key(&driven.state).key, "u");
    follow(&mut driven);
    follow(&mut driven);
    assert!(driven.state.plan.undone.is_some(), "{}", driven.picture());
    assert!(Step::of(&driven.state) < Step::Apply);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn step_and_key_are_in_view_everywhere() {
    let keys = ["2", "3", "4", "p", "p", "p", "p", "5", "6", "?", "esc", "g", "esc", "1", "/", "esc", ":", "esc"];
    for size in [(60, 16), (80, 24), (120, 40), (200, 60)] {
        for look in [FINE, Look { colours: Colours::None, theme: Theme::Light, ascii: true, ..FINE }] {
            let mut driven = Driven::open(&cluster("checkpoint"), look, size);
            driven.keys(&["W"]);
            let mut seen = BTreeSet::new();
            for key in keys {
                let picture = driven.keys(&[key]).picture();
                let step = Step::of(&driven.state);
                let sign = format!("{}{} {}", look.pointer(), step as usize + 1, step.name());
                let bar = picture.lines().find(|line| line.contains(&sign)).unwrap_or_else(|| panic!("{picture}"));
                assert!(bar.ends_with("5 verify") || size.1 < 20, "{key}: {sign}\n{picture}");
                let next = next_key(&driven.state);
                assert!(picture.contains(next.words), "{key}: nothing is cut\n{picture}");
                assert_eq!(picture.lines().count(), usize::from(size.1));
                assert!(!look.ascii || picture.is_ascii(), "{picture}");
                seen.insert(step);
            }
            assert!(seen.len() >= 2);
        }
    }
}

#[test]
fn cluster_without_damage_has_nothing_to_do() {
    let mut driven = Driven::open(&cluster("clean"), FINE, SMALL);
    assert!(!driven.picture().contains("1 understand"));
    driven.keys(&["W"]);
    assert_eq!((Step::of(&driven.state), next_key(&driven.state).key), (Step::Understand, "q"));
    let guided = driven.picture();
    assert!(guided.contains("understand: The crash"), "{guided}");
    driven.keys(&["W"]);
    assert!(!driven.picture().contains("1 understand"));
}
