//! The only place where the state changes. Pure: work is asked for by returning effects.

use std::sync::Arc;

use super::action::{Action, Command, Effect};
use super::facts::Survey;
use super::query::{Query, slot_words};
use super::state::{Column, Part, Prompt, PromptKind, State, View};
use super::view;
use crate::analysis::verdict::compare::Comparison;
use crate::analysis::verdict::judge::Verdict;
use crate::types::PageId;

/// The word that lets a repair go.
pub const APPLY_WORD: &str = "apply";

/// Changes the state; returns what is to be done outside.
pub fn update(state: &mut State, action: Action) -> Vec<Effect> {
    match action {
        Action::Do(command) => {
            state.message = None;
            return command_of(state, command);
        }
        Action::Type(c) => {
            if let Some(prompt) = &mut state.prompt {
                prompt.text.push(c);
            }
        }
        Action::Erase => {
            if let Some(prompt) = &mut state.prompt
                && prompt.text.pop().is_none()
            {
                state.prompt = None;
            }
        }
        Action::Enter => return enter(state),
        Action::Click(column, row) => return click(state, column, row),
        Action::Scroll(lines) => move_by(state, lines),
        Action::Resize(columns, rows) => {
            state.size = (columns, rows);
            clamp(state);
        }
        Action::Opened(words) => state.opened = Some(words),
        Action::Progressed(progress) => state.progress = Some(progress),
        Action::WalProgressed(progress) => state.wal_progress = Some(progress),
        Action::Surveyed(survey) => return surveyed(state, survey),
        Action::WalRead(wal) => {
            state.wal_progress = None;
            state.wal_error = None;
            state.interval_at = state.interval_at.min(wal.intervals.len().saturating_sub(1));
            state.wal = Some(wal);
        }
        Action::WalFailed(why) => {
            state.wal_progress = None;
            state.wal_error = Some(why);
        }
        Action::PageRead(sheet) => {
            if state.page == Some(sheet.page) {
                state.sheet = Some(sheet);
                clamp(state);
            }
        }
        Action::Planned(plan) => {
            state.plan = Some(plan);
            clamp(state);
        }
        Action::Told(words) => state.message = Some((false, words)),
        Action::Failed(words) => {
            state.applying = false;
            state.message = Some((true, words));
        }
        Action::Applied(words) => {
            state.applying = false;
            state.message = Some((false, words));
            state.marks.clear();
            state.sheet = None;
            return vec![Effect::Survey];
        }
        Action::FilesChanged => state.changed = true,
    }
    Vec::new()
}

