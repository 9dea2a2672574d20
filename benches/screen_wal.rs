//! The screen while it reads long WAL: the first picture, and the answer to each key, with all threads at work.
//!
//! `cargo bench --bench screen_wal`. `SCREEN_WAL_GIB` says how much WAL is made, 1 GiB where it is not set; the temporary
//! directory of the build has to have room for it. Two of three records are changes, as of rows, a third has an image. The run
//! fails where a first picture takes more than 50 ms, or 1 key of 100 more than 20 ms.

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::edit::{ClusterCopy, Key, PAGE};
use common::wal_tail::WalTail;
use pgforensics::analysis::in_order::all_cores;
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
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const FIRST_PICTURE: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_millis(20);
/// Time between two keys.
const PAUSE: Duration = Duration::from_millis(5);
/// Relations that WAL is of, and blocks of each.
const RELATIONS: u32 = 500;
const BLOCKS: u32 = 20_000;
/// Bytes of WAL between two checkpoints.
const CHECKPOINT_EVERY: u64 = 64 << 20;

/// A crashed cluster with so many bytes of WAL.
fn cluster(wal_bytes: u64) -> ClusterCopy {
    let copy = ClusterCopy::of("wrapped");
    let mut wal = WalTail::of(&copy);
    let (start, page) = (wal.end(), [0x5A; PAGE]);
    let (mut number, mut next) = (0_u32, wal.end() + CHECKPOINT_EVERY);
    while wal.end() - start < wal_bytes {
        number = number.wrapping_add(1);
        let spread = number.wrapping_mul(2_654_435_761);
        let key = Key::main(16_384 + spread % RELATIONS, (spread >> 9) % BLOCKS);
        wal.image(key, &page);
        wal.change(key);
        wal.change(key.at(key.block / 7));
        if wal.end() > next {
            wal.checkpoint(&copy);
            next = wal.end() + CHECKPOINT_EVERY;
        }
        wal.write_full(&copy);
    }
    wal.write(&copy);
    copy
}

/// The screen, the work behind it, and how long answers took.
struct Screen {
    terminal: Terminal<TestBackend>,
    state: State,
    backend: Arc<ClusterBackend>,
    sender: ActionSender,
    events: Receiver<Event>,
    /// Answers to keys while something was being read, and after that.
    keys: [Vec<Duration>; 2],
    /// What came of work.
    news: Vec<Duration>,
}

impl Screen {
    fn draw(&mut self) {
        let state = &self.state;
        let Ok(_) = self.terminal.draw(|frame| view(state, frame));
    }

    /// Has work done as the program does: each piece on a thread of its own.
    fn begin_work(&self, effects: Vec<Effect>) {
        for effect in effects {
            let (backend, sender) = (Arc::clone(&self.backend), self.sender.clone());
            thread::spawn(move || backend.work(effect, &sender));
        }
    }

    fn act(&mut self, action: Action) -> Duration {
        let start = Instant::now();
        let effects = update(&mut self.state, action);
        self.draw();
        let taken = start.elapsed();
        self.begin_work(effects);
        taken
    }

    /// Takes in what came of work, then presses a key: a user's key waits for what came before it.
    fn press(&mut self, code: KeyCode) {
        let start = Instant::now();
        while let Ok(Event::Action(action)) = self.events.try_recv() {
            let taken = self.act(action);
            self.news.push(taken);
        }
        if let Some(action) = action_of(KeyEvent::new(code, KeyModifiers::NONE), &self.state) {
            self.act(action);
        }
        let is_over = usize::from(!self.is_reading());
        self.keys[is_over].push(start.elapsed());
        thread::sleep(PAUSE);
    }

    fn is_reading(&self) -> bool {
        self.state.wal.is_reading || self.state.cluster.is_reading
    }
}

/// Tells how long something took; true when that is too long.
fn tell(what: &str, limit: Duration, mut times: Vec<Duration>) -> bool {
    let mut out = std::io::stdout().lock();
    if times.is_empty() {
        drop(writeln!(out, "{what:<44} never"));
        return true;
    }
    times.sort_unstable();
    let (median, late) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let longest = times[times.len() - 1];
    let count = times.len();
    drop(writeln!(
        out,
        "{what:<44} {count:>6} times  median {median:>9.1?}  99 % {late:>9.1?}  longest {longest:>9.1?}  limit {limit:?}"
    ));
    late > limit
}

fn main() -> ExitCode {
    let gib: u64 = std::env::var("SCREEN_WAL_GIB").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let copy = cluster(gib << 30);
    let begun = Instant::now();
    let backend = Arc::new(ClusterBackend::new(copy.data(), &[], &[], None, all_cores()));
    let look = Look { colours: Colours::Sixteen, theme: Theme::Dark, ascii: false, own: OwnColours::NONE };
    let (sender, events) = channel();
    let state = State::new(backend.subject(), look, (140, 45));
    let Ok(terminal) = Terminal::new(TestBackend::new(140, 45));
    let (sender, keys) = (ActionSender::new(sender), [Vec::new(), Vec::new()]);
    let mut screen = Screen { terminal, state, backend, sender, events, keys, news: Vec::new() };
    let effects = begin(&mut screen.state);
    screen.begin_work(effects);
    screen.draw();
    let mut is_slow = tell("first picture, while reading begins", FIRST_PICTURE, vec![begun.elapsed()]);
    // Windows are moved and resized, and one goes down to records and back.
    let chars = "5lll++hh--ww55jjkk?123".chars().map(KeyCode::Char);
    let down = [KeyCode::Char('5'), KeyCode::Enter, KeyCode::Down, KeyCode::Enter, KeyCode::Down, KeyCode::Enter];
    let up = [KeyCode::Esc, KeyCode::Esc, KeyCode::Esc, KeyCode::Char('w'), KeyCode::End, KeyCode::Home];
    let round: Vec<KeyCode> = chars.chain(down).chain(up).collect();
    let mut rounds_after = 0;
    while rounds_after < 30 {
        rounds_after += usize::from(!screen.is_reading());
        for code in &round {
            screen.press(*code);
        }
    }
    drop(writeln!(std::io::stdout(), "{gib} GiB of WAL, all keys pressed after {:.1?}", begun.elapsed()));
    let [reading, after] = std::mem::take(&mut screen.keys);
    is_slow |= tell("a key while WAL is read", ANSWER, reading);
    is_slow |= tell("a key when all is read", ANSWER, after);
    is_slow |= tell("news of what was read", ANSWER, std::mem::take(&mut screen.news));
    if is_slow { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
