//! Next steps as a list that is ticked off: by the check after a repair, or by hand.

use std::collections::BTreeSet;

use super::facts::Survey;
use super::state::{State, View};
use crate::analysis::verdict::next_step::NextStep;
use crate::inspect::next::step_context;
use crate::output::innodb_text::InnodbStep;
use crate::output::next_step_text::{StepContext, Words, all_words};
use crate::repair::blocker::Overrides;

/// Steps that were done, and the selected one.
#[derive(Clone, Debug, Default)]
pub struct ChecklistState {
    pub selected: usize,
    pub past: Vec<Task>,
    /// Steps that were ticked by hand: name and objects.
    pub ticked: BTreeSet<(&'static str, Vec<String>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub code: &'static str,
    pub sentence: String,
    /// Its objects, one by one.
    pub items: Vec<String>,
    pub commands: Vec<String>,
    /// The view in which it is done, with its key and the word for it.
    pub view: Option<(View, &'static str, &'static str)>,
    pub is_done: bool,
}

impl Task {
    fn of(step: &NextStep, words: Words) -> Self {
        let view = match step {
            NextStep::Repair { .. }
            | NextStep::RebuildPages { .. }
            | NextStep::Decide { .. }
            | NextStep::RebuildDoubtful { .. } => Some((View::Plan, "6", "review the plan")),
            NextStep::BringFiles | NextStep::LookAtProblems | NextStep::KeepStopped => {
                Some((View::Findings, "F", "list the problems"))
            }
            _ => None,
        };
        let sentence = format!("{}.", words.sentence().trim_end_matches([':', '.']));
        Self { code: step.code(), sentence, items: words.items, commands: words.commands, view, is_done: false }
    }

    fn of_innodb(step: &InnodbStep) -> Self {
        let sentence = format!("{}.", step.words.trim_end_matches([':', '.']));
        let commands = step.command.iter().cloned().collect();
        Self { code: step.code, sentence, items: Vec::new(), commands, view: None, is_done: false }
    }

    fn key(&self) -> (&'static str, Vec<String>) {
        (self.code, self.items.clone())
    }
}

fn current(survey: &Survey, data_dir: &str, allowed: Overrides) -> Vec<Task> {
    let context = StepContext { allowed, ..step_context(&survey.examined, data_dir) };
    let words = all_words(&survey.steps, context);
    survey.steps.iter().zip(words).map(|(step, words)| Task::of(step, words)).collect()
}

/// All steps: first those that are past, then those to take.
pub fn tasks(state: &State) -> Vec<Task> {
    let list = &state.checklist;
    let open: Vec<Task> = match (state.survey(), state.innodb.survey.as_deref()) {
        (Some(survey), _) => current(survey, &state.subject.path, state.plan.allowed),
        (None, Some(survey)) => survey.steps.iter().map(Task::of_innodb).collect(),
        (None, None) => Vec::new(),
    };
    let mut all = list.past.clone();
    all.extend(open.into_iter().map(|task| {
        let is_done = list.ticked.contains(&task.key());
        Task { is_done, ..task }
    }));
    all
}

pub fn next_task(state: &State) -> Option<(usize, Task)> {
    tasks(state).into_iter().enumerate().find(|(_, task)| !task.is_done)
}

/// Another check was made: what it no longer asks for is done.
pub(super) fn checked_again(state: &mut State, after: &Survey) {
    let (path, allowed) = (state.subject.path.clone(), state.plan.allowed);
    let codes: BTreeSet<&str> = after.steps.iter().map(NextStep::code).collect();
    let before = state.survey().map_or_else(Vec::new, |before| current(before, &path, allowed));
    let list = &mut state.checklist;
    list.past.extend(before.into_iter().map(|task| Task { is_done: true, ..task }));
    list.past.retain(|task| !codes.contains(task.code));
    let mut seen = BTreeSet::new();
    list.past.retain(|task| seen.insert(task.code));
    list.selected = list.past.len();
}

pub(super) fn tick(state: &mut State) {
    let Some(task) = tasks(state).into_iter().nth(state.checklist.selected) else { return };
    let is_past = state.checklist.selected < state.checklist.past.len();
    match is_past {
        true => state.tell("the last check shows that this is done"),
        false if !state.checklist.ticked.remove(&task.key()) => {
            state.checklist.ticked.insert(task.key());
        }
        false => {}
    }
}
