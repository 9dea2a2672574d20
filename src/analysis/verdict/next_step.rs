//! Next steps as facts: which pages, of which relation, at which risk. The words are in `output/next_step_text.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use strum::{IntoStaticStr, VariantNames};

use super::facts::Badge;
use super::judge::Verdict;
use super::outlook::{Outlook, Start};
use super::rebuild::NotRebuildable;
use super::step_risk::Risk;
use super::survey::PageReport;
use crate::analysis::changes::needed::OnStart;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::missing_wal::MissingSegments;
use crate::analysis::start::replay::{Recovery, Replay};
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::parsers::wal::version::UnknownMagic;
use crate::types::{BlockNumber, ForkNumber, PageId, RelFileLocator};

/// Owner of a page according to the catalogs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A table.
    Table,
    /// Values of a table that are too long for its rows.
    Toast {
        /// The table, by its full name.
        table: Option<String>,
    },
    /// A materialized view.
    MaterializedView,
    /// A sequence.
    Sequence,
    /// An index.
    Index {
        /// Its access method, where it is one of the server's own.
        method: Option<&'static str>,
        /// The table that it is of, by its full name.
        table: Option<String>,
    },
    /// The catalogs that could be read do not say.
    Unknown,
}

/// A relation in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRelation {
    /// Its owner.
    pub owner: Owner,
    /// Full name, or numbers.
    pub name: String,
    /// Database to connect to; `None` for shared relations, and where it is not known.
    pub database: Option<String>,
    /// Schema and name, as SQL takes them; `None` where they are not known.
    pub sql_name: Option<String>,
    /// Made by `initdb`, or the TOAST table or an index of such a one.
    pub is_catalog: bool,
}

/// Damaged pages of one relation, and their fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// The relation.
    pub subject: NamedRelation,
    /// First and last block of each run, ascending.
    pub blocks: Vec<(BlockNumber, BlockNumber)>,
    /// Replay stops at one of them.
    pub stops_start: bool,
}

/// Relations that are made from others again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
pub enum Rebuilt {
    /// Indexes of system catalogs, which the server needs to answer at all.
    #[strum(serialize = "reindex_system")]
    SystemIndexes,
    /// Other indexes.
    #[strum(serialize = "reindex")]
    Indexes,
    /// Materialized views.
    #[strum(serialize = "refresh_materialized_view")]
    MaterializedViews,
}

/// Relations whose content stands nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
pub enum Lost {
    /// System catalogs.
    #[strum(serialize = "salvage_catalog")]
    Catalogs,
    /// Tables.
    #[strum(serialize = "salvage_table")]
    Tables,
    /// TOAST tables.
    #[strum(serialize = "salvage_toast")]
    Toast,
    /// Sequences.
    #[strum(serialize = "reset_sequence")]
    Sequences,
    /// The catalogs do not say.
    #[strum(serialize = "salvage_unknown")]
    Unknown,
}

/// A file that this program cannot read, for its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownVersion {
    /// `pg_control`.
    Control {
        /// Its version.
        version: u32,
        /// Its CRC is right: the file is as it was written.
        is_signed: bool,
    },
    /// WAL that replay needs.
    Wal {
        /// Magic of its pages.
        magic: UnknownMagic,
    },
}

