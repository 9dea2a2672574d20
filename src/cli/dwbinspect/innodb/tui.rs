//! `pg_dwbinspect innodb tui`: the same on a screen.

use std::io::Write;
use std::sync::Arc;

use clap::Args;

use super::DirectoryArgs;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::screen::{ScreenArgs, closing_layout, need_terminal, show, write_outdated};
use crate::inspect::innodb::source::list_files;
use crate::output::escape::printable;
use crate::output::innodb_text::{NOT_PREDICTED, write_innodb_steps};
use crate::tui::backend::innodb::InnodbBackend;
use crate::tui::state::Subject;

/// Terminal UI for a crashed directory of MySQL or MariaDB: damage and next steps
///
/// Lists the pages of `check`, the worst first; enter shows what `page` says of one, N the next steps, F the findings, R writes the
/// crash report, ? the keys. No page is repaired. The exit status is that of `check`, and 2 where files have changed since or the check was
/// begun again and has failed or not ended.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct TuiArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Open in guided mode: the step (understand, compare, save, verify) and the next key stay in view
    #[arg(long, help_heading = "Screen")]
    guide: bool,
    #[command(flatten)]
    screen: ScreenArgs,
}

pub(super) fn run(args: &TuiArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    need_terminal("pg_dwbinspect innodb check")?;
    let request = args.directory.request();
    // Files that cannot be checked are reported on the normal screen.
    list_files(&request)?;
    let backend = Arc::new(InnodbBackend::new(request));
    let subject = Subject { is_guided: args.guide, ..backend.subject() };
    let ended = show(subject, args.screen, backend)?;
    let state = &ended.state;
    let Some(survey) = state.innodb.survey.as_deref() else {
        writeln!(out, "quit before the check ended: nothing is known yet")?;
        out.flush()?;
        return Ok(Outcome::Incomplete);
    };
    let outdated = state.cluster.outdated();
    write_outdated(outdated, out)?;
    writeln!(out, "damaged pages: {}", survey.examined.pages.iter().filter(|page| page.is_damaged()).count())?;
    writeln!(out, "startup: {NOT_PREDICTED}")?;
    for skipped in survey.examined.coverage.skipped.iter().take(3) {
        writeln!(out, "not checked: {}", printable(&skipped.to_string()))?;
    }
    write_innodb_steps(out, closing_layout(), &survey.steps)?;
    out.flush()?;
    Ok(if outdated.is_some() { Outcome::Incomplete } else { survey.answer.into() })
}
