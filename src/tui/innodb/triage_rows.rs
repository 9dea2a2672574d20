//! The rows of the triage: damaged pages by tablespace or by image, or one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{InnodbSurvey, PendingPage};
use crate::analysis::innodb::judge::HeldImage;

/// What pages are gathered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// By tablespace.
    #[default]
    Tablespace,
    /// By image.
    Held,
    /// Not at all.
    Page,
}

impl Grouping {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Tablespace => Self::Held,
            Self::Held => Self::Page,
            Self::Page => Self::Tablespace,
        }
    }

    /// The word in the heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tablespace => "tablespace",
            Self::Held => "image",
            Self::Page => "page",
        }
    }
}

/// What a group is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// Pages of the tablespace with this index.
    Space(usize),
    /// Pages with such an image; `None`: not judged yet.
    Held(Option<HeldImage>),
}

/// Pages that belong together.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they have in common.
    pub key: GroupKey,
    /// Their indexes.
    pub pages: Vec<usize>,
    /// The worst of them; `None`: not judged yet.
    pub worst: Option<HeldImage>,
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// The group with this index.
    Group(usize),
    /// The page with this index.
    Page(usize),
}

/// What is listed.
#[derive(Clone, Debug, Default)]
pub struct TriageRows {
    /// Groups.
    pub groups: Vec<Group>,
    /// Rows.
    pub rows: Vec<Row>,
    /// Groups whose pages are shown.
    opened: BTreeSet<GroupKey>,
    shown: usize,
}

fn words_of(filter: &str) -> Vec<String> {
    filter.split_whitespace().map(str::to_lowercase).collect()
}

impl TriageRows {
    /// Lists the pages of a survey that have all these words.
    pub(super) fn list(&mut self, survey: &InnodbSurvey, grouping: Grouping, is_reversed: bool, filter: &str) {
        let words = words_of(filter);
        let texts = survey.page_texts.iter().enumerate();
        let shown = texts.filter(|(_, text)| words.iter().all(|word| text.contains(word.as_str())));
        let facts = |(at, _): (usize, &String)| {
            let page = survey.examined.pages.get(at)?;
            Some((at, page.space, Some(page.held)))
        };
        self.gather(shown.filter_map(facts), grouping, is_reversed);
    }

    /// Lists pages that are not judged yet, in the same way.
    pub(super) fn list_pending(&mut self, all: &[PendingPage], grouping: Grouping, is_reversed: bool, filter: &str) {
        let words = words_of(filter);
        let fits = |page: &PendingPage| {
            let number = page.page_no.to_string();
            words
                .iter()
                .all(|word| page.called.to_lowercase().contains(word.as_str()) || number.contains(word.as_str()))
        };
        let shown = all.iter().enumerate().filter(|(_, page)| words.is_empty() || fits(page));
        self.gather(shown.map(|(at, page)| (at, page.space, None)), grouping, is_reversed);
    }

    /// Lists these pages: index, tablespace and image of each.
    fn gather(
        &mut self,
        listed: impl Iterator<Item = (usize, usize, Option<HeldImage>)>,
        grouping: Grouping,
        is_reversed: bool,
    ) {
        let mut shown = Vec::new();
        let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
        for (at, space, held) in listed {
            shown.push(at);
            let key = match grouping {
                Grouping::Page => continue,
                Grouping::Held => GroupKey::Held(held),
                Grouping::Tablespace => GroupKey::Space(space),
            };
            let group = groups.entry(key).or_insert_with(|| Group { key, pages: Vec::new(), worst: held });
            group.worst = group.worst.min(held);
            group.pages.push(at);
        }
        self.shown = shown.len();
        self.groups = groups.into_values().collect();
        if is_reversed {
            self.groups.reverse();
            self.groups.iter_mut().for_each(|group| group.pages.reverse());
        }
        self.rows.clear();
        for (index, group) in self.groups.iter().enumerate() {
            self.rows.push(Row::Group(index));
            if self.opened.contains(&group.key) {
                self.rows.extend(group.pages.iter().copied().map(Row::Page));
            }
        }
        if grouping == Grouping::Page {
            self.rows.extend(shown.into_iter().map(Row::Page));
            if is_reversed {
                self.rows.reverse();
            }
        }
    }

    /// Pages that are listed, or in a group that is.
    #[must_use]
    pub const fn shown(&self) -> usize {
        self.shown
    }

    /// The page of a row, or the only one of its group.
    #[must_use]
    pub fn page_at(&self, row: usize) -> Option<usize> {
        match self.rows.get(row)? {
            Row::Page(page) => Some(*page),
            Row::Group(group) => match self.groups.get(*group)?.pages.as_slice() {
                [only] => Some(*only),
                _ => None,
            },
        }
    }

    /// Index of the group of a row.
    #[must_use]
    pub fn group_at(&self, row: usize) -> Option<usize> {
        self.rows.get(..=row)?.iter().rev().find_map(|row| match row {
            Row::Group(group) => Some(*group),
            Row::Page(_) => None,
        })
    }

    /// Whether its pages are shown.
    #[must_use]
    pub fn is_open(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(|group| self.opened.contains(&group.key))
    }

    /// Shows its pages, or hides them.
    pub(super) fn set_open(&mut self, group: usize, is_open: bool) {
        let Some(key) = self.groups.get(group).map(|group| group.key) else { return };
        if is_open {
            self.opened.insert(key);
        } else {
            self.opened.remove(&key);
        }
    }

    /// The row of a group, or of a page.
    #[must_use]
    pub fn row_of(&self, wanted: Row) -> Option<usize> {
        self.rows.iter().position(|row| *row == wanted)
    }
}
