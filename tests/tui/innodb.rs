//! Pictures of the screen for MySQL and MariaDB: crashed directories of real servers in every size, while they are read and after.

use std::cell::RefCell;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pgforensics::analysis::innodb::judge::InnodbPage;
use pgforensics::analysis::innodb::scan::FoundPage;
use pgforensics::inspect::innodb::check::{InnodbStage, InnodbWatch, innodb_check};
use pgforensics::inspect::innodb::source::{InnodbRequest, InnodbSource};
use pgforensics::tui::backend::innodb::InnodbBackend;
use pgforensics::tui::facts::Progress;
use pgforensics::tui::innodb::action::{InnodbAction as Action, InnodbEffect as Effect};
use pgforensics::tui::innodb::facts::{InnodbSurvey, PendingPage};
use pgforensics::tui::innodb::keymap::action_of;
use pgforensics::tui::innodb::state::{InnodbState as State, InnodbView as View};
use pgforensics::tui::innodb::update::{begin, update};
use pgforensics::tui::innodb::view::view;
use pgforensics::tui::look::{Look, Theme};
use pgforensics::tui::worker::{ActionSender, Backend, Event};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use crate::common::screen::{FINE, SMALL, key, short_paths, text_of};
use crate::common::{copy_tree, unpack};
use crate::views::{is_lost, painted};

/// Directories of real servers after a crash.
pub const CASES: [&str; 6] =
    ["mysql97", "mysql97-detect", "mysql56", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"];

const SIZES: [((u16, u16), &str); 4] =
    [((60, 16), "60x16"), (SMALL, "80x24"), ((120, 40), "120x40"), ((200, 60), "200x60")];

/// One of those.
pub fn data_dir(case: &str) -> PathBuf {
    unpack::data_dir(&format!("innodb/{case}")).expect("unpack fixture")
}

/// A copy that can be changed.
pub fn copy_of_innodb(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&data_dir(case), &data);
    (temporary, data)
}

/// A screen whose work is done on this thread, as soon as it is asked for.
pub struct Driven {
    pub state: State,
    pub asked: Vec<Effect>,
    backend: Arc<InnodbBackend>,
    sender: ActionSender<Action>,
    events: Receiver<Event<Action>>,
}

impl Driven {
    pub fn before(data: &Path, look: Look, size: (u16, u16)) -> Self {
        let backend = Arc::new(InnodbBackend::new(InnodbRequest::of(data)));
        let state = State::new(backend.subject(), look, size);
        Self::with(state, backend)
    }

    pub fn with(state: State, backend: Arc<InnodbBackend>) -> Self {
        let (sender, events) = channel();
        Self { state, asked: Vec::new(), backend, sender: ActionSender::new(sender), events }
    }

    pub fn open(data: &Path, look: Look, size: (u16, u16)) -> Self {
        let mut driven = Self::before(data, look, size);
        let effects = begin(&mut driven.state);
        driven.work(effects);
        driven
    }

    /// A directory under a name that is the same on every machine.
    pub fn of(case: &str, size: (u16, u16)) -> Self {
        let link = short_paths().join(case);
        if !link.exists() {
            // Another test may be quicker.
            drop(std::os::unix::fs::symlink(data_dir(case).canonicalize().expect("fixture"), &link));
        }
        Self::open(Path::new(case), FINE, size)
    }

    pub fn again(&self) -> Self {
        Self::with(self.state.clone(), Arc::clone(&self.backend))
    }

    pub fn work(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Survey | Effect::ReadPage(_) | Effect::Export { .. } | Effect::Report => {
                    self.backend.work(effect, &self.sender)
                }
                other => self.asked.push(other),
            }
        }
        while let Ok(Event::Action(action)) = self.events.try_recv() {
            self.act(action);
        }
    }

    pub fn act(&mut self, action: Action) {
        let effects = update(&mut self.state, action);
        self.work(effects);
    }

    pub fn keys(&mut self, names: &[&str]) -> &mut Self {
        for name in names {
            if let Some(action) = action_of(key(name), &self.state) {
                self.act(action);
            }
        }
        self
    }

    pub fn buffer(&self) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(self.state.size.0, self.state.size.1)).expect("terminal");
        terminal.draw(|frame| view(&self.state, frame)).expect("draw");
        terminal.backend().buffer().clone()
    }

    pub fn picture(&self) -> String {
        text_of(&self.buffer())
    }

    pub fn survey(&self) -> &InnodbSurvey {
        self.state.survey.as_deref().expect("survey")
    }
}

/// True when the screen tells something with these words.
pub fn told(state: &State, words: &str) -> bool {
    state.message.as_ref().is_some_and(|message| message.words.contains(words))
}

