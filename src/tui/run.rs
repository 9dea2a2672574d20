//! The loop: input, signals and workers become actions, the state changes, the screen is drawn.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::action::{Action, Effect};
use super::backend::{Backend, Event, start, watch};
use super::keymap::action_of;
use super::state::State;
use super::terminal::Screen;
use super::update::{begin, update};
use crate::inspect::now_text;

/// Lines that a turn of the wheel moves.
const WHEEL_LINES: isize = 3;

/// Time between two pictures of what moves by itself.
const TICK: Duration = Duration::from_millis(50);

/// Why the screen ended otherwise than by the user's wish.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
    #[error("{0}")]
    Work(String),
    /// A worker panicked; its words are on standard error.
    #[error("an internal error: please report it with the lines above")]
    Panicked,
}

pub struct Ended {
    pub state: State,
    pub signal: Option<i32>,
}

/// Shows the screen until the user leaves it. The terminal is given back before this returns. `make`: the state of a terminal
/// with so many columns and rows.
pub fn run(
    make: impl FnOnce((u16, u16)) -> State,
    backend: Arc<dyn Backend>,
    has_mouse: bool,
) -> Result<Ended, RunError> {
    let (events, received) = mpsc::channel();
    // Before the terminal is taken, so that no signal can end the program without giving it back.
    listen_to_signals(&events)?;
    let mut screen = Screen::take(has_mouse)?;
    let mut state = make(screen.size()?);
    listen_to_input(&events);
    let effects = begin(&mut state);
    screen.draw(&state)?;
    for effect in effects {
        start(&backend, effect, &events);
    }
    watch(&backend, &events);
    let signal = turn(&mut screen, &mut state, &backend, &events, &received)?;
    Ok(Ended { state, signal })
}

fn turn(
    screen: &mut Screen,
    state: &mut State,
    backend: &Arc<dyn Backend>,
    events: &Sender<Event>,
    received: &Receiver<Event>,
) -> Result<Option<i32>, RunError> {
    let mut ended_by = None;
    while let Ok(first) = received.recv() {
        // A key that comes together with a change of the size can hide it from those who wait for it.
        let (columns, rows) = screen.size()?;
        let is_resized = state.size != (columns, rows);
        let resized = is_resized.then_some(Event::Action(Action::Resize(columns, rows)));
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
                    Some(Action::Resize(columns, rows))
                }
                Event::Signal(signal) => {
                    ended_by = Some(signal);
                    Some(Action::Terminate)
                }
            };
            for effect in action.map_or_else(Vec::new, |action| update(state, action)) {
                match effect {
                    Effect::Quit => return Ok(ended_by),
                    Effect::Fail(why) => return Err(RunError::Work(why)),
                    Effect::Tick => tick(events),
                    Effect::Suspend => screen.suspend()?,
                    Effect::Redraw => screen.clear()?,
                    Effect::Copy(text) => screen.copy(&text)?,
                    work => start(backend, work, events),
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

fn tick(events: &Sender<Event>) {
    let events = events.clone();
    thread::spawn(move || {
        thread::sleep(TICK);
        // Nobody listens any more when the program is ending.
        drop(events.send(Event::Action(Action::Tick)));
    });
}

fn action_of_input(input: &event::Event, state: &State) -> Option<Action> {
    match input {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => action_of(*key, state),
        event::Event::Resize(columns, rows) => Some(Action::Resize(*columns, *rows)),
        event::Event::Mouse(mouse) if state.prompt.is_none() => match mouse.kind {
            MouseEventKind::ScrollUp => Some(Action::Scroll(-WHEEL_LINES)),
            MouseEventKind::ScrollDown => Some(Action::Scroll(WHEEL_LINES)),
            MouseEventKind::Down(MouseButton::Left) => Some(Action::Click(mouse.column, mouse.row)),
            _ => None,
        },
        _ => None,
    }
}

fn listen_to_input(events: &Sender<Event>) {
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

fn listen_to_signals(events: &Sender<Event>) -> io::Result<()> {
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
