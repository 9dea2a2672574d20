//! Manual pages, one for each program and one for each of its commands, made from the same definitions that parse the command line.
//! Shell completions are made from them, too.

use std::io::Write;

use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use super::exit::{EXIT_STATUS, Outcome, Stop};
use super::usage::UsageError;

/// Day of the last change to the words of these pages that is more than a new option.
const DATE: &str = "2026-11-22";
/// Subject of the manual: the line in the middle of each page's head.
const MANUAL: &str = "PostgreSQL forensics";
/// The programs, each of which cites the others.
const PROGRAMS: [&str; 2] = ["pg_dwbinspect", "pg_walfpi"];

/// Whose manual page is printed.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Command of this program, and a command of that; without it the page of the program itself
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Writes the manual page of a program, or of one of its commands.
///
/// # Errors
/// When there is no such command, or the output cannot be written to.
pub fn run(args: &ManualArgs, program: Command, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut command = &program;
    for name in &args.command {
        let found = command.get_subcommands().find(|command| command.get_name() == name);
        let shown = found.filter(|command| !command.is_hide_set());
        command = shown.ok_or_else(|| UsageError::NotACommand(name.clone()))?;
    }
    let page = page(&program, command)?;
    out.write_all(page.as_bytes())?;
    out.flush()?;
    Ok(Outcome::Clean)
}

/// The page of `command`, which is the program itself or one of its commands.
fn page(program: &Command, command: &Command) -> Result<String, Stop> {
    // What a short help leaves out is in the manual.
    let command = command.clone().mut_args(|argument| {
        let hidden = argument.is_hide_set();
        argument.hide_short_help(hidden).hide_long_help(hidden)
    });
    let has_commands = command.has_subcommands();
    let is_program = command.get_name() == program.get_name();
    let command = command.subcommand_help_heading("COMMANDS").subcommand_value_name("COMMAND");
    let after = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let synopsis = synopsis(&command);
    // The commit is left out: it would make each page another one with each commit.
    let man = Man::new(command).date(DATE).source(concat!("pgforensics ", env!("CARGO_PKG_VERSION"))).manual(MANUAL);
    let mut sections = Vec::new();
    man.render_title(&mut sections)?;
    man.render_name_section(&mut sections)?;
    sections.extend(synopsis.to_roff().into_bytes());
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    if has_commands {
        man.render_subcommands_section(&mut sections)?;
    }
    let sections = String::from_utf8_lossy(&sections);
    // The name section has the first sentence already.
    let repeated = format!(".SH DESCRIPTION\n{about}\n.PP\n");
    let mut page = tidied(&sections.replacen(&repeated, ".SH DESCRIPTION\n", 1));
    let mut rest = Roff::new();
    write_after(&after.unwrap_or_default(), &mut rest);
    let of_program = is_program.then_some(program.get_name());
    rest.control("SH", ["SEE ALSO"]);
    let others = PROGRAMS.into_iter().filter(|name| Some(*name) != of_program);
    let cited: Vec<String> = others.map(|name| format!("{name}(1)")).collect();
    rest.text([roman(cited.join(", "))]);
    page.push_str(&rest.to_roff());
    Ok(page)
}

/// The synopsis, with the values that options take.
fn synopsis(command: &Command) -> Roff {
    let mut parts = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let is_shown =
        |argument: &&Arg| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str());
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(is_shown).partition(|argument| argument.is_positional());
    for argument in options.into_iter().chain(positional) {
        let value = argument.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
        let (open, close) = if argument.is_required_set() { ("", "") } else { ("[", "]") };
        let takes_value = argument.get_action().takes_values();
        parts.push(roman(format!(" {open}")));
        match (argument.get_long(), argument.get_short()) {
            (Some(long), _) => parts.push(bold(format!("--{long}"))),
            (None, Some(short)) => parts.push(bold(format!("-{short}"))),
            (None, None) => {}
        }
        if takes_value {
            let gap = if argument.is_positional() { "" } else { " " };
            parts.extend([roman(gap), italic(value)]);
        }
        parts.push(roman(close));
    }
    if command.has_subcommands() {
        parts.extend([roman(" "), italic("COMMAND")]);
    }
    let mut section = Roff::new();
    section.control("SH", ["SYNOPSIS"]);
    section.text(parts);
    section
}

/// Text after the options: paragraphs, and parts under a heading, each a list of terms or of commands to copy.
fn write_after(text: &str, roff: &mut Roff) {
    let (mut is_copied, mut is_after_gap) = (false, false);
    for line in text.lines() {
        let indented = line.strip_prefix("  ");
        if is_copied && indented.is_none() {
            is_copied = false;
            roff.control("fi", []);
        }
        match (indented, line.strip_suffix(':')) {
            (None, Some(heading)) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                is_copied = heading == "Examples";
                if is_copied {
                    roff.control("nf", []);
                }
            }
            (None, None) if line.is_empty() => {}
            (Some(copied), _) if is_copied => {
                roff.text([roman(copied)]);
            }
            (Some(entry), _) => {
                let (term, meaning) = entry.split_once("  ").unwrap_or((entry, ""));
                roff.control("TP", []);
                roff.text([bold(term)]);
                roff.text([roman(meaning.trim_start())]);
            }
            (None, None) => {
                if is_after_gap {
                    roff.control("PP", []);
                }
                roff.text([roman(line)]);
            }
        }
        is_after_gap = line.is_empty();
    }
    if is_copied {
        roff.control("fi", []);
    }
}

/// Parts of a page as one page: the definitions at the beginning once, no blanks at the ends of lines, and of empty lines and breaks that
/// are together one empty line.
fn tidied(parts: &str) -> String {
    const DEFINITIONS: [&str; 2] = [".ie \\n(.g .ds Aq \\(aq", ".el .ds Aq '"];
    let mut page = format!("{}\n{}\n", DEFINITIONS[0], DEFINITIONS[1]);
    let mut is_gap = false;
    for line in parts.lines().map(str::trim_end).filter(|line| !DEFINITIONS.contains(line)) {
        if line.is_empty() || line == ".br" {
            is_gap = true;
            continue;
        }
        // Before a heading and before an entry there is a gap anyway.
        if is_gap && ![".SH", ".TP"].iter().any(|begins| line.starts_with(begins)) {
            page.push_str(".sp\n");
        }
        is_gap = false;
        page.push_str(line);
        page.push('\n');
    }
    page
}

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
