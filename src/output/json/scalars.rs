//! Values of rows that are strings of a form, or words of a set.
//! Also here: how sure the numbers of a row are, as fields of the row.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Display;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use strum::IntoEnumIterator;

use crate::analysis::dwb::compare::Comparison;
use crate::analysis::pages::page_rows::RowFate;
use crate::analysis::plan::whatif::protection::Guard;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::verdict::evidence::Statement;
use crate::analysis::verdict::fate::ReplayFate;
use crate::analysis::verdict::judge::{Reason, Verdict};
use crate::analysis::verdict::rebuild::{BuildFailure, NotRebuildable};
use crate::analysis::verdict::symptom::Symptom;
use crate::analysis::wal::cause::Cause;
use crate::analysis::wal::page_action::{ActionKind, Counted};
use crate::analysis::wal::tally::Certainty;
use crate::cluster::donor::DonorGap;
use crate::salvage::NotSalvaged;

macro_rules! texts {
    ($($name:ident, $schema:literal, $pattern:literal, $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        pub struct $name(String);

        impl<T: Display> From<T> for $name {
            fn from(value: T) -> Self {
                Self(value.to_string())
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern, "description": $what})
            }
        }
    )*};
}

texts! {
    LsnText, "lsn", "^[0-9A-F]{1,8}/[0-9A-F]{8}$", "An LSN";
    Hex, "hex", "^0[xX][0-9A-Fa-f]+$", "A hexadecimal number";
    HexBytes, "bytes", "^([0-9a-f]{2})*$", "Bytes in hexadecimal digits";
    Code, "code", "^[a-z][a-z0-9_]*$", "A word for programs, of a set that may grow";
    Time, "time", "^(-?[0-9]{4,6}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?Z|-?[0-9]+)$",
        "A time by ISO 8601 in UTC; a number of seconds or microseconds where the calendar ends";
}

macro_rules! words {
    ($($name:ident, $schema:literal, $words:expr;)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub(crate) struct $name(pub &'static str);

        impl From<&'static str> for $name {
            fn from(word: &'static str) -> Self {
                Self(word)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let words: BTreeSet<&str> = $words.into_iter().collect();
                json_schema!({"enum": words})
            }
        }
    )*};
}

fn statements() -> impl Iterator<Item = &'static str> {
    Statement::codes().chain(Doubt::codes())
}

fn reasons() -> impl Iterator<Item = &'static str> {
    Reason::codes().chain(statements()).chain(NotRebuildable::codes()).chain(BuildFailure::codes())
}

