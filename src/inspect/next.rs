//! Next steps for a judged cluster, with its damaged relations according to the catalogs.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::examination::Examination;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::missing_wal::{MissingSegments, WalNames};
use crate::analysis::start::replay::{Recovery, Replay, run_of};
use crate::analysis::verdict::next_step::{ArchivedSegment, NamedRelation, NextStep, Owner, Setting, next_steps};
use crate::analysis::verdict::outlook::Outlook;
use crate::analysis::verdict::survey::PageReport;
#[cfg(feature = "tables")]
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::{RelationName, RelationNames};
use crate::cluster::server_files;
use crate::cluster::wal::{WalSegmentFile, WalSet};
use crate::inspect::verify::rules::DAMAGED_PAGES;
#[cfg(feature = "tables")]
use crate::output::check_document::CheckText;
use crate::output::closing::Closing;
use crate::output::documents::JudgedCluster;
use crate::output::next_step_text::StepContext;
use crate::output::sql::quoted_name;
use crate::parsers::catalog::{FIRST_NORMAL_OID, RelKind};
use crate::parsers::control::ControlFile;
use crate::parsers::page_kind::access_method_name;
use crate::parsers::wal::timeline::WalSegment;
use crate::repair::blocker::Overrides;
use crate::report::{Finding, OtherProblems, Part, Severity, rules};
use crate::types::{Lsn, Oid, RelFileLocator};

/// Steps for all damaged pages of the cluster.
pub(crate) fn steps_of(examined: &Examination) -> Vec<NextStep> {
    steps_for(examined, &examined.report.pages, &examined.report.outlook)
}

/// Steps for these pages, given `outlook`.
pub(crate) fn steps_for(examined: &Examination, pages: &[PageReport], outlook: &Outlook) -> Vec<NextStep> {
    let replay = &examined.report.replay;
    let setting = Setting {
        archived: archived_segments(examined, replay),
        missing_begin: missing_begin(examined, replay),
        missing_end: missing_end(examined, replay),
        has_archive: examined.wal.has_archive,
        denied_files: denied_files(examined),
        other_owner: other_owner(examined),
        past_pages: past_pages(examined, replay),
        last_checkpoint: examined.last_checkpoint.clone().map(Box::new),
        is_shut_down: is_shut_down(examined),
        lacks_files: examined.findings.iter().any(|finding| finding.rule.part == Part::ServerFiles),
        has_problems: other_problems(examined) != OtherProblems::default(),
        // A base backup whose WAL is complete can be started; no image of it is trusted, that is all.
        is_doubtful: replay.doubts.iter().any(|doubt| !matches!(doubt, Doubt::BaseBackup))
            || !examined.coverage.skipped.is_empty(),
        is_standby: matches!(
            examined.state,
            ClusterCondition::StandbyShutDown { .. } | ClusterCondition::InArchiveRecovery { .. }
        ) || examined.blockers.iter().any(|blocker| blocker.kind == "recovery_signal"),
    };
    let by_oid = OnceCell::new();
    next_steps(pages, outlook, replay, setting, &|rel| subject(&examined.names, &by_oid, rel))
}

/// Problems that are not about damaged pages.
pub(crate) fn other_problems(examined: &Examination) -> OtherProblems {
    let is_other = |finding: &&Finding| finding.severity == Severity::Problem && !finding.is(&DAMAGED_PAGES);
    let is_of_data =
        |finding: &&Finding| !matches!(finding.rule.part, Part::Wal | Part::DoubleWriteBuffer | Part::Ring);
    let all = examined.findings.iter().filter(is_other);
    let of_data = all.clone().filter(is_of_data).count();
    OtherProblems { of_data, others: all.count().saturating_sub(of_data) }
}

/// Kind and owner of each damaged relation, by the catalogs.
pub(crate) fn damaged_relations(examined: &Examination) -> BTreeMap<RelFileLocator, NamedRelation> {
    let by_oid = OnceCell::new();
    let of = |report: &PageReport| (report.page.rel, subject(&examined.names, &by_oid, report.page.rel));
    let mut found = BTreeMap::new();
    for one in examined.report.pages.chunk_by(|one, other| one.page.rel == other.page.rel) {
        found.extend(one.first().map(of));
    }
    found
}

