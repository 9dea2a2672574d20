//! JSON of a page as it was.
//! Also here: what one record changed in a page, rows of a page or entries of an index, and the history of a page.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::page::{PageIdJson, PageLocation, PlacedPageJson, hex};
use super::scalars::{
    ActionCode, BuiltOn, Code, ColumnsKnown, CountedWord, HexBytes, HistoryKind, HistoryOutcome, ItemChangeWord,
    LsnText, PageKind, PointerState, RowFateCode, Time, Touch,
};
use super::time_text;
use crate::analysis::changes::events::BlockEvent;
use crate::analysis::changes::xact_ends::XactOutcome;
use crate::analysis::pages::page_diff::{FieldChange, ItemChange, ItemState, PageDiff};
use crate::analysis::verdict::page_history::HistoryRow;
use crate::analysis::verdict::rebuild::RebuildPlan;
use crate::analysis::wal::page_action::{ActionKind, Counted};
#[cfg(feature = "tables")]
use crate::output::page_rows::{RowDetail, RowsOf};
use crate::output::words::page_action::{event_words, file_words, mark_words};
use crate::parsers::page::{PageHeader, line_pointers};
use crate::parsers::page_kind;
use crate::parsers::wal::version::Major;
use crate::rebuild::{BuiltPage, ServerVersion};
use crate::types::{Lsn, PageId};

pub(crate) const PAGE_AT_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "fork",
    "block",
    "path",
    "at_lsn",
    "base",
    "base_lsn",
    "records",
    "first_lsn",
    "last_lsn",
    "page_lsn",
    "server",
    "sandbox",
    "file",
    "page",
];

#[derive(Clone, Copy)]
pub(crate) struct PageThen<'a> {
    pub lsn: Lsn,
    pub plan: &'a RebuildPlan,
    pub built: &'a BuiltPage,
    pub server: &'a ServerVersion,
    /// The sandbox, where it was kept.
    pub sandbox: Option<&'a Path>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PageAtJson {
    #[serde(flatten)]
    page_id: PlacedPageJson,
    /// The moment: no record that ends later was replayed
    at_lsn: LsnText,
    /// Its base: `image` or `record` in WAL, `empty`, `dwb`, `donor`
    base: BuiltOn,
    /// Start of that record, or LSN of that copy
    base_lsn: LsnText,
    /// How many records of the page were replayed
    records: u64,
    /// Start of the first and of the last of them
    first_lsn: Option<LsnText>,
    last_lsn: Option<LsnText>,
    /// LSN of the page
    page_lsn: Option<LsnText>,
    /// Version of the server that replayed
    server: String,
    /// Directory that was left, with `--keep-sandbox`
    sandbox: Option<String>,
    /// File that the page was written to, with `--images`
    file: Option<String>,
    /// Header of the page: see `page_at.header`
    header: Option<PageHeaderJson>,
    /// Its line pointers, where it has them: see `page_at.items[]`
    items: Option<Vec<PageItemJson>>,
    /// Its bytes in hex
    page: HexBytes,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_at.header")]
