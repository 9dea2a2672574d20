//! The only place where the state changes. Pure: work is asked for by returning effects.

use std::sync::Arc;

use super::action::{Action, Command, Effect};
use super::command_line::command_line;
use super::export::json_text;
use super::facts::Survey;
use super::lists::{find, order_slots, reverse_slots};
use super::look::pages;
use super::query::Query;
use super::state::{Column, PagePart, Prompt, PromptKind, State, View};
use super::view;
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
        Action::SurveyFailed(why) => {
            state.surveying = false;
            state.progress = None;
            if state.survey.is_none() {
                return vec![Effect::Fail(why)];
            }
            state.message = Some((true, why));
        }
        Action::WalRead(wal) => {
            // More follows as long as something has not been counted.
            state.reading_wal = wal.relations.is_none() || wal.causes.is_none();
            if !state.reading_wal {
                state.wal_progress = None;
            }
            state.wal_error = None;
            state.interval_at = state.interval_at.min(wal.intervals.len().saturating_sub(1));
            state.wal = Some(wal);
        }
        Action::WalFailed(why) => {
            state.reading_wal = false;
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
            // One that was asked for before the marks changed is of no use.
            if plan.pages == marked(state) {
                state.plan = Some(plan);
                clamp(state);
            }
        }
        Action::Told(words) => state.message = Some((false, words)),
        Action::Failed(words) => state.message = Some((true, words)),
        Action::Refused(words) => {
            state.applying = false;
            state.rehearsing = false;
            state.message = Some((true, words));
            return end_if_wanted(state);
        }
        Action::Rehearsed(words) => {
            state.rehearsing = false;
            state.message = Some((false, words));
        }
        Action::Applied(applied) => {
            state.applying = false;
            state.message = Some((false, format!("{} written; 6 tells how to take it back", pages(applied.written))));
            state.applied = Some(applied);
            state.marks.clear();
            let mut effects = end_if_wanted(state);
            effects.extend(survey(state));
            return effects;
        }
        Action::FilesChanged => state.changed = !state.surveying && !state.applying,
        Action::Terminate => {
            state.terminating = true;
            state.message = Some((true, "asked to end: a repair is finished first".to_owned()));
            return end_if_wanted(state);
        }
    }
    Vec::new()
}

/// What a program has to do first.
pub fn begin(state: &mut State) -> Vec<Effect> {
    let mut effects = Vec::new();
    if state.subject.views.contains(&View::Triage) {
        effects.extend(survey(state));
    }
    effects.extend(read_wal(state));
    effects
}

/// Checks the cluster, unless that is being done.
fn survey(state: &mut State) -> Vec<Effect> {
    state.changed = false;
    state.sheet = None;
    state.plan = None;
    if std::mem::replace(&mut state.surveying, true) { Vec::new() } else { vec![Effect::Survey] }
}

fn read_wal(state: &mut State) -> Vec<Effect> {
    if std::mem::replace(&mut state.reading_wal, true) { Vec::new() } else { vec![Effect::ReadWal] }
}

fn end_if_wanted(state: &State) -> Vec<Effect> {
    if state.terminating && !state.applying { vec![Effect::Quit] } else { Vec::new() }
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
        Command::Left => sideways(state, -1),
        Command::Right => sideways(state, 1),
        Command::NextPart => step_part(state, 1),
        Command::PreviousPart => step_part(state, PagePart::ALL.len() - 1),
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
        Command::Reverse => reverse_slots(state),
        Command::Mark => return mark(state),
        Command::Copy => {
            let text = command_line(state);
            state.message = Some((false, format!("copied: {text}")));
            return vec![Effect::Copy(text)];
        }
        Command::Export => return vec![export(state)],
        Command::Save => {
            if let Some(plan) = &state.plan {
                return vec![Effect::SavePlan(plan.plan.clone())];
            }
            state.message = Some((true, "there is no plan yet".to_owned()));
        }
        Command::DryRun => {
            if let Some(plan) = state.plan.clone().filter(|_| may_write(state)) {
                state.rehearsing = true;
                state.message = Some((false, "dry run: checking once more; nothing is written".to_owned()));
                return vec![Effect::DryRun(plan.plan.clone(), marked(state))];
            }
        }
        Command::Apply => {
            if may_write(state) {
                state.prompt = Some(Prompt { kind: PromptKind::Apply, text: String::new() });
            }
        }
        Command::Reload if state.surveying || state.applying => {
            state.message = Some((true, "the cluster is being read: wait until that has ended".to_owned()));
        }
        Command::Reload => {
            state.message = Some((false, "reading again".to_owned()));
            return begin(state);
        }
        Command::Suspend => return vec![Effect::Suspend],
        Command::Redraw => return vec![Effect::Redraw],
    }
    Vec::new()
}