fn command_of(state: &mut State, command: Command) -> Vec<Effect> {
    match command {
        Command::Quit if state.applying => {
            state.message = Some((true, "a repair is being carried out: wait until it has ended".to_owned()));
        }
        Command::Quit => return vec![Effect::Quit],
        Command::Help => {
            state.help = !state.help;
            state.help_top = 0;
        }
        Command::Back => back(state),
        Command::NextView => return step_view(state, 1),
        Command::PreviousView => return step_view(state, -1),
        Command::Show(view) => return show(state, view),
        Command::Up => move_by(state, -1),
        Command::Down => move_by(state, 1),
        Command::PageUp => move_by(state, -(state.body_rows() as isize)),
        Command::PageDown => move_by(state, state.body_rows() as isize),
        Command::First => move_by(state, isize::MIN),
        Command::Last => move_by(state, isize::MAX),
        Command::Left => step_part(state, Part::ALL.len() - 1),
        Command::Right => step_part(state, 1),
        Command::NextImage => {
            let images = state.sheet.as_ref().map_or(0, |sheet| sheet.versions.len().saturating_sub(1));
            state.image = if images == 0 { 0 } else { (state.image + 1) % images };
        }
        Command::Open => return open(state),
        Command::Search => {
            state.prompt = Some(Prompt { kind: PromptKind::Search, text: String::new() });
        }
        Command::NextMatch => find(state, true, false),
        Command::PreviousMatch => find(state, false, false),
        Command::OnlyMatches => {
            if state.query.is_empty() && !state.slots.only {
                state.message = Some((true, "search first: / and terms".to_owned()));
            } else {
                state.slots.only = !state.slots.only;
                order_slots(state);
            }
        }
        Command::Sort => {
            state.slots.column = (state.slots.column + 1) % Column::ALL.len();
            order_slots(state);
        }
        Command::Reverse => {
            state.slots.descending = !state.slots.descending;
            order_slots(state);
        }
        Command::Mark => return mark(state),
        Command::Copy => {
            let text = view::command_line(state);
            state.message = Some((false, format!("copied: {text}")));
            return vec![Effect::Copy(text)];
        }
        Command::Export => return vec![export(state)],
        Command::Save => return vec![Effect::SavePlan(marked(state))],
        Command::Apply => match &state.plan {
            Some(plan) if plan.plan.steps.is_empty() => {
                state.message = Some((true, "the plan writes nothing".to_owned()));
            }
            Some(plan) if !plan.guards.is_empty() => {
                state.message = Some((true, "refused: see the reasons above the plan".to_owned()));
            }
            Some(_) => state.prompt = Some(Prompt { kind: PromptKind::Apply, text: String::new() }),
            None => state.message = Some((true, "there is no plan yet".to_owned())),
        },
        Command::Reload => {
            state.changed = false;
            state.sheet = None;
            state.plan = None;
            state.message = Some((false, "reading again".to_owned()));
            return vec![Effect::Survey];
        }
        Command::Suspend => return vec![Effect::Suspend],
        Command::Redraw => return vec![Effect::Redraw],
    }
    Vec::new()
}

fn back(state: &mut State) {
    if state.prompt.take().is_some() {
        return;
    }
    if state.help {
        state.help = false;
    } else if state.view == View::Page {
        state.view = state.came_from;
    } else if state.slots.only {
        state.slots.only = false;
        order_slots(state);
    } else {
        state.query = Query::default();
    }
}

fn step_view(state: &mut State, step: isize) -> Vec<Effect> {
    let views = &state.subject.views;
    let count = views.len() as isize;
    let at = views.iter().position(|view| *view == state.view).unwrap_or(0) as isize;
    let next = usize::try_from((at + step).rem_euclid(count.max(1))).unwrap_or(0);
    views.get(next).copied().map_or_else(Vec::new, |view| show(state, view))
}

/// Opens a view and asks for what it needs.
fn show(state: &mut State, view: View) -> Vec<Effect> {
    state.help = false;
    if view == View::Page && state.page.is_none() {
        state.came_from = View::Triage;
        let first = state.survey.as_ref().and_then(|survey| survey.pages.get(state.triage_at));
        if let Some(page) = first.map(|line| line.page) {
            state.view = View::Triage;
            return open_page(state, page);
        }
    }
    state.view = view;
    if view == View::Plan && state.plan.is_none() && state.survey.is_some() {
        return vec![Effect::MakePlan(marked(state))];
    }
    Vec::new()
}

fn open(state: &mut State) -> Vec<Effect> {
    match state.selected_page() {
        Some(page) => open_page(state, page),
        None if state.survey.is_some() => {
            state.message = Some((true, "there is no page behind this line".to_owned()));
            Vec::new()
        }
        None => Vec::new(),
    }
}

fn open_page(state: &mut State, page: PageId) -> Vec<Effect> {
    state.help = false;
    state.came_from = state.view;
    state.view = View::Page;
    state.page_top = 0;
    state.image = 0;
    state.page = Some(page);
    if state.sheet.as_ref().is_some_and(|sheet| sheet.page == page) {
        return Vec::new();
    }
    state.sheet = None;
    vec![Effect::ReadPage(page)]
}

