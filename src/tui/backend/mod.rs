//! Work outside of the state: each piece on a thread of its own, on a cluster or on WAL alone. Answers go through a channel.

pub mod cluster;
pub mod innodb;
pub mod wal;
mod watch;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::action::{Action, Effect};
use super::facts::Progress;
use crate::inspect::error::InspectError;
use crate::output::escape::quoted;
use crate::repair::export::ExportDir;
use crate::repair::new_file;
use crate::repair::plan::Plan;

/// Time between two checks whether files have changed.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Shortest time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Events for the main loop.
pub enum Event {
    Action(Action),
    Input(ratatui::crossterm::event::Event),
    InputFailed(std::io::Error),
    Signal(i32),
    Panicked,
}

/// Somebody who does the work that the state asks for.
pub trait Backend: Send + Sync + 'static {
    fn work(&self, effect: Effect, sender: &ActionSender);

    fn has_changed(&self) -> bool;

    /// No one waits for work: interrupts work that would leave something behind, and waits until it has ended.
    fn leave(&self) {}
}

/// Where work tells what comes of it.
#[derive(Clone)]
pub struct ActionSender {
    events: Sender<Event>,
    last: Arc<Mutex<Option<Instant>>>,
}

impl ActionSender {
    pub fn new(events: Sender<Event>) -> Self {
        Self { events, last: Arc::default() }
    }

    pub fn action(&self, action: Action) {
        // Nobody listens any more when the program is ending.
        drop(self.events.send(Event::Action(action)));
    }

    /// Tells how far work is, now and then. `wrap`: what kind of progress it is.
    pub fn progress(&self, wrap: fn(Progress) -> Action, progress: Progress) {
        let mut last = lock(&self.last);
        if last.is_none_or(|last| last.elapsed() >= REPORT_EVERY) {
            *last = Some(Instant::now());
            self.action(wrap(progress));
        }
    }
}

pub(super) fn start(backend: &Arc<dyn Backend>, effect: Effect, events: &Sender<Event>) {
    let (backend, events) = (Arc::clone(backend), events.clone());
    thread::spawn(move || {
        let sender = ActionSender::new(events.clone());
        if catch_unwind(AssertUnwindSafe(|| backend.work(effect, &sender))).is_err() {
            // Nobody listens any more when the program is ending.
            drop(events.send(Event::Panicked));
        }
    });
}

pub(super) fn watch(backend: &Arc<dyn Backend>, events: &Sender<Event>) {
    let (backend, events) = (Arc::clone(backend), events.clone());
    thread::spawn(move || {
        loop {
            thread::sleep(CHECK_EVERY);
            if backend.has_changed() && events.send(Event::Action(Action::FilesChanged)).is_err() {
                return;
            }
        }
    });
}

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

/// Files of one name that are tried before giving up.
const MAX_OF_A_NAME: u32 = 1000;

/// Writes a view as text and as JSON. Nothing is written into `protected` directories.
fn export(
    name: &str,
    text: &str,
    json: &str,
    protected: Result<Vec<PathBuf>, InspectError>,
) -> Result<Action, InspectError> {
    Ok(Action::Exported(write_all(name, &[("txt", text), ("json", json)], &protected?)?))
}

/// Writes new files of one name, each with its ending, and returns the path of the first. Nothing is written into `protected`
/// directories.
fn write_all(name: &str, parts: &[(&str, &str)], protected: &[PathBuf]) -> Result<PathBuf, InspectError> {
    let directory = ExportDir::create(Path::new("."), protected)?;
    let endings: Vec<&str> = parts.iter().map(|(ending, _)| *ending).collect();
    let stem = free_name(name, &endings);
    let mut first = PathBuf::new();
    for (at, (ending, text)) in parts.iter().enumerate() {
        let path = directory.write_new(&format!("{stem}.{ending}"), text.as_bytes())?;
        if at == 0 {
            first = path;
        }
    }
    Ok(absolute(&first))
}

fn save_plan(plan: &Plan, protected: &[PathBuf]) -> Result<PathBuf, InspectError> {
    let path = PathBuf::from(format!("{}.json", free_name("repair_plan", &["json"])));
    new_file::save(&path, plan, protected)?;
    Ok(absolute(&path))
}

/// A name that no file in the current directory has with any of these endings.
fn free_name(name: &str, endings: &[&str]) -> String {
    let is_free = |stem: &String| endings.iter().all(|ending| !Path::new(&format!("{stem}.{ending}")).exists());
    let numbered = (2..MAX_OF_A_NAME).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_else(|| name.to_owned())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Size, time of the last change, and number of a file; `None` if it is missing.
type Stamp = Option<(u64, i64, i64, u64)>;

#[derive(Debug, Default)]
struct FileStamps(Vec<(PathBuf, Stamp)>);

fn stamp(path: &Path) -> Stamp {
    let of = |metadata: Metadata| (metadata.size(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
    path.metadata().ok().map(of)
}

impl FileStamps {
    fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect())
    }

    fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| stamp(path) != *before)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn changed_new_and_lost_files_are_seen() {
        let temporary = tempfile::tempdir().unwrap();
        let make = || tempfile::Builder::new().prefix("one").rand_bytes(0).tempfile_in(temporary.path()).unwrap();
        let look = || FileStamps::of([temporary.path().join("one")]);
        let before = look();
        assert!(!before.have_changed());
        let mut file = make();
        assert!(before.have_changed(), "new");
        let before = look();
        assert!(!before.have_changed());
        file.write_all(b"1").unwrap();
        assert!(before.have_changed(), "changed");
        let before = look();
        drop(file);
        assert!(before.have_changed(), "lost");
    }
}