/// A step. Variants are in the order of the steps.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NextStep {
    /// A server may be running.
    StopServer,
    /// The number in `postmaster.pid` is that of a living process, over which a server does not start.
    LookAtProcess {
        /// The process.
        pid: i32,
    },
    /// Files or directories of the server that are missing or damaged must be restored.
    BringFiles,
    /// No page has to be repaired, and problems are listed.
    LookAtProblems,
    /// `pg_control` or `backup_label` must be restored.
    BringControl {
        /// It is intact but older than the WAL in `pg_wal`, which startup would skip.
        is_outdated: bool,
    },
    /// `pg_control` is gone for good: the last checkpoint in `pg_wal` says what a new one begins with.
    ResetByWal {
        /// The checkpoint.
        last: Box<LastCheckpoint>,
    },
    /// A file is there, in a version that is newer than this program.
    UseNewerRelease {
        /// The version.
        unknown: UnknownVersion,
    },
    /// `pg_control` was written by a machine with the other byte order, so no server of this one can start.
    UseSameByteOrder,
    /// WAL that replay needs is missing or cannot be read.
    BringWal {
        /// Segments that were found elsewhere, in order. Whether more were written after them is not known.
        archived: Vec<ArchivedSegment>,
        /// WAL was looked for elsewhere.
        was_sought: bool,
        /// Segments that neither `pg_wal` nor another source has.
        missing: MissingSegments,
    },
    /// WAL had been written past the end that replay will find, or may have been.
    BringRestOfWal {
        /// As in [`Self::BringWal`].
        archived: Vec<ArchivedSegment>,
        /// Segments that are nowhere, as far as it is known that they were written.
        missing: MissingSegments,
    },
    /// Pages are newer than all WAL, whose rest is nowhere: startup continues below their LSNs.
    ResetPastPages {
        /// The first segment that lies past every page.
        next_file: String,
    },
    /// WAL that a base backup needs to become consistent is missing.
    CompleteBackup,
    /// A standby, or an interrupted recovery from an archive: copying it again is safer than a repair.
    CopyPrimary,
    /// Empty pages that recovery expects.
    MakeStandIns {
        /// How many.
        pages: usize,
    },
    /// Proven images.
    Repair {
        /// Pages.
        pages: usize,
        /// Startup is certain to repair all of them as well.
        is_precaution: bool,
    },
    /// Pages that can be built by replay from older copies of them.
    RebuildPages {
        /// Pages.
        pages: usize,
    },
    /// Pages that could be built, but no replay took place.
    RebuildAgain {
        /// Pages.
        pages: usize,
    },
    /// Segments of WAL without which pages cannot be built.
    LookForSegments {
        /// Pages.
        pages: usize,
        /// The segments.
        segments: MissingSegments,
    },
    /// Images that are not proven.
    Decide {
        /// The pages.
        pages: Vec<PageId>,
    },
    /// Pages that can be built by replay, though a doubt stays.
    RebuildDoubtful {
        /// The pages.
        pages: Vec<PageId>,
    },
    /// WAL is gone that a server needs after a clean shutdown, and with it no change.
    ResetAfterShutdown,
    /// Older WAL may hold an image.
    LookIntoArchive {
        /// Pages.
        pages: usize,
    },
    /// Pages keep the server from being started that nothing here repairs.
    GetPast {
        /// The relations.
        relations: Vec<String>,
    },
    /// The cluster must be copied: a later step cannot be undone, or recovery may stop midway.
    CopyFirst,
    /// Pages of these relations are needed by nothing else: they are made from others again.
    Rebuild {
        /// Their kind.
        kind: Rebuilt,
        /// The relations.
        relations: Vec<Affected>,
    },
    /// The content of these pages may be lost.
    Salvage {
        /// Their kind.
        kind: Lost,
        /// The relations.
        relations: Vec<Affected>,
    },
    /// Damaged pages of maps stop replay, which pages of zeros do not.
    BlankMapsOfReplay {
        /// How many.
        pages: usize,
    },
    /// Nothing here repairs what keeps the server from working.
    KeepStopped,
    /// Damaged map pages, which the server treats as empty.
    BlankMaps {
        /// How many.
        pages: usize,
        /// Pages have checksums: base backups fail at damaged ones.
        has_checksums: bool,
    },
    /// An earlier step changes the data directory: only another check says whether the server starts.
    CheckAgain,
    /// Files that the system does not let this user open hide the next steps.
    RunAsOwner {
        /// How many files.
        files: usize,
        /// The owner of the data directory, as `sudo -u` takes it; `None` if that is this user.
        owner: Option<String>,
    },
    /// Nothing was found on the pages that were examined: the others come next.
    CheckAll,
    /// Nothing was found.
    Start {
        /// Pages have checksums, or no page was being written when the server stopped.
        is_proven: bool,
        /// Something is uncertain or was not checked: the copy is started, not the original.
        in_copy: bool,
        /// Pages have checksums.
        has_checksums: bool,
    },
}

