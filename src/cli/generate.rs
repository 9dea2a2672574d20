//! Manual pages and shell completions, made from the same definitions that parse the command line.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::{Outcome, Stop};

/// Which shell completions are for.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the manual page of a program, its subcommands included.
///
/// # Errors
/// When the output cannot be written to.
pub fn man(command: Command, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    clap_mangen::Man::new(command.clone()).render(out)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let mut part = Vec::new();
        let man = clap_mangen::Man::new(subcommand.clone());
        man.render_name_section(&mut part)?;
        man.render_synopsis_section(&mut part)?;
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        man.render_extra_section(&mut part)?;
        writeln!(out, ".SH \"COMMAND {}\"", subcommand.get_name().to_uppercase())?;
        let text = String::from_utf8_lossy(&part).replace(".SH ", ".SS ");
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Clean)
}

/// Writes completions for a shell.
///
/// # Errors
/// When the output cannot be written to.
pub fn completions(args: &CompletionArgs, mut command: Command, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    out.flush()?;
    Ok(Outcome::Clean)
}
