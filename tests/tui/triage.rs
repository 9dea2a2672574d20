//! The damage map: what is known early, which database it is of, what stays on a small screen, and what is beside the list.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common;
use crate::common::screen;
use crate::common::screen::{Driven, FINE, LARGE, SMALL};
use crate::common::{DWB_CASES, arg, copy_of, dwbinspect, unpack};
use pgforensics::inspect::check::{CheckRequest, KnownDamage, Stage, Watch, check};
use pgforensics::inspect::next::step_context;
use pgforensics::output::next_step_text::words_of;
use pgforensics::tui::action::Action;
use pgforensics::tui::facts::{FoundPage, Progress};
use pgforensics::tui::state::State;
use pgforensics::types::PageId;

/// The smallest screen.
const LEAST: (u16, u16) = (60, 16);

/// The sizes that must be right, and one on which the detail is beside the list.
const SIZES: [(u16, u16); 5] = [LEAST, SMALL, (120, 40), LARGE, (200, 60)];

/// A cluster in which the same catalog is damaged at the same block in three databases.
fn three_databases() -> (tempfile::TempDir, PathBuf) {
    let (kept, data) = copy_of("clean");
    for database in ["1", "4", "5"] {
        let path = data.join("base").join(database).join("1255");
        let mut bytes = fs::read(&path).expect("pg_proc");
        bytes[3 * 8192 + 4000..][..600].fill(0xA5);
        fs::write(&path, bytes).expect("write");
    }
    (kept, data)
}

fn at(state: &State, size: (u16, u16)) -> String {
    let mut state = state.clone();
    state.size = size;
    screen::text_of(&screen::draw(&state))
}

#[test]
fn databases_are_told_apart() {
    let (_kept, data) = three_databases();
    let rows = dwbinspect(&["check", "--format", "ndjson", arg(&data)]).of_type("page");
    let databases: Vec<&str> = rows.iter().filter_map(|row| row["database"].as_str()).collect();
    assert_eq!(databases, ["template1", "template0", "postgres"], "by the number of the database");
    let driven = Driven::open(&data, FINE, SMALL);
    for size in SIZES {
        let picture = at(&driven.state, size);
        for database in databases.iter() {
            let count = picture
                .lines()
                .filter(|line| line.get(3..).is_some_and(|line| line.trim_start().starts_with(&format!("{database}."))))
                .count();
            assert!(count > 0, "{size:?}: {database}\n{picture}");
        }
        assert!(picture.contains("pg_proc"), "{size:?}\n{picture}");
    }
    // Shared relations are of no database.
    let dump = dwbinspect(&["dump", "--format", "ndjson", arg(&common::cluster("checkpoint"))]).of_type("slot");
    for slot in dump.iter().filter(|slot| slot["relation"].is_string()) {
        let relation = slot["relation"].as_str().expect("name");
        let expected = if slot["db_oid"] == 0 { None } else { Some("postgres") };
        assert_eq!(slot["database"].as_str(), expected, "{relation}");
        assert!(relation.starts_with(expected.unwrap_or("global")), "{relation}");
    }
}

/// The first command of the first step, whole: lines that belong together have only blanks between them.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn commands_and_the_heading_of_the_list_stay_on_the_smallest_screen() {
    let mut clusters: Vec<(String, PathBuf)> =
        DWB_CASES.iter().map(|case| ((*case).to_owned(), common::cluster(case))).collect();
    for case in ["brin", "map-leave", "nochecksums-mixed", "nochecksums-stops", "standby-fresh"] {
        let data = unpack::unpack(&format!("cases/{case}")).expect("fixture").join(case);
        clusters.push((case.to_owned(), data));
    }
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let mut commands = 0;
    for (case, data) in &clusters {
        let driven = Driven::open(data, FINE, LEAST);
        let survey = driven.state.cluster.survey.clone().expect("survey");
        let words = words_of(&survey.steps[0], step_context(&survey.examined, arg(data)));
        for size in SIZES {
            let picture = at(&driven.state, size);
            if let Some(command) = words.commands.first() {
                commands += 1;
                assert!(dense(&picture).contains(&dense(command)), "{case} {size:?}: {command}\n{picture}");
            }
            let heading = format!("{} damaged, by relation", survey.pages().len());
            let list = picture.lines().position(|line| line.contains(&heading));
            assert_eq!(list.is_some(), !survey.pages().is_empty(), "{case} {size:?}\n{picture}");
            if let Some(list) = list {
                let first = picture.lines().nth(list + 1).expect("a row");
                assert!(first.starts_with('▶'), "{case} {size:?}: {first}");
            }
            assert!(picture.lines().count() <= usize::from(size.1), "{case} {size:?}");
        }
    }
    assert!(commands > 40, "{commands}");
}

