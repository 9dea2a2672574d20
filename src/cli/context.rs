//! Arguments for printing that all commands share.
//! Also here: the file that a report is written into.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, Args, ValueEnum};

use super::exit::Stop;
use super::work::{JobsArg, ProgressArg};
use crate::inspect::error::InspectError;
use crate::output::document::Document;
use crate::output::escape::{printable, quoted};
use crate::output::sink::Machine;
use crate::output::text::{Layout, Paint};
use crate::repair::new_file::NewFile;

/// Columns that are assumed where there is no terminal to ask.
const DEFAULT_WIDTH: u16 = 80;

/// Rows of a long table where there is no terminal to ask.
const USUAL_ROWS: usize = 24;

/// Lines of a screen for all but the rows of a table.
const OTHER_ROWS: usize = 10;

/// Rows of a long table on a very low terminal.
const MIN_ROWS: usize = 8;

/// `-?`, as the server's own programs have it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct QuestionMark {
    /// Print help
    #[arg(short = '?', global = true, hide = true, action = ArgAction::HelpShort)]
    question_mark: Option<bool>,
}

/// `-q` of commands whose exit status is an answer.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct QuietArg {
    /// Print no result; the exit status is the answer
    #[arg(short, long)]
    quiet: bool,
}

impl QuietArg {
    /// Only the exit status is requested.
    pub const fn is_on(self) -> bool {
        self.quiet
    }

    /// Where results go: to `out`, or nowhere.
    pub fn output<'a>(self, out: &'a mut dyn Write, nowhere: &'a mut io::Sink) -> &'a mut dyn Write {
        if self.quiet { nowhere } else { out }
    }
}

/// The word for that format.
const PROMETHEUS: &str = "prometheus";

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and sentences for people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Ndjson,
    /// Comma-separated values with a header line.
    Csv,
    /// The text format of Prometheus; taken where [`with_prometheus`] adds it.
    #[value(skip)]
    Prometheus,
}

/// Adds the text format of Prometheus to the values of `--format`.
pub(crate) fn with_prometheus(format: Arg) -> Arg {
    let usual = Format::value_variants().iter().filter_map(Format::to_possible_value);
    let prometheus = PossibleValue::new(PROMETHEUS)
        .help("The text format of Prometheus, for the textfile collector of its node exporter");
    let values = PossibleValuesParser::new(usual.chain([prometheus]));
    format.value_parser(values.try_map(|name| match name.as_str() {
        PROMETHEUS => Ok(Format::Prometheus),
        name => Format::from_str(name, false),
    }))
}

/// When colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColourChoice {
    /// Whether colours are written to standard output.
    pub fn is_on(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }
}

/// How results are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
    /// When to use colours
    #[arg(long = "color", value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto, help_heading = "Output")]
    pub colour: ColourChoice,
    /// Width of text output [default: that of the terminal, else 80]
    #[arg(long, value_name = "COLUMNS", help_heading = "Output", value_parser = clap::value_parser!(u16).range(40..))]
    pub width: Option<u16>,
}

impl OutputArgs {
    /// Layout of text on this terminal.
    pub fn layout(&self) -> Layout {
        let terminal = io::stdout().is_terminal();
        let on = self.colour.is_on();
        let asked =
            || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|col| *col >= 40);
        let width = self.width.or_else(|| terminal.then(asked).flatten()).unwrap_or(DEFAULT_WIDTH);
        Layout { width, paint: Paint::new(on) }
    }

    /// Rows of a table that fit: on a terminal the lines that are left after headings and closing lines.
    pub(crate) fn rows_that_fit(&self) -> usize {
        let size = || rustix::termios::tcgetwinsize(io::stdout()).ok();
        let rows = io::stdout().is_terminal().then(size).flatten().map(|size| usize::from(size.ws_row));
        rows.filter(|rows| *rows > 0).map_or(USUAL_ROWS, |rows| rows.saturating_sub(OTHER_ROWS).max(MIN_ROWS))
    }

    /// The machine format that was asked for, if one was.
    pub const fn machine(&self) -> Option<Machine> {
        match self.format {
            Format::Text | Format::Prometheus => None,
            Format::Json => Some(Machine::Json),
            Format::Ndjson => Some(Machine::Ndjson),
            Format::Csv => Some(Machine::Csv),
        }
    }
}

/// How a command works and prints whose exit status is an answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub jobs: JobsArg,
    #[command(flatten)]
    pub progress: ProgressArg,
    #[command(flatten)]
    pub quiet: QuietArg,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where a report goes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportFileArgs {
    /// New file for the report, not inside what is read: Markdown where its name ends with .md, else HTML; "-" for
    /// standard output, as HTML
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: PathBuf,
}

/// Where a report will be written.
pub(crate) enum ReportFile {
    /// Standard output.
    Output,
    New(PathBuf, NewFile),
}

impl ReportFileArgs {
    /// Makes sure that the file can be made: that nothing exists there, and that it is outside `protected`.
    pub(crate) fn reserve(&self, protected: &[PathBuf]) -> Result<ReportFile, Stop> {
        if self.output == Path::new("-") {
            return Ok(ReportFile::Output);
        }
        let new = NewFile::at(&self.output, protected).map_err(InspectError::from)?;
        Ok(ReportFile::New(self.output.clone(), new))
    }
}

impl ReportFile {
    /// Writes the report, and says where it is.
    ///
    /// # Errors
    /// When something is there by now, or the system refuses.
    pub fn write(&self, report: &Document, quiet: QuietArg, out: &mut dyn Write) -> Result<(), Stop> {
        match self {
            Self::Output => out.write_all(report.html().as_bytes())?,
            Self::New(path, new) => {
                let is_markdown = path.extension().is_some_and(|ending| ending == "md");
                let text = if is_markdown { report.markdown() } else { report.html() };
                new.write(text.as_bytes()).map_err(InspectError::from)?;
                if !quiet.is_on() {
                    writeln!(out, "The report was written to {}.", printable(&path.display().to_string()))?;
                }
            }
        }
        Ok(out.flush()?)
    }
}

/// The command line as it was given.
pub fn command_line(program: &str) -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
