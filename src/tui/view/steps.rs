//! Next steps with their commands, ticked as they are done.

use super::triage::outdated_words;
use super::{Body, Line, Look, Span, State, Style, fact, led, waiting};
use crate::tui::checklist::{Task, next_task, tasks};

/// Columns before the sentence: pointer, box and number.
const LEAD: usize = 9;

pub(super) fn body(state: &State) -> Body<'_> {
    if !state.has_survey() {
        return Body::text(Vec::new(), waiting(state), 0);
    }
    let (look, width) = (state.look, state.columns());
    let mut head: Vec<Line<'static>> = Vec::new();
    if let Some(words) = outdated_words(state) {
        head.extend(fact(look, width, "steps", words, look.doubt()));
    }
    let all = tasks(state);
    let done = all.iter().filter(|task| task.is_done).count();
    head.push(Line::styled(format!("What to do: {done} of {} done", all.len()), look.heading()));
    head.push(Line::default());
    let selected = state.checklist.selected;
    let before = all.iter().enumerate().take(selected).map(|(at, task)| task_lines(look, width, at, task, false).len());
    let top = before.sum();
    Body::text(head, list(state, &all, Some(selected)), top)
}

/// Every step, where none can be selected.
pub(super) fn all_lines(state: &State) -> Vec<Line<'static>> {
    list(state, &tasks(state), None)
}

fn list(state: &State, all: &[Task], selected: Option<usize>) -> Vec<Line<'static>> {
    let lines = |(at, task)| task_lines(state.look, state.columns(), at, task, selected == Some(at));
    all.iter().enumerate().flat_map(lines).collect()
}

/// A step: the box, the sentence, its objects, the key, and each command on its own line.
fn task_lines(look: Look, width: usize, at: usize, task: &Task, is_selected: bool) -> Vec<Line<'static>> {
    let pointer = if is_selected { look.pointer() } else { " " };
    let tick = if task.is_done { "x" } else { " " };
    let style = match (is_selected, task.is_done) {
        (true, _) => look.selected_line(),
        (false, true) => look.faint(),
        (false, false) => Style::new(),
    };
    let lead = format!("{pointer} [{tick}] {:>2}. ", at + 1);
    let room = width.saturating_sub(LEAD + 1);
    let indent = " ".repeat(LEAD);
    let mut lines = led(look, Span::styled(lead, style), &task.sentence, room, style);
    for item in &task.items {
        lines.extend(led(look, Span::raw(format!("{indent}- ")), item, room.saturating_sub(2), Style::new()));
    }
    if !task.is_done {
        if let Some((_, key, words)) = task.view {
            lines.push(Line::from_iter([Span::raw(indent)].into_iter().chain(key_spans(look, key, words))));
        }
        lines.extend(task.commands.iter().flat_map(|command| command_lines(look, width, LEAD, command)));
    }
    lines.push(Line::default());
    lines
}

fn key_spans(look: Look, key: &str, words: &str) -> [Span<'static>; 2] {
    [Span::styled(format!("[{key}]"), look.heading()), Span::raw(format!(" {words}  "))]
}

/// A command below its sentence; one that is too long continues below.
fn command_lines(look: Look, width: usize, indent: usize, command: &str) -> Vec<Line<'static>> {
    led(look, Span::raw(" ".repeat(indent)), command, width.saturating_sub(indent), look.heading())
}

/// The next step for the triage in about `room` lines: a command is never cut, and the other steps have a key.
pub(super) fn next_lines(state: &State, width: usize, room: usize) -> Vec<Line<'static>> {
    const LABEL: usize = 12;
    let look = state.look;
    let all = tasks(state);
    let Some((at, task)) = next_task(state) else {
        let words = format!("all {} steps are done: r checks again", all.len());
        return if all.is_empty() { Vec::new() } else { fact(look, width, "next step", &words, look.good()) };
    };
    let label = if all.len() == 1 { "next step".to_owned() } else { format!("step {} of {}", at + 1, all.len()) };
    let text = if task.items.is_empty() {
        task.sentence.clone()
    } else {
        format!("{}: {}", task.sentence.trim_end_matches('.'), task.items.join(", "))
    };
    let mut words = fact(look, width, &label, &text, Style::new());
    let mut keys: Vec<Span<'static>> = vec![Span::raw(" ".repeat(LABEL))];
    let more = if all.len() > 1 { format!("all {} steps", all.len()) } else { "all commands".to_owned() };
    let hints = [
        task.view.map(|(_, key, words)| (key, words.to_owned())),
        (all.len() > 1 || task.commands.len() > 1).then_some(("N", more)),
        (!task.commands.is_empty()).then(|| ("y", "copy the command".to_owned())),
    ];
    for (key, words) in hints.into_iter().flatten() {
        let own = key_spans(look, key, &words);
        if Line::from(keys.clone()).width() + Line::from_iter(own.clone()).width() <= width {
            keys.extend(own);
        }
    }
    let commands: Vec<Line<'static>> =
        task.commands.iter().take(1).flat_map(|command| command_lines(look, width, LABEL, command)).collect();
    let least = room.saturating_sub(commands.len() + 1).max(1);
    if words.len() > least {
        words.truncate(least);
        look.mark_cut(&mut words);
    }
    if keys.len() > 1 {
        words.push(Line::from(keys));
    }
    words.extend(commands);
    words
}
