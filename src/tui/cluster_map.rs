//! The whole cluster as tiles: each fork as large as it has pages, the worst first.

use std::collections::BTreeMap;

use super::damage_map::{MapPage, StripCell, strip_of};
use super::facts::Survey;
use crate::analysis::verdict::judge::Verdict;
use crate::types::{BlockNumber, ForkNumber, PageId, RelFileLocator};

/// Columns and rows of a tile in the mean, below which forks share one tile.
const TILE: (usize, usize) = (20, 4);

/// How much larger a damaged fork is drawn than its pages make it.
const MAGNIFIED: f64 = 4.0;

/// Rows that are as high as a column is wide.
const ASPECT: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    pub rel: RelFileLocator,
    pub fork: ForkNumber,
    pub blocks: u64,
    pub damaged: usize,
    pub worst: Option<Verdict>,
}

/// Every fork with pages: the worst first, then the largest.
pub(super) fn forks_of(
    blocks: &BTreeMap<(RelFileLocator, ForkNumber), u64>,
    pages: impl Iterator<Item = (PageId, Verdict)>,
) -> Vec<Fork> {
    let mut damage: BTreeMap<(RelFileLocator, ForkNumber), (usize, Verdict, BlockNumber)> = BTreeMap::new();
    for (page, verdict) in pages {
        let entry = damage.entry((page.rel, page.fork)).or_insert((0, verdict, 0));
        *entry = (entry.0 + 1, entry.1.max(verdict), entry.2.max(page.block));
    }
    let mut keys: Vec<_> = blocks.keys().chain(damage.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let fork = |(rel, fork)| {
        let of_damage = damage.get(&(rel, fork));
        let least = of_damage.map_or(0, |(.., last)| u64::from(*last) + 1);
        Fork {
            rel,
            fork,
            blocks: blocks.get(&(rel, fork)).copied().unwrap_or(0).max(least),
            damaged: of_damage.map_or(0, |(count, ..)| *count),
            worst: of_damage.map(|(_, worst, _)| *worst),
        }
    };
    let mut forks: Vec<Fork> = keys.into_iter().map(fork).filter(|fork| fork.blocks > 0).collect();
    forks.sort_by_key(|fork| (std::cmp::Reverse((fork.worst, fork.blocks)), fork.rel, fork.fork));
    forks
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub x: usize,
    pub y: usize,
    pub width: usize,
    pub height: usize,
}

/// A tile: a fork by its index, or all that have none of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Index of the fork, or of the first of those that share the tile.
    pub first: usize,
    pub count: usize,
    pub area: Area,
}

/// Gives each fork a tile, as far as there is room: the last tile has the others.
pub fn tiles(forks: &[Fork], area: Area) -> Vec<Tile> {
    let most = (area.width * area.height / (TILE.0 * TILE.1)).clamp(1, forks.len().max(1));
    let weight = |fork: &Fork| {
        let factor = if fork.worst.is_some() { MAGNIFIED } else { 1.0 };
        (fork.blocks as f64).sqrt().max(1.0) * factor
    };
    let mut parts: Vec<(usize, usize, f64)> =
        forks.iter().take(most).enumerate().map(|(at, fork)| (at, 1, weight(fork))).collect();
    if let (Some(last), more @ 1..) = (parts.last_mut(), forks.len().saturating_sub(most)) {
        last.1 += more;
    }
    // No tile is so small that its name cannot be read.
    let sum: f64 = parts.iter().map(|(.., weight)| weight).sum();
    let least = sum / parts.len().max(1) as f64 / 2.5;
    parts.iter_mut().for_each(|part| part.2 = part.2.max(least));
    let mut tiles = Vec::new();
    divide(&parts, area, &mut tiles);
    tiles
}

/// Halves the parts by weight, and the area along its longer side.
fn divide(parts: &[(usize, usize, f64)], area: Area, tiles: &mut Vec<Tile>) {
    let (first, count) = match parts {
        [] => return,
        [(first, count, _)] => (*first, *count),
        _ => {
            let sum: f64 = parts.iter().map(|(.., weight)| weight).sum();
            let mut before = 0.0;
            let halves = parts.iter().take_while(|(.., weight)| {
                before += weight;
                before <= sum / 2.0
            });
            let at = halves.count().clamp(1, parts.len() - 1);
            let (left, right) = parts.split_at(at);
            let share = left.iter().map(|(.., weight)| weight).sum::<f64>() / sum;
            let part = |length: usize| ((length as f64 * share).round() as usize).clamp(1, length.max(2) - 1);
            let (one, other) = if area.width as f64 >= area.height as f64 * ASPECT {
                let width = part(area.width);
                (Area { width, ..area }, Area { x: area.x + width, width: area.width.saturating_sub(width), ..area })
            } else {
                let height = part(area.height);
                (
                    Area { height, ..area },
                    Area { y: area.y + height, height: area.height.saturating_sub(height), ..area },
                )
            };
            divide(left, one, tiles);
            return divide(right, other, tiles);
        }
    };
    tiles.push(Tile { first, count, area });
}

/// The blocks of a fork in at most `cells` cells.
pub fn cells_of(survey: &Survey, fork: &Fork, cells: usize) -> Vec<StripCell> {
    let cells = usize::try_from(fork.blocks).unwrap_or(usize::MAX).min(cells);
    let (pages, own) = (survey.pages(), (fork.rel, fork.fork));
    let first = pages.partition_point(|report| (report.page.rel, report.page.fork) < own);
    let pages = pages.iter().skip(first).take(fork.damaged);
    strip_of(
        pages.map(|report| MapPage { page: report.page, verdict: Some(report.verdict.verdict) }),
        fork.blocks,
        cells,
    )
}

pub fn blocks_of_cell(blocks: u64, cells: usize, at: usize) -> (u64, u64) {
    let end = |at: usize| (at as u64 * blocks).div_ceil(cells.max(1) as u64);
    (end(at), end(at + 1))
}
