//! JSON of damaged pages and of comparisons.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::scalars::{
    BatchAge, BuildFailureCode, BuiltOn, ComparisonCode, DonorGapCode, DonorKind, EvidenceWeight, Fork, HexBytes,
    ImageSource as SourceWord, Knowledge, LsnText, NotRebuildableCode, OnStartWhat, Outcome, ReasonCode, StatementCode,
    Strength, SymptomCode, TearDirection, Touch, VerdictCode, WrittenBy, Zero,
};
use crate::analysis::changes::events::BlockEvent;
use crate::analysis::changes::needed::OnStart;
use crate::analysis::changes::sectors::TearMap;
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::verdict::candidate::{CandidateOutcome, ImageSource, Judged};
use crate::analysis::verdict::donor_proof::PageOfNoDonor;
use crate::analysis::verdict::evidence::EvidenceStep;
use crate::analysis::verdict::rebuild::{NotRebuildable, RebuildPlan};
use crate::analysis::verdict::survey::PageReport;
use crate::output::words::cluster::touch_words;
use crate::parsers::wal::version::Major;
use crate::types::PageId;

/// Columns of a page in CSV, in order.
pub(crate) const PAGE_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "fork",
    "block",
    "path",
    "disk",
    "strength",
    "verdict",
    "reasons",
    "reason_codes",
    "damage",
    "damage_codes",
];

/// The file of a page and the name of its relation.
pub(crate) struct PageLocation<'a> {
    /// Path of its file, relative to the data directory.
    pub path: &'a str,
    /// Name of the relation, where it is known.
    pub relation: Option<&'a str>,
    /// Name of its database, where it is known.
    pub database: Option<&'a str>,
}

/// Which page a row is about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PageIdJson {
    /// The relation's file
    spc_oid: u32,
    db_oid: u32,
    rel_number: u32,
    /// `main`, `fsm`, `vm` or `init`
    fork: Fork,
    /// Block within the fork
    block: u32,
}

impl From<PageId> for PageIdJson {
    fn from(PageId { rel, fork, block }: PageId) -> Self {
        Self { spc_oid: rel.spc_oid, db_oid: rel.db_oid, rel_number: rel.rel_number, fork: fork.name().into(), block }
    }
}

/// A page with names.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PlacedPageJson {
    #[serde(flatten)]
    page: PageIdJson,
    /// `database.schema.relation`; a `?` at the end: the name may be wrong; `global` is the database of a shared relation
    relation: Option<String>,
    /// Its database by name, also where the relation has none; absent for a shared relation, and where it is unknown
    database: Option<String>,
    /// File, relative to the data directory
    path: String,
}

