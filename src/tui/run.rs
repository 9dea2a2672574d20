//! The loop: input, signals and workers become actions, the state changes, the screen is drawn.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::action::{Action, Effect};
use super::keymap::action_of;
use super::state::State;
use super::terminal::Screen;
use super::update::{begin, update};
use super::view::view;
use super::worker::{Backend, Event, start, watch};
use crate::inspect::now::now_text;

/// Lines that a turn of the wheel moves.
const WHEEL_LINES: isize = 3;

/// Time between two pictures of what moves by itself.
const TICK: Duration = Duration::from_millis(50);

/// Why the screen ended otherwise than by the user's wish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The terminal refuses.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
    /// There is nothing to show.
    #[error("{0}")]
    Work(String),
    /// A worker panicked; its words are on standard error.
    #[error("an internal error: please report it with the lines above")]
    Panicked,
}

/// Something from outside that every screen has an action for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The terminal has this many columns and rows.
    Resized(u16, u16),
    /// The mouse was pressed at this column and row.
    Clicked(u16, u16),
    /// The wheel was turned by so many lines.
    Scrolled(isize),
    /// Some time has passed since it was asked for.
    Ticked,
    /// Files have changed since they were read.
    FilesChanged,
    /// The program must end as soon as nothing is being written.
    Terminated,
}

/// Requests to the terminal or the program itself; the rest is work.
pub enum Outside<E> {
    /// End the program.
    Quit,
    /// End the program with this error.
    Fail(String),
    /// Say when a twentieth of a second has passed.
    Tick,
    /// Stop until continued.
    Suspend,
    /// Redraw everything.
    Redraw,
    /// Hand a text to the terminal's clipboard.
    Copy(String),
    /// Somebody else does it.
    Work(E),
}

/// A screen: a state that actions change, and that is drawn.
pub trait Model {
    /// Its actions.
    type Action: Send + 'static;
    /// Its effects.
    type Effect: Send + 'static;

    /// The first effects.
    fn begin(&mut self) -> Vec<Self::Effect>;

    /// Changes the state; returns the effects.
    fn update(&mut self, action: Self::Action) -> Vec<Self::Effect>;

    /// The action of a key, if it has any.
    fn action_of(&self, key: KeyEvent) -> Option<Self::Action>;

    /// The action of something that every screen has one for.
    fn happened(what: Happened) -> Self::Action;

    /// Whether something is being typed: then the mouse does nothing.
    fn is_typing(&self) -> bool;

    /// Columns and rows that the state knows of.
    fn size(&self) -> (u16, u16);

    /// Sorts out what is not work.
    fn outside(effect: Self::Effect) -> Outside<Self::Effect>;

    /// Draws it.
    fn draw(&self, frame: &mut Frame<'_>);

    /// Keeps what was pressed.
    fn note_pressed(&mut self, time: String, key: String) {
        drop((time, key));
    }
}

impl Model for State {
    type Action = Action;
    type Effect = Effect;

    fn begin(&mut self) -> Vec<Effect> {
        begin(self)
    }

    fn update(&mut self, action: Action) -> Vec<Effect> {
        update(self, action)
    }

    fn action_of(&self, key: KeyEvent) -> Option<Action> {
        action_of(key, self)
    }

    fn happened(what: Happened) -> Action {
        match what {
            Happened::Resized(columns, rows) => Action::Resize(columns, rows),
            Happened::Clicked(column, row) => Action::Click(column, row),
            Happened::Scrolled(lines) => Action::Scroll(lines),
            Happened::Ticked => Action::Tick,
            Happened::FilesChanged => Action::FilesChanged,
            Happened::Terminated => Action::Terminate,
        }
    }

    fn is_typing(&self) -> bool {
        self.prompt.is_some()
    }

    fn size(&self) -> (u16, u16) {
        self.size
    }

