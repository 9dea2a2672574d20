//! The picture of the screen in the README is what the screen shows of a real crashed cluster.
//!
//! `UPDATE_PICTURE=1 cargo test --test screen_picture` draws it anew.

mod common;
#[path = "common/screen.rs"]
mod screen;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use screen::Driven;

const COLUMNS: u16 = 112;
const ROWS: u16 = 26;
/// Size of a character cell in the picture.
const CELL: (u32, u32) = (8, 17);
const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d5d8de";

/// The sixteen colours of a terminal, as this picture has them.
fn colour(colour: Color, usual: &'static str) -> &'static str {
    match colour {
        Color::Black => "#16181d",
        Color::Red => "#e06c75",
        Color::Green => "#98c379",
        Color::Yellow => "#e5c07b",
        Color::Blue => "#61afef",
        Color::Magenta => "#c678dd",
        Color::Cyan => "#56b6c2",
        Color::Gray => "#abb2bf",
        Color::DarkGray => "#7f8590",
        Color::LightRed => "#ff7b86",
        Color::LightGreen => "#b5e08f",
        Color::LightYellow => "#f5d08a",
        Color::LightBlue => "#7cc4ff",
        Color::LightMagenta => "#d79af0",
        Color::LightCyan => "#7fd7e0",
        Color::White => "#ffffff",
        _ => usual,
    }
}

fn colours_of(cell: &Cell) -> (&'static str, &'static str, bool) {
    let (fore, back) = (colour(cell.fg, FOREGROUND), colour(cell.bg, BACKGROUND));
    let is_bold = cell.modifier.contains(Modifier::BOLD);
    if cell.modifier.contains(Modifier::REVERSED) { (back, fore, is_bold) } else { (fore, back, is_bold) }
}

/// The cells of a screen as SVG: a run of cells with the same colours is one text.
fn svg(buffer: &Buffer) -> String {
    let (width, height) = (u32::from(COLUMNS) * CELL.0 + 16, u32::from(ROWS) * CELL.1 + 16);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    );
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
    out.push_str("</svg>\n");
    out
}

#[test]
fn picture_in_the_readme_is_what_the_screen_shows() {
    let screen = Driven::of("checkpoint", (COLUMNS, ROWS));
    let drawn = svg(&screen.buffer());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/screen.svg");
    if std::env::var_os("UPDATE_PICTURE").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == drawn, "docs/screen.svg is not what the screen shows: UPDATE_PICTURE=1 draws it anew");
}