impl NextStep {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rebuild { kind, .. } => kind.into(),
            Self::Salvage { kind, .. } => kind.into(),
            other => other.into(),
        }
    }

    /// The codes of all steps that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let by_kind = ["rebuild", "salvage"];
        let own = Self::VARIANTS.iter().copied().filter(move |code| !by_kind.contains(code));
        own.chain(Rebuilt::VARIANTS.iter().copied()).chain(Lost::VARIANTS.iter().copied())
    }
}

/// A segment that replay needs, and that is elsewhere than in `pg_wal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedSegment {
    /// Its name in `pg_wal`.
    pub name: String,
    /// The file, if a copy of it is all that `pg_wal` needs: it is plain, whole and has that name.
    pub path: Option<PathBuf>,
}

/// Other facts that steps depend on.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Segments from the redo point on without a gap that were found elsewhere, and that `pg_wal` lacks.
    pub archived: Vec<ArchivedSegment>,
    /// Segments from the redo point to the last checkpoint record that are nowhere.
    pub missing_begin: MissingSegments,
    /// Segments after the end of WAL that were written and are nowhere.
    pub missing_end: MissingSegments,
    /// WAL was read from elsewhere too.
    pub has_archive: bool,
    /// Files that the system does not let this user open.
    pub denied_files: usize,
    /// The owner of the data directory, as `sudo -u` takes it; `None` if that is this user.
    pub other_owner: Option<String>,
    /// The first segment past every page, where pages are newer than all WAL.
    pub past_pages: Option<String>,
    /// The last checkpoint in `pg_wal`, where `pg_control` cannot be used.
    pub last_checkpoint: Option<Box<LastCheckpoint>>,
    /// The cluster was shut down cleanly, and no page is newer than that.
    pub is_shut_down: bool,
    /// Files of the server are missing or damaged, other than those with pages and WAL.
    pub lacks_files: bool,
    /// Problems are listed that are not about damaged pages.
    pub has_problems: bool,
    /// The cluster could not be read as a whole, or not for certain.
    pub is_doubtful: bool,
    /// It is a standby, or recovery from an archive was interrupted.
    pub is_standby: bool,
}