fn step_part(state: &mut State, step: usize) {
    let at = Part::ALL.iter().position(|part| *part == state.part).unwrap_or(0);
    state.part = Part::ALL.get((at + step) % Part::ALL.len()).copied().unwrap_or(Part::Verdict);
    state.page_top = 0;
}

fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}

fn move_by(state: &mut State, by: isize) {
    if state.help {
        state.help_top = moved(state.help_top, by, view::scroll_range(state));
        return;
    }
    match state.view {
        View::Triage => {
            let count = state.survey.as_ref().map_or(0, |survey| survey.pages.len());
            state.triage_at = moved(state.triage_at, by, count);
        }
        View::Slots => state.slots.at = moved(state.slots.at, by, state.slots.order.len()),
        View::Wal => {
            let count = state.wal.as_ref().map_or(0, |wal| wal.intervals.len());
            state.interval_at = moved(state.interval_at, by, count);
        }
        View::Batches => state.batches_top = moved(state.batches_top, by, view::scroll_range(state)),
        View::Page => state.page_top = moved(state.page_top, by, view::scroll_range(state)),
        View::Plan => state.plan_top = moved(state.plan_top, by, view::scroll_range(state)),
    }
}

/// Keeps what is shown inside of what there is.
fn clamp(state: &mut State) {
    move_by(state, 0);
}

fn surveyed(state: &mut State, survey: Arc<Survey>) -> Vec<Effect> {
    state.progress = None;
    state.changed = false;
    state.opened = Some(survey.state.clone());
    state.triage_at = state.triage_at.min(survey.pages.len().saturating_sub(1));
    state.marks.retain(|page| survey.damaged(*page).is_some());
    state.survey = Some(survey);
    state.plan = None;
    order_slots(state);
    let mut effects = Vec::new();
    if let Some(page) = state.page.filter(|_| state.view == View::Page && state.sheet.is_none()) {
        effects.push(Effect::ReadPage(page));
    }
    if state.view == View::Plan {
        effects.push(Effect::MakePlan(marked(state)));
    }
    effects
}

/// Puts slots into the order that was asked for; the selected one stays selected.
fn order_slots(state: &mut State) {
    let Some(survey) = state.survey.clone() else { return };
    let selected = state.slots.order.get(state.slots.at).copied();
    let slots = &survey.slots;
    let fits = |at: &usize| !state.slots.only || slots.get(*at).is_some_and(|row| state.query.fits_slot(row, &survey));
    let mut order: Vec<usize> = (0..slots.len()).filter(fits).collect();
    let row = |at: usize| slots.get(at);
    match Column::ALL.get(state.slots.column).copied().unwrap_or(Column::Slot) {
        Column::Slot => {}
        Column::Page => order.sort_by_key(|at| row(*at).map(|row| (row.rel, row.fork, row.block))),
        Column::PageLsn => order.sort_by_key(|at| row(*at).map(|row| row.page_lsn)),
        Column::Condition => order.sort_by_key(|at| row(*at).map(|row| row.condition)),
        Column::Batch => order.sort_by_key(|at| row(*at).map(|row| row.batch)),
        Column::Disk => order.sort_by_key(|at| row(*at).map(|row| slot_words(row)[2])),
    }
    if state.slots.descending {
        order.reverse();
    }
    state.slots.at = selected.and_then(|wanted| order.iter().position(|at| *at == wanted)).unwrap_or(0);
    state.slots.order = order;
}

fn enter(state: &mut State) -> Vec<Effect> {
    let Some(prompt) = state.prompt.take() else { return Vec::new() };
    match prompt.kind {
        PromptKind::Search => match Query::parse(&prompt.text) {
            Ok(query) => {
                state.query = query;
                if state.slots.only {
                    order_slots(state);
                }
                if !state.query.is_empty() {
                    find(state, true, true);
                }
            }
            Err(why) => state.message = Some((true, why)),
        },
        PromptKind::Apply if prompt.text == APPLY_WORD => {
            state.applying = true;
            state.message = Some((false, "checking once more, then writing".to_owned()));
            return vec![Effect::ApplyPlan(marked(state))];
        }
        PromptKind::Apply => {
            state.message = Some((false, "nothing was written: the word is apply".to_owned()));
        }
    }
    Vec::new()
}