/// Pictures, and the keys that lead from each to the next.
const WALK: [(&str, &[&str]); 10] = [
    ("triage", &[]),
    ("pages", &["down", "down", "right", "down"]),
    ("page_verdict", &["enter"]),
    ("page_bytes", &["]"]),
    ("page_header", &["p"]),
    ("slots", &["3"]),
    ("batches", &["2"]),
    ("findings", &["1", "F"]),
    ("palette", &[":", "s", "o", "r", "t"]),
    ("help", &["esc", "?"]),
];

#[test]
fn every_view_in_every_size_on_dark_and_light() {
    let mut first = Driven::of("mysql97", SMALL);
    for (size, word) in SIZES {
        let mut dark = first.again();
        dark.act(Action::Resize(size.0, size.1));
        let mut light = dark.again();
        light.state.look = Look { theme: Theme::Light, ..FINE };
        for (name, keys) in WALK {
            let (dark, light) = (dark.keys(keys).buffer(), light.keys(keys).buffer());
            for (buffer, theme) in [(&dark, Theme::Dark), (&light, Theme::Light)] {
                assert_eq!(buffer.content.iter().find(|cell| is_lost(theme, cell)), None, "{name} {word} {theme:?}");
            }
            insta::assert_snapshot!(format!("innodb_{name}_{word}"), painted(&dark, &light));
        }
    }
    first.keys(&["end"]);
}

#[test]
fn triage_of_every_directory() {
    for case in CASES {
        insta::assert_snapshot!(format!("innodb_triage_of_{case}"), Driven::of(case, (120, 40)).picture());
    }
}

#[test]
fn ascii_means_ascii_and_no_colours_none() {
    let plain = Look { colour: false, theme: Theme::Dark, ascii: true };
    let mut driven = Driven::open(&data_dir("mariadb1011"), plain, (200, 60));
    for (name, keys) in WALK {
        let buffer = driven.keys(keys).buffer();
        assert!(text_of(&buffer).is_ascii(), "{name}\n{}", text_of(&buffer));
        assert!(buffer.content.iter().all(|cell| cell.fg == ratatui::style::Color::Reset), "{name}");
    }
}

/// The damaged pages that the README of the fixtures counts, each in one group.
#[test]
fn triage_gathers_every_damaged_page() {
    let damaged = [17, 3, 15, 17, 16, 15];
    for (case, damaged) in CASES.into_iter().zip(damaged) {
        let driven = Driven::of(case, (120, 40));
        assert!(driven.picture().contains(&format!("{damaged} pages damaged")), "{case}\n{}", driven.picture());
        let mut grouped: Vec<usize> =
            driven.state.triage.rows.groups.iter().flat_map(|group| group.pages.iter().copied()).collect();
        grouped.sort_unstable();
        assert!(grouped.into_iter().eq(0..driven.survey().examined.pages.len()), "{case}");
    }
}

#[test]
fn mouse_opens_tabs_and_lines() {
    let mut driven = Driven::of("mysql97", SMALL);
    driven.act(Action::Click(12, 0));
    assert_eq!(driven.state.view, View::Batches);
    driven.act(Action::Click(2, 0));
    assert_eq!(driven.state.view, View::Triage);
    let picture = driven.picture();
    let row = picture.lines().position(|line| line.contains("shop/orders.ibd")).expect("orders") as u16;
    driven.act(Action::Click(5, row));
    driven.act(Action::Click(5, row));
    assert!(driven.picture().contains("torn"), "{}", driven.picture());
    driven.keys(&["3"]);
    driven.act(Action::Scroll(3));
    assert_eq!(driven.state.slots.selected, 3);
}

#[test]
fn first_picture_comes_before_anything_is_read() {
    let driven = Driven::before(&data_dir("mysql97"), FINE, SMALL);
    assert!(driven.picture().contains("is being read"), "{}", driven.picture());
    let mut driven = driven;
    // Keys are answered meanwhile.
    for (name, keys) in WALK.into_iter().rev() {
        driven.keys(keys);
        assert!(driven.picture().contains("1 Triage"), "{name}");
    }
}

/// Who is told of damaged pages as they are found.
#[derive(Default)]
struct Told {
    stages: RefCell<Vec<InnodbStage>>,
    damaged: RefCell<Vec<(String, u32)>>,
}

impl InnodbWatch for Told {
    fn at(&self, stage: InnodbStage, done: u64, total: u64) -> ControlFlow<()> {
        assert!(total == 0 || done <= total, "{stage:?}: {done} of {total}");
        let mut stages = self.stages.borrow_mut();
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
        ControlFlow::Continue(())
    }

    fn found(&self, source: &InnodbSource, found: &[FoundPage]) {
        let damaged = found.iter().filter(|page| page.state.is_damaged());
        self.damaged.borrow_mut().extend(damaged.map(|page| (source.spaces.all[page.space].name(), page.page_no)));
    }
}