impl PlacedPageJson {
    pub(super) fn new(page: PageId, location: &PageLocation<'_>) -> Self {
        let PageLocation { path, relation, database } = location;
        let name = |name: &Option<&str>| name.map(str::to_owned);
        Self { page: page.into(), relation: name(relation), database: name(database), path: (*path).to_owned() }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PageJson {
    #[serde(flatten)]
    page: PlacedPageJson,
    /// State on disk: `identical`, `hint_bits_only`, `disk_newer`, `disk_older`, `torn`, `damaged`, `zeroed`, `missing_file`, `beyond_end`, `dropped_relation`, `unlogged`
    disk: ComparisonCode,
    /// Confidence: `proven`, `likely`, `possible`
    strength: Strength,
    /// Damage of the page, in sentences and as codes
    damage: Vec<String>,
    damage_codes: Vec<SymptomCode>,
    /// LSN in the page's header, where the header makes sense
    disk_lsn: Option<LsnText>,
    /// How the page was torn: see `page.tear`; absent when it was not, or that is unknown
    tear: Option<TearJson>,
    /// Images that could replace it: see `page.candidates[]`
    candidates: Vec<CandidateJson>,
    /// `restore`, `rebuild`, `restore_unproven`, `loses_changes`, `no_image`, `heals_in_replay`, `leave`
    verdict: VerdictCode,
    /// The image to restore: see `page.chosen`
    chosen: Option<ChosenJson>,
    /// Why, in sentences and as codes
    reasons: Vec<String>,
    reason_codes: Vec<ReasonCode>,
    /// Effect of startup on the page: see `page.on_start`
    on_start: OnStartJson,
    /// Whether the page can be rebuilt from an older copy of it and WAL, by evidence alone: see `page.rebuildable`; absent where an image is proven or none is needed
    rebuildable: Option<RebuildableJson>,
    /// Why the page was not rebuilt although it was asked for, as a code of [codes.md](codes.md)
    build_failure: Option<BuildFailureCode>,
    /// Header of an empty page that keeps replay from dying, in hex, where that is the way past it
    stand_in: Option<HexBytes>,
    /// The relation is unlogged: recovery empties it
    unlogged: bool,
    /// Donors that do not have the page: see `page.donor_gaps[]`
    donor_gaps: Vec<DonorGapJson>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page.donor_gaps")]
struct DonorGapJson {
    /// Path of the donor, as given
    donor: String,
    /// Why it does not have the page: see [codes.md](codes.md)
    code: DonorGapCode,
    text: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page.rebuildable")]
struct RebuildableJson {
    /// The page can be rebuilt, as far as the evidence goes. Doubts about the cluster (`doubt_codes`) still keep the result from being proven
    possible: bool,
    /// Why it cannot: see [codes.md](codes.md)
    code: Option<NotRebuildableCode>,
    /// The rebuild in a sentence
    text: String,
    /// Base of the rebuild: `image` (in WAL), `record` (one that initialises the page without reading it), `empty` (zeros: the
    /// visibility map did not reach the page yet), or the `source` of a candidate
    base: Option<BuiltOn>,
    /// Start of that record, or LSN of the copy
    base_lsn: Option<LsnText>,
    /// Records of the page that are replayed
    records: Option<u64>,
    /// Start of the first and the last of them
    first_lsn: Option<LsnText>,
    last_lsn: Option<LsnText>,
    /// LSN that the page will have; older where the last records set no LSN
    page_lsn: Option<LsnText>,
    /// The page is built as it was there: where replay begins, or at the shutdown
    as_of: Option<LsnText>,
    /// WAL segments that are missing, by file name, the first few
    missing_segments: Vec<String>,
    /// How many more there are
    missing_more: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page.tear")]
struct TearJson {
    /// Which part is new: `head`, `tail`, `scattered`
    direction: TearDirection,
    /// Offset in the page between new and old, if it is known exactly
    break_at: usize,
    /// It is between these offsets
    break_min: usize,
    break_max: usize,
    /// Index in `candidates` of the version that the parts come from, or `"zero"`
    newer: Option<SectorSource>,
    older: Option<SectorSource>,
    /// For each 512 bytes the candidates that they equal
    sectors: Vec<Vec<SectorSource>>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page.candidates")]
struct CandidateJson {
    /// `dwb`, `wal`, `donor` or `rebuilt`
    source: SourceWord,
    /// The slot, of `dwb`
    file: Option<String>,
    slot_index: Option<u64>,
    slot_id: Option<u32>,
    /// LSN in the slot header, of `dwb`
    slot_lsn: Option<LsnText>,
    /// `current`, `stale`, `undecided`, of `dwb`
    batch: Option<BatchAge>,
    /// `eviction`, `checkpoint` or `locked`, of `dwb`, where that is known
    written_by: Option<WrittenBy>,
    /// Origin of the description of its layout: `seen_live` or `seen_built`, of `dwb`
    knowledge: Option<Knowledge>,
    /// Start of the WAL record, of `wal`
    lsn: Option<LsnText>,
    /// Path of the donor, as given, of `donor`
    donor: Option<String>,
    /// `base_backup`, `stopped` or `snapshot`, of `donor`
    donor_kind: Option<DonorKind>,
    /// Redo point of the donor: changes from before it are in its pages, of `donor`
    redo_lsn: Option<LsnText>,
    /// Its base, as in `page.rebuildable`, of `rebuilt`
    base: Option<BuiltOn>,
    base_lsn: Option<LsnText>,
    /// Records of the page that were replayed, and start of the first and the last, of `rebuilt`
    records: Option<u64>,
    first_lsn: Option<LsnText>,
    last_lsn: Option<LsnText>,
    /// The page was built as it was there, of `rebuilt`
    as_of: Option<LsnText>,
    /// Version of the server that replayed, of `rebuilt`
    server: Option<String>,
    /// LSN of the image
    page_lsn: LsnText,
    /// Sectors of 512 bytes that equal those on disk
    sectors_matching: usize,
    /// `safe`, `unproven`, `loses_changes`, `unusable`
    outcome: Outcome,
    /// The proof, step by step: see `page.candidates[].evidence[]`
    evidence: Vec<EvidenceJson>,
    /// Ends of the records whose changes would be lost
    lost_lsns: Vec<LsnText>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page.candidates.evidence")]
struct EvidenceJson {
    /// `proof`, `note`, `missing`, `loses`, `against`
    weight: EvidenceWeight,
    /// The statement as a code
    code: StatementCode,
    /// The statement
    text: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page.chosen")]
struct ChosenJson {
    /// Index in `candidates`
    candidate: usize,
    /// As there
    source: SourceWord,
    file: Option<String>,
    slot_index: Option<u64>,
    slot_id: Option<u32>,
    lsn: Option<LsnText>,
    donor: Option<String>,
    redo_lsn: Option<LsnText>,
    page_lsn: LsnText,
    base: Option<BuiltOn>,
    base_lsn: Option<LsnText>,
    records: Option<u64>,
    server: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page.on_start")]
struct OnStartJson {
    /// `harmless`, `read`, `unnoticed`, `passed_over`, `dies`, `taken_for_empty`, `overwritten` (by an image of the server's own buffer, before replay), `later`, `unknown`
    what: OnStartWhat,
    /// The first record that reads it
    lsn: Option<LsnText>,
    /// The record that the server dies of
    record: Option<String>,
    /// Of `dies`: whether a later record removes the page
    removed: Option<bool>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct EventJson {
    #[serde(flatten)]
    page: PageIdJson,
    /// Start and end of the record
    lsn: LsnText,
    end_lsn: LsnText,
    /// Resource manager and type, as `pg_waldump` prints them
    record: String,
    /// Transaction
    xid: u32,
    /// Effect on the page, in words and as a code: `image`, `init`, `change`, `hint`, `map_bits`
    effect: String,
    effect_code: Touch,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ComparisonJson {
    #[serde(flatten)]
    page: PlacedPageJson,
    /// How the page compares with its newest image
    disk: Option<ComparisonCode>,
    /// See `comparison.candidates[]`
    candidates: Vec<ComparedJson>,
    /// `leave`
    verdict: VerdictCode,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "comparison.candidates")]
struct ComparedJson {
    /// `dwb`
    source: SourceWord,
    /// The slot
    file: String,
    slot_index: u64,
    slot_id: u32,
    page_lsn: LsnText,
    /// How the page compares with it: a word as in `disk`
    comparison: Option<ComparisonCode>,
}

impl PageJson {
    /// A damaged page, or one that was checked on request.
    pub(crate) fn new(report: &PageReport, location: &PageLocation<'_>) -> Self {
        let verdict = &report.verdict;
        let candidates: Vec<CandidateJson> = verdict.candidates.iter().map(CandidateJson::from).collect();
        let chosen = verdict.chosen.and_then(|at| Some(ChosenJson::new(at, candidates.get(at)?.clone())));
        Self {
            page: PlacedPageJson::new(report.page, location),
            disk: report.disk.name().into(),
            strength: report.strength.name().into(),
            damage: report.damage.iter().map(ToString::to_string).collect(),
            damage_codes: report.damage.iter().map(|symptom| symptom.code().into()).collect(),
            disk_lsn: report.disk_lsn.map(LsnText::from),
            tear: report.tear.as_ref().map(|map| TearJson::new(map, verdict.candidates.len())),
            candidates,
            verdict: verdict.verdict.name().into(),
            chosen,
            reasons: verdict.reasons.iter().map(ToString::to_string).collect(),
            reason_codes: verdict.reasons.iter().map(|reason| reason.code().into()).collect(),
            on_start: OnStartJson::from(report),
            rebuildable: report.rebuild.as_ref().map(RebuildableJson::from),
            build_failure: report.build_failure.as_ref().map(|failure| failure.code().into()),
            stand_in: report.stand_in.as_ref().map(|page| hex(&page.header)),
            unlogged: report.is_unlogged,
            donor_gaps: report.donor_gaps.iter().map(DonorGapJson::from).collect(),
        }
    }
}

impl From<&Result<RebuildPlan, NotRebuildable>> for RebuildableJson {
    fn from(rebuild: &Result<RebuildPlan, NotRebuildable>) -> Self {
        let (plan, why) = (rebuild.as_ref().ok(), rebuild.as_ref().err());
        let segments = why.and_then(NotRebuildable::segments);
        Self {
            possible: plan.is_some(),
            code: why.map(|why| why.code().into()),
            text: rebuild.as_ref().map_or_else(ToString::to_string, ToString::to_string),
            base: plan.map(|plan| plan.base.name().into()),
            base_lsn: plan.map(|plan| plan.base.lsn().into()),
            records: plan.map(|plan| plan.records),
            first_lsn: plan.and_then(|plan| plan.first_lsn).map(LsnText::from),
            last_lsn: plan.and_then(|plan| plan.last_lsn).map(LsnText::from),
            page_lsn: plan.and_then(RebuildPlan::expected_lsn).map(LsnText::from),
            as_of: plan.map(|plan| plan.until.into()),
            missing_segments: segments.map(|segments| segments.names.clone()).unwrap_or_default(),
            missing_more: segments.map_or(0, |segments| segments.more),
        }
    }
}

/// Version that a sector equals: a candidate, or `zero`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum SectorSource {
    Candidate(usize),
    Zero(Zero),
}

impl TearJson {
    fn new(map: &TearMap, candidates: usize) -> Self {
        let source =
            |at: &usize| if *at < candidates { SectorSource::Candidate(*at) } else { SectorSource::Zero(Zero("zero")) };
        Self {
            direction: map.direction.name().into(),
            break_at: map.break_at(),
            break_min: map.boundary.start,
            break_max: map.boundary.end,
            newer: map.newer.as_ref().map(source),
            older: map.older.as_ref().map(source),
            sectors: map.sources.iter().map(|list| list.iter().map(source).collect()).collect(),
        }
    }
}

/// Where the sectors of a torn page come from. `label`: of an image by its index.
pub(super) fn tear_value(map: &TearMap, label: impl Fn(&usize) -> Value) -> Value {
    let sectors: Vec<Vec<Value>> = map.sources.iter().map(|list| list.iter().map(&label).collect()).collect();
    json!({
        "direction": map.direction.name(),
        "break_at": map.break_at(),
        "break_min": map.boundary.start,
        "break_max": map.boundary.end,
        "newer": map.newer.as_ref().map(&label),
        "older": map.older.as_ref().map(&label),
        "sectors": sectors,
    })
}

impl From<&Judged> for CandidateJson {
    fn from(judged: &Judged) -> Self {
        let candidate = &judged.candidate;
        let row = Self {
            source: candidate.source.name().into(),
            page_lsn: candidate.page_lsn.into(),
            sectors_matching: candidate.sectors_matching,
            outcome: outcome_name(judged.outcome).into(),
            evidence: judged.steps.iter().map(EvidenceJson::from).collect(),
            lost_lsns: judged.lost.iter().map(LsnText::from).collect(),
            file: None,
            slot_index: None,
            slot_id: None,
            slot_lsn: None,
            batch: None,
            written_by: None,
            knowledge: None,
            lsn: None,
            donor: None,
            donor_kind: None,
            redo_lsn: None,
            base: None,
            base_lsn: None,
            records: None,
            first_lsn: None,
            last_lsn: None,
            as_of: None,
            server: None,
        };
        match &candidate.source {
            ImageSource::Dwb { file, slot_index, slot_id, slot_lsn, batch, path, knowledge, .. } => Self {
                file: Some(file.clone()),
                slot_index: Some(*slot_index),
                slot_id: Some(*slot_id),
                slot_lsn: Some(slot_lsn.into()),
                batch: batch.map(|(verdict, _)| verdict.name().into()),
                written_by: path.map(|path| path.name().into()),
                knowledge: Some(knowledge.code().into()),
                ..row
            },
            ImageSource::Wal { record_lsn } => Self { lsn: Some(record_lsn.into()), ..row },
            ImageSource::Donor { path, kind, redo_lsn, .. } => Self {
                donor: Some(path.clone()),
                donor_kind: Some(kind.code().into()),
                redo_lsn: Some(redo_lsn.into()),
                ..row
            },
            ImageSource::Rebuilt(rebuilt) => Self {
                base: Some(rebuilt.base.name().into()),
                base_lsn: Some(rebuilt.base.lsn().into()),
                records: Some(rebuilt.records),
                first_lsn: rebuilt.first_lsn.map(LsnText::from),
                last_lsn: rebuilt.last_lsn.map(LsnText::from),
                as_of: Some(rebuilt.until.into()),
                server: Some(rebuilt.server.clone()),
                ..row
            },
        }
    }
}

impl ChosenJson {
    fn new(candidate: usize, of: CandidateJson) -> Self {
        let CandidateJson {
            source,
            file,
            slot_index,
            slot_id,
            lsn,
            donor,
            redo_lsn,
            page_lsn,
            base,
            base_lsn,
            records,
            server,
            ..
        } = of;
        Self {
            candidate,
            source,
            file,
            slot_index,
            slot_id,
            lsn,
            donor,
            redo_lsn,
            page_lsn,
            base,
            base_lsn,
            records,
            server,
        }
    }
}

impl From<&EvidenceStep> for EvidenceJson {
    fn from(step: &EvidenceStep) -> Self {
        let statement = &step.statement;
        Self { weight: step.weight.name().into(), code: statement.code().into(), text: statement.to_string() }
    }
}

pub(crate) const fn outcome_name(outcome: CandidateOutcome) -> &'static str {
    match outcome {
        CandidateOutcome::Safe => "safe",
        CandidateOutcome::Unproven => "unproven",
        CandidateOutcome::LosesChanges => "loses_changes",
        CandidateOutcome::Unusable => "unusable",
    }
}

impl From<&PageOfNoDonor> for DonorGapJson {
    fn from(donor: &PageOfNoDonor) -> Self {
        Self { donor: donor.path.clone(), code: donor.gap.code().into(), text: donor.gap.to_string() }
    }
}

pub(super) fn hex(bytes: &[u8]) -> HexBytes {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

impl From<&PageReport> for OnStartJson {
    fn from(report: &PageReport) -> Self {
        let (what, lsn, record, removed) = match &report.verdict.on_start {
            _ if report.is_overwritten => ("overwritten", None, None, None),
            OnStart::Harmless => ("harmless", None, None, None),
            OnStart::Read { lsn } => ("read", Some(lsn), None, None),
            OnStart::Unnoticed { lsn } => ("unnoticed", Some(lsn), None, None),
            OnStart::PassedOver { lsn } => ("passed_over", Some(lsn), None, None),
            OnStart::Dies { lsn, record, is_removed } => ("dies", Some(lsn), Some(record.clone()), Some(*is_removed)),
            OnStart::TakenForEmpty => ("taken_for_empty", None, None, None),
            OnStart::Later => ("later", None, None, None),
            OnStart::Unknown => ("unknown", None, None, None),
        };
        Self { what: what.into(), lsn: lsn.map(LsnText::from), record, removed }
    }
}

impl EventJson {
    pub(crate) fn new(page: PageId, event: &BlockEvent, major: Option<Major>) -> Self {
        Self {
            page: page.into(),
            lsn: event.start_lsn.into(),
            end_lsn: event.end_lsn.into(),
            record: event.name(major),
            xid: event.xid,
            effect: touch_words(&event.touch).to_owned(),
            effect_code: event.touch.code().into(),
        }
    }
}

impl ComparisonJson {
    /// A page in order, with the slots that hold it.
    pub(crate) fn new(
        page: PageId,
        slots: &[SlotRef],
        file_name: &dyn Fn(usize) -> String,
        location: &PageLocation<'_>,
    ) -> Self {
        let word = |slot: &SlotRef| slot.comparison.map(|word| word.name().into());
        let compared = |slot: &SlotRef| ComparedJson {
            source: "dwb".into(),
            file: file_name(slot.file),
            slot_index: slot.index,
            slot_id: slot.slot_id,
            page_lsn: slot.page_lsn.into(),
            comparison: word(slot),
        };
        Self {
            page: PlacedPageJson::new(page, location),
            disk: slots.last().and_then(word),
            candidates: slots.iter().map(compared).collect(),
            verdict: "leave".into(),
        }
    }
}
