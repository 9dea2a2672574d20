//! The command that shows what the screen shows.

use super::state::{State, View};

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
        View::Page => match &state.sheet {
            Some(sheet) => {
                let (file, block) = sheet.argument.rsplit_once(':').unwrap_or((&sheet.argument, "0"));
                format!("{program} page {all} {} {block}", quoted(file))
            }
            None => format!("{program} check --all {all}"),
        },
        View::Wal => format!("pg_walfpi stats {}", state.subject.wal_arguments),
        View::Plan => {
            state.plan.as_ref().map_or_else(|| format!("{program} repair {all}"), |plan| plan.command.clone())
        }
    }
}

/// A word as a shell reads it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("/var/lib/pg-15"), "/var/lib/pg-15");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