#[test]
fn damaged_pages_are_told_before_they_are_judged() {
    for case in CASES {
        let told = Told::default();
        let examined = innodb_check(&InnodbRequest::of(data_dir(case)), false, &told).expect("check");
        let stages = [InnodbStage::Buffer, InnodbStage::Scan, InnodbStage::Judge];
        assert!(told.stages.borrow().ends_with(&stages[1..]), "{case}: {:?}", told.stages.borrow());
        assert!(told.stages.borrow().len() <= stages.len(), "{case}: {:?}", told.stages.borrow());
        let named = |page: &InnodbPage| (examined.source.spaces.all[page.space].name(), page.page.page_no);
        let mut judged: Vec<_> = examined.pages.iter().filter(|page| page.state.is_damaged()).map(named).collect();
        let mut found = told.damaged.borrow().clone();
        judged.sort();
        found.sort();
        assert_eq!(found, judged, "{case}");
    }
}

#[test]
fn pages_appear_as_pending_until_they_are_judged() {
    let pending = |called: &str, space, page_no| PendingPage { space, called: called.into(), pages: 100, page_no };
    for (size, word) in [((60, 16), "60x16"), ((120, 40), "120x40")] {
        let mut driven = Driven::before(Path::new("mysql97"), FINE, size);
        drop(begin(&mut driven.state));
        let (what, step) = ("checking every page", Some((2, 4)));
        driven.act(Action::Progressed(Progress { what, done: 30 << 20, total: 90 << 20, step, left_s: Some(40) }));
        let found = [pending("shop/orders", 3, 7), pending("shop/orders", 3, 60), pending("shop/logs", 4, 2)];
        driven.act(Action::Found(Arc::new(found.to_vec())));
        driven.keys(&["right"]);
        insta::assert_snapshot!(format!("innodb_pending_{word}"), driven.picture());
    }
    let mut driven = Driven::before(&data_dir("mysql97"), FINE, SMALL);
    let effects = begin(&mut driven.state);
    driven.act(Action::Found(Arc::new(vec![pending("shop/orders", 3, 7), pending("shop/logs", 4, 2)])));
    driven.keys(&["enter"]);
    assert!(told(&driven.state, "not judged yet"), "{}", driven.picture());
    driven.keys(&["s", "s"]);
    assert!(driven.picture().contains("pending"), "{}", driven.picture());
    driven.keys(&["/", "l", "o", "g", "s", "enter"]);
    assert_eq!(driven.state.counts(), Some((1, 2)));
    driven.keys(&["esc"]).work(effects);
    assert!(driven.state.triage.pending.is_empty() && !driven.picture().contains("pending"), "{}", driven.picture());
    // A check that is done again leaves what is shown until it has ended.
    driven.act(Action::Found(Arc::new(vec![pending("shop/orders", 3, 7)])));
    assert!(driven.state.triage.pending.is_empty());
}

/// A hundred thousand damaged pages: drawing touches those on the screen, filtering reads a text each.
#[test]
fn keys_are_answered_at_once_with_many_pages() {
    const COUNT: u32 = 100_000;
    let mut driven = Driven::of("mysql97", (120, 40));
    let mut survey = Arc::into_inner(driven.state.survey.take().expect("survey")).unwrap_or_else(|| {
        // The backend keeps the first one: another is read.
        let data = data_dir("mysql97");
        let mut other = Driven::open(&data, FINE, SMALL);
        let survey = other.state.survey.take().expect("survey");
        (other.state.compared, other.state.page.sheet) = (None, None);
        drop((other.backend, other.events, other.sender));
        Arc::into_inner(survey).expect("the only one")
    });
    let one = survey.examined.pages[0].clone();
    survey.examined.pages = (0..COUNT)
        .map(|number| {
            let mut page = one.clone();
            page.page.page_no = number;
            page
        })
        .collect();
    survey.page_texts = survey.examined.pages.iter().map(|page| survey.page_text(page)).collect();
    driven.act(Action::Surveyed(Arc::new(survey)));
    driven.keys(&["s", "s"]);
    assert_eq!(driven.state.triage.rows.rows.len(), COUNT as usize);
    let timed = |driven: &mut Driven, keys: &[&str]| {
        let start = Instant::now();
        driven.keys(keys);
        drop(driven.buffer());
        start.elapsed()
    };
    // Far more than is wanted, for a machine that is busy with other tests and code that is not optimised.
    for keys in [&["j"] as &[&str], &["end"], &["pageup"], &["/", "9", "9"], &["esc"], &["S"]] {
        let taken = timed(&mut driven, keys);
        assert!(taken < Duration::from_secs(2), "{keys:?}: {taken:?}");
    }
    let drawn = timed(&mut driven, &[]);
    assert!(drawn < Duration::from_secs(1), "{drawn:?}");
}