/// Next steps for a cluster. `subject` describes a relation.
pub fn next_steps(
    pages: &[PageReport],
    outlook: &Outlook,
    replay: &Replay,
    setting: Setting,
    subject: &dyn Fn(RelFileLocator) -> NamedRelation,
) -> Vec<NextStep> {
    match outlook.start {
        Start::Running => return vec![NextStep::StopServer],
        // Whatever is done about pages mixes files of different times.
        Start::NotUsable { obstacle: Obstacle::Belonging } => return vec![NextStep::KeepStopped],
        _ => {}
    }
    let count = |verdict: Verdict| pages.iter().filter(|page| page.verdict.verdict == verdict).count();
    let safe = count(Verdict::Restore).saturating_add(count(Verdict::Rebuild));
    let rebuildable = pages.iter().filter(|page| page.can_be_rebuilt()).count();
    let again = pages.iter().filter(|page| page.can_be_tried_again()).count();
    let is_unproven = |page: &&PageReport| {
        page.verdict.verdict == Verdict::RestoreUnproven
            && !page.can_be_rebuilt()
            && !page.can_be_tried_again()
            && !belongs_elsewhere(replay)
    };
    let unproven: Vec<PageId> = pages.iter().filter(is_unproven).map(|page| page.page).collect();
    let is_doubtful = |page: &&PageReport| page.can_be_rebuilt_unproven();
    let doubtful: Vec<PageId> = pages.iter().filter(is_doubtful).map(|page| page.page).collect();
    let stand_ins = pages.iter().filter(|page| page.stand_in.is_some()).count();
    let mut steps: Vec<NextStep> = outlook.refused_by.map(|pid| NextStep::LookAtProcess { pid }).into_iter().collect();
    let is_known = !matches!(outlook.start, Start::CannotBegin | Start::WalFromElsewhere | Start::Unknown);
    let is_other_machine = replay.doubts.contains(&Doubt::ControlOfOtherByteOrder);
    let unknown = unknown_versions(replay);
    steps.extend(unknown.into_iter().map(|unknown| NextStep::UseNewerRelease { unknown }));
    if is_other_machine {
        steps.push(NextStep::UseSameByteOrder);
    }
    // Of everything else a program that can read these files will tell more, and other things.
    if is_other_machine || matches!(outlook.start, Start::UnknownControl { .. } | Start::UnknownWal { .. }) {
        return steps;
    }
    // What those files hold decides about all the rest: an image, a record, the page itself.
    if setting.denied_files > 0 {
        steps.push(NextStep::RunAsOwner { files: setting.denied_files, owner: setting.other_owner });
        return steps;
    }
    match outlook.start {
        Start::CannotBegin if setting.is_shut_down && setting.archived.is_empty() => {
            let missing = setting.missing_begin;
            steps.push(NextStep::BringWal { archived: Vec::new(), was_sought: setting.has_archive, missing });
            steps.push(NextStep::ResetAfterShutdown);
        }
        Start::CannotBegin | Start::WalFromElsewhere => {
            let (archived, was_sought) = (setting.archived.clone(), setting.has_archive);
            steps.push(NextStep::BringWal { archived, was_sought, missing: setting.missing_begin });
        }
        Start::BackupIncomplete => steps.push(NextStep::CompleteBackup),
        _ if setting.lacks_files => steps.push(NextStep::BringFiles),
        Start::Unknown => {
            steps.push(NextStep::BringControl { is_outdated: false });
            steps.extend(setting.last_checkpoint.clone().map(|last| NextStep::ResetByWal { last }));
        }
        _ if replay.doubts.iter().any(|doubt| matches!(doubt, Doubt::WalAfterShutdown { .. })) => {
            steps.push(NextStep::BringControl { is_outdated: true });
        }
        _ => {}
    }
    let lacks_end = !replay.fetches_wal && replay.doubts.iter().any(Doubt::shows_missing_end);
    if lacks_end && !matches!(outlook.start, Start::CannotBegin | Start::BackupIncomplete) {
        let is_nowhere =
            setting.archived.is_empty() && matches!(outlook.start, Start::Completes | Start::MayStop { .. });
        steps.push(NextStep::BringRestOfWal { archived: setting.archived, missing: setting.missing_end });
        let next_file = setting.past_pages.filter(|_| is_nowhere);
        steps.extend(next_file.map(|next_file| NextStep::ResetPastPages { next_file }));
    }
    // What is missing decides about doubts, too.
    let comes_first = !steps.is_empty();
    let (blank, blank_in_replay) = blankable(pages, outlook);
    let is_precaution = outlook.badge() == Badge::WillStart && !comes_first && !setting.is_doubtful;
    let repaired = [stand_ins, safe, rebuildable, again, doubtful.len(), unproven.len()];
    if setting.is_standby && repaired.iter().any(|pages| *pages > 0) {
        steps.push(NextStep::CopyPrimary);
    }
    for (pages, step) in [
        (stand_ins, NextStep::MakeStandIns { pages: stand_ins }),
        (safe, NextStep::Repair { pages: safe, is_precaution }),
        (rebuildable, NextStep::RebuildPages { pages: rebuildable }),
        (again, NextStep::RebuildAgain { pages: again }),
        (if comes_first { 0 } else { doubtful.len() }, NextStep::RebuildDoubtful { pages: doubtful }),
        // While it is not known where replay begins or ends nothing can be decided.
        (if is_known { unproven.len() } else { 0 }, NextStep::Decide { pages: unproven }),
        (blank_in_replay, NextStep::BlankMapsOfReplay { pages: blank_in_replay }),
        (blank, NextStep::BlankMaps { pages: blank, has_checksums: outlook.given.checksums }),
    ] {
        if pages > 0 {
            steps.push(step);
        }
    }
    let (in_need, segments) = missing_segments(pages);
    if in_need > 0 {
        steps.push(NextStep::LookForSegments { pages: in_need, segments });
    }
    let affected = affected(pages, subject);
    let searched = affected.iter().filter(|one| fate(&one.subject).is_err()).map(pages_of).sum::<u64>();
    if searched > 0 && !setting.has_archive {
        steps.push(NextStep::LookIntoArchive { pages: usize::try_from(searched).unwrap_or(usize::MAX) });
    }
    // WAL and files that are copied have their own command.
    let is_unchecked = |step: &NextStep| step.changes_files() && !matches!(step, NextStep::BringFiles);
    if steps.iter().any(is_unchecked) {
        steps.push(NextStep::CheckAgain);
    }
    let in_the_way: Vec<String> =
        affected.iter().filter(|one| one.stops_start).map(|one| one.subject.name.clone()).collect();
    if !in_the_way.is_empty() {
        steps.push(NextStep::GetPast { relations: in_the_way });
    }
    let (mut rebuilt, mut lost): (BTreeMap<Rebuilt, Vec<Affected>>, BTreeMap<Lost, Vec<Affected>>) = Default::default();
    for one in affected {
        match fate(&one.subject) {
            Ok(kind) => rebuilt.entry(kind).or_default().push(one),
            Err(kind) => lost.entry(kind).or_default().push(one),
        }
    }
    steps.extend(lost.into_iter().map(|(kind, relations)| NextStep::Salvage { kind, relations }));
    steps.extend(rebuilt.into_iter().map(|(kind, relations)| NextStep::Rebuild { kind, relations }));
    let is_hopeless = matches!(outlook.start, Start::Stops { .. } | Start::InvalidPages { .. } | Start::Refused);
    if steps.is_empty() && is_hopeless {
        steps.push(NextStep::KeepStopped);
    } else if steps.is_empty() && outlook.start == Start::SomePagesOnly {
        steps.push(NextStep::CheckAll);
    } else if steps.is_empty() && setting.has_problems {
        steps.extend([NextStep::LookAtProblems, NextStep::CheckAgain]);
    } else if steps.is_empty() {
        let is_known = outlook.start != Start::NotAllRead;
        let is_proven = is_known && (outlook.given.checksums || replay.recovery == Recovery::None);
        let has_checksums = outlook.given.checksums;
        let in_copy = !is_known || setting.is_doubtful;
        steps.push(NextStep::Start { is_proven: is_proven && !in_copy, in_copy, has_checksums });
    }
    let needs_copy = steps.iter().any(|step| step.risk() >= Risk::Irreversible);
    if needs_copy || matches!(outlook.start, Start::MayStop { .. }) {
        steps.insert(0, NextStep::CopyFirst);
    }
    steps
}

