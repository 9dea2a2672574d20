//! Exit status, and messages when a run cannot continue.

use std::io;
use std::process::ExitCode;

use super::usage::UsageError;
use crate::analysis::verdict::answer::Answer;
use crate::inspect::error::InspectError;
use crate::output::escape::message;
#[cfg(feature = "tui")]
use crate::tui::run::RunError;

/// Meaning of the exit status, for help texts.
pub(crate) const EXIT_STATUS: &str = "Exit status:
  0    no problem found; everything was checked (for a cluster: recovery loses no data)
  1    problems found
  2    incomplete: something was not checked or is uncertain, or usage error
  141  the reader of the output closed the pipe: the run did not finish";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Everything was examined and nothing is wrong: 0.
    Clean,
    /// Everything was examined and something is wrong: 1.
    Findings,
    /// Something was not examined or is not certain: 2. Wins over findings.
    Incomplete,
    /// The reader of the output went away: 141, as if killed by the signal for it. The run did not finish, so 0 would
    /// be a false "clean".
    PipeClosed,
}

impl Outcome {
    /// The outcome of a run with these counts.
    pub fn of(problems: usize, skipped: usize) -> Self {
        Answer::of_counts(problems, skipped).into()
    }

    /// The number that the shell sees.
    pub const fn status(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 1,
            Self::Incomplete => 2,
            Self::PipeClosed => 141,
        }
    }
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Fine => Self::Clean,
            Answer::Wrong => Self::Findings,
            Answer::Uncertain => Self::Incomplete,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome.status())
    }
}

/// Why a run stopped early.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The output cannot be written to.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// The work could not be done.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The command line does not say what to do.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The terminal UI could not be shown, or ended with a failure.
    #[cfg(feature = "tui")]
    #[error(transparent)]
    Screen(#[from] RunError),
}

/// Arguments of the user that a message may repeat.
pub(super) fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).chain(std::env::var_os("PGDATA")).map(|text| text.to_string_lossy().into_owned())
}

impl Stop {
    /// The outcome, after telling the user on `errors` where that is due.
    pub fn report(self, program: &str, errors: &mut dyn io::Write) -> Outcome {
        if let Self::Output(error) = &self
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return Outcome::PipeClosed;
        }
        // Nobody is left to tell when standard error is closed too; the exit status still says it.
        let text = self.to_string();
        let told = writeln!(errors, "{program}: {}", message(&text, arguments()));
        drop(told);
        Outcome::Incomplete
    }
}
