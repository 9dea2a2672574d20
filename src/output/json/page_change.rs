//! JSON of what one record changed in a page.

use schemars::JsonSchema;
use serde::Serialize;

use super::page::PageIdJson;
use super::scalars::{Code, ItemChangeWord, LsnText, PointerState};
use crate::analysis::page_diff::{FieldChange, ItemChange, ItemState, PageDiff};
use crate::analysis::verdict::events::BlockEvent;
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, PageId};

#[derive(Clone, Copy)]
pub(crate) struct ChangedBy<'a> {
    pub page: PageId,
    /// Number of the record in the history of the page.
    pub number: u64,
    pub event: &'a BlockEvent,
    pub major: Option<Major>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PageChangeJson {
    #[serde(flatten)]
    page: PageIdJson,
    /// Number of the record, as in `history`
    number: u64,
    /// The record
    lsn: LsnText,
    end_lsn: LsnText,
    record: String,
    /// Fields of the page header that changed: see `page_change.fields[]`
    fields: Vec<FieldChangeJson>,
    /// Items that changed: see `page_change.items[]`
    items: Vec<ItemChangeJson>,
    /// Ranges of bytes that differ, each first and end; ranges with fewer than 4 equal bytes between them are one
    bytes: Vec<Vec<usize>>,
    /// How many bytes differ; absent where that is unknown
    differing: Option<usize>,
    /// Why it is unknown, in words and as a code
    reason: Option<String>,
    reason_code: Option<Code>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_change.fields")]
struct FieldChangeJson {
    /// Name of the field, such as `pd_lower`
    field: String,
    /// Its values
    before: FieldValue,
    after: FieldValue,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_change.items")]
struct ItemChangeJson {
    /// Number of the item
    item: u16,
    /// `added`, `removed`, `changed`
    change: ItemChangeWord,
    /// `offset`, `length`, `state` of the line pointer; of a table also `xmin`, `xmax`, `ctid_block`, `ctid_item`, `infomask`, `infomask2` of the row; absent where there is no such item
    before: Option<ItemStateJson>,
    after: Option<ItemStateJson>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "item_state")]
struct ItemStateJson {
    /// ?
    offset: u16,
    length: u16,
    state: PointerState,
    xmin: Option<u32>,
    xmax: Option<u32>,
    ctid_block: Option<u32>,
    ctid_item: Option<u16>,
    infomask: Option<u16>,
    infomask2: Option<u16>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum FieldValue {
    Lsn(LsnText),
    Number(u64),
}

impl PageChangeJson {
    /// The changes by a record; or why they are unknown, as a code and in words.
    pub(crate) fn new(by: &ChangedBy<'_>, diff: Result<&PageDiff, (&str, String)>) -> Self {
        let (diff, why) = match diff {
            Ok(diff) => (Some(diff), None),
            Err(why) => (None, Some(why)),
        };
        let (code, reason) = why.unzip();
        Self {
            page: by.page.into(),
            number: by.number,
            lsn: by.event.start_lsn.into(),
            end_lsn: by.event.end_lsn.into(),
            record: by.event.name(by.major),
            fields: diff.iter().flat_map(|diff| &diff.fields).map(FieldChangeJson::from).collect(),
            items: diff.iter().flat_map(|diff| &diff.items).map(ItemChangeJson::from).collect(),
            bytes: diff.iter().flat_map(|diff| &diff.bytes).map(|at| vec![at.start, at.end]).collect(),
            differing: diff.map(|diff| diff.differing),
            reason,
            reason_code: code.map(Code::from),
        }
    }
}

impl From<&FieldChange> for FieldChangeJson {
    fn from(change: &FieldChange) -> Self {
        let is_lsn = change.field == "pd_lsn";
        let value = |value: u64| if is_lsn { FieldValue::Lsn(Lsn(value).into()) } else { FieldValue::Number(value) };
        Self { field: change.field.to_owned(), before: value(change.before), after: value(change.after) }
    }
}

impl From<&ItemChange> for ItemChangeJson {
    fn from(change: &ItemChange) -> Self {
        Self {
            item: change.item,
            change: change.code().into(),
            before: change.before.as_ref().map(ItemStateJson::from),
            after: change.after.as_ref().map(ItemStateJson::from),
        }
    }
}

impl From<&ItemState> for ItemStateJson {
    fn from(state: &ItemState) -> Self {
        let row = state.row.as_ref();
        Self {
            offset: state.offset,
            length: state.length,
            state: state.state.name().into(),
            xmin: row.map(|row| row.xmin),
            xmax: row.map(|row| row.xmax),
            ctid_block: row.map(|row| row.ctid.0),
            ctid_item: row.map(|row| row.ctid.1),
            infomask: row.map(|row| row.infomask),
            infomask2: row.map(|row| row.infomask2),
        }
    }
}