/// In which order things are told.
#[derive(Default)]
struct Told(Mutex<Vec<Result<PageId, Stage>>>);

impl Watch for Told {
    fn at(&self, stage: Stage, _: u64, _: u64) -> ControlFlow<()> {
        let mut told = self.0.lock().expect("lock");
        if !told.contains(&Err(stage)) {
            told.push(Err(stage));
        }
        ControlFlow::Continue(())
    }

    fn found(&self, damage: &KnownDamage<'_>) {
        assert!(damage.blocks > u64::from(damage.page.block), "{}", damage.page.block);
        self.0.lock().expect("lock").push(Ok(damage.page));
    }
}

#[test]
fn damage_is_told_before_wal_is_read() {
    for case in ["checkpoint", "evict", "tablespace", "wrapped"] {
        let told = Told::default();
        let examined = check(&CheckRequest::of(common::cluster(case)), &told).expect("examined");
        let told = told.0.into_inner().expect("told");
        let wal = told.iter().position(|one| *one == Err(Stage::Wal)).expect("WAL is read");
        let found: Vec<PageId> = told.iter().filter_map(|one| one.ok()).collect();
        assert!(!found.is_empty() && told[wal..].iter().all(Result::is_err), "{case}: {told:?}");
        for page in &found {
            let report = examined.report.pages.iter().find(|report| report.page == *page);
            assert!(report.is_some_and(|report| report.is_wrong), "{case}: {page:?} is damaged");
        }
    }
}

#[test]
fn pages_are_pending_until_they_are_judged() {
    let done = Driven::of("checkpoint", SMALL);
    let survey = done.state.cluster.survey.clone().expect("survey");
    let mut driven = Driven::before(Path::new("checkpoint"), FINE, SMALL);
    driven.state.cluster.is_reading = true;
    let found = |from: usize, to: usize| {
        let page = |page: PageId| (page, FoundPage { called: survey.relation(page.rel).into(), blocks: 100 });
        Action::Found(Arc::new(survey.pages()[from..to].iter().map(|report| page(report.page)).collect()))
    };
    driven.act(found(0, 3));
    let step = Some((4, 5));
    let progress =
        Progress { what: "reading WAL for the proof", done: 1 << 20, total: 4 << 20, step, left_s: Some(14) };
    driven.act(Action::Progressed(progress));
    let picture = driven.picture();
    assert!(picture.contains("3 damaged, by relation") && picture.contains("pending"), "{picture}");
    assert!(picture.contains("4 of 5: reading WAL for the proof") && picture.contains("14 s left"), "{picture}");
    for word in ["restore", "fixed by recovery", "loses", "next step", "on startup"] {
        assert!(!picture.contains(word), "{word} before its evidence is in:\n{picture}");
    }
    // More comes; what is selected stays, and keys work as later.
    driven.keys(&["end", "k"]);
    let selected = driven.state.selected_page();
    driven.act(found(3, 7));
    assert_eq!(driven.state.triage.map.pages.len(), 7);
    assert_eq!(driven.state.selected_page(), selected);
    driven.keys(&["enter", "m", "6", "1", "/", "2", "6", "6", "3"]);
    assert_eq!(driven.state.triage.map.pages.len(), 2);
    driven.keys(&["esc"]);
    assert!(driven.state.plan.marks.is_empty());
    driven.act(Action::Surveyed(Arc::clone(&survey)));
    let picture = driven.picture();
    assert!(!picture.contains("pending") && picture.contains("6 restore"), "{picture}");
    // A later reading leaves what was judged on the screen until it has ended.
    driven.act(found(0, 1));
    assert_eq!(driven.state.triage.map.pages.len(), 7);
}

#[test]
fn detail_of_the_selected_row_is_beside_or_below() {
    let mut driven = Driven::of("wrapped", (200, 60));
    for size in [SMALL, (120, 40), LARGE, (200, 60)] {
        let picture = at(&driven.state, size);
        assert!(picture.contains("14 of 4652 blocks") || size == SMALL, "{size:?}\n{picture}");
    }
    driven.keys(&["right", "right"]);
    let page = driven.state.selected_page().expect("a page");
    let title = format!("block {}", page.block);
    for size in SIZES {
        let picture = at(&driven.state, size);
        assert!(picture.contains(&title) || size == LEAST, "{size:?}\n{picture}");
    }
    let picture = at(&driven.state, (200, 60));
    let beside: Vec<&str> = picture.lines().filter_map(|line| line.split_once(" │ ").map(|(_, right)| right)).collect();
    let detail = beside.join("\n");
    for words in
        ["restore: A proven image exists", "sectors of 512 bytes", "without repair", "+ the slot's CRC is valid"]
    {
        assert!(detail.contains(words), "{words}\n{picture}");
    }
}
