//! Guided mode: the steps from a crash to startup, and the next key.
//!
//! The step follows from the state alone, so no key can lead astray: whatever is pressed, the guide continues from there.

use std::cmp::Ordering;

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::checklist::tasks;
use super::look::columns;
use super::state::{PagePart, PromptKind, State, View};
use super::update::{UNDO_WORD, apply_word};

/// Rows of the screen from which on there is room for what a step is for.
const TALL: u16 = 24;

/// Rows from which on all steps are always named.
const MEDIUM: u16 = 20;

const MAX_LINES: usize = 3;

/// The steps, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Understand,
    Compare,
    Rehearse,
    Apply,
    Verify,
    /// The damaged pages of MySQL or MariaDB.
    Damage,
    /// One of them, and its images.
    Images,
    Save,
    VerifyCopy,
}

impl Step {
    /// Steps of a cluster of PostgreSQL.
    pub const ALL: [Self; 5] = [Self::Understand, Self::Compare, Self::Rehearse, Self::Apply, Self::Verify];

    /// Steps of a directory of MySQL or MariaDB, in which no page is restored.
    pub const OF_INNODB: [Self; 4] = [Self::Damage, Self::Images, Self::Save, Self::VerifyCopy];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Understand | Self::Damage => "understand",
            Self::Compare | Self::Images => "compare",
            Self::Rehearse => "rehearse",
            Self::Apply => "apply",
            Self::Verify | Self::VerifyCopy => "verify",
            Self::Save => "save",
        }
    }

    /// Its purpose, as in `docs/verdicts.md` or `docs/innodb.md`.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Understand => "The crash, the predicted startup, and the damaged pages",
            Self::Compare => "Page by page: what is on disk, what the image has, and what proves the image",
            Self::Rehearse => "Everything that a repair does before its first write, with no write",
            Self::Apply => {
                "Old and new bytes go into a journal first, then pages are restored one by one; undo writes the old \
                    bytes back"
            }
            Self::Verify => "The cluster is checked again: the predicted startup, and the remaining damage",
            Self::Damage => "The damaged pages, and what the doublewrite buffer holds of each",
            Self::Images => "Page by page: what is on disk, and which images the buffer has",
            Self::Save => "Before any startup, the directory is copied and the images are saved",
            Self::VerifyCopy => "A server is started only on the copy; `verify` checks the copy after a clean shutdown",
        }
    }

    /// The steps of the program.
    fn all(state: &State) -> &'static [Self] {
        if state.subject.views.contains(&View::Pages) { &Self::OF_INNODB } else { &Self::ALL }
    }

    pub fn of(state: &State) -> Self {
        if state.subject.views.contains(&View::Pages) {
            let open = tasks(state).iter().rev().skip_while(|task| task.is_done).skip(1).any(|task| !task.is_done);
            return match state.view {
                View::InnodbPage => Self::Images,
                _ if !state.innodb.is_compared => Self::Damage,
                _ if open => Self::Save,
                _ => Self::VerifyCopy,
            };
        }
        let plan = &state.plan;
        if plan.is_applying {
            return Self::Apply;
        }
        if plan.applied.is_some() || (state.journal_in_force().is_some() && !can_put_back(state)) {
            return Self::Verify;
        }
        if !can_put_back(state) {
            return Self::Understand;
        }
        match state.view {
            _ if plan.rehearsed.is_some() => Self::Apply,
            View::Plan | View::Apply => Self::Rehearse,
            View::Page => Self::Compare,
            _ if state.page.wanted.is_some() => Self::Rehearse,
            _ => Self::Understand,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The key, or the word to type; empty: to be waited for.
    pub key: &'static str,
    pub words: &'static str,
}

const fn next(key: &'static str, words: &'static str) -> Next {
    Next { key, words }
}

const fn wait(words: &'static str) -> Next {
    next("", words)
}

pub(super) fn can_put_back(state: &State) -> bool {
    state.survey().is_some_and(|survey| survey.pages().iter().any(|report| report.verdict.verdict.is_writable()))
}

pub fn next_key(state: &State) -> Next {
    if let Some(prompt) = &state.prompt {
        let may_lose = state.plan.sheet.as_ref().is_some_and(|sheet| sheet.may_lose());
        return match prompt.kind {
            PromptKind::Apply => next(apply_word(may_lose), "type it, then enter: pages are written"),
            PromptKind::Undo => next(UNDO_WORD, "type it, then enter: the old bytes are written back"),
            _ => next("enter", "confirms, esc cancels"),
        };
    }
    if state.help.is_open {
        return next("esc", "closes the help");
    }
    if state.plan.is_applying {
        return wait("pages are being written");
    }
    if state.plan.is_rehearsing {
        return wait("the dry run continues");
    }
    match Step::of(state) {
        Step::Verify if state.cluster.is_reading => wait("the cluster is being checked again"),
        _ if !state.has_survey() => wait("files are being read; damage appears as it is found"),
        Step::Damage | Step::Images | Step::Save | Step::VerifyCopy => of_innodb(state),
        Step::Understand => to_understand(state),
        Step::Compare => to_compare(state),
        Step::Rehearse => to_rehearse(state),
        Step::Apply => to_apply(state),
        Step::Verify if state.view == View::Undo => next("u", "asks to confirm the undo"),
        Step::Verify if state.view != View::Triage => next("1", "predicted startup now"),
        Step::Verify => next("q", "leaves; u in Plan undoes the repair"),
    }
}

fn of_innodb(state: &State) -> Next {
    let all = tasks(state);
    let open = all.iter().position(|task| !task.is_done);
    let has_damage = all.iter().any(|task| !task.commands.is_empty());
    match (Step::of(state), state.view, open) {
        (.., None) => next("q", "leaves: every step is done"),
        (Step::Damage, View::Pages, _) if !has_damage => next("q", "leaves: no damaged page; follow the next step"),
        (Step::Damage, View::Pages, _) => next("enter", "opens the page, to compare disk and images"),
        (Step::Damage, ..) => next("1", "back to the damaged pages"),
        (_, View::Steps, Some(open)) => match open.cmp(&state.checklist.selected) {
            Ordering::Less => next("up", "to the first step that is not done"),
            Ordering::Equal => next("space", "ticks the step when it is done"),
            Ordering::Greater => next("down", "to the first step that is not done"),
        },
        _ => next("N", "the next steps, with their commands"),
    }
}

fn to_understand(state: &State) -> Next {
    let map = &state.triage.map;
    match map.worst_page(state.triage.selected) {
        _ if state.view != View::Triage => next("1", "back to the damaged pages"),
        _ if !can_put_back(state) => next("q", "leaves: nothing to restore; follow the next step"),
        Some(_) => next("enter", "opens the page, to compare disk and image"),
        None => next("esc", "shows all damaged pages: nothing matches the filter"),
    }
}

fn to_compare(state: &State) -> Next {
    match state.page.part {
        _ if state.page.sheet.is_none() => wait("the page and its images are being read"),
        PagePart::Verdict => next("p", "its rows, on disk against in the image"),
        _ => next("6", "the repair plan; esc: other pages"),
    }
}

fn to_rehearse(state: &State) -> Next {
    match &state.plan.sheet {
        _ if !matches!(state.view, View::Plan | View::Apply) => next("6", "the repair plan"),
        None => wait("the plan is being made"),
        Some(sheet) if sheet.plan.steps.is_empty() => next("1", "nothing is proven here: m there marks a page"),
        Some(_) if state.plan.failure.is_some() => {
            next("d", "rehearses again; c, o: what may help where it is refused")
        }
        Some(_) => next("d", "rehearses the repair: nothing is written"),
    }
}

fn to_apply(state: &State) -> Next {
    match state.view {
        View::Plan => next("a", "the check before writing, then confirmation"),
        View::Apply => match &state.plan.before {
            None => wait("the check before writing is still running"),
            Some(before) if before.is_ready() => next("a", "asks to confirm writing"),
            Some(_) => next("d", "rehearses again; c, o: what may help against lines in red"),
        },
        _ => next("6", "back to the repair plan"),
    }
}

/// The lines above the status line in guided mode: the steps, the next key, and the purpose of the step if it fits.
pub fn lines(state: &State) -> Vec<Line<'static>> {
    if !state.is_guided {
        return Vec::new();
    }
    let (look, rows, current, Next { key, words }) = (state.look, state.size.1, Step::of(state), next_key(state));
    let width = state.columns().saturating_sub(1);
    let lead = if key.is_empty() { "wait: ".to_owned() } else { format!("next: {key}  ") };
    let all = Step::all(state);
    let named = |step: Step| {
        let at = all.iter().position(|one| *one == step).unwrap_or(0);
        format!("{} {}", at + 1, step.name())
    };
    let own = named(current);
    // On a low screen the current step and the key have one line where they fit.
    let is_short = rows < MEDIUM && columns(&own) + columns(&lead) + columns(words) + 3 <= width;
    let mut spans: Vec<Span<'static>> = Vec::new();
    for step in all.iter().copied().filter(|step| !is_short || *step == current) {
        let sign = if step == current { look.pointer() } else { " " };
        let style = match step.cmp(&current) {
            Ordering::Equal => look.heading().add_modifier(Modifier::REVERSED),
            Ordering::Less => look.good(),
            Ordering::Greater => look.faint(),
        };
        spans.push(Span::raw(if spans.is_empty() { sign.to_owned() } else { format!(" {sign}") }));
        spans.push(Span::styled(named(step), style));
    }
    let room = width.saturating_sub(columns(&lead));
    let next = [Span::styled(lead, look.heading()), Span::raw(look.cut(words, room))];
    if is_short {
        return vec![Line::from_iter(spans.into_iter().chain([Span::raw("  ")]).chain(next))];
    }
    let mut lines = vec![Line::from(spans), Line::from_iter(next)];
    if rows >= TALL {
        let said = look.wrap(&explained(state, current), width);
        lines.extend(said.into_iter().take(MAX_LINES).map(|words| Line::styled(words, look.faint())));
    }
    lines
}

/// Purpose of the step; for a page that is compared, the meaning of its verdict.
fn explained(state: &State, step: Step) -> String {
    let sheet = state.page.sheet.as_ref().filter(|_| step == Step::Compare);
    match sheet.map(|sheet| sheet.report.verdict.verdict) {
        Some(verdict) => format!("{}: {}", verdict.facts().label, verdict.facts().meaning),
        None => format!("{}: {}", step.name(), step.sentence()),
    }
}
