//! Arguments, dispatch and exit status of the two programs.

mod context;
mod data_dir_arg;
pub mod dwbinspect;
pub(crate) mod exit;
mod manual;
mod report_file;
#[cfg(feature = "tui")]
mod screen;
mod usage;
mod values;
pub mod walfpi;
pub mod work;

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use crate::output::escape::message;
use exit::{Outcome, Stop, arguments};

/// Details of `--version` after version and commit: features and target.
const LONG_VERSION: &str = concat!(
    env!("PGFORENSICS_VERSION"),
    "\nfeatures: ",
    env!("PGFORENSICS_FEATURES"),
    "\ntarget: ",
    env!("PGFORENSICS_TARGET")
);

/// Reads the command line. Errors in it are reported like all others; help and version are printed.
///
/// # Errors
/// The exit status, when there is nothing more to do.
pub fn command_line<C: Parser>(program: &str) -> Result<C, ExitCode> {
    // A limit on the size of files (`ulimit -f`) is an error like a full disk, which is reported, and not the end
    // of the program in the middle of a repair. Where the system refuses, nothing is lost but the words.
    let limit = rustix::process::Signal::XFSZ.as_raw();
    drop(signal_hook::flag::register(limit, Arc::new(AtomicBool::new(false))));
    let error = match C::try_parse() {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    if !error.use_stderr() {
        // As for results: a reader that went away must not look like success.
        let printed = error.print();
        let status = printed.map_or_else(|error| Stop::from(error).report(program, &mut stderr()), |()| Outcome::Clean);
        return Err(status.into());
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = &format!("{text}{}", other_program(&error));
    // Nobody is left to tell when standard error is closed too; the exit status still says it.
    drop(write!(stderr(), "{program}: {}", message(text, arguments())));
    Err(Outcome::Incomplete.into())
}

/// A hint at the program whose command was used with this one; empty for other errors.
fn other_program(error: &clap::Error) -> String {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return String::new() };
    let programs = [dwbinspect::Cli::command(), walfpi::Cli::command()];
    let has = |program: &&clap::Command| program.get_subcommands().any(|command| command.get_name() == name.as_str());
    let found = programs.iter().find(has);
    found.map_or_else(String::new, |program| format!("\n{name} is a command of {}.\n", program.get_name()))
}
