//! The map of the cluster: from tile to tile, into a fork, and to its pages.

use super::{Effect, State, moved};
use crate::tui::cluster_map::{Area, Tile, tiles};
use crate::tui::view::map;

/// Direction of a move: columns and rows.
pub(super) type Direction = (isize, isize);

/// Goes to the next tile, or the next cell of the fork that is open.
pub(super) fn go(state: &mut State, direction: Direction) {
    let Some(survey) = state.cluster.survey.clone() else { return };
    let area = map::area(state);
    if state.map.is_open {
        let count = map::cells(state, &survey).len();
        let by = direction.0 + direction.1 * area.width.cast_signed();
        state.map.cell = moved(state.map.cell, by, count);
        return;
    }
    let tiles = tiles(&survey.forks, area);
    let Some(at) = tiles.iter().find(|tile| tile.first == state.map.selected).map(|tile| tile.area) else {
        state.map.selected = tiles.first().map_or(0, |tile| tile.first);
        return;
    };
    // The nearest in this direction; twice as far where it is to the side.
    let middle = |area: Area| ((area.x * 2 + area.width).cast_signed(), (area.y * 2 + area.height).cast_signed() * 2);
    let far = |tile: &&Tile| {
        let (x, y) = (middle(tile.area).0 - middle(at).0, middle(tile.area).1 - middle(at).1);
        let (along, aside) = if direction.0 == 0 { (y * direction.1, x) } else { (x * direction.0, y) };
        (along > 0).then_some(along + 2 * aside.abs())
    };
    let next = tiles.iter().filter_map(|tile| Some((far(&tile)?, tile))).min_by_key(|(far, _)| *far);
    match next {
        Some((_, tile)) => state.map.selected = tile.first,
        None => state.tell("the map ends here"),
    }
}

pub(super) fn to_end(state: &mut State, is_last: bool) {
    let Some(survey) = state.cluster.survey.clone() else { return };
    if state.map.is_open {
        let count = map::cells(state, &survey).len();
        state.map.cell = if is_last { count.saturating_sub(1) } else { 0 };
    } else {
        let tiles = tiles(&survey.forks, map::area(state));
        let end = if is_last { tiles.last() } else { tiles.first() };
        state.map.selected = end.map_or(0, |tile| tile.first);
    }
}

/// Opens the fork of the tile on its first damaged cell, or the page of the cell.
pub(super) fn open(state: &mut State) -> Vec<Effect> {
    let Some(survey) = state.cluster.survey.clone() else { return Vec::new() };
    if let Some(page) = map::page(state, &survey).filter(|_| state.map.is_open) {
        return super::navigate::open_page(state, page);
    }
    let tile = tiles(&survey.forks, map::area(state)).into_iter().find(|tile| tile.first == state.map.selected);
    if tile.is_some_and(|tile| tile.count > 1) {
        return state.only_tell("several relations: a larger screen gives each a tile, g opens one by name");
    }
    state.map.is_open = true;
    let cells = map::cells(state, &survey);
    state.map.cell = cells.iter().position(|cell| cell.worst.is_some()).unwrap_or(0);
    Vec::new()
}

/// The tile or the cell at this column and row of the body; opens it when it is selected.
pub(super) fn click(state: &mut State, column: usize, row: usize) -> Vec<Effect> {
    let Some(survey) = state.cluster.survey.clone() else { return Vec::new() };
    let area = map::area(state);
    let Some(row) = row.checked_sub(map::HEAD) else { return Vec::new() };
    if state.map.is_open {
        let Some(at) = row.checked_sub(1).map(|row| row * area.width + column) else { return Vec::new() };
        let again = state.map.cell == at;
        state.map.cell = at.min(map::cells(state, &survey).len().saturating_sub(1));
        return if again { open(state) } else { Vec::new() };
    }
    let is_in = |tile: &&Tile| {
        let Area { x, y, width, height } = tile.area;
        (x..x + width).contains(&column) && (y..y + height).contains(&row)
    };
    let Some(first) = tiles(&survey.forks, area).iter().find(is_in).map(|tile| tile.first) else { return Vec::new() };
    let again = state.map.selected == first;
    state.map.selected = first;
    if again { open(state) } else { Vec::new() }
}
