//! What was rehearsed, examined or read before something changed is not shown as an answer after it.

use std::fs;
use std::sync::Arc;

use crate::common::screen::{Driven, FINE, LARGE};
use crate::common::{arg, copy_of, dwbinspect};
use pgforensics::tui::action::{Action, Command, Effect, RepairOrder};
use pgforensics::tui::backend::cluster::ClusterBackend;
use pgforensics::tui::state::{Outdated, View};
use pgforensics::tui::update::update;

/// Begins a dry run, whose answer is still to come.
fn begin_dry_run(driven: &mut Driven) -> RepairOrder {
    let effects = update(&mut driven.state, Action::Do(Command::DryRun));
    let order = effects.into_iter().find_map(|effect| match effect {
        Effect::DryRun(order) => Some(order),
        _ => None,
    });
    order.expect("a dry run")
}

#[test]
fn dry_run_passes_for_what_was_rehearsed_alone() {
    let (kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["j", "m", "6"]);
    let order = begin_dry_run(&mut driven);
    driven.act(Action::Rehearsed(Box::new(order.clone())));
    assert_eq!(driven.state.plan.rehearsed, Some(1));
    // Other pages are marked while it goes on.
    let order = begin_dry_run(&mut driven);
    driven.keys(&["1", "m", "6"]);
    driven.act(Action::Rehearsed(Box::new(order)));
    assert_eq!(driven.state.plan.rehearsed, None, "{}", driven.picture());
    assert!(driven.picture().contains("something else was chosen meanwhile"), "{}", driven.picture());
    // Another place for the journal is chosen while it goes on.
    let order = begin_dry_run(&mut driven);
    driven.state.plan.journal = Some(kept.path().join("elsewhere"));
    driven.act(Action::Rehearsed(Box::new(order)));
    assert_eq!(driven.state.plan.rehearsed, None);
}

#[test]
fn what_another_plan_meets_is_not_taken_for_this_one() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["j", "m", "6", "a"]);
    let of_one = driven.state.plan.before.clone().expect("examined");
    driven.keys(&["1", "m", "6"]);
    // The new plan is being examined, and the answer about the old one comes late.
    let effects = update(&mut driven.state, Action::Do(Command::Apply));
    assert!(matches!(effects[..], [Effect::LookBefore(_)]));
    driven.act(Action::LookedBefore(of_one));
    assert!(driven.state.plan.before.is_none());
    driven.keys(&["a"]);
    assert!(driven.state.prompt.is_none(), "nothing can be written before its own answer is there");
}

#[test]
fn plan_of_an_examination_before_is_not_shown_for_this_one() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["6"]);
    let old = driven.state.plan.sheet.clone().expect("plan");
    // The cluster is examined again, and the plan of before comes late, while something else is open.
    driven.keys(&["1", "r"]);
    assert!(driven.state.plan.sheet.is_none());
    driven.act(Action::Planned(old));
    assert!(driven.state.plan.sheet.is_none());
    driven.keys(&["6"]);
    let (survey, plan) = (driven.state.survey().expect("survey"), driven.state.plan.sheet.as_ref().expect("plan"));
    assert!(Arc::ptr_eq(&survey.examined, &plan.examined) && plan.plan.steps.len() == 6);
}

#[test]
fn page_of_an_examination_before_is_not_shown_for_this_one() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["4"]);
    let old = driven.state.page.sheet.clone().expect("page");
    driven.keys(&["r"]);
    let new = driven.state.page.sheet.clone().expect("page");
    assert!(!Arc::ptr_eq(&old.examined, &new.examined));
    driven.act(Action::PageRead(old));
    let shown = driven.state.page.sheet.as_ref().expect("page");
    assert!(Arc::ptr_eq(&shown.examined, &new.examined), "{}", driven.picture());
}

#[test]
fn page_is_read_again_after_a_check_in_another_view() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["4", "1", "r"]);
    assert!(driven.state.page.sheet.is_none());
    driven.keys(&["4"]);
    assert!(driven.state.page.sheet.is_some(), "{}", driven.picture());
}

#[test]
fn check_that_fails_again_is_no_answer() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    assert_eq!(driven.state.cluster.outdated(), None);
    let effects = update(&mut driven.state, Action::Do(Command::Reload));
    assert!(effects.contains(&Effect::Survey));
    assert_eq!(driven.state.cluster.outdated(), Some(Outdated::Again), "who leaves now has no answer");
    driven.act(Action::SurveyFailed("it is gone".to_owned()));
    driven.keys(&["j", "3", "1"]);
    assert_eq!(driven.state.cluster.outdated(), Some(Outdated::Failed("it is gone")));
    let words = "outdated: the last check failed (it is gone). r retries";
    assert!(driven.picture().contains(words), "{}", driven.picture());
    driven.keys(&["r"]);
    assert_eq!(driven.state.cluster.outdated(), None, "{}", driven.picture());
}

