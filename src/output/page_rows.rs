//! Rows and entries of a page, on disk against an image: cells of a list, and everything about one of them.

use std::io::{self, Write};

use super::escape::printable;
use super::table::{plain_table, write_table};
use super::text::Layout;
use super::words::rows::{flag_words, hex_words, tid_words, type_words, value_words};
use crate::analysis::pages::page_rows::{PageItem, PageRows, RowFate, RowPair, is_of_rows};
use crate::cluster::columns::{Column, NoColumns, RelationColumns};
use crate::parsers::heap::{Liveness, TupleHeader, XactStatus};
use crate::parsers::page::{LinePointerState, PageHeader};
use crate::parsers::tuple::columns::{Stored, row_columns};
use crate::parsers::tuple::index::IndexEntry;

/// Two versions of a page with what is known of their rows.
#[derive(Clone, Copy)]
pub struct RowsOf<'a> {
    /// The rows.
    pub rows: &'a PageRows,
    /// The page on disk; empty if it is missing.
    pub disk: &'a [u8],
    /// The image; empty without an image.
    pub image: &'a [u8],
    /// The columns of the relation.
    pub columns: &'a Result<RelationColumns, NoColumns>,
}

/// Cells of an item in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCells {
    /// Its number.
    pub item: String,
    /// Its fate.
    pub fate: &'static str,
    /// Whether its row is part of the table, by its own flags; `-` without a row.
    pub life: &'static str,
    /// Who inserted it; empty for entries of an index.
    pub xmin: String,
    /// Who deleted or locked it.
    pub xmax: String,
    /// Where its newer version stands, or what an entry leads to.
    pub ctid: String,
    /// Columns, or what it is instead of a row.
    pub values: String,
}

/// Its flags do not always say how a transaction ended.
const fn life_word(life: Liveness) -> &'static str {
    match life {
        Liveness::Live => "live",
        Liveness::Dead => "dead",
        Liveness::PerhapsDeleted | Liveness::InsertionUnknown | Liveness::InsertionOpen => "?",
    }
}

/// One thing about an item: its value on disk, and in the image. `None`: missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowDetail {
    pub name: String,
    pub disk: Option<String>,
    pub image: Option<String>,
}

impl RowDetail {
    /// Both have it, and it is not the same.
    pub fn differs(&self) -> bool {
        self.disk.is_some() && self.image.is_some() && self.disk != self.image
    }
}

struct Decoded {
    fields: Vec<(&'static str, String)>,
    values: Vec<String>,
    /// The remaining bytes if the columns are unknown.
    rest: Option<String>,
}

impl<'a> RowsOf<'a> {
    fn columns(&self) -> &'a [Column] {
        self.columns.as_ref().map_or(&[], |known| &known.columns)
    }

