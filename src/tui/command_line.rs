//! The command that shows what the screen shows.

use super::state::{State, View};
use crate::output::shell::quoted;

/// The command line of the open view.
#[must_use]
pub fn command_line(state: &State) -> String {
    let program = state.subject.program;
    let path = quoted(&state.subject.path);
    let all = &state.subject.arguments;
    match state.view {
        View::Triage => format!("{program} check --explain {all}"),
        View::Batches => format!("{program} batches {path}"),
        View::Slots => match state.query.arguments().filter(|_| state.slots.only) {
            Some(arguments) => format!("{program} dump{arguments} {path}"),
            None => format!("{program} dump {path}"),
        },
        View::Page => match &state.page.sheet {
            Some(sheet) => {
                let (file, block) = sheet.argument.rsplit_once(':').unwrap_or((&sheet.argument, "0"));
                format!("{program} page {all} {} {block}", quoted(file))
            }
            None => format!("{program} check --all {all}"),
        },
        View::Wal => format!("pg_walfpi stats {}", state.subject.wal_arguments),
        View::Plan => {
            state.plan.sheet.as_ref().map_or_else(|| format!("{program} repair {all}"), |plan| plan.command.clone())
        }
    }
}
