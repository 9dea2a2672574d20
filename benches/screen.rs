//! The screen on a double write buffer of 130,000 slots: first picture, and the answer to a key.
//!
//! `cargo bench --bench screen`. A first picture has 200 ms, a key 50 ms: the run fails where a median is slower.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::cluster;
use pgforensics::analysis::slot_facts::Condition;
use pgforensics::analysis::slot_row::SlotRow;
use pgforensics::analysis::staleness::{BatchReason, BatchVerdict};
use pgforensics::analysis::verdict::compare::Comparison;
use pgforensics::inspect::check::{CheckRequest, check};
use pgforensics::tui::action::Action;
use pgforensics::tui::facts::Survey;
use pgforensics::tui::keymap::action_of;
use pgforensics::tui::look::{Look, Theme};
use pgforensics::tui::state::{State, Subject, View};
use pgforensics::tui::update::{begin, update};
use pgforensics::tui::view::view;
use pgforensics::types::{ForkNumber, Lsn, PageId, RelFileLocator};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const SLOTS: u64 = 130_000;
const RELATIONS: u64 = 5000;
const ROUNDS: usize = 31;
const FIRST_PICTURE: Duration = Duration::from_millis(200);
const ANSWER: Duration = Duration::from_millis(50);

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
    let name = |row: &SlotRow| (row.rel, format!("public.table_of_customers_{}", row.rel.rel_number));
    let names: BTreeMap<RelFileLocator, String> = examined.rows.iter().map(name).collect();
    Survey { names, ..Survey::of(Arc::new(examined)) }
}

fn main() -> ExitCode {
    let subject = Subject {
        program: "pg_dwbinspect",
        path: "/data".to_owned(),
        arguments: "/data".to_owned(),
        wal_arguments: "/data".to_owned(),
        is_guided: false,
        views: View::ALL.to_vec(),
    };
    let fine = Look { colour: true, theme: Theme::Dark, ascii: false };
    let survey = Arc::new(survey());
    let Ok(mut terminal) = Terminal::new(TestBackend::new(140, 45));
    let mut out = std::io::stdout().lock();
    let mut is_slow = false;
    let mut tell = |what: &str, limit: Duration, mut times: Vec<Duration>| {
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        is_slow |= median > limit;
        drop(writeln!(out, "{what:<44} median {median:>10.1?}  longest {longest:>10.1?}  limit {limit:?}"));
    };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut state = State::new(subject.clone(), fine, (140, 45));
        begin(&mut state);
        let Ok(_) = terminal.draw(|frame| view(&state, frame));
        times.push(start.elapsed());
    }
    tell("first picture", FIRST_PICTURE, times);
    let mut state = State::new(subject.clone(), fine, (140, 45));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        update(&mut state, Action::Surveyed(Arc::clone(&survey)));
        let Ok(_) = terminal.draw(|frame| view(&state, frame));
        times.push(start.elapsed());
    }
    tell("the check arrives", ANSWER, times);
    let press = |code: KeyCode| KeyEvent::new(code, KeyModifiers::NONE);
    let c = |c: char| press(KeyCode::Char(c));
    let search = |text: &str| -> Vec<KeyEvent> {
        let typed = text.chars().map(c);
        std::iter::once(c('/')).chain(typed).chain([press(KeyCode::Enter)]).collect()
    };
    for (what, keys) in [
        ("2: batches and the strip", vec![c('2')]),
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
        ("1, then search in triage", [vec![c('1')], search("customers_19")].concat()),
    ] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for key in &keys {
                if let Some(action) = action_of(*key, &state) {
                    update(&mut state, action);
                }
            }
            let Ok(_) = terminal.draw(|frame| view(&state, frame));
            times.push(start.elapsed());
        }
        tell(what, ANSWER, times);
    }
    if is_slow { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
