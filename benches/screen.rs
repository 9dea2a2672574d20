//! The screen on a double write buffer of 130,000 slots and on 10,000 damaged pages: first picture, and the answer to a key,
//! while the cluster is read too.
//!
//! `cargo bench --bench screen`. A first picture has 50 ms, a key 20 ms: the run fails where the 99th percentile is slower.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::cluster;
use pgforensics::analysis::dwb::compare::Comparison;
use pgforensics::analysis::dwb::slot_facts::{Condition, SlotRow};
use pgforensics::analysis::dwb::staleness::{BatchReason, BatchVerdict};
use pgforensics::analysis::verdict::survey::PageReport;
use pgforensics::inspect::check::{CheckRequest, check};
use pgforensics::repair::blocker::Overrides;
use pgforensics::tui::action::Action;
use pgforensics::tui::facts::{FoundPage, Survey};
use pgforensics::tui::keymap::action_of;
use pgforensics::tui::look::{Colours, Look, OwnColours, Theme};
use pgforensics::tui::state::{State, Subject, View};
use pgforensics::tui::update::{begin, update};
use pgforensics::tui::view::view;
use pgforensics::types::{ForkNumber, Lsn, PageId, RelFileLocator};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const SLOTS: u64 = 130_000;
const RELATIONS: u64 = 5000;
/// Damaged pages, and the relations that they are of.
const DAMAGED: u32 = 10_000;
const DAMAGED_RELATIONS: u32 = 400;
/// Damaged pages that are told at once while the cluster is read.
const TOLD_AT_ONCE: usize = 100;
const ROUNDS: usize = 101;
const FIRST_PICTURE: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_millis(20);
/// Done once, when all is read, and not for a key.
const ARRIVAL: Duration = Duration::from_millis(100);

fn row(index: u64) -> SlotRow {
    let number = |spread: u64| u32::try_from(index.wrapping_mul(spread) % RELATIONS).unwrap_or(0);
    let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 + number(2_654_435_761) };
    let (fork, block) = (ForkNumber::Main, u32::try_from(index).unwrap_or(0) % 7919);
    let verdict = if index.is_multiple_of(3) { BatchVerdict::Current } else { BatchVerdict::Stale };
    SlotRow {
        file: 0,
        index,
        slot_id: 0,
        rel,
        fork: Some(fork),
        block,
        slot_lsn: Lsn(index * 40_503 % (1 << 32)),
        page_lsn: Lsn(index * 40_503 % (1 << 32)),
        condition: Condition::Sound,
        page_checksum: None,
        path: None,
        page: Some(PageId { rel, fork, block }),
        batch: Some((verdict, BatchReason::NoEvidence)),
        comparison: Some(if index % 9973 == 9972 { Comparison::Torn } else { Comparison::Identical }),
    }
}

fn survey() -> Survey {
    let request = CheckRequest { jobs: 2, ..CheckRequest::of(cluster("clean")) };
    let Ok(mut examined) = check(&request, &()) else { panic!("no fixture") };
    examined.rows = (0..SLOTS).map(row).collect();
    let names: BTreeMap<RelFileLocator, String> =
        examined.rows.iter().map(|row| (row.rel, table_name(row.rel))).collect();
    Survey { names, ..Survey::of(Arc::new(examined)) }
}

/// A cluster of which 10,000 pages are damaged as some page of a fixture is.
fn damaged_survey() -> Survey {
    let request = CheckRequest { jobs: 2, ..CheckRequest::of(cluster("checkpoint")) };
    let Ok(mut examined) = check(&request, &()) else { panic!("no fixture") };
    let kinds = std::mem::take(&mut examined.report.pages);
    let mut pages: Vec<PageReport> = (0..DAMAGED)
        .zip(kinds.iter().cycle())
        .map(|(index, kind)| {
            let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 + index % DAMAGED_RELATIONS };
            PageReport { page: PageId { rel, fork: ForkNumber::Main, block: index * 7 }, ..kind.clone() }
        })
        .collect();
    pages.sort_by_key(|report| report.page);
    let names = pages.iter().map(|report| (report.page.rel, table_name(report.page.rel))).collect();
    examined.report.pages = pages;
    Survey { names, ..Survey::of(Arc::new(examined)) }
}

fn table_name(rel: RelFileLocator) -> String {
    format!("public.table_of_customers_{}", rel.rel_number)
}

/// The screen and how long it took.
struct Bench {
    terminal: Terminal<TestBackend>,
    state: State,
    is_slow: bool,
}

impl Bench {
    fn draw(&mut self) {
        let state = &self.state;
        let Ok(_) = self.terminal.draw(|frame| view(state, frame));
    }

