//! Every list is filtered while one types, with a count of what matches.

use crate::common::screen::{Driven, LARGE};
use pgforensics::analysis::dwb::staleness::BatchVerdict;
use pgforensics::output::documents::events_of;
use pgforensics::output::record_text::type_words;
use pgforensics::report::Severity;
use pgforensics::tui::list_filter::ListKind;
use pgforensics::tui::state::State;

/// Keys that lead to a list, words that are typed, and how many lines there are and match, counted from what workers brought.
type Case = (ListKind, &'static [&'static str], &'static str, fn(&State) -> (usize, usize));

fn of<T>(all: impl IntoIterator<Item = T>, fits: impl Fn(&T) -> bool) -> (usize, usize) {
    let all: Vec<T> = all.into_iter().collect();
    (all.iter().filter(|one| fits(one)).count(), all.len())
}

#[rustfmt::skip]
const CASES: [Case; 8] = [
    (ListKind::Findings, &["F"], "note", |s| of(&s.survey().expect("survey").examined.findings, |f| f.severity == Severity::Note)),
    (ListKind::Batches, &["2"], "current", |s| of(&s.survey().expect("survey").batches, |b| b.batch.verdict == BatchVerdict::Current)),
    (ListKind::Rows, &["j", "enter", "p"], "Restored", |s| {
        let rows = s.page.sheet.as_ref().expect("page").rows(0).expect("rows");
        of(0..rows.rows.pairs.len(), |at| rows.cells(*at).fate == "restored")
    }),
    (ListKind::History, &["j", "enter", "P"], "inplace", |s| {
        let sheet = s.page.sheet.as_ref().expect("page");
        let major = sheet.examined.report.history.major;
        of(events_of(&sheet.examined.report, sheet.report.page), |event| event.name(major).to_lowercase().contains("inplace"))
    }),
    (ListKind::Intervals, &["5"], "0/007F", |s| of(&s.wal.survey.as_ref().expect("WAL").intervals, |one| {
        one.redo_lsn.unwrap_or(one.start_lsn).to_string().contains("0/007F")
    })),
    (ListKind::Stretches, &["5", "w", "enter"], "0/007", |s| {
        let wal = s.wal.survey.as_ref().expect("WAL").timeline.clone().expect("timeline");
        of(wal.cells.iter().map(|cell| cell.start_lsn.to_string()), |lsn| lsn.contains("0/007"))
    }),
    (ListKind::Records, &["5", "end", "enter", "enter"], "heap insert", |s| of(&s.wal.list.as_ref().expect("records").lines, |line| {
        let kind = type_words(line.major, line.header.rmgr_id, line.header.info).to_lowercase();
        kind.contains("heap") && kind.contains("insert")
    })),
    (ListKind::Plan, &["6"], "pg_class", |s| {
        let plan = &s.plan.sheet.as_ref().expect("plan").plan;
        let named = plan.steps.iter().map(|step| step.relation.clone()).chain(plan.left.iter().map(|left| left.relation.clone()));
        of(named, |name| name.as_ref().is_some_and(|name| name.contains("pg_class")))
    }),
];

#[test]
fn what_is_typed_is_what_is_listed() {
    let (fresh, of_batches) = (Driven::of("checkpoint", LARGE), Driven::of("wrapped", LARGE));
    for (kind, keys, words, counted) in CASES {
        let fresh = if kind == ListKind::Batches { &of_batches } else { &fresh };
        let mut screen = fresh.again(fresh.state.clone());
        screen.keys(keys);
        assert_eq!(screen.state.list_kind(), Some(kind));
        let (count, total) = counted(&screen.state);
        assert!(0 < count && count < total, "{kind:?}: {count} of {total} shows nothing");
        let whole = screen.picture();
        screen.keys(&["/"]);
        for c in words.chars() {
            screen.keys(&[&c.to_string()]);
        }
        // While it is typed, and when it is kept.
        let told = format!("{count} of {total} match");
        assert_eq!(screen.state.shown_counts(), Some((count, total)), "{kind:?}");
        assert!(screen.picture().contains(&told), "{kind:?}: {told}\n{}", screen.picture());
        screen.keys(&["enter"]);
        assert!(screen.state.prompt.is_none() && screen.picture().contains(&told), "{kind:?}: {}", screen.picture());
        // Only lines that match are gone to, and the first and the last of them are the ends.
        if kind != ListKind::Plan {
            let first = words.split(' ').next().expect("a word").to_lowercase();
            for key in ["down", "end", "up", "home"] {
                screen.keys(&[key]);
                let picture = screen.picture();
                let selected = picture.lines().find(|line| line.starts_with('▶')).map(str::to_lowercase);
                assert!(selected.is_some_and(|line| line.contains(&first)), "{kind:?} {key}: {picture}");
            }
        }
        screen.keys(&["/"]);
        assert_eq!(screen.state.prompt.as_ref().map(|prompt| prompt.text.as_str()), Some(words), "gone on with");
        for c in "no such words".chars() {
            screen.keys(&[&c.to_string()]);
        }
        assert!(screen.picture().contains(&format!("0 of {total} match")), "{kind:?}: {}", screen.picture());
        screen.keys(&["down", "esc"]);
        assert_eq!(screen.state.list_kind(), Some(kind), "esc shows all and stays");
        assert!(screen.state.shown_counts().is_none());
        screen.keys(&["home"]);
        assert_eq!(screen.picture().lines().count(), whole.lines().count());
    }
}

#[test]
fn filter_stays_while_others_are_looked_at() {
    let mut screen = Driven::of("checkpoint", LARGE);
    screen.keys(&["5", "/"]).enter("0/007F");
    let kept = screen.state.shown_counts();
    assert!(kept.is_some());
    screen.keys(&["1"]);
    assert_eq!(screen.state.shown_counts(), None, "another list has its own");
    screen.keys(&["5"]);
    assert_eq!(screen.state.shown_counts(), kept);
    // Esc takes the filter first, and leads back only then.
    screen.keys(&["enter", "/"]).enter("0/007");
    screen.keys(&["esc"]);
    assert_eq!(screen.state.list_kind(), Some(ListKind::Stretches));
    screen.keys(&["esc"]);
    assert_eq!((screen.state.list_kind(), screen.state.shown_counts()), (Some(ListKind::Intervals), kept));
    screen.keys(&["r"]);
    assert_eq!(screen.state.shown_counts(), kept, "also when all is read again");
}

#[test]
fn what_is_not_a_list_says_so() {
    let mut screen = Driven::of("checkpoint", LARGE);
    for keys in [&["j", "enter", "/"][..], &["p", "p", "/"]] {
        screen.keys(keys);
        assert!(screen.state.prompt.is_none() && screen.picture().contains("not a list"), "{}", screen.picture());
    }
}
