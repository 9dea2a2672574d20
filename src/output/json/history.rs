//! JSON of the history of a page.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::page::PageIdJson;
use super::scalars::{ActionCode, CountedWord, HistoryKind, HistoryOutcome, LsnText, Time, Touch};
use super::time_text;
use crate::analysis::verdict::page_history::HistoryRow;
use crate::analysis::verdict::xact_ends::XactOutcome;
use crate::analysis::wal::page_action::{ActionKind, Counted};
use crate::output::words::page_action::{event_words, file_words, mark_words};
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, PageId};

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