    fn tell(&mut self, what: &str, limit: Duration, mut times: Vec<Duration>) {
        times.sort_unstable();
        let (median, late) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        self.is_slow |= late > limit;
        let mut out = std::io::stdout().lock();
        drop(writeln!(out, "{what:<52} median {median:>10.1?}  99 % {late:>10.1?}  limit {limit:?}"));
    }

    /// Shows what comes of an action, once for each.
    fn act(&mut self, what: &str, limit: Duration, actions: impl Iterator<Item = Action>) {
        let mut times = Vec::new();
        for action in actions {
            let start = Instant::now();
            update(&mut self.state, action);
            self.draw();
            times.push(start.elapsed());
        }
        self.tell(what, limit, times);
    }

    /// Presses these keys again and again; what each of them takes.
    fn press(&mut self, what: &str, keys: &[KeyEvent]) {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            for key in keys {
                let start = Instant::now();
                if let Some(action) = action_of(*key, &self.state) {
                    update(&mut self.state, action);
                }
                self.draw();
                times.push(start.elapsed());
            }
        }
        self.tell(what, ANSWER, times);
    }
}

fn press(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn c(c: char) -> KeyEvent {
    press(KeyCode::Char(c))
}

fn search(text: &str) -> Vec<KeyEvent> {
    std::iter::once(c('/')).chain(text.chars().map(c)).chain([press(KeyCode::Enter)]).collect()
}

fn main() -> ExitCode {
    let subject = Subject {
        program: "pg_dwbinspect",
        path: "/data".to_owned(),
        arguments: "/data".to_owned(),
        wal_arguments: "/data".to_owned(),
        is_guided: false,
        views: View::ALL.to_vec(),
        journal: None,
        allowed: Overrides::default(),
    };
    let fine = Look { colours: Colours::Sixteen, theme: Theme::Dark, ascii: false, own: OwnColours::NONE };
    let fresh = || State::new(subject.clone(), fine, (140, 45));
    let Ok(terminal) = Terminal::new(TestBackend::new(140, 45));
    let mut bench = Bench { terminal, state: fresh(), is_slow: false };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        bench.state = fresh();
        begin(&mut bench.state);
        bench.draw();
        times.push(start.elapsed());
    }
    bench.tell("first picture", FIRST_PICTURE, times);

    let survey = Arc::new(survey());
    bench.state = fresh();
    bench.act("130,000 slots arrive", ARRIVAL, (0..ROUNDS).map(|_| Action::Surveyed(Arc::clone(&survey))));
    for (what, keys) in [
        ("2: batches and the ring", vec![c('2')]),
        ("right: the cursor of the ring", vec![press(KeyCode::Right)]),
        ("3: slots", vec![c('3')]),
        ("down", vec![press(KeyCode::Down)]),
        ("page down", vec![press(KeyCode::PageDown)]),
        ("end", vec![press(KeyCode::End)]),
        ("home", vec![press(KeyCode::Home)]),
        ("s: sort by the next column", vec![c('s')]),
        ("S: turn the order round", vec![c('S')]),
        ("search a name that is not there", search("nowhere")),
        ("search customers_19", search("customers_19")),
        ("n: next match", vec![c('n')]),
        ("f: all, or only matches", vec![c('f')]),
        ("search lsn=0/7000-0/8000 batch=stale", search("lsn=0/7000-0/8000 batch=stale")),
    ] {
        bench.press(&format!("130,000 slots, {what}"), &keys);
    }

    let survey = Arc::new(damaged_survey());
    bench.state = fresh();
    begin(&mut bench.state);
    let found: Vec<(PageId, FoundPage)> = survey
        .pages()
        .iter()
        .map(|report| (report.page, FoundPage { called: table_name(report.page.rel).into(), blocks: 80_000 }))
        .collect();
    let told = found.chunks(TOLD_AT_ONCE).map(|some| Action::Found(Arc::new(some.to_vec())));
    bench.act("10,000 damaged pages, 100 more of them are told", ANSWER, told);
    for (what, keys) in [
        ("down, while reading", vec![press(KeyCode::Down)]),
        ("end and home, while reading", vec![press(KeyCode::End), press(KeyCode::Home)]),
        ("s: sort, while reading", vec![c('s')]),
        ("search customers_19, while reading", search("customers_19")),
    ] {
        bench.press(&format!("10,000 damaged pages, {what}"), &keys);
    }
    bench.act("10,000 damaged pages arrive", ARRIVAL, (0..ROUNDS).map(|_| Action::Surveyed(Arc::clone(&survey))));
    for (what, keys) in [
        ("down", vec![press(KeyCode::Down)]),
        ("end and home", vec![press(KeyCode::End), press(KeyCode::Home)]),
        ("s: sort and group", vec![c('s')]),
        ("search customers_19", search("customers_19")),
    ] {
        bench.press(&format!("10,000 damaged pages, {what}"), &keys);
    }
    if bench.is_slow { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