    fn outside(effect: Effect) -> Outside<Effect> {
        match effect {
            Effect::Quit => Outside::Quit,
            Effect::Fail(why) => Outside::Fail(why),
            Effect::Tick => Outside::Tick,
            Effect::Suspend => Outside::Suspend,
            Effect::Redraw => Outside::Redraw,
            Effect::Copy(text) => Outside::Copy(text),
            work => Outside::Work(work),
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        view(self, frame);
    }

    fn note_pressed(&mut self, time: String, key: String) {
        Self::note_pressed(self, time, key);
    }
}

/// How the screen ended.
pub struct Ended<M = State> {
    /// The last state.
    pub state: M,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Shows the screen until the user leaves it. The terminal is given back before this returns. `make`: the state of a terminal
/// with so many columns and rows.
///
/// # Errors
/// When the terminal refuses, or the work that everything rests on fails.
pub fn run<M: Model>(
    make: impl FnOnce((u16, u16)) -> M,
    backend: Arc<dyn Backend<M::Action, M::Effect>>,
    has_mouse: bool,
) -> Result<Ended<M>, RunError> {
    let (events, received) = mpsc::channel();
    // Before the terminal is taken, so that no signal can end the program without giving it back.
    listen_to_signals(&events)?;
    let mut screen = Screen::take(has_mouse)?;
    let mut state = make(screen.size()?);
    listen_to_input(&events);
    let effects = state.begin();
    screen.draw(&state)?;
    for effect in effects {
        start(&backend, effect, &events);
    }
    watch(&backend, &events, || M::happened(Happened::FilesChanged));
    let signal = turn(&mut screen, &mut state, &backend, &events, &received)?;
    Ok(Ended { state, signal })
}

/// Everything between the first picture and the last.
fn turn<M: Model>(
    screen: &mut Screen,
    state: &mut M,
    backend: &Arc<dyn Backend<M::Action, M::Effect>>,
    events: &Sender<Event<M::Action>>,
    received: &Receiver<Event<M::Action>>,
) -> Result<Option<i32>, RunError> {
    let mut ended_by = None;
    while let Ok(first) = received.recv() {
        // A key that comes together with a change of the size can hide it from those who wait for it.
        let (columns, rows) = screen.size()?;
        let is_resized = state.size() != (columns, rows);
        let resized = is_resized.then(|| Event::Action(M::happened(Happened::Resized(columns, rows))));
        // What has come in meanwhile is drawn together.
        for event in resized.into_iter().chain([first]).chain(received.try_iter()) {
            let action = match event {
                Event::Action(action) => Some(action),
                Event::Input(input) => {
                    if let event::Event::Key(key) = &input
                        && key.kind != KeyEventKind::Release
                    {
                        state.note_pressed(now_text(), key_label(key));
                    }
                    action_of_input(&input, state)
                }
                Event::InputFailed(error) => return Err(error.into()),
                Event::Panicked => return Err(RunError::Panicked),
                Event::Signal(SIGTSTP) => {
                    screen.suspend()?;
                    None
                }
                Event::Signal(SIGCONT) => {
                    screen.resume()?;
                    let (columns, rows) = screen.size()?;
                    Some(M::happened(Happened::Resized(columns, rows)))
                }
                Event::Signal(signal) => {
                    ended_by = Some(signal);
                    Some(M::happened(Happened::Terminated))
                }
            };
            for effect in action.map_or_else(Vec::new, |action| state.update(action)) {
                match M::outside(effect) {
                    Outside::Quit => return Ok(ended_by),
                    Outside::Fail(why) => return Err(RunError::Work(why)),
                    Outside::Tick => tick::<M>(events),
                    Outside::Suspend => screen.suspend()?,
                    Outside::Redraw => screen.clear()?,
                    Outside::Copy(text) => screen.copy(&text)?,
                    Outside::Work(work) => start(backend, work, events),
                }
            }
        }
        screen.draw(state)?;
    }
    Ok(ended_by)
}

fn key_label(key: &KeyEvent) -> String {
    let held = key.modifiers - KeyModifiers::SHIFT;
    if held.is_empty() { key.code.to_string() } else { format!("{held}-{}", key.code) }
}

/// Tells when the time of a tick has passed.
fn tick<M: Model>(events: &Sender<Event<M::Action>>) {
    let events = events.clone();
    thread::spawn(move || {
        thread::sleep(TICK);
        // Nobody listens any more when the program is ending.
        drop(events.send(Event::Action(M::happened(Happened::Ticked))));
    });
}

fn action_of_input<M: Model>(input: &event::Event, state: &M) -> Option<M::Action> {
    match input {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => state.action_of(*key),
        event::Event::Resize(columns, rows) => Some(M::happened(Happened::Resized(*columns, *rows))),
        event::Event::Mouse(mouse) if !state.is_typing() => {
            let what = match mouse.kind {
                MouseEventKind::ScrollUp => Happened::Scrolled(-WHEEL_LINES),
                MouseEventKind::ScrollDown => Happened::Scrolled(WHEEL_LINES),
                MouseEventKind::Down(MouseButton::Left) => Happened::Clicked(mouse.column, mouse.row),
                _ => return None,
            };
            Some(M::happened(what))
        }
        _ => None,
    }
}

fn listen_to_input<A: Send + 'static>(events: &Sender<Event<A>>) {
    let events = events.clone();
    thread::spawn(move || {
        loop {
            let (event, is_last) = match event::read() {
                Ok(event) => (Event::Input(event), false),
                Err(error) => (Event::InputFailed(error), true),
            };
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    });
}

fn listen_to_signals<A: Send + 'static>(events: &Sender<Event<A>>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT])?;
    let events = events.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}
