//! A filter of lists that are neither damaged pages nor slots: words that must all stand in a line.

use std::collections::BTreeMap;
use std::ops::Range;

use super::state::{PagePart, State, View, WalLevel};
use crate::analysis::pages::page_rows::RowFate;

/// Lists that can be filtered by words of their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListKind {
    Findings,
    Batches,
    Rows,
    History,
    Intervals,
    Stretches,
    Records,
    Plan,
    Pages,
}

/// State that matching lines depend on, in addition to results of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShownOf {
    kind: ListKind,
    text: String,
    image: usize,
    cells: Range<usize>,
    is_folded: bool,
}

#[derive(Clone, Debug)]
struct Shown {
    of: ShownOf,
    lines: Vec<usize>,
    total: usize,
}

/// The filter of each list, and the matches in the open one.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    texts: BTreeMap<ListKind, String>,
    shown: Option<Shown>,
}

impl ListFilter {
    pub fn text(&self, kind: ListKind) -> &str {
        self.texts.get(&kind).map_or("", String::as_str)
    }

    /// Filters a list by what was typed; by nothing: shows all of it.
    pub(super) fn set(&mut self, kind: ListKind, text: &str) {
        if text.trim().is_empty() {
            self.texts.remove(&kind);
        } else {
            self.texts.insert(kind, text.to_owned());
        }
        self.shown = None;
    }

    /// Lists have changed: matches must be found again.
    pub(super) fn forget(&mut self) {
        self.shown = None;
    }
}

impl State {
    /// The open list, where words of its lines filter it.
    pub fn list_kind(&self) -> Option<ListKind> {
        match (self.view, self.page.part, self.wal.level) {
            _ if self.help.is_open => None,
            (View::Findings, ..) => Some(ListKind::Findings),
            (View::Batches, ..) => Some(ListKind::Batches),
            (View::Page, PagePart::Rows, _) if !self.page.is_open => Some(ListKind::Rows),
            (View::Page, PagePart::Wal, _) if !self.page.is_open => Some(ListKind::History),
            (View::Wal, _, WalLevel::Timeline) => Some(ListKind::Intervals),
            (View::Wal, _, WalLevel::Stretches) => Some(ListKind::Stretches),
            (View::Wal, _, WalLevel::Records) => Some(ListKind::Records),
            (View::Plan, ..) => Some(ListKind::Plan),
            (View::Pages, ..) => Some(ListKind::Pages),
            _ => None,
        }
    }

    /// The open list with what was typed for it, where that is anything.
    pub(crate) fn filtered_list(&self) -> Option<(ListKind, &str)> {
        let kind = self.list_kind()?;
        Some((kind, self.list_filter.text(kind))).filter(|(_, text)| !text.is_empty())
    }

    fn shown_of(&self) -> Option<ShownOf> {
        let kind = self.list_kind()?;
        let text = self.list_filter.text(kind);
        // What is searched for may be in any row.
        let is_folded = text.is_empty() && kind == ListKind::Rows && !self.page.is_unfolded && self.has_differing_row();
        if text.is_empty() && !is_folded {
            return None;
        }
        let cells = self.wal.window.as_ref().map_or(0..0, |window| window.cells.clone());
        Some(ShownOf { kind, text: text.to_owned(), image: self.page.image, cells, is_folded })
    }

    fn row_differs(&self, at: usize) -> bool {
        let rows = self.page.sheet.as_deref().and_then(|sheet| sheet.rows(self.page.image));
        rows.and_then(|of| of.rows.pairs.get(at)).is_some_and(|pair| pair.fate != RowFate::Same)
    }

    fn has_differing_row(&self) -> bool {
        let rows = self.page.sheet.as_deref().and_then(|sheet| sheet.rows(self.page.image));
        rows.is_some_and(|of| of.rows.count(RowFate::Same) < of.rows.pairs.len())
    }

    fn shown(&self) -> Option<&Shown> {
        let of = self.shown_of()?;
        self.list_filter.shown.as_ref().filter(|shown| shown.of == of)
    }

    /// Lines of the open list that match what was typed, as indexes; `None`: it is not filtered.
    pub fn shown_lines(&self) -> Option<&[usize]> {
        self.shown().map(|shown| shown.lines.as_slice())
    }

    /// How many lines of the open list match what was typed, and of how many.
    pub fn shown_counts(&self) -> Option<(usize, usize)> {
        self.filtered_list()?;
        self.shown().map(|shown| (shown.lines.len(), shown.total))
    }

    /// Finds the lines that match, unless they are known. `lines`: the text of every line, nothing cut off.
    pub(super) fn find_shown(&mut self, lines: impl FnOnce(&Self) -> Vec<String>) {
        let Some(of) = self.shown_of().filter(|_| self.shown().is_none()) else { return };
        let words: Vec<String> = of.text.split_whitespace().map(str::to_lowercase).collect();
        let all = lines(self);
        let fits = |at: usize, line: &str| {
            let line = line.to_lowercase();
            words.iter().all(|word| line.contains(word)) && (!of.is_folded || self.row_differs(at))
        };
        let lines = (0..).zip(&all).filter(|(at, line)| fits(*at, line)).map(|(at, _)| at).collect();
        self.list_filter.shown = Some(Shown { of, lines, total: all.len() });
    }
}