/// Goes to the next line that fits, round the end. Without a search: to the next damaged page. `here`: the selected line
/// may be it.
fn find(state: &mut State, forward: bool, here: bool) {
    let Some(survey) = state.survey.clone() else { return };
    let (at, count) = match state.view {
        View::Triage => (state.triage_at, survey.pages.len()),
        View::Slots => (state.slots.at, state.slots.order.len()),
        _ => return,
    };
    let fits = |place: usize| match state.view {
        View::Triage => {
            let line = survey.pages.get(place);
            line.is_some_and(|line| state.query.is_empty() || state.query.fits_page(line))
        }
        _ => state.slots.order.get(place).and_then(|at| survey.slots.get(*at)).is_some_and(|row| {
            if state.query.is_empty() {
                matches!(row.comparison, Some(Comparison::Torn | Comparison::Damaged | Comparison::Zeroed))
            } else {
                state.query.fits_slot(row, &survey)
            }
        }),
    };
    let steps = if here { 0..count } else { 1..count + 1 };
    let found =
        steps.map(|step| if forward { (at + step) % count } else { (at + count - step % count) % count }).find(|at| fits(*at));
    match found {
        Some(found) if state.view == View::Triage => state.triage_at = found,
        Some(found) => state.slots.at = found,
        None if state.query.is_empty() => state.message = Some((true, "no damaged page".to_owned())),
        None => state.message = Some((true, format!("nothing fits {}", state.query.text()))),
    }
}

fn marked(state: &State) -> Vec<PageId> {
    state.marks.iter().copied().collect()
}

fn mark(state: &mut State) -> Vec<Effect> {
    let Some((page, survey)) = state.selected_page().zip(state.survey.clone()) else { return Vec::new() };
    let verdict = survey.damaged(page).map(|line| line.verdict);
    let refusal = match verdict {
        Some(Verdict::Restore | Verdict::RestoreUnproven) => None,
        Some(Verdict::LosesChanges) => Some("every image loses changes: only repair --lose-changes writes one"),
        Some(Verdict::NoImage) => Some("there is no image that could be put back"),
        Some(Verdict::HealsInReplay | Verdict::Leave) => Some("this page needs no repair"),
        None => Some("nothing is wrong with this page"),
    };
    if let Some(refusal) = refusal {
        state.message = Some((true, refusal.to_owned()));
        return Vec::new();
    }
    if !state.marks.remove(&page) {
        state.marks.insert(page);
    }
    state.plan = None;
    let count = state.marks.len();
    state.message = Some((
        false,
        match count {
            0 => "no page marked: the plan holds every proven one".to_owned(),
            1 => "1 page marked: the plan holds only this one".to_owned(),
            _ => format!("{count} pages marked: the plan holds only these"),
        },
    ));
    Vec::new()
}

fn export(state: &State) -> Effect {
    let name = format!("{}_{}", state.subject.program, state.view.name().to_lowercase());
    Effect::Export(name, view::whole_text(state))
}

fn click(state: &mut State, column: u16, row: u16) -> Vec<Effect> {
    state.message = None;
    if row == 0 {
        return view::tab_at(state, column).map_or_else(Vec::new, |view| show(state, view));
    }
    if state.help {
        state.help = false;
        return Vec::new();
    }
    let Some(at) = view::line_at(state, row) else { return Vec::new() };
    let selected = match state.view {
        View::Triage => &mut state.triage_at,
        View::Slots => &mut state.slots.at,
        View::Wal => &mut state.interval_at,
        _ => return Vec::new(),
    };
    // A second press on the same line opens it.
    let again = *selected == at;
    *selected = at;
    if again && state.view != View::Wal { open(state) } else { Vec::new() }
}