#[test]
fn hostile_names_do_not_drive_the_terminal() {
    let mut driven = Driven::of("mysql97", SMALL);
    driven.state.subject.path = "evil\u{1b}[2J".to_owned();
    assert!(driven.buffer().content.iter().all(|cell| !cell.symbol().contains('\u{1b}')));
}

/// Signs after a heading of the page view.
fn signs_after(picture: &str, heading: &str) -> String {
    let line = picture.lines().find_map(|line| line.trim_start().strip_prefix(heading));
    let line = line.unwrap_or_else(|| panic!("no {heading}:\n{picture}"));
    line.split_whitespace().next().expect("signs").to_owned()
}

#[test]
fn image_has_one_letter_in_both_maps_and_it_is_that_of_the_bytes() {
    let mut compared = 0;
    for case in CASES {
        let mut driven = Driven::of(case, (200, 60));
        driven.keys(&["4"]);
        for _ in 0..driven.survey().examined.pages.len() {
            let sheet = driven.state.page.sheet.clone().expect("sheet");
            let page = sheet.page.as_ref().expect("page");
            if page.tear.is_some() {
                let picture = driven.picture();
                let above = signs_after(&picture, "sectors  ");
                let below = signs_after(&picture, "sectors of 512 bytes");
                let disk = sheet.disk.as_deref().expect("disk");
                assert_eq!((above.len(), below.len()), (disk.len() / 512, disk.len() / 512), "{picture}");
                for (at, sector) in disk.chunks(512).enumerate() {
                    for signs in [&above, &below] {
                        let sign = signs.as_bytes()[at] as char;
                        let Some(image) = sheet.images.iter().find(|image| image.letter == sign) else { continue };
                        assert_eq!(&image.bytes[at * 512..at * 512 + 512], sector, "{case}: sector {at}\n{picture}");
                        compared += 1;
                    }
                }
                for image in &sheet.images {
                    let slot = image.title.split(" at ").next().expect("slot");
                    assert!(picture.contains(&format!("image {}                  {slot},", image.letter)), "{picture}");
                }
            }
            driven.keys(&["}"]);
        }
    }
    assert!(compared > 1000, "{compared} sectors");
}

/// Names and words of the triage have room on the smallest screen: nothing below the tabs is cut.
#[test]
fn triage_cuts_no_word_on_a_small_screen() {
    for case in CASES {
        let mut driven = Driven::of(case, (60, 16));
        for _ in 0..3 {
            let picture = driven.picture();
            let cut = picture.lines().skip(1).find(|line| line.contains('…'));
            assert_eq!(cut, None, "{case}\n{picture}");
            driven.keys(&["s"]);
        }
        // What was written is told by a name that is whole, also beside the range of a list.
        driven.keys(&["F", "R"]);
        assert!(driven.picture().contains(".txt, .json"), "{case}\n{}", driven.picture());
        driven.keys(&["e"]);
        assert!(driven.picture().contains(".txt, .json"), "{case}\n{}", driven.picture());
    }
}

/// Without the system tablespace, of which noise or nothing is left, nothing is said of slots, and every count is whole.
#[test]
fn lost_system_tablespace_is_not_taken_for_an_empty_buffer() {
    let (_kept, data) = copy_of_innodb("mysql56");
    let path = data.join("ibdata1");
    let mut state = 7_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8
    });
    fs::write(&path, noise.take(1200 * 16_384).collect::<Vec<_>>()).expect("write");
    let mut driven = Driven::open(&data, FINE, SMALL);
    assert!(driven.state.triage.rows.groups.iter().any(|group| group.pages.len() >= 1000));
    let pages = driven.state.triage.rows.groups[0].pages.len();
    assert!(driven.picture().contains(&format!(" {pages} pages unknown")), "{}", driven.picture());
    for view in ["2", "3"] {
        driven.keys(&[view]);
        let words = driven.picture().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("F in Triage lists what was not examined."), "{}", driven.picture());
    }
    driven.keys(&["4"]);
    let picture = driven.picture();
    assert!(picture.contains("unknown"), "{picture}");
    // Nothing can be read at all: that no page is damaged is not good news.
    for entry in fs::read_dir(&data).expect("list") {
        let entry = entry.expect("entry").path();
        if entry.is_dir() {
            fs::remove_dir_all(&entry).expect("remove")
        } else {
            fs::remove_file(&entry).expect("remove")
        }
    }
    std::os::unix::fs::symlink(&path, &path).expect("link");
    let driven = Driven::open(&data, FINE, SMALL);
    let buffer = driven.buffer();
    let picture = text_of(&buffer);
    assert!(picture.contains("which server wrote the directory is unknown"), "{picture}");
    let row = picture.lines().position(|line| line.contains("0 pages damaged")).expect("a line") as u16;
    let colour = buffer[(12, row)].fg;
    assert_ne!(Some(colour), FINE.good().fg, "{picture}");
}