/// Segments from the redo point on that were found elsewhere and not in `pg_wal`.
fn archived_segments(examined: &Examination, replay: &Replay) -> Vec<ArchivedSegment> {
    let wal = &examined.wal;
    let (Some(all), Some(redo_lsn)) = (&wal.all, replay.redo_lsn) else { return Vec::new() };
    let pg_wal = examined.source.directory.as_ref().map(|directory| directory.root().join("pg_wal"));
    let own: &[WalSegmentFile] = wal.own.as_ref().map_or(&[], WalSet::segments);
    let size = all.geometry().wal_segment_size;
    let run = run_of(all, redo_lsn).unwrap_or_default();
    let needed = |file: &&WalSegmentFile| file.start_lsn.advanced_by(u64::from(size)) > redo_lsn;
    let is_own = |file: &WalSegmentFile| own.iter().any(|one| one.label == file.label);
    let is_cut = |file: &WalSegmentFile| file.partial || file.size_bytes.is_some_and(|bytes| bytes < u64::from(size));
    let archived = |file: &WalSegmentFile| {
        let name = file.segment.file_name(size)?;
        // A file that is there is never to be overwritten, whatever it holds.
        let is_there = pg_wal.as_ref().is_none_or(|pg_wal| pg_wal.join(&name).symlink_metadata().is_ok());
        let path =
            file.plain_path(size).filter(|path| !is_there && path.file_name().is_some_and(|last| *last == *name));
        Some(ArchivedSegment { path: path.map(Path::to_owned), name })
    };
    all.segments()[run]
        .iter()
        .filter(needed)
        .filter(|file| !is_own(file) && !is_cut(file))
        .filter_map(archived)
        .collect()
}

/// Segments from the redo point to the last checkpoint record that are neither in `pg_wal` nor elsewhere.
fn missing_begin(examined: &Examination, replay: &Replay) -> MissingSegments {
    let control = examined.source.directory.as_ref().and_then(|directory| directory.control().trusted());
    let (Some(control), Some(redo_lsn)) = (control, replay.redo_lsn) else { return MissingSegments::default() };
    // The first byte of the record says which segment is needed.
    let end = Lsn(redo_lsn.max(control.checkpoint_lsn).0.saturating_add(1));
    let wal = &examined.wal;
    let names = wal.most().map(WalNames::of);
    names.unwrap_or_else(|| WalNames::without_files(control.geometry, control.timeline())).missing(redo_lsn, end)
}

/// Segments after the end of WAL that were written, and that are neither in `pg_wal` nor elsewhere.
fn missing_end(examined: &Examination, replay: &Replay) -> MissingSegments {
    let wal = &examined.wal;
    let written = replay.doubts.iter().filter_map(Doubt::written_until).max();
    let (Some(set), Some((end, written))) = (wal.most(), replay.end_lsn.zip(written)) else {
        return MissingSegments::default();
    };
    WalNames::of(set).missing(end, written)
}

/// The segment after the one that the newest page points into, where that page is newer than all WAL.
fn past_pages(examined: &Examination, replay: &Replay) -> Option<String> {
    let control = examined.source.directory.as_ref().and_then(|directory| directory.control().trusted())?;
    // Of some pages alone the newest is not known.
    let newest = examined.newest_page.filter(|_| examined.scanned.is_some())?;
    let size = control.geometry.wal_segment_size;
    let last = WalSegment::holding(control.timeline(), newest, size)?;
    let next = WalSegment { number: last.number.checked_add(1)?, ..last };
    (newest > replay.end_lsn?).then(|| next.file_name(size)).flatten()
}

/// True after a clean shutdown that no page is newer than, where nothing asks for more WAL.
fn is_shut_down(examined: &Examination) -> bool {
    let control = examined.source.directory.as_ref().and_then(|directory| directory.control().trusted());
    control.is_some_and(ControlFile::was_shut_down)
        && examined.state == ClusterCondition::ShutDown
        && examined.scanned.is_some()
        && examined.report.replay.doubts.iter().all(is_of_lost_wal)
        && examined.report.pages.is_empty()
        && examined.coverage.skipped.iter().all(|skipped| skipped.what == SkippedPart::PgWal)
}

/// True for a doubt that says no more than that WAL of the checkpoint is gone.
const fn is_of_lost_wal(doubt: &Doubt) -> bool {
    matches!(
        doubt,
        Doubt::NoWal
            | Doubt::NoWalAtRedo { .. }
            | Doubt::NoRecordAtRedo { .. }
            | Doubt::EndsBeforeCheckpoint { .. }
            | Doubt::SomethingUnread { .. }
    )
}

/// Files of the cluster that the system does not let this user open.
fn denied_files(examined: &Examination) -> usize {
    let in_coverage = examined.coverage.skipped.iter().filter_map(|skipped| skipped.reason.denied_file());
    let in_wal = examined.wal.denied.iter().map(|denied| denied.path.as_path());
    in_coverage.chain(in_wal).collect::<BTreeSet<&Path>>().len()
}

/// The owner of the data directory, if that is another user.
fn other_owner(examined: &Examination) -> Option<String> {
    let root = examined.source.directory.as_ref()?.root();
    let uid = root.metadata().ok()?.uid();
    (uid != rustix::process::geteuid().as_raw()).then(|| server_files::sudo_name(uid))
}