    fn decode(&self, page: &[u8], item: &PageItem) -> Decoded {
        let pointer = item.pointer;
        let mut fields = vec![(
            "line pointer",
            match pointer.state() {
                LinePointerState::Redirect => format!("redirects to item {}", pointer.offset()),
                state => format!("{}, offset {}, {} bytes", state.name(), pointer.offset(), pointer.length()),
            },
        )];
        let none = |fields| Decoded { fields, values: Vec::new(), rest: None };
        let Some(tuple) = item.bytes(page) else { return none(fields) };
        if !item.is_sound {
            let rest = Some(format!("no row: {}", hex_words(tuple)));
            return Decoded { fields, values: Vec::new(), rest };
        }
        let shapes = self.columns.as_ref().map(RelationColumns::shapes).unwrap_or_default();
        let words = |stored: &[Stored<'_>]| {
            let pairs = self.columns().iter().zip(stored);
            pairs.map(|(column, stored)| value_words(column, stored)).collect::<Vec<_>>()
        };
        if is_of_rows(self.rows.kind) {
            let Ok(header) = TupleHeader::decode(0, tuple) else { return none(fields) };
            let count = usize::from(header.attribute_count());
            fields.extend([
                ("xmin", header.xmin.to_string()),
                ("xmax", header.xmax.to_string()),
                ("cid", header.command_id.to_string()),
                ("ctid", tid_words((header.ctid_block, header.ctid_item))),
                ("flags", flag_words(&header)),
                ("columns", count.to_string()),
            ]);
            if let Some(oid) = header.row_oid(tuple) {
                fields.push(("oid", oid.to_string()));
            }
            let values = words(&row_columns(&header, tuple, &shapes));
            let rest = match self.columns {
                Ok(known) if count <= known.columns.len() => None,
                Ok(known) => Some(format!("{} columns more than the catalog has", count - known.columns.len())),
                Err(_) => Some(hex_words(header.user_data(tuple))),
            };
            return Decoded { fields, values, rest };
        }
        let header = PageHeader::decode(0, page).ok();
        let entry = header.and_then(|header| IndexEntry::decode(&header, page, self.rows.kind, item.number, tuple));
        let Some(entry) = entry else {
            return Decoded { fields, values: Vec::new(), rest: Some(hex_words(tuple)) };
        };
        fields.push(("leads to", entry.target.to_string()));
        // GIN and GiST keep other things instead of the columns, in some entries or in all.
        if !matches!(self.rows.kind.name(), "btree" | "hash") || self.columns.is_err() {
            return Decoded { fields, values: Vec::new(), rest: Some(hex_words(entry.data)) };
        }
        let stored = entry.stored(&shapes);
        let shown = stored.iter().take_while(|stored| **stored != Stored::Absent).count();
        Decoded { fields, values: words(stored.get(..shown).unwrap_or_default()), rest: None }
    }

    fn both(&self, pair: &RowPair) -> (Option<Decoded>, Option<Decoded>) {
        let disk = pair.disk.as_ref().map(|item| self.decode(self.disk, item));
        let image = pair.image.as_ref().map(|item| self.decode(self.image, item));
        (disk, image)
    }

    /// Whether a row is part of the table, as far as its own flags tell.
    fn life(&self, page: &[u8], item: &PageItem) -> Option<Liveness> {
        let tuple = item.bytes(page).filter(|_| item.is_sound && is_of_rows(self.rows.kind))?;
        Some(TupleHeader::decode(0, tuple).ok()?.liveness(|_| XactStatus::Unknown))
    }

    /// How many of the rows that come back are part of the table; empty where none comes back.
    pub(crate) fn summary_of_return(&self) -> String {
        let back = self.rows.pairs.iter().filter(|pair| pair.fate == RowFate::ComesBack);
        let lives: Vec<Liveness> = back.filter_map(|pair| self.life(self.image, pair.image.as_ref()?)).collect();
        let count = |word: &str| lives.iter().filter(|life| life_word(**life) == word).count();
        let parts = ["live", "dead", "?"].map(|word| (count(word), if word == "?" { "not known" } else { word }));
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        if parts.is_empty() { String::new() } else { format!(" ({} of those restored)", parts.join(", ")) }
    }