words! {
    ComparisonCode, "codes.comparison", Comparison::ALL.map(Comparison::name);
    Strength, "strength", ["proven", "likely", "possible"];
    SymptomCode, "codes.symptom", Symptom::codes();
    VerdictCode, "codes.verdict", Verdict::ALL.map(Verdict::name);
    ReasonCode, "codes.reason", reasons();
    BuildFailureCode, "codes.build_failure", BuildFailure::codes();
    DonorGapCode, "codes.donor_gap", DonorGap::CODES.iter().copied();
    NotRebuildableCode, "codes.not_rebuildable", NotRebuildable::codes();
    BuiltOn, "built_on", ["image", "record", "empty", "dwb", "wal", "donor", "rebuilt"];
    TearDirection, "tear_direction", ["head", "tail", "scattered"];
    ImageSource, "image_source", ["dwb", "wal", "donor", "rebuilt"];
    BatchAge, "batch_age", ["current", "stale", "undecided"];
    WrittenBy, "written_by", ["eviction", "checkpoint", "locked"];
    Knowledge, "knowledge", ["seen_live", "seen_built"];
    DonorKind, "donor_kind", ["base_backup", "stopped", "snapshot"];
    Outcome, "outcome", ["safe", "unproven", "loses_changes", "unusable"];
    EvidenceWeight, "evidence_weight", ["proof", "note", "missing", "loses", "against"];
    StatementCode, "codes.statement", statements();
    OnStartWhat, "on_start_what", ["harmless", "read", "unnoticed", "passed_over", "dies", "taken_for_empty", "overwritten", "later", "unknown"];
    Touch, "touch", ["image", "init", "change", "hint", "map_bits"];
    HistoryKind, "history_kind", ["record", "file", "gap", "mark"];
    HistoryOutcome, "history_outcome", ["committed", "aborted"];
    ActionCode, "codes.action", ActionKind::codes().chain(["created", "truncated", "dropped", "database_created", "database_dropped", "redo", "checkpoint"]);
    CountedWord, "counted_word", Counted::iter().map(Counted::code);
    PointerState, "pointer_state", ["unused", "normal", "redirect", "dead"];
    PageKind, "page_kind", ["new", "heap", "fsm", "vm", "btree", "btree meta or deleted", "hash", "hash meta or bitmap", "gist", "gist deleted", "spgist", "spgist meta", "gin entry", "gin meta or data", "brin", "brin meta or map", "sequence", "unknown"];
    RowFateCode, "codes.row_fate", RowFate::ALL.map(RowFate::code);
    ColumnsKnown, "columns_known", ["known", "relation_unknown", "no_catalog", "catalog_unreadable", "no_rows"];
    ItemChangeWord, "item_change_word", ["added", "removed", "changed"];
    BadPageDisk, "bad_page_disk", ["damaged", "cut"];
    FaultCode, "fault_code", ["page_rule", "tuple_rule"];
    ReplayWord, "replay_word", ["healed", "real_damage", "unknown"];
    FateCode, "codes.fate", ReplayFate::codes().chain(reasons());
    SavingRemedy, "saving_remedy", ["fewer_checkpoints", "wal_compression", "double_write", "no_hints", "archive_timeout", "replica_identity"];
    ExportTable, "export_table", ["records", "blocks", "images"];
    KeeperWord, "keeper", ["checkpoint", "slot", "archiver", "wal_keep_size", "summarizer", "recycled", "nothing", "unknown"];
    ProblemWord, "salvage_problem", NotSalvaged::CODES;
    BillPartWord, "bill_part", ["images", "records", "old_rows", "unused", "page_headers", "padding", "cut"];
    CertaintyWord, "certainty", ["exact", "at_least", "estimate", "sample"];
    ImageCompression, "image_compression", ["none", "pglz", "lz4", "zstd"];
    SpacingSetting, "spacing_setting", ["actual", "every_nth_checkpoint", "max_wal_size", "checkpoint_timeout", "max_wal_size_and_checkpoint_timeout"];
    GuardCode, "codes.guard", Guard::ALL.map(Guard::code);
    HintPart, "hint_part", ["all", "hint_only", "hint_then_changed", "undecided"];
    CompressionMethod, "compression_method", ["as_written", "off", "pglz", "lz4", "zstd"];
    NeedWord, "need_for", ["mean", "p95", "peak"];
    Layout, "layout", ["A", "B", "C"];
    EndKind, "end_kind", ["complete", "unwritten", "stale", "torn", "damaged"];
    RunVerdictCode, "run_verdict_code", ["damage", "complete", "end_of_wal", "changing", "gap", "not_judged"];
    CauseCode, "cause", Cause::all().map(Cause::name);
    Fork, "fork", ["main", "fsm", "vm", "init"];
    Zero, "zero", ["zero"];
    DamageCode, "damage_code", ["complete", "unwritten", "stale", "torn", "damaged", "unreadable", "ends_early"];
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct CertaintyJson {
    /// Certainty: `exact`, `at_least` (part of the WAL could not be read), `estimate` (of a method of compression: another version of its library may differ by up to 1 percent in sum), `sample`
    certainty: CertaintyWord,
    /// For a sample: images examined, and all images
    sampled: Option<u64>,
    of: Option<u64>,
}

impl From<Certainty> for CertaintyJson {
    fn from(certainty: Certainty) -> Self {
        let (sampled, of) = match certainty {
            Certainty::Sample { taken, of } => (Some(taken), Some(of)),
            Certainty::Exact | Certainty::AtLeast | Certainty::Estimate => (None, None),
        };
        Self { certainty: certainty.code().into(), sampled, of }
    }
}