/// Context for the words of steps.
pub fn step_context<'a>(examined: &'a Examination, data_dir: &'a str) -> StepContext<'a> {
    let Examination { evidence, blockers, links, block_size, .. } = examined;
    let links = links.as_deref();
    StepContext { data_dir, evidence, block_size: *block_size, blockers, links, allowed: Overrides::default() }
}

/// The cluster as documents need it. `data_dir`: as it was named.
pub(crate) fn judged_cluster<'a>(
    examined: &'a Examination,
    program: &'static str,
    data_dir: &'a str,
) -> JudgedCluster<'a> {
    JudgedCluster {
        program,
        report: &examined.report,
        paths: &examined.paths,
        names: &examined.names,
        dwb: &examined.source.set,
        unproven_pages: examined.unproven_pages(),
        problems: other_problems(examined),
        proof: examined.proof.as_ref(),
        context: step_context(examined, data_dir),
    }
}

/// Everything that `check` prints as text.
#[cfg(feature = "tables")]
pub fn check_text<'a>(examined: &'a Examination, program: &'static str, data_dir: &'a str) -> CheckText<'a> {
    CheckText {
        cluster: judged_cluster(examined, program, data_dir),
        state: &examined.state,
        control: examined.source.directory.as_ref().and_then(|directory| directory.control().trusted()),
        major: examined.source.directory.as_ref().map(DataDir::major),
        scanned: examined.scanned.as_ref(),
    }
}

/// End of the text of `check`, in which each damaged page has its own row.
pub fn closing_of_text(examined: &Examination) -> Closing {
    let others = examined.findings.iter().filter(|finding| !finding.is(&DAMAGED_PAGES));
    Closing::new(others.cloned().collect(), &examined.coverage).answering(examined.answer())
}

/// Files by database and OID of their relation.
type ByOid = HashMap<(Oid, Oid), RelFileLocator>;

fn subject(names: &RelationNames, by_oid: &OnceCell<ByOid>, rel: RelFileLocator) -> NamedRelation {
    let Some(name) = names.get(rel) else {
        let database = names.database(rel.db_oid).map(str::to_owned);
        let called = rel.to_string();
        return NamedRelation { owner: Owner::Unknown, name: called, database, sql_name: None, is_catalog: false };
    };
    let owner = || {
        let index = by_oid
            .get_or_init(|| names.iter().filter_map(|(rel, name)| Some(((rel.db_oid, name.oid?), rel))).collect());
        names.full_name(*index.get(&(rel.db_oid, name.owner_oid?))?)
    };
    NamedRelation {
        owner: match name.kind {
            Some(RelKind::TABLE) => Owner::Table,
            Some(RelKind::TOAST) => Owner::Toast { table: owner() },
            Some(RelKind::MATERIALIZED_VIEW) => Owner::MaterializedView,
            Some(RelKind::SEQUENCE) => Owner::Sequence,
            Some(RelKind::INDEX) => {
                Owner::Index { method: name.access_method_oid.and_then(access_method_name), table: owner() }
            }
            _ => Owner::Unknown,
        },
        name: names.called(rel),
        database: names.database(rel.db_oid).map(str::to_owned),
        sql_name: name.schema.as_ref().map(|schema| format!("{}.{}", quoted_name(schema), quoted_name(&name.relation))),
        is_catalog: is_catalog(name),
    }
}

/// Made by `initdb` in the schemas of the system: the server cannot do without it.
fn is_catalog(name: &RelationName) -> bool {
    matches!(name.schema.as_deref(), Some("pg_catalog" | "pg_toast"))
        && name.oid.is_some_and(|oid| oid < FIRST_NORMAL_OID)
}

/// With full-page images in WAL the crash itself cannot have torn what replay does not repair.
pub(crate) fn not_a_crash_tear(
    control: &ControlFile,
    replay: &Replay,
    pages: &[PageReport],
    dwb: bool,
) -> Option<Finding> {
    let is_sure = replay.recovery == Recovery::Crash && replay.can_begin && replay.doubts.is_empty();
    if !is_sure || dwb || control.checkpoint.full_page_writes == 0 {
        return None;
    }
    let is_other = |page: &&PageReport| page.is_wrong && !page.verdict.verdict.needs_nothing();
    let count = pages.iter().filter(is_other).count();
    (count > 0).then(|| NOT_A_CRASH_TEAR.note(format!("damaged pages that the crash did not tear: {count}")))
}

rules! {
    NOT_A_CRASH_TEAR: Pages "not_a_crash_tear",
        why: "the crash did not tear these pages: with full_page_writes on, recovery rewrites every page that was \
            being written. Suspect storage, memory or a bad copy; other pages may be affected",
        means: "Damaged pages that the crash did not tear",
        action: "Check storage and memory";
}
