//! Shell completions, made from the same definitions that parse the command line.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::{EXIT_STATUS, Outcome, Stop};

/// Which shell completions are for.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Help after the options of a program: the exit status, and the commands about the program itself.
pub(crate) fn with_more_commands() -> String {
    format!(
        "{EXIT_STATUS}\n\nAbout the program:\n  man [COMMAND]      print a manual page: man check | man -l -\n  completions SHELL  print \
         completions for bash, zsh, fish, elvish or powershell"
    )
}

/// Writes completions for a shell.
pub(crate) fn completions(args: &CompletionArgs, mut command: Command, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    out.flush()?;
    Ok(Outcome::Clean)
}
