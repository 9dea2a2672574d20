use super::*;

fn set(is_whole: bool, values: &[(Part, Figure, f64)]) -> SetFigures {
    let values = values.iter().map(|(part, figure, value)| ((part.clone(), *figure), *value)).collect();
    SetFigures { is_whole, values }
}

fn named(name: &str) -> Part {
    Part::Relation(RelationKey::Name(name.to_owned()))
}

#[test]
fn percentage_needs_two_whole_sets_and_something_to_start_from() {
    let of = |is_whole, value| set(is_whole, &[(Part::All, Figure::Images, value)]);
    let percent = |own: &SetFigures, first: &SetFigures| own.difference_percent(first, &Part::All, Figure::Images);
    assert_eq!(percent(&of(true, 150.0), &of(true, 100.0)), Some(50.0));
    assert_eq!(percent(&of(true, 0.0), &of(true, 100.0)), Some(-100.0));
    assert_eq!(percent(&of(true, 100.0), &of(true, 0.0)), None);
    assert_eq!(percent(&of(false, 150.0), &of(true, 100.0)), None);
    assert_eq!(percent(&of(true, 150.0), &of(false, 100.0)), None);
    assert_eq!(percent(&of(true, 150.0), &set(true, &[])), None);
}

#[test]
fn what_a_set_lacks_is_none_of_a_cause_and_unknown_of_a_relation_without_name() {
    let unnamed = Part::Relation(RelationKey::Unnamed);
    let plain = set(true, &[(named("a"), Figure::Images, 1.0)]);
    let partly = set(true, &[(unnamed.clone(), Figure::Images, 1.0)]);
    assert_eq!(plain.value(&Part::Cause(Cause::NewPage), Figure::Images), Some(0.0));
    assert_eq!(plain.value(&Part::All, Figure::Seconds), None);
    assert_eq!(plain.value(&named("b"), Figure::Images), Some(0.0));
    assert_eq!(partly.value(&named("b"), Figure::Images), None);
    assert_eq!(plain.difference_percent(&partly, &unnamed, Figure::Images), None);
}

#[test]
fn relations_that_differ_most_come_first_and_unnamed_ones_never_alone() {
    let bytes = |values: &[(&str, f64)]| {
        let values: Vec<_> = values.iter().map(|(name, value)| (named(name), Figure::ImageBytes, *value)).collect();
        set(true, &values)
    };
    let first = bytes(&[("same", 900.0), ("less", 500.0), ("gone", 50.0)]);
    let second = bytes(&[("same", 900.0), ("less", 300.0), ("new", 100.0)]);
    assert_eq!(shown_parts(&[first, second], 3), ["less", "new", "gone"].map(named));
    let unnamed = Part::Relation(RelationKey::Unnamed);
    let alone = set(true, &[(unnamed, Figure::ImageBytes, 1.0), (Part::All, Figure::Images, 1.0)]);
    assert_eq!(shown_parts(&[alone.clone(), alone], 3), [Part::All]);
}

#[test]
fn interval_counts_from_its_redo_point_to_the_next_one() {
    let interval = |redo: Option<u64>, start: u64, end: u64, images: u64| IntervalExtent {
        redo_lsn: redo.map(Lsn),
        start_lsn: Lsn(start),
        end_lsn: Lsn(end),
        images,
    };
    // The first begins before the range, the last two are cut off by a gap and by the end.
    let intervals = [
        interval(None, 50, 100, 1000),
        interval(Some(100), 100, 200, 7),
        interval(Some(200), 200, 500, 9),
        interval(Some(500), 500, 600, 1000),
        interval(None, 700, 800, 1000),
        interval(Some(800), 800, 900, 1000),
    ];
    let mut figures = SetFigures::default();
    figures.put_totals(&Tally::default(), &intervals, &TimesAndCommits::default());
    let value = |figure| figures.value(&Part::All, figure);
    assert_eq!(value(Figure::WholeIntervals), Some(2.0));
    assert_eq!((value(Figure::BytesPerInterval), value(Figure::ImagesPerInterval)), (Some(200.0), Some(8.0)));
    assert_eq!((value(Figure::Seconds), value(Figure::BytesPerCommit), value(Figure::ImageShare)), (None, None, None));
}
