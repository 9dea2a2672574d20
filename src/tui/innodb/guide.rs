//! Guided mode: three steps from a crash to what is to be done about it, and the key that leads on from here. Where one is follows
//! from the state alone.

use ratatui::text::Line;

use super::state::{InnodbPart, InnodbState as State, InnodbView as View};
use crate::analysis::innodb::judge::InnodbPage;
use crate::tui::guide::{Next, bar, next, wait};

/// What is to be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InnodbGuideStep {
    /// What happened.
    Understand,
    /// Disk and image.
    Compare,
    /// Outside of the screen.
    Act,
}

use InnodbGuideStep as Step;

impl Step {
    /// All steps.
    pub const ALL: [Self; 3] = [Self::Understand, Self::Compare, Self::Act];

    /// One word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Understand => "understand",
            Self::Compare => "compare",
            Self::Act => "act",
        }
    }

    /// What it is for.
    const fn sentence(self) -> &'static str {
        match self {
            Self::Understand => "Which pages are damaged",
            Self::Compare => "Page by page: what is on disk, and what the image has",
            Self::Act => {
                "Startup overwrites slots: copy the directory and save the images, then start a server only on the copy"
            }
        }
    }

    /// Where the state is.
    #[must_use]
    pub fn of(state: &State) -> Self {
        match state.view {
            _ if !is_wrong(state) => Self::Understand,
            View::Page => Self::Compare,
            View::Findings => Self::Act,
            _ if state.page.wanted.is_some() => Self::Act,
            _ => Self::Understand,
        }
    }
}

/// Something is to be done about a page.
fn is_wrong(state: &State) -> bool {
    state.survey.as_deref().is_some_and(|survey| survey.examined.pages.iter().any(InnodbPage::is_wrong))
}

/// The key that leads on from here.
#[must_use]
pub fn next_key(state: &State) -> Next {
    if state.prompt.is_some() {
        return next("enter", "takes what was typed, esc does not");
    }
    if state.help.is_some() {
        return next("esc", "closes the help");
    }
    if state.survey.is_none() {
        return wait("damage appears as it is found");
    }
    match Step::of(state) {
        Step::Understand => to_understand(state),
        Step::Compare => to_compare(state),
        Step::Act if state.view == View::Findings => next("q", "leaves and prints the commands; R: for a ticket"),
        Step::Act if state.view == View::Triage => next("F", "what to do, with its commands"),
        Step::Act => next("1", "back to what is damaged"),
    }
}

fn to_understand(state: &State) -> Next {
    let rows = &state.triage.rows;
    match rows.group_at(state.triage.selected) {
        _ if state.view != View::Triage => next("1", "back to what is damaged"),
        _ if !is_wrong(state) => next("q", "leaves: nothing is to be done about a page"),
        _ if rows.page_at(state.triage.selected).is_some() => next("enter", "opens this page and its images"),
        Some(group) if rows.is_open(group) => next("down", "to the first of its pages"),
        Some(_) => next("enter", "shows the damaged pages of this line"),
        None => next("esc", "shows all: nothing matches the filter"),
    }
}

fn to_compare(state: &State) -> Next {
    match &state.page.sheet {
        None => wait("the page and its images are being read"),
        Some(sheet) if state.page.part == InnodbPart::Verdict && sheet.sides(state.page.image).1.is_some() => {
            next("]", "to the bytes that differ from the image")
        }
        Some(_) => next("1", "back to what is damaged; then what to do"),
    }
}

/// What stands above the status line in guided mode.
#[must_use]
pub fn lines(state: &State) -> Vec<Line<'static>> {
    if !state.is_guided {
        return Vec::new();
    }
    let current = Step::of(state);
    let said = format!("{}: {}", current.name(), current.sentence());
    bar(state.look, state.size, (&Step::ALL.map(Step::name), current as usize), next_key(state), &said)
}