/// Damaged map pages that may be zeroed: those that startup leaves alone, and those that recovery stops at.
fn blankable(pages: &[PageReport], outlook: &Outlook) -> (usize, usize) {
    // Those with a proven image are restored.
    let maps = outlook.maps.iter().filter_map(|index| pages.get(*index));
    let in_replay = pages.iter().filter(|page| page.keeps_replay_as_map() && page.can_be_blank());
    (maps.filter(|page| page.can_be_blank()).count(), in_replay.count())
}

/// The files are of several clusters or times: nothing may be built from them.
fn belongs_elsewhere(replay: &Replay) -> bool {
    replay.doubts.iter().any(|doubt| matches!(doubt, Doubt::NotOneCluster { .. }))
}

/// Pages that could be built if segments of WAL were there, and these segments.
fn missing_segments(pages: &[PageReport]) -> (usize, MissingSegments) {
    let mut all = MissingSegments::default();
    let mut count = 0_usize;
    for page in pages {
        if let Some(Err(NotRebuildable::MissingWal { segments, .. })) = &page.rebuild {
            count = count.saturating_add(1);
            all.add(segments);
        }
    }
    (count, all)
}

/// Existing files that this program cannot read.
fn unknown_versions(replay: &Replay) -> Vec<UnknownVersion> {
    let of = |doubt: &Doubt| match doubt {
        Doubt::ControlOfUnknownVersion { version, is_signed } => {
            Some(UnknownVersion::Control { version: *version, is_signed: *is_signed })
        }
        Doubt::WalOfUnknownVersion { magic, .. } => Some(UnknownVersion::Wal { magic: *magic }),
        _ => None,
    };
    replay.doubts.iter().filter_map(of).collect()
}

