//! Shared code of both terminal UIs: appearance, required terminal, and messages at the end.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::context::ColourChoice;
use super::exit::{Outcome, Stop, UsageError};
use crate::inspect::error::InspectError;
use crate::inspect::next::step_context;
use crate::output::escape::printable;
use crate::output::next_step_text::write_steps;
use crate::output::text::{Layout, Paint, wrapped};
use crate::tui::backend::Backend;
use crate::tui::command_line::{tui_command, undo_command};
use crate::tui::look::{Colours, Look, Theme, pages};
use crate::tui::run::{Ended, run};
use crate::tui::settings::Settings;
use crate::tui::state::{Outdated, State, Subject};
use crate::tui::view::start_words;

/// Which background colours are chosen for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ThemeChoice {
    Auto,
    Dark,
    Light,
}

impl ThemeChoice {
    /// Terminals that say which colours they have put them into `COLORFGBG`, the background last.
    fn theme(self, own: Option<Theme>) -> Theme {
        match (self, own) {
            (Self::Dark, _) => Theme::Dark,
            (Self::Light, _) => Theme::Light,
            (Self::Auto, Some(own)) => own,
            (Self::Auto, None) => {
                let colours = std::env::var("COLORFGBG").unwrap_or_default();
                match colours.rsplit(';').next() {
                    Some("7" | "15") => Theme::Light,
                    _ => Theme::Dark,
                }
            }
        }
    }
}

/// Appearance of the terminal UI.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ScreenArgs {
    /// Draw with ASCII characters only
    #[arg(long, help_heading = "Screen")]
    ascii: bool,
    /// Colours for a dark or a light background; auto: as in screen.toml, else what COLORFGBG says, else dark
    #[arg(long, value_name = "THEME", value_enum, default_value_t = ThemeChoice::Auto, help_heading = "Screen")]
    theme: ThemeChoice,
    /// When to use colours
    #[arg(long = "color", value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto, help_heading = "Screen")]
    colour: ColourChoice,
    /// Leave the mouse to the terminal, to select and copy text with it
    #[arg(long, help_heading = "Screen")]
    no_mouse: bool,
}

/// Colours that the terminal says it has.
fn colours_of_terminal() -> Colours {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    match (of("COLORTERM").as_str(), of("TERM")) {
        ("truecolor" | "24bit", _) => Colours::Full,
        (_, term) if term.contains("256color") || term.contains("direct") => Colours::Indexed,
        _ => Colours::Sixteen,
    }
}

impl ScreenArgs {
    /// Colours and characters. Without a locale that says UTF-8, lines and bars are ASCII.
    fn look(self, settings: &Settings) -> Look {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
            let value = std::env::var(name).ok()?;
            (!value.is_empty()).then(|| value.to_lowercase())
        });
        let utf8 = locale.is_none_or(|locale| locale.contains("utf-8") || locale.contains("utf8"));
        let colours = if self.colour.is_on() { colours_of_terminal() } else { Colours::None };
        Look { colours, theme: self.theme.theme(settings.theme), ascii: self.ascii || !utf8, own: settings.colours }
    }
}

/// Refuses where no screen can be shown. `instead`: the command that prints the same.
pub(crate) fn need_terminal(instead: &'static str) -> Result<(), UsageError> {
    if !io::stdout().is_terminal() {
        return Err(UsageError::NoTerminal(instead));
    }
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        return Err(UsageError::DumbTerminal(instead));
    }
    Ok(())
}

/// Shows the terminal UI and returns its last state.
pub(crate) fn show(subject: Subject, args: ScreenArgs, backend: Arc<dyn Backend>) -> Result<Ended, Stop> {
    show_until(subject, args, backend, || Ok(()))
}

/// Like [`show`], but calls `end` when the terminal UI is left, also if a signal ends the program.
pub(crate) fn show_until(
    subject: Subject,
    args: ScreenArgs,
    backend: Arc<dyn Backend>,
    end: impl FnOnce() -> Result<(), InspectError>,
) -> Result<Ended, Stop> {
    let settings = Settings::of_user();
    let look = args.look(&settings);
    let ended =
        run(|size| State::new(subject, look, size).with_settings(settings), Arc::clone(&backend), !args.no_mouse);
    // No server and no sandbox stays.
    backend.leave();
    let done = end();
    let ended = ended?;
    done?;
    if let Some(signal) = ended.signal {
        // The terminal is given back: now the signal does what it always does.
        signal_hook::low_level::emulate_default_handler(signal)?;
    }
    Ok(ended)
}

/// Width of the terminal for the last lines, without colours.
pub(crate) fn closing_layout() -> Layout {
    let columns = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|col| *col >= 40);
    Layout { width: columns.unwrap_or(80), paint: Paint::new(false) }
}

/// Leaves on the normal screen what was last known of a cluster, and ends as `check` would.
pub(crate) fn take_leave(ended: &Ended, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let state = &ended.state;
    if let Some(applied) = &state.plan.applied {
        writeln!(
            out,
            "{} written; to undo it:\n  {}",
            pages(applied.written),
            printable(&undo_command(state, &applied.journal))
        )?;
        if !applied.is_found_beside {
            let command = printable(&tui_command(state, &applied.journal));
            writeln!(out, "its journal is not next to the data directory; find it with:\n  {command}")?;
        }
    }
    if let Some(undone) = &state.plan.undone {
        writeln!(out, "{} as before the repair", pages(undone.facts.back + undone.facts.already))?;
    }
    if state.cluster.is_outdated {
        // After an interruption, the ways on were only on the screen, which was cleared.
        if let Some(failure) = &state.plan.failure {
            writeln!(out, "{}", printable_lines(failure))?;
        }
        writeln!(out, "pages were written, and the check after that has not ended; it is this:")?;
        writeln!(out, "  {} check {}", state.subject.program, printable(&state.subject.arguments))?;
        out.flush()?;
        return Ok(Outcome::Incomplete);
    }
    let Some(survey) = &state.cluster.survey else {
        writeln!(out, "quit before the check ended: nothing is known yet")?;
        out.flush()?;
        return Ok(Outcome::Incomplete);
    };
    let outdated = state.cluster.outdated();
    write_outdated(outdated, out)?;
    let layout = closing_layout();
    wrapped(out, layout, "", 2, &printable(&start_words(survey)))?;
    writeln!(out, "damaged pages: {}", survey.pages().len())?;
    for skipped in survey.examined.coverage.skipped.iter().take(3) {
        wrapped(out, layout, "not checked: ", 13, &printable(&skipped.to_string()))?;
    }
    // As `check` ends: every command on a line of its own, to be copied.
    write_steps(out, layout, &survey.steps, step_context(&survey.examined, &state.subject.path))?;
    out.flush()?;
    Ok(if outdated.is_some() { Outcome::Incomplete } else { survey.answer.into() })
}

/// Explains why the following answer may be outdated.
pub(crate) fn write_outdated(outdated: Option<Outdated<'_>>, out: &mut dyn Write) -> io::Result<()> {
    match outdated {
        Some(why) => writeln!(out, "{}; outdated since then:", printable(&why.to_string())),
        None => Ok(()),
    }
}

/// Several lines, each made safe for a terminal.
fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}