    /// The columns of a list for the item at `index`: as it is in the image, where that has it, else as it is on disk.
    pub fn cells(&self, index: usize) -> RowCells {
        let Some(pair) = self.rows.pairs.get(index) else { return RowCells::default() };
        let has_row = |item: &Option<PageItem>| item.as_ref().is_some_and(|item| item.is_sound);
        let (page, item) = match (&pair.image, &pair.disk) {
            (Some(item), _) if has_row(&pair.image) || !has_row(&pair.disk) => (self.image, item),
            (_, Some(item)) | (Some(item), _) => (if pair.disk.is_some() { self.disk } else { self.image }, item),
            (None, None) => return RowCells::default(),
        };
        let decoded = self.decode(page, item);
        let field = |name: &str| {
            let found = decoded.fields.iter().find(|(field, _)| *field == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let has_tuple = decoded.fields.len() > 1 || decoded.rest.is_some();
        let named = self.columns().iter().zip(&decoded.values).filter(|(column, _)| !column.is_dropped);
        let mut values: Vec<String> = named.map(|(column, value)| format!("{}={value}", column.name)).collect();
        values.extend(decoded.rest.clone());
        if !has_tuple {
            values = vec![field("line pointer")];
        }
        let target = field("leads to");
        RowCells {
            item: pair.number().to_string(),
            fate: pair.fate.words(),
            life: self.life(page, item).map_or("-", life_word),
            xmin: field("xmin"),
            xmax: field("xmax"),
            ctid: if target.is_empty() { field("ctid") } else { target },
            values: values.join(" "),
        }
    }

    /// Everything about the item at `index`.
    pub(crate) fn details(&self, index: usize) -> Vec<RowDetail> {
        let Some(pair) = self.rows.pairs.get(index) else { return Vec::new() };
        let (disk, image) = self.both(pair);
        let mut details = Vec::new();
        let numbers = [&pair.disk, &pair.image].map(|item| item.as_ref().map(|item| item.number));
        if let [Some(left), Some(right)] = numbers
            && left != right
        {
            details.push(RowDetail {
                name: "item".to_owned(),
                disk: Some(left.to_string()),
                image: Some(right.to_string()),
            });
        }
        let mut names: Vec<&'static str> = Vec::new();
        for (name, _) in [&disk, &image].into_iter().flatten().flat_map(|decoded| &decoded.fields) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let field = |decoded: &Option<Decoded>, name: &str| {
            let fields = &decoded.as_ref()?.fields;
            fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone())
        };
        details.extend(names.into_iter().map(|name| RowDetail {
            name: name.to_owned(),
            disk: field(&disk, name),
            image: field(&image, name),
        }));
        for (at, column) in self.columns().iter().enumerate() {
            let value = |decoded: &Option<Decoded>| decoded.as_ref()?.values.get(at).cloned();
            let (disk, image) = (value(&disk), value(&image));
            if disk.is_some() || image.is_some() {
                details.push(RowDetail { name: format!("{} {}", column.name, type_words(column)), disk, image });
            }
        }
        let rest = |decoded: &Option<Decoded>| decoded.as_ref()?.rest.clone();
        if let (disk, image) = (rest(&disk), rest(&image))
            && (disk.is_some() || image.is_some())
        {
            details.push(RowDetail { name: "bytes".to_owned(), disk, image });
        }
        details
    }

    /// How many rows have which fate, and what is in the way of showing columns.
    pub fn summary(&self) -> String {
        let what = if is_of_rows(self.rows.kind) { "items" } else { "entries" };
        if self.rows.pairs.is_empty() {
            return format!("a {} page without {what}", self.rows.kind.name());
        }
        let counted = RowFate::ALL.into_iter().filter(|fate| *fate != RowFate::Alone);
        let counts: Vec<String> = counted
            .filter_map(|fate| Some((fate, self.rows.count(fate))).filter(|(_, count)| *count > 0))
            .map(|(fate, count)| format!("{count} {}", if count == 1 { fate.words() } else { fate.words_of_several() }))
            .collect();
        let counts = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
        format!("{} {what}{counts}", self.rows.pairs.len())
    }

    /// Caveats about the columns.
    pub fn note(&self) -> Option<String> {
        match self.columns {
            Ok(known) => known.doubt.map(|doubt| format!("columns are {doubt}")),
            Err(why) => Some(format!("columns are unknown: {why}")),
        }
    }
}

/// Writes the rows in which disk and image differ, or all where there is nothing to compare with.
pub(crate) fn write_rows(out: &mut dyn Write, layout: Layout, title: &str, of: &RowsOf<'_>) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading(title))?;
    writeln!(out, "  {}", of.summary())?;
    if let Some(note) = of.note() {
        writeln!(out, "  {}", layout.paint.doubt(&printable(&note)))?;
    }
    for (index, pair) in of.rows.pairs.iter().enumerate().filter(|(_, pair)| pair.fate != RowFate::Same) {
        let fate = if pair.fate == RowFate::Alone { String::new() } else { format!(": {}", pair.fate) };
        writeln!(out, "  item {}{fate}", pair.number())?;
        let mut table = plain_table(&["", "on disk", "in the image"]);
        for detail in of.details(index) {
            let cell = |value: Option<String>| value.map_or_else(|| "-".to_owned(), |value| printable(&value));
            let mark = if detail.differs() { "! " } else { "" };
            table.add_row([format!("{mark}{}", printable(&detail.name)), cell(detail.disk), cell(detail.image)]);
        }
        write_table(out, &table)?;
    }
    Ok(())
}
