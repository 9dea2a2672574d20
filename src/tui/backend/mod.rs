//! Who does the work that the state asks for: on a cluster, or on WAL alone.

pub mod cluster;
pub mod innodb;
mod new_files;
mod stamps;
pub mod wal;
mod watch;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::action::Action;
use super::worker::ActionSender;
use crate::inspect::error::InspectError;
use crate::output::escape::quoted;

/// Why work that the screen asked for could not be done.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error(transparent)]
    Inspect(#[from] InspectError),
    #[error("nothing has been read yet")]
    NotReadYet,
    #[error("nothing is known about this page")]
    PageUnknown,
    #[error("files have changed: r reads them again, then R writes the report")]
    ChangedSince,
}

/// Hands over what came of some work; failures as `failed` says.
fn hand_over(sender: &ActionSender, failed: fn(String) -> Action, done: Result<Action, impl std::error::Error>) {
    sender.action(done.unwrap_or_else(|error| failed(error.to_string())));
}

/// Like [`hand_over`], for work that writes pages: after an interruption, some of them may be written.
fn hand_over_written(sender: &ActionSender, done: Result<Action, WorkError>) {
    let failed = match &done {
        Err(WorkError::Inspect(InspectError::Unfinished(_))) => Action::BrokenOff,
        _ => Action::Refused,
    };
    hand_over(sender, failed, done);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn quoted_paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| quoted(&path.display().to_string())).collect()
}
