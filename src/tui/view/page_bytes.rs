//! The bytes of a page, on disk and in an image side by side.

use super::page::row_bytes;
use super::page_rows::details;
use super::{Body, Line, State};
use crate::analysis::page_rows::PageItem;
use crate::output::page_parts::part_at;
use crate::output::page_text::version_title;
use crate::tui::byte_list::{ByteSides, byte_list, cursor_lead};
use crate::tui::facts::PageSheet;

pub(super) fn body<'a>(state: &'a State, sheet: &'a PageSheet, head: Vec<Line<'static>>) -> Body<'a> {
    let look = state.look;
    let bytes = sides(state, sheet);
    let image = sheet.images().get(state.page.image).map(|image| format!("image {}", version_title(image)));
    let titles = (sheet.disk().map(version_title), image.clone());
    let mut body = byte_list(look, state.list_columns(), bytes, titles, head);
    let what = |bytes: &[u8]| part_at(bytes, sheet.report.page, state.page.cursor);
    let (on_left, on_right) = (what(bytes.left), bytes.right.map(what));
    let lead = cursor_lead(state.page.cursor);
    let mut foot = Vec::new();
    match on_right.zip(image).filter(|(on_right, _)| *on_right != on_left) {
        Some((on_right, image)) => {
            foot.push(format!("{lead}{on_left} on disk"));
            foot.push(format!("{:8}in {image}: {on_right}", ""));
        }
        None => foot.push(format!("{lead}{on_left}")),
    }
    let wrapped = foot.iter().flat_map(|words| look.wrap(words, state.columns()));
    body.foot = wrapped.map(|words| Line::styled(words, look.heading())).collect();
    if state.detail_columns() > 0 {
        body.detail = under_cursor(state, sheet);
    }
    body
}

/// The row or the entry under the cursor, decoded on both sides.
fn under_cursor(state: &State, sheet: &PageSheet) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.detail_columns());
    let image = sheet.images().get(state.page.image).map(version_title).unwrap_or_default();
    let is_here = |item: &Option<PageItem>| {
        item.as_ref().and_then(|item| item.tuple.as_ref()).is_some_and(|tuple| tuple.contains(&state.page.cursor))
    };
    let found = sheet.rows(state.page.image).and_then(|of| {
        let at = of.rows.pairs.iter().position(|pair| is_here(&pair.disk) || is_here(&pair.image))?;
        Some(details(look, &of, at, &image, width))
    });
    found.unwrap_or_else(|| {
        let words = "No row is under the cursor: ] goes to the next difference.";
        look.wrap(words, width).into_iter().map(|words| Line::styled(words, look.faint())).collect()
    })
}

pub(super) fn sides<'a>(state: &State, sheet: &'a PageSheet) -> ByteSides<'a> {
    let (left, right) = sheet.sides(state.page.image);
    let (is_unfolded, cursor) = (state.page.is_unfolded, state.page.cursor);
    ByteSides { left, right, row_bytes: row_bytes(state), is_unfolded, cursor }
}