/// Whether a repair may be begun; says why not.
fn may_write(state: &mut State) -> bool {
    let refusal = match &state.plan {
        _ if state.applying || state.rehearsing => "this is being done already",
        None => "there is no plan yet",
        Some(plan) if plan.plan.steps.is_empty() => "the plan writes nothing",
        Some(plan) if !plan.blockers.is_empty() => "refused: see the reasons above the plan",
        Some(_) => return true,
    };
    state.message = Some((true, refusal.to_owned()));
    false
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
    clamp(state);
    if view == View::Plan && state.plan.is_none() && state.survey.is_some() && !state.surveying {
        return vec![Effect::MakePlan(marked(state))];
    }
    Vec::new()
}

fn open(state: &mut State) -> Vec<Effect> {
    if state.view == View::Batches {
        return open_batch(state);
    }
    match state.selected_page() {
        Some(page) => open_page(state, page),
        None if state.survey.is_some() => {
            state.message = Some((true, "there is no page behind this line".to_owned()));
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Goes to the first slot of the selected batch.
fn open_batch(state: &mut State) -> Vec<Effect> {
    let Some(survey) = state.survey.clone() else { return Vec::new() };
    let Some(batch) = survey.batches.get(state.batch_at) else { return Vec::new() };
    state.slots.only = false;
    state.slots.column = 0;
    state.slots.descending = false;
    order_slots(state);
    state.slots.at = survey.slots.iter().position(|row| batch.holds(row)).unwrap_or(0);
    show(state, View::Slots)
}

fn open_page(state: &mut State, page: PageId) -> Vec<Effect> {
    state.help = false;
    state.came_from = state.view;
    state.view = View::Page;
    if state.page != Some(page) {
        (state.page_top, state.page_left, state.cursor, state.image) = (0, 0, 0, 0);
        state.part = PagePart::Verdict;
    }
    state.page = Some(page);
    if state.sheet.as_ref().is_some_and(|sheet| sheet.page == page) {
        return Vec::new();
    }
    state.sheet = None;
    vec![Effect::ReadPage(page)]
}

fn step_part(state: &mut State, step: usize) {
    let at = PagePart::ALL.iter().position(|part| *part == state.part).unwrap_or(0);
    state.part = PagePart::ALL.get((at + step) % PagePart::ALL.len()).copied().unwrap_or(PagePart::Verdict);
    (state.page_top, state.page_left) = (0, 0);
}

/// Moves the cursor by bytes, or a wide part by columns.
fn sideways(state: &mut State, by: isize) {
    if state.part == PagePart::Bytes {
        move_cursor(state, by);
    } else {
        const COLUMNS: isize = 8;
        state.page_left = state.page_left.saturating_add_signed(by * COLUMNS).min(view::widest(state));
    }
}

fn move_cursor(state: &mut State, by: isize) {
    let count = state.sheet.as_ref().and_then(|sheet| sheet.versions.first()).map_or(0, |disk| disk.bytes.len());
    state.cursor = moved(state.cursor, by, count);
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
        View::Batches => {
            let count = state.survey.as_ref().map_or(0, |survey| survey.batches.len());
            state.batch_at = moved(state.batch_at, by, count);
        }
        View::Page if state.part == PagePart::Bytes => {
            move_cursor(state, by.saturating_mul(view::row_bytes(state) as isize));
        }
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
    state.surveying = false;
    state.changed = false;
    state.opened = Some(survey.state.clone());
    state.triage_at = state.triage_at.min(survey.pages.len().saturating_sub(1));
    state.batch_at = state.batch_at.min(survey.batches.len().saturating_sub(1));
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
            if let Some(plan) = state.plan.clone().filter(|_| may_write(state)) {
                state.applying = true;
                state.message = Some((false, "checking once more, then writing".to_owned()));
                return vec![Effect::ApplyPlan(plan.plan.clone(), marked(state))];
            }
        }
        PromptKind::Apply => {
            state.message = Some((false, "nothing was written: the word is apply".to_owned()));
        }
    }
    Vec::new()
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
        None => Some("nothing was found to be wrong with this page"),
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
    Effect::Export { name, text: view::whole_text(state), json: json_text(state) }
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
        View::Batches => &mut state.batch_at,
        View::Slots => &mut state.slots.at,
        View::Wal => &mut state.interval_at,
        _ => return Vec::new(),
    };
    // A second press on the same line opens it.
    let again = *selected == at;
    *selected = at;
    if again && state.view != View::Wal { open(state) } else { Vec::new() }
}
