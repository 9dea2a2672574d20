//! The picture of the screen in the README, and the tour, are what the screen shows of a real crashed cluster.
//!
//! `UPDATE_PICTURE=1 cargo test --test tui picture::` draws both anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::screen::{Driven, FINE, short_paths};
use crate::common::{cluster, copy_tree};
use pgforensics::tui::facts::AppliedSheet;
use pgforensics::tui::guide::next_key;
use pgforensics::tui::look::{Colours, Look};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

const FULL: Look = Look { colours: Colours::Full, ..FINE };
const COLUMNS: u16 = 112;
const ROWS: u16 = 26;
/// Size of a character cell in the picture.
const CELL: (u32, u32) = (8, 17);
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d5d8de";

/// A colour of 24 bits as it is.
fn colour(colour: Color, usual: &str) -> String {
    match colour {
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        _ => usual.to_owned(),
    }
}

fn colours_of(cell: &Cell) -> (String, String, bool) {
    let (fore, back) = (colour(cell.fg, FOREGROUND), colour(cell.bg, BACKGROUND));
    let is_bold = cell.modifier.contains(Modifier::BOLD);
    if cell.modifier.contains(Modifier::REVERSED) { (back, fore, is_bold) } else { (fore, back, is_bold) }
}

/// A picture with this in it.
fn svg(inside: &str) -> String {
    let (width, height) = (u32::from(COLUMNS) * CELL.0 + 16, u32::from(ROWS) * CELL.1 + 16);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n{inside}</svg>\n"
    )
}

/// The cells of a screen: a run of cells with the same colours is one text.
fn cells(buffer: &Buffer) -> String {
    let mut out = String::new();
    for (row, cells) in (0_u32..).zip(buffer.content.chunks(usize::from(COLUMNS))) {
        let mut column = 0_u32;
        for run in cells.chunk_by(|one, other| colours_of(one) == colours_of(other)) {
            let (fore, back, is_bold) = colours_of(&run[0]);
            let text: String = run.iter().map(Cell::symbol).collect();
            let length = u32::try_from(run.len()).unwrap();
            let (x, y) = (column * CELL.0 + 8, row * CELL.1 + 8);
            column += length;
            if back != BACKGROUND {
                let (width, height) = (length * CELL.0, CELL.1);
                writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{back}\"/>")
                    .unwrap();
            }
            if text.trim().is_empty() {
                continue;
            }
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
            let (y, wide) = (y + 13, length * CELL.0);
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" fill=\"{fore}\"{weight} textLength=\"{wide}\" xml:space=\"preserve\">{text}</text>"
            )
            .unwrap();
        }
    }
    out
}

/// Compares with what is kept, or keeps it.
fn assert_kept(name: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("UPDATE_PICTURE").is_some() {
        fs::write(&path, drawn).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == drawn, "docs/{name} is not what the screen shows: UPDATE_PICTURE=1 draws it anew");
}

#[test]
fn picture_in_the_readme_is_what_the_screen_shows() {
    short_paths();
    let screen = Driven::open(Path::new("checkpoint"), FULL, (COLUMNS, ROWS));
    assert_kept("screen.svg", &svg(&cells(&screen.buffer())));
}

/// The journal of every repair.
const JOURNAL: &str = "/var/lib/pgsql/pgforensics_undo_20260101T000000Z_1";

/// The data directory, from the root of the file system on.
const DATA_DIR: &str = "/var/lib/pgsql/crashed";

/// The screen as it is now. What differs from one machine and day to another becomes the same: place and room of the
/// journal, and when the repair was.
fn frame(driven: &mut Driven) -> String {
    let state = &mut driven.state;
    if let Some(before) = state.plan.before.as_mut().and_then(Arc::get_mut)
        && let Ok(found) = &mut before.found
        && let Ok(ready) = &mut found.ready
    {
        ready.journal = PathBuf::from(JOURNAL);
        ready.site = Ok(64 << 30);
    }
    if let Some(applied) = state.plan.applied.as_mut() {
        let (data_dir, journal) = (PathBuf::from(DATA_DIR), PathBuf::from(JOURNAL));
        *applied = Arc::new(AppliedSheet { written: applied.written, data_dir, journal, is_found_beside: true });
    }
    if let Some(survey) = state.cluster.survey.as_mut().and_then(Arc::get_mut) {
        survey.data_dir = PathBuf::from(DATA_DIR);
        for seen in survey.journals.journals.iter_mut().flatten() {
            seen.directory = PathBuf::from(JOURNAL);
            if let Ok(journal) = &mut seen.state {
                journal.began = journal.began.as_ref().map(|_| "2026-01-01T00:00:00Z".to_owned());
            }
        }
    }
    cells(&driven.buffer())
}

/// Frames one after the other, each for so many seconds, over and over.
fn animated(frames: &[(String, u32)]) -> String {
    let total: u32 = frames.iter().map(|(_, seconds)| seconds).sum();
    let mut out = String::new();
    let mut start = 0;
    for (cells, seconds) in frames {
        let share = |at: u32| f64::from(at) / f64::from(total);
        let end = start + seconds;
        let (values, times) = match (start, end == total) {
            (0, _) => ("visible;hidden".to_owned(), format!("0;{:.4}", share(end))),
            (_, true) => ("hidden;visible".to_owned(), format!("0;{:.4}", share(start))),
            _ => ("hidden;visible;hidden".to_owned(), format!("0;{:.4};{:.4}", share(start), share(end))),
        };
        // A viewer without animation shows the first frame.
        let at_first = if start == 0 { "visible" } else { "hidden" };
        writeln!(
            out,
            "<g visibility=\"{at_first}\">\n<animate attributeName=\"visibility\" values=\"{values}\" keyTimes=\"{times}\" \
             calcMode=\"discrete\" dur=\"{total}s\" repeatCount=\"indefinite\"/>\n{cells}</g>"
        )
        .unwrap();
        start = end;
    }
    out
}

#[test]
fn tour_goes_from_the_crash_to_a_repaired_cluster() {
    let data = short_paths().join("crashed");
    copy_tree(&cluster("checkpoint"), &data);
    let mut driven = Driven::open(Path::new("crashed"), FULL, (COLUMNS, ROWS));
    driven.keys(&["W"]);
    let mut frames = vec![(frame(&mut driven), 4)];
    while next_key(&driven.state).key != "q" {
        assert!(frames.len() < 30, "{}", driven.picture());
        let key = next_key(&driven.state).key;
        if driven.state.prompt.is_some() {
            driven.enter(key);
        } else {
            driven.keys(&[key]);
        }
        frames.push((frame(&mut driven), 3));
    }
    assert!(driven.state.plan.applied.is_some());
    assert_kept("tour.svg", &svg(&animated(&frames)));
}