struct PageHeaderJson {
    /// Fields of the page header
    pd_lsn: LsnText,
    pd_checksum: u16,
    pd_flags: u16,
    pd_lower: u16,
    pd_upper: u16,
    pd_special: u16,
    pd_pagesize_version: u16,
    pd_prune_xid: u32,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_at.items")]
struct PageItemJson {
    /// Number of the item
    item: u32,
    /// Offset of its tuple; for a redirected item, the number of another item
    offset: u16,
    length: u16,
    /// `unused`, `normal`, `redirect`, `dead`
    state: PointerState,
}

impl PageAtJson {
    /// A page as it was. `file`: where it was written.
    pub(crate) fn new(then: &PageThen<'_>, location: &PageLocation<'_>, file: Option<&str>) -> Self {
        let PageThen { lsn, plan, built, server, sandbox } = then;
        let header = PageHeader::decode(0, &built.bytes).ok();
        Self {
            page_id: PlacedPageJson::new(built.page, location),
            at_lsn: lsn.into(),
            base: plan.base.name().into(),
            base_lsn: plan.base.lsn().into(),
            records: built.records,
            first_lsn: built.first_lsn.map(LsnText::from),
            last_lsn: built.last_lsn.map(LsnText::from),
            page_lsn: header.map(|header| header.lsn.into()),
            server: server.number.clone(),
            sandbox: sandbox.map(|path| path.display().to_string()),
            file: file.map(str::to_owned),
            header: header.as_ref().map(PageHeaderJson::from),
            items: header.map(|header| items(&header, built)),
            page: hex(&built.bytes),
        }
    }
}

impl From<&PageHeader> for PageHeaderJson {
    fn from(header: &PageHeader) -> Self {
        Self {
            pd_lsn: header.lsn.into(),
            pd_checksum: header.checksum,
            pd_flags: header.flags,
            pd_lower: header.lower,
            pd_upper: header.upper,
            pd_special: header.special,
            pd_pagesize_version: header.pagesize_version,
            pd_prune_xid: header.prune_xid,
        }
    }
}

/// Line pointers, where the page has them.
fn items(header: &PageHeader, built: &BuiltPage) -> Vec<PageItemJson> {
    if !page_kind::PageKind::of(header, &built.bytes, built.page.fork).has_line_pointers() {
        return Vec::new();
    }
    let pointers = line_pointers(header, &built.bytes).zip(1_u32..);
    let json = |(pointer, item): (crate::parsers::page::LinePointer, u32)| PageItemJson {
        item,
        offset: pointer.offset(),
        length: pointer.length(),
        state: pointer.state().name().into(),
    };
    pointers.map(json).collect()
}

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

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PageRowJson {
    #[serde(flatten)]
    page: PageIdJson,
    /// Index of the image among the `candidates` of the page; absent without an image
    candidate: Option<usize>,
    /// Kind of the page: `heap`, `btree`, `hash`, `gist`, ...
    kind: PageKind,
    /// Number of the item: in the image, else on disk
    item: Option<usize>,
    /// Its number on disk and in the image; absent if it is missing
    disk_item: Option<usize>,
    image_item: Option<usize>,
    /// Its fate if the image is restored: see [codes.md](codes.md#rows)
    fate: Option<RowFateCode>,
    /// `known`, or why the columns of the relation are unknown: `relation_unknown`, `no_catalog`, `catalog_unreadable`, `no_rows`
    columns: ColumnsKnown,
    /// Its line pointer, head and columns: see `page_row.details[]`
    details: Vec<DetailJson>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_row.details")]
struct DetailJson {
    /// `line pointer`, `xmin`, `xmax`, `cid`, `ctid`, `flags`, `columns`, `oid`, `leads to`, `item`, `bytes`, or name and type of a column
    name: String,
    /// Value on disk and in the image, as text; absent where it has none
    disk: Option<String>,
    image: Option<String>,
}

#[cfg(feature = "tables")]
impl PageRowJson {
    /// The item at `index` on disk and in an image; `candidate` is the index of that image among the candidates of the page.
    pub(crate) fn new(page: PageId, of: &RowsOf<'_>, candidate: Option<usize>, index: usize) -> Self {
        let pair = of.rows.pairs.get(index);
        let detail = |RowDetail { name, disk, image }| DetailJson { name, disk, image };
        Self {
            page: page.into(),
            candidate,
            kind: of.rows.kind.name().into(),
            item: pair.map(|pair| pair.number()),
            disk_item: pair.and_then(|pair| pair.disk.as_ref()).map(|item| item.number),
            image_item: pair.and_then(|pair| pair.image.as_ref()).map(|item| item.number),
            fate: pair.map(|pair| pair.fate.code().into()),
            columns: of.columns.as_ref().err().map_or("known", |why| why.code()).into(),
            details: of.details(index).into_iter().map(detail).collect(),
        }
    }
}

/// Fields of a row, in the order of CSV.
pub(crate) const HISTORY_COLUMNS: &[&str] = &[
    "kind",
    "number",
    "lsn",
    "end_lsn",
    "xid",
    "outcome",
    "ended_at",
    "record",
    "touch",
    "action",
    "items",
    "counts",
    "what",
    "missing_segments",
    "missing_count",
    "spc_oid",
    "db_oid",
    "rel_number",
    "fork",
    "block",
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryJson {
    #[serde(flatten)]
    page: PageIdJson,
    /// `record`, `file` (the files that hold the page come, go or shrink), `gap` (WAL that was not read), `mark`
    kind: HistoryKind,
    /// Number of the record, from 1
    number: Option<usize>,
    /// Start and end of the record or gap
    lsn: LsnText,
    end_lsn: Option<LsnText>,
    /// Transaction of the record
    xid: Option<u32>,
    /// How it ended, where WAL says so: `committed`, `aborted`
    outcome: Option<HistoryOutcome>,
    /// When
    ended_at: Option<Time>,
    /// Resource manager and type, as `pg_waldump` prints them
    record: Option<String>,
    /// Effect of redo on the page: `image`, `init`, `change`, `hint`, `map_bits`
    touch: Option<Touch>,
    /// Effect of the record inside the page, as far as its payload shows: see below. For `file`: `created`, `truncated`,
    /// `dropped`, `database_created`, `database_dropped`. For `mark`: `redo`, `checkpoint`
    action: Option<ActionCode>,
    /// Numbers of the items concerned, in the order of the record
    items: Option<Vec<u16>>,
    /// How many, by what is counted: `redirected`, `dead`, `unused`, `frozen`, `deleted`, `updated`, `inserted`, `runs`
    counts: Option<BTreeMap<CountedWord, u32>>,
    /// The action in words
    what: String,
    /// Of `gap`: names of the first missing segments
    missing_segments: Option<Vec<String>>,
    /// Of `gap`: how many are missing; 0 where they are there and cannot be read
    missing_count: Option<u64>,
}

impl HistoryJson {
    /// A row of the history. `outcome`: how the transaction of a record ended.
    pub(crate) fn new(page: PageId, row: HistoryRow<'_>, major: Option<Major>, outcome: Option<&XactOutcome>) -> Self {
        let empty = |kind: &'static str, lsn: Lsn, end_lsn: Option<Lsn>, what: String| Self {
            page: page.into(),
            kind: kind.into(),
            lsn: lsn.into(),
            end_lsn: end_lsn.map(LsnText::from),
            what,
            number: None,
            xid: None,
            outcome: None,
            ended_at: None,
            record: None,
            touch: None,
            action: None,
            items: None,
            counts: None,
            missing_segments: None,
            missing_count: None,
        };
        match row {
            HistoryRow::Record(number, event) => {
                let action = event.action.as_deref();
                let count = |(counted, count): &(Counted, u32)| (counted.code().into(), *count);
                Self {
                    number: Some(number),
                    xid: Some(event.xid),
                    outcome: outcome.map(|outcome| if outcome.committed { "committed" } else { "aborted" }.into()),
                    ended_at: outcome.map(|outcome| time_text(outcome.time.unix_seconds()).into()),
                    record: Some(event.name(major)),
                    touch: Some(event.touch.code().into()),
                    action: action.map(|action| ActionKind::code(action.kind).into()),
                    items: action.map(|action| action.items().collect()),
                    counts: action.map(|action| action.counts.iter().map(count).collect()),
                    ..empty("record", event.start_lsn, Some(event.end_lsn), event_words(event))
                }
            }
            HistoryRow::File(event) => Self {
                action: Some(event.what.code().into()),
                ..empty("file", event.start_lsn, Some(event.end_lsn), file_words(&event.what))
            },
            HistoryRow::Gap(gap) => Self {
                missing_segments: Some(gap.missing.names.clone()),
                missing_count: Some(gap.missing.more.saturating_add(gap.missing.names.len() as u64)),
                ..empty("gap", gap.range.start, Some(gap.range.end), gap.to_string())
            },
            HistoryRow::Mark(mark, lsn) => {
                Self { action: Some(mark.code().into()), ..empty("mark", lsn, None, mark_words(mark).to_owned()) }
            }
        }
    }
}