/// Whether a relation is made from others again, or what is lost with its pages.
const fn fate(subject: &NamedRelation) -> Result<Rebuilt, Lost> {
    match &subject.owner {
        Owner::Index { .. } if subject.is_catalog => Ok(Rebuilt::SystemIndexes),
        Owner::Index { .. } => Ok(Rebuilt::Indexes),
        Owner::MaterializedView => Ok(Rebuilt::MaterializedViews),
        Owner::Table | Owner::Toast { .. } if subject.is_catalog => Err(Lost::Catalogs),
        Owner::Table => Err(Lost::Tables),
        Owner::Toast { .. } => Err(Lost::Toast),
        Owner::Sequence => Err(Lost::Sequences),
        Owner::Unknown => Err(Lost::Unknown),
    }
}

pub(crate) fn pages_of(affected: &Affected) -> u64 {
    affected.blocks.iter().map(|(first, last)| u64::from(last.saturating_sub(*first)).saturating_add(1)).sum()
}

/// Pages without an image that can be put back, by relation.
fn affected(pages: &[PageReport], subject: &dyn Fn(RelFileLocator) -> NamedRelation) -> Vec<Affected> {
    let mut by_relation: BTreeMap<RelFileLocator, Vec<&PageReport>> = BTreeMap::new();
    for report in pages {
        let is_lost = matches!(report.verdict.verdict, Verdict::NoImage | Verdict::LosesChanges);
        let is_there = report.disk != Comparison::DroppedRelation;
        let has_hope = report.can_be_rebuilt() || report.can_be_tried_again() || report.can_be_rebuilt_unproven();
        if is_lost && is_there && !has_hope && report.stand_in.is_none() && has_content(report.page) {
            by_relation.entry(report.page.rel).or_default().push(report);
        }
    }
    by_relation
        .into_iter()
        .map(|(rel, reports)| Affected {
            subject: subject(rel),
            blocks: runs(reports.iter().map(|report| report.page.block)),
            stops_start: reports.iter().any(|report| matches!(report.verdict.on_start, OnStart::Read { .. })),
        })
        .collect()
}

/// The server recreates map pages.
const fn has_content(page: PageId) -> bool {
    matches!(page.fork, ForkNumber::Main | ForkNumber::Init)
}

/// First and last of each run of blocks.
pub(crate) fn runs(blocks: impl Iterator<Item = BlockNumber>) -> Vec<(BlockNumber, BlockNumber)> {
    let mut sorted: Vec<BlockNumber> = blocks.collect();
    sorted.sort_unstable();
    let mut runs: Vec<(BlockNumber, BlockNumber)> = Vec::new();
    for block in sorted {
        match runs.last_mut() {
            Some((_, last)) if block <= last.saturating_add(1) => *last = block,
            _ => runs.push((block, block)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_a_row_are_one_run() {
        assert_eq!(runs([7, 3, 4, 9, 8, 4].into_iter()), [(3, 4), (7, 9)]);
        assert_eq!(runs([].into_iter()), []);
        assert_eq!(runs([BlockNumber::MAX].into_iter()), [(BlockNumber::MAX, BlockNumber::MAX)]);
    }
}