#[test]
fn rehearsal_is_forgotten_when_files_change() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["6", "a", "d"]);
    assert!(driven.picture().contains("passed: 6 pages could be written"), "{}", driven.picture());
    // As before a start by an administrator who knows nothing of the repair.
    fs::write(data.join("recovery.signal"), "").expect("write");
    assert!(driven.has_changed(), "seen by itself");
    driven.act(Action::FilesChanged);
    let picture = driven.picture();
    assert!(!picture.contains("passed: 6 pages could be written"), "{picture}");
    assert!(picture.contains("REFUSED: recovery.signal") && picture.contains("files have changed"), "{picture}");
    driven.keys(&["a"]);
    assert!(driven.state.prompt.is_none(), "{}", driven.picture());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn journal_that_is_removed_is_missed_before_and_after() {
    let (_kept, data) = copy_of("checkpoint");
    let file = data.join("base/5/1259");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["6", "a", "a"]).enter("apply");
    let journal = driven.state.plan.applied.clone().expect("applied").journal.clone();
    let repaired = fs::read(&file).expect("read");
    driven.keys(&["u"]);
    assert!(driven.picture().contains("passed: 6 pages would get the old bytes back"), "{}", driven.picture());
    fs::rename(&journal, data.with_file_name("hidden")).expect("rename");
    assert!(driven.has_changed(), "seen by itself");
    // Before that is seen: the undo itself finds out, and says nothing any more of having passed.
    driven.keys(&["u"]).enter("undo");
    let picture = driven.picture();
    assert!(picture.contains("failed  ") && !picture.contains("passed: 6 pages would"), "{picture}");
    assert_eq!(fs::read(&file).expect("read"), repaired);
    driven.keys(&["r", "6"]);
    assert!(driven.picture().contains("but the journal cannot be used: "), "{}", driven.picture());
    // It is back: and so is the undo.
    fs::rename(data.with_file_name("hidden"), &journal).expect("rename");
    driven.keys(&["r", "6"]);
    assert!(!driven.picture().contains("cannot be used"), "{}", driven.picture());
    driven.keys(&["u", "u"]).enter("undo");
    assert_ne!(fs::read(&file).expect("read"), repaired, "{}", driven.picture());
}

#[test]
fn work_that_broke_off_is_checked_again() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["6", "a", "a"]).enter("apply");
    driven.keys(&["u", "u"]);
    let before = driven.state.cluster.survey.clone().expect("survey");
    // A page changes between the rehearsal and the word.
    let file = data.join("base/5/1259");
    let mut bytes = fs::read(&file).expect("read");
    bytes[5000] ^= 1;
    fs::write(&file, &bytes).expect("write");
    driven.enter("undo");
    let after = driven.state.cluster.survey.clone().expect("survey");
    assert!(!Arc::ptr_eq(&before, &after), "the cluster was read again");
    let picture = driven.picture();
    assert!(driven.state.view == View::Plan && picture.contains("failed  "), "{picture}");
    assert_eq!(after.pages().len(), 2, "the page that heals, and the one that was changed: {picture}");
}

#[test]
fn answer_of_before_pages_were_written_is_not_shown() {
    let (_kept, data) = copy_of("checkpoint");
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["6", "a", "a"]).enter("apply");
    assert!(!driven.state.cluster.is_outdated && driven.picture().contains("on startup"));
    // Taken back: as long as the check goes on, and when it fails, nothing says that a start completes.
    let effects = update(&mut driven.state, Action::BrokenOff("cut off".to_owned()));
    assert_eq!(effects, [Effect::Survey]);
    for view in ["1", "6"] {
        driven.keys(&[view]);
        let picture = driven.picture();
        assert!(
            picture.contains("outdated: pages were written") && picture.contains("being checked again"),
            "{picture}"
        );
    }
    driven.act(Action::SurveyFailed("it is gone".to_owned()));
    assert!(driven.keys(&["1"]).picture().contains("r checks again"), "{}", driven.picture());
    driven.keys(&["r"]);
    assert!(!driven.picture().contains("outdated: pages were written"), "{}", driven.picture());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn journal_elsewhere_is_found_by_its_name() {
    let (kept, data) = copy_of("checkpoint");
    let file = data.join("base/5/1259");
    let torn = fs::read(&file).expect("read");
    let journal = kept.path().join("apart/kept");
    fs::create_dir(kept.path().join("apart")).expect("directory");
    // Where none is yet: the next one goes there.
    let backend = || ClusterBackend::new(&data, &[], &[], None, 2).with_journal(journal.clone());
    let mut driven = Driven::on(backend(), FINE, LARGE).begun();
    driven.keys(&["6", "a"]);
    assert!(driven.picture().contains("kept: new, writable"), "{}", driven.picture());
    driven.keys(&["a"]).enter("apply");
    assert_eq!(driven.state.plan.applied.clone().expect("applied").journal, journal);
    assert!(driven.picture().replace(['\n', ' '], "").contains(&format!("--journal{}", arg(&journal))));
    assert_ne!(fs::read(&file).expect("read"), torn);
    // Without its name it is not found, and what says so says how it is.
    let mut driven = Driven::open(&data, FINE, LARGE);
    driven.keys(&["6", "u"]);
    assert!(driven.picture().contains("tui --journal DIR"), "{}", driven.picture());
    // With it the repair is taken back, and the next journal goes beside the data directory.
    let mut driven = Driven::on(backend(), FINE, LARGE).begun();
    assert!(driven.picture().contains("u in Plan takes back a repair of 6 pages"), "{}", driven.picture());
    assert_eq!(driven.state.plan.journal, None);
    driven.keys(&["6", "u", "u"]).enter("undo");
    assert_eq!(fs::read(&file).expect("read"), torn, "{}", driven.picture());
    assert_eq!(dwbinspect(&["check", arg(&data)]).status, 1);
}
