//! The screen without a terminal: keys go in, work is done at once, pictures come out.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};

use pgforensics::tui::action::{Action, Effect};
use pgforensics::tui::backend::cluster::ClusterBackend;
use pgforensics::tui::backend::{ActionSender, Backend, Event};
use pgforensics::tui::keymap::action_of;
use pgforensics::tui::look::{Colours, Look, OwnColours, Theme};
use pgforensics::tui::state::State;
use pgforensics::tui::update::{begin, update};
use pgforensics::tui::view::view;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::common::{DWB_CASES, cluster};

/// Colours and all characters.
pub const FINE: Look = Look { colours: Colours::Sixteen, theme: Theme::Dark, ascii: false, own: OwnColours::NONE };

/// An 80 by 24 terminal.
pub const SMALL: (u16, u16) = (80, 24);

/// A large one.
pub const LARGE: (u16, u16) = (140, 45);

/// A directory in which every cluster has a short name, so that pictures are the same on every machine. It becomes the
/// current directory.
pub fn short_paths() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory").keep();
        for case in DWB_CASES {
            let real = cluster(case).canonicalize().expect("fixture");
            std::os::unix::fs::symlink(real, place.join(case)).expect("link");
        }
        std::env::set_current_dir(&place).expect("current directory");
        place
    })
}

/// A key by its name: one character, or `enter`, `esc`, `tab` and so on; `ctrl-x`.
pub fn key(name: &str) -> KeyEvent {
    let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let mut chars = name.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => return plain(KeyCode::Char(c)),
        _ if name.starts_with("ctrl-") => {
            let c = name.chars().last().expect("a character");
            return KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        }
        _ => {}
    }
    plain(match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "backtab" => KeyCode::BackTab,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "backspace" => KeyCode::Backspace,
        "f1" => KeyCode::F(1),
        other => panic!("no key is called {other}"),
    })
}

/// A screen whose work is done on this thread, as soon as it is asked for.
pub struct Driven {
    pub state: State,
    /// What was asked of the terminal, or of the program itself.
    pub asked: Vec<Effect>,
    backend: Arc<dyn Backend>,
    sender: ActionSender,
    events: Receiver<Event>,
}

impl Driven {
    /// A screen of a data directory before any work is done.
    pub fn before(data_dir: &Path, look: Look, size: (u16, u16)) -> Self {
        Self::on(ClusterBackend::new(data_dir, &[], &[], None, 2), look, size)
    }

    /// A screen with this backend before any work is done.
    pub fn on(backend: ClusterBackend, look: Look, size: (u16, u16)) -> Self {
        let state = State::new(backend.subject(), look, size);
        Self::with(Arc::new(backend), state)
    }

    /// A screen in this state before any work is done.
    pub fn with(backend: Arc<dyn Backend>, state: State) -> Self {
        // What keys write goes into the current directory.
        short_paths();
        let (sender, events) = channel();
        Self { state, asked: Vec::new(), backend, sender: ActionSender::new(sender), events }
    }

    /// The same after all of it.
    pub fn open(data_dir: &Path, look: Look, size: (u16, u16)) -> Self {
        Self::before(data_dir, look, size).begun()
    }

    /// The same after all of it.
    pub fn begun(mut self) -> Self {
        let driven = &mut self;
        let effects = begin(&mut driven.state);
        driven.work(effects);
        self
    }

    /// The screen of a fixture under its short name.
    pub fn of(case: &str, size: (u16, u16)) -> Self {
        short_paths();
        Self::open(Path::new(case), FINE, size)
    }

    /// Another screen of the same cluster in this state; what was read is shared.
    pub fn again(&self, state: State) -> Self {
        let (sender, events) = channel();
        Self { state, asked: Vec::new(), backend: Arc::clone(&self.backend), sender: ActionSender::new(sender), events }
    }

    fn work(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Quit | Effect::Fail(_) | Effect::Tick | Effect::Suspend | Effect::Redraw | Effect::Copy(_) => {
                    self.asked.push(effect);
                }
                work => self.backend.work(work, &self.sender),
            }
        }
        while let Ok(Event::Action(action)) = self.events.try_recv() {
            self.act(action);
        }
    }

    /// Something happens, and all work that follows from it is done.
    pub fn act(&mut self, action: Action) {
        let effects = update(&mut self.state, action);
        self.work(effects);
    }

    /// Presses keys.
    pub fn keys(&mut self, names: &[&str]) -> &mut Self {
        for name in names {
            if let Some(action) = action_of(key(name), &self.state) {
                self.act(action);
            }
        }
        self
    }

    /// Types a text and presses enter.
    pub fn enter(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            self.act(Action::Type(c));
        }
        self.keys(&["enter"])
    }

    /// What is drawn.
    pub fn buffer(&self) -> Buffer {
        draw(&self.state)
    }

    /// The same as text.
    pub fn picture(&self) -> String {
        text_of(&self.buffer())
    }

    pub fn has_changed(&self) -> bool {
        self.backend.has_changed()
    }
}

/// Draws a state.
pub fn draw(state: &State) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(state.size.0, state.size.1)).expect("terminal");
    terminal.draw(|frame| view(state, frame)).expect("draw");
    terminal.backend().buffer().clone()
}

/// Lines of a picture.
pub fn text_of(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width).map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
