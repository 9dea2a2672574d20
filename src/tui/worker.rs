//! Work outside of the state: each piece on a thread of its own, answers through a channel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::action::{Action, Effect};
use super::facts::Progress;

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
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
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
