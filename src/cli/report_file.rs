//! The file that a report is written into.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::context::QuietArg;
use super::exit::Stop;
use crate::inspect::error::InspectError;
use crate::output::document::Document;
use crate::output::escape::{printable, quoted};
use crate::repair::new_file::NewFile;

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
    /// A new file.
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
