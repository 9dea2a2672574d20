//! The terminal: raw mode, the other screen and the mouse, taken and given back.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::clipboard::CopyToClipboard;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::layout::Rect;

use super::state::State;
use super::view::view;

/// The terminal is ours. A panic on any thread gives it back first, so that its words can be read.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal reports what the mouse does.
static HAS_MOUSE: AtomicBool = AtomicBool::new(true);

/// Standard output without its lock, which another thread may hold when the terminal has to be given back.
fn output() -> io::Result<File> {
    Ok(File::from(rustix::io::dup(io::stdout())?))
}

fn give_back() -> io::Result<()> {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let written = output().and_then(|mut out| execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show));
    disable_raw_mode().and(written)
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(output()?, EnterAlternateScreen, Hide)?;
    if HAS_MOUSE.load(Ordering::SeqCst) { execute!(output()?, EnableMouseCapture) } else { Ok(()) }
}

/// The terminal while the program has it; given back when this goes away, whatever the reason.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
}

impl Screen {
    /// Takes the terminal, with the mouse or without.
    pub fn take(has_mouse: bool) -> io::Result<Self> {
        HAS_MOUSE.store(has_mouse, Ordering::SeqCst);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // If giving it back fails, there is no way to say so; the words of the panic matter more.
            drop(give_back());
            before(panic);
        }));
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(output()?)))?;
        // From here on it is given back also when the rest fails.
        let screen = Self { terminal };
        take()?;
        Ok(screen)
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }

    pub fn draw(&mut self, state: &State) -> io::Result<()> {
        if TAKEN.load(Ordering::SeqCst) {
            self.terminal.draw(|frame| view(state, frame))?;
        }
        Ok(())
    }

    /// Redraws everything with the next [`Self::draw`].
    pub fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` asks the terminal where its cursor is, and the thread that reads input would get the answer.
        let (columns, rows) = self.size()?;
        self.terminal.resize(Rect::new(0, 0, columns, rows))
    }

    /// Gives the terminal back, stops the program until it is continued, and takes the terminal again.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back()?;
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        self.resume()
    }

    /// Takes the terminal again after the program was stopped.
    pub fn resume(&mut self) -> io::Result<()> {
        // The shell has set its own mode; the one to come back to is known from before.
        give_back()?;
        take()?;
        self.clear()
    }

    /// Hands a text to the terminal's clipboard: OSC 52.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody to tell on a terminal that does not take what is written.
        drop(give_back());
    }
}
