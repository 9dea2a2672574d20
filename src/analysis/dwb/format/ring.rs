//! The buffer with a control file (`pg_dwb`): which slots count, and what a server that starts does with them, as seen on a server that was
//! built from its published source.
//!
//! A server applies slots once, before it replays WAL: those of the latest run, unless it was shut down cleanly. Among several
//! for one page the highest LSN counts, then the later filling.

use std::collections::{BTreeMap, BTreeSet};

use super::ring_finding::{
    PageAction, RING_CONTROL_FAULT, RING_CONTROL_MISSING, RING_CONTROL_SHORT, RING_FURTHER_BATCH,
    RING_GENERATION_GUESSED, RING_LATER_GENERATION, RING_MISSING_BATCH, RING_OTHER_SIZE, RING_SLOTS_BEYOND_COUNT,
    RING_START, RING_START_WRITES, StartAction,
};
use super::{BatchPart, DwbFormat, HeldSlot, Horizon, RingFact, RingInput, RingJudgement, RingSummary, StartWrites};
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict, Confidence};
use crate::analysis::dwb::trace::{ClusterFacts, FileTrace, RunTrace, SlotClass};
use crate::analysis::skipped::Coverage;
use crate::analysis::start::doubt::Doubt;
use crate::cluster::dwb_files::{ControlPart, DwbFile};
use crate::cluster::page_source::PageSource;
use crate::parsers::dwb::DwbDirectory;
use crate::parsers::dwb::ring::{RingDirectory, batch_file_bytes, image_region, pages_of_size};
use crate::parsers::dwb::ring_control::{ControlFault, RingControl};
use crate::report::{Finding, Rule};
use crate::types::{Lsn, PageId};

const MAX_NAMED: usize = 2;

/// Batches whose writing a crash can interrupt: one for each staging buffer of the server.
const MAX_UNFINISHED: usize = 4;

#[derive(Debug)]
pub(crate) struct RingFormat;

impl DwbFormat for RingFormat {
    fn directory(&self) -> &'static dyn DwbDirectory {
        &RingDirectory
    }

    fn judge(&self, input: RingInput<'_>) -> Box<dyn RingJudgement> {
        Box::new(JudgedBatches::judge(input))
    }
}

/// Sort key of the slots of one page: LSN, number of the filling, file, index.
type ChoiceKey = (Lsn, u64, u32, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ControlState {
    NotAsked,
    Missing,
    Unreadable,
    Short(u64),
    Read(RingControl, Vec<ControlFault>),
}

impl ControlState {
    fn of(part: Option<&ControlPart>) -> Self {
        match part.map(|part| &part.content) {
            None => Self::NotAsked,
            Some(Err(_)) => Self::Unreadable,
            Some(Ok(None)) => Self::Missing,
            Some(Ok(Some((bytes, size)))) => match RingControl::decode(bytes) {
                Err(_) => Self::Short(*size),
                Ok(control) => {
                    let mut faults = control.faults();
                    if *size != RingControl::SIZE as u64 {
                        faults.push(ControlFault::Length { found: *size });
                    }
                    Self::Read(control, faults)
                }
            },
        }
    }

    /// The control file, where it says what a server wrote into it.
    fn whole(&self) -> Option<&RingControl> {
        match self {
            Self::Read(control, _) => Some(control).filter(|control| control.is_whole() && control.has_geometry()),
            _ => None,
        }
    }

    const fn code(&self) -> &'static str {
        match self {
            Self::NotAsked => "not_read",
            Self::Missing => "missing",
            Self::Unreadable => "unreadable",
            Self::Short(_) => "short",
            Self::Read(_, faults) => {
                if faults.is_empty() {
                    "good"
                } else {
                    "bad"
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
struct BatchFile {
    number: Option<u32>,
    size: u64,
    /// Slots that the header counts and its number, when the header is sound; 0 of a batch that was never written.
    filled: Option<(u32, u64)>,
    /// It belongs to the ring as the control file describes it.
    is_in_ring: bool,
    whole_slots: u64,
    trace: FileTrace,
}

#[derive(Debug)]
struct JudgedBatches {
    control: ControlState,
    files: Vec<BatchFile>,
    /// The generation that counts, and whether it is a guess.
    generation: Option<(u64, bool)>,
    /// Slots that count, by file and index: the one that the server chooses for each page.
    winners: BTreeMap<PageId, (usize, u64)>,
    chosen: BTreeSet<(usize, u64)>,
    candidates: u64,
    is_backup: bool,
    double_writes: StartAction,
    otherwise: StartAction,
}

impl JudgedBatches {
    fn judge(input: RingInput<'_>) -> Self {
        let control = ControlState::of(input.control);
        let whole = control.whole().cloned();
        let files: Vec<BatchFile> = input
            .files
            .iter()
            .zip(input.traces)
            .map(|(file, trace)| BatchFile::of(file, trace, whole.as_ref()))
            .collect();
        let highest = files.iter().flat_map(BatchFile::usable).map(|(_, run)| run.generation).max();
        let generation = match &whole {
            Some(control) => Some((control.generation, false)),
            None => highest.map(|generation| (generation, true)),
        };
        let is_backup = input.facts.control.is_some_and(|control| control.is_backup);
        let mut judged = Self {
            control,
            files,
            generation,
            winners: BTreeMap::new(),
            chosen: BTreeSet::new(),
            candidates: 0,
            is_backup,
            double_writes: StartAction::Unknown,
            otherwise: StartAction::Unknown,
        };
        judged.choose();
        (judged.double_writes, judged.otherwise) = judged.start(input.facts, input.is_unread);
        judged
    }

    /// Finds the slots that count, and of each page the one that is taken.
    fn choose(&mut self) {
        // A ring that was closed in order is never applied.
        if self.control.whole().is_some_and(RingControl::is_clean) {
            return;
        }
        let Some((generation, false)) = self.generation else { return };
        let mut best: BTreeMap<PageId, (ChoiceKey, (usize, u64))> = BTreeMap::new();
        for (at, file) in self.files.iter().enumerate().filter(|(_, file)| file.is_in_ring) {
            let (Some((counted, batch_id)), Some(number)) = (file.filled, file.number) else { continue };
            for (index, run) in
                file.usable().filter(|(index, run)| *index < u64::from(counted) && run.generation == generation)
            {
                let Some(page) = run.page else { continue };
                self.candidates = self.candidates.saturating_add(1);
                let key = (run.slot_lsn, batch_id, number, index);
                let known = best.entry(page).or_insert((key, (at, index)));
                if key >= known.0 {
                    *known = (key, (at, index));
                }
            }
        }
        self.chosen = best.values().map(|(_, slot)| *slot).collect();
        self.winners = best.into_iter().map(|(page, (_, slot))| (page, slot)).collect();
    }

    /// Effect of startup in mode `double_writes`, and in another.
    fn start(&self, facts: &ClusterFacts, is_unread: bool) -> (StartAction, StartAction) {
        use StartAction as S;
        if self.is_backup {
            return (S::Discards, S::Discards);
        }
        let (applied, otherwise) = match &self.control {
            ControlState::NotAsked | ControlState::Unreadable => (S::Unknown, S::Unknown),
            ControlState::Missing => (S::MakesAnew, S::Ignores),
            ControlState::Short(_) => (S::RefusesControl, S::RefusesControl),
            ControlState::Read(control, _) if !control.is_whole() || !control.is_readable() => {
                (S::RefusesControl, S::RefusesControl)
            }
            ControlState::Read(control, _) if control.is_clean() => (S::AppliesNothing, S::Ignores),
            ControlState::Read(control, _) if !control.has_geometry() => (S::Unknown, S::RefusesPending),
            ControlState::Read(control, _) => (self.apply_pass(control, is_unread), S::RefusesPending),
        };
        let double_writes = if facts.checksums_written == Some(false) { S::RefusesWithoutChecksums } else { applied };
        (double_writes, otherwise)
    }

    fn apply_pass(&self, control: &RingControl, is_unread: bool) -> StartAction {
        if is_unread {
            return StartAction::Unknown;
        }
        for number in 0..control.num_batches {
            let Some(file) = self.files.iter().find(|file| file.number == Some(number)) else {
                return StartAction::FailsAtMissing { number };
            };
            let is_cut = file.size < batch_file_bytes(control.batch_pages);
            let counted = file.filled.map_or(0, |(counted, _)| u64::from(counted));
            let has_metas = file.size >= image_region(control.batch_pages);
            if is_cut && (!has_metas || counted > file.whole_slots) {
                return StartAction::FailsAtShort { number };
            }
        }
        StartAction::Applies
    }

    fn reason(&self, file: usize, index: u64) -> Option<(BatchVerdict, BatchReason)> {
        use BatchVerdict::{Stale, Undecided};
        let own = self.files.get(file)?;
        let run = own.trace.runs.get(usize::try_from(index).ok()?)?;
        let of = |verdict, code, confidence| Some((verdict, BatchReason::OfFormat { code, confidence }));
        if self.is_backup {
            return Some((Undecided, BatchReason::Backup));
        }
        let Some((generation, is_guess)) = self.generation else {
            return of(Undecided, "no_generation_known", Confidence::Possible);
        };
        if is_guess {
            let code = if run.generation < generation { "below_guessed_generation" } else { "generation_guessed" };
            return of(Undecided, code, Confidence::Possible);
        }
        if !own.is_in_ring {
            return of(Stale, "outside_ring", Confidence::Possible);
        }
        if run.generation > generation {
            return of(Undecided, "later_generation", Confidence::Possible);
        }
        if run.generation < generation {
            return of(Stale, "earlier_generation", Confidence::Likely);
        }
        if self.control.whole().is_some_and(RingControl::is_clean) {
            return of(Stale, "ring_clean", Confidence::Likely);
        }
        let Some((counted, _)) = own.filled else {
            return of(Undecided, "batch_header_bad", Confidence::Possible);
        };
        if index >= u64::from(counted) {
            return of(Undecided, "beyond_count", Confidence::Possible);
        }
        if self.chosen.contains(&(file, index)) {
            // Nothing on disk distinguishes a page that may still be missing from one that reached its file long ago.
            return of(Undecided, "server_choice", Confidence::Possible);
        }
        of(Stale, "superseded", Confidence::Likely)
    }

    /// Missing part of one file: a note if a crash can have left it.
    fn of_cut(&self, rule: &'static Rule, what: String) -> Finding {
        if self.is_unfinished() { rule.note(what) } else { rule.problem(what) }
    }

    fn later_slots(&self) -> u64 {
        let Some((generation, false)) = self.generation else { return 0 };
        let later = self.files.iter().filter(|file| file.is_in_ring).flat_map(BatchFile::usable);
        u64::try_from(later.filter(|(_, run)| run.generation > generation).count()).unwrap_or(u64::MAX)
    }
}

impl BatchFile {
    fn of(file: &DwbFile, trace: FileTrace, control: Option<&RingControl>) -> Self {
        let detection = &file.detection;
        let header = detection.sound_header();
        let filled = header.map(|header| (header.slots_per_file, header.batch_id.unwrap_or_default()));
        let is_in_ring = control.is_none_or(|control| {
            let fits = file.size_bytes() <= batch_file_bytes(control.batch_pages);
            let is_other = pages_of_size(file.size_bytes()).is_some_and(|pages| pages > control.batch_pages);
            file.number.is_some_and(|number| number < control.num_batches) && (fits || !is_other)
        });
        let whole_slots = detection.slot_count;
        Self { number: file.number, size: file.size_bytes(), filled, is_in_ring, whole_slots, trace }
    }

    /// A write of it was interrupted: it is short, or its header or a slot that it counts does not verify.
    fn is_cut(&self, control: Option<&RingControl>) -> bool {
        let is_short = control.is_some_and(|control| self.size != batch_file_bytes(control.batch_pages));
        let counted = self.filled.map_or(0, |(counted, _)| u64::from(counted));
        let sound = self.usable().filter(|(index, _)| *index < counted).count() as u64;
        is_short || self.filled.is_none() || sound < counted || self.usable().any(|(index, _)| index >= counted)
    }

    fn usable(&self) -> impl Iterator<Item = (u64, &RunTrace)> {
        let slots = (0_u64..).zip(self.trace.slots.iter().zip(&self.trace.runs));
        slots.filter(|(_, (slot, _))| slot.class == SlotClass::Usable).map(|(index, (_, run))| (index, run))
    }
}

impl RingJudgement for JudgedBatches {
    fn verdict(&self, file: usize, index: u64) -> Option<(BatchVerdict, BatchReason)> {
        self.reason(file, index)
    }

    /// Slots of one server run in one file were written together, or in fillings of which the later has taken the front.
    fn split(&self) -> Vec<Vec<BatchPart>> {
        let mut numbers: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        for (file, own) in self.files.iter().enumerate() {
            for run in &own.trace.runs {
                let next = numbers.len();
                numbers.entry((file, run.generation)).or_insert(next);
            }
        }
        let part = |file: usize, generation: u64| BatchPart {
            number: numbers.get(&(file, generation)).copied().unwrap_or_default(),
            confidence: Confidence::Likely,
        };
        let of =
            |(file, own): (usize, &BatchFile)| own.trace.runs.iter().map(|run| part(file, run.generation)).collect();
        self.files.iter().enumerate().map(of).collect()
    }

    fn horizon(&self) -> Option<Horizon> {
        None
    }

    fn doubts(&self) -> Vec<Doubt> {
        (self.later_slots() > 0).then_some(Doubt::DwbNewerThanControl).into_iter().collect()
    }

    fn applies_first(&self) -> bool {
        self.double_writes == StartAction::Applies
    }

    fn is_unfinished(&self) -> bool {
        let is_cut = |file: &&BatchFile| file.is_in_ring && file.is_cut(self.control.whole());
        self.control.whole().is_some() && self.files.iter().filter(is_cut).count() <= MAX_UNFINISHED
    }

    fn fails_at_start(&self, double_writes: bool) -> bool {
        if double_writes { self.double_writes.is_failure() } else { self.otherwise.is_failure() }
    }

    fn server_choice(&self, held: &[HeldSlot]) -> Option<usize> {
        let is_applied = self.applies_first();
        held.iter().position(|slot| is_applied && self.chosen.contains(&(slot.file, slot.index)))
    }

    fn findings(&self, files: &[&DwbFile], _facts: &ClusterFacts) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |finding: Finding| findings.push(finding.in_file("pg_dwb/control"));
        match &self.control {
            ControlState::Missing => add(RING_CONTROL_MISSING.problem("the control file is missing")),
            ControlState::Short(found) => {
                add(RING_CONTROL_SHORT.problem(format!("the control file has {found} bytes, expected 40")));
            }
            ControlState::Read(_, faults) => {
                faults.iter().for_each(|fault| add(RING_CONTROL_FAULT.problem(fault.to_string())));
            }
            ControlState::NotAsked | ControlState::Unreadable => {}
        }
        if self.control.whole().is_none() {
            let what = self.generation.map_or_else(
                || "the generation is unknown: neither the control file nor a slot gives one".to_owned(),
                |(generation, _)| format!("generation {generation} is a guess: the highest among the slots"),
            );
            findings.push(RING_GENERATION_GUESSED.note(what));
        }
        let slots = self.later_slots();
        if let Some((generation, false)) = self.generation.filter(|_| slots > 0) {
            findings.push(
                RING_LATER_GENERATION.problem(format!(
                    "{slots} slots have a later generation than the {generation} of the control file"
                )),
            );
        }
        if let Some(control) = self.control.whole() {
            for number in 0..control.num_batches {
                if !files.iter().any(|file| file.number == Some(number)) {
                    findings.push(RING_MISSING_BATCH.problem(format!("batch file {number} is missing")));
                }
            }
            let (batches, expected) = (control.num_batches, batch_file_bytes(control.batch_pages));
            for file in files {
                if file.number.is_none_or(|number| number >= batches) {
                    let what = format!("not part of the ring: the control file announces {batches} batches");
                    findings.push(RING_FURTHER_BATCH.note(what).in_file(&file.name));
                } else if file.size_bytes() != expected {
                    let what = format!("the file has {} bytes, expected {expected}", file.size_bytes());
                    findings.push(self.of_cut(&RING_OTHER_SIZE, what).in_file(&file.name));
                }
            }
        }
        for (file, own) in files.iter().zip(&self.files) {
            if let Some((counted, _)) = own.filled {
                let beyond = own.usable().filter(|(index, _)| *index >= u64::from(counted)).count();
                let slots = u64::try_from(beyond).unwrap_or(u64::MAX);
                if slots > 0 {
                    let what = format!("{slots} slots after the {counted} that the header counts");
                    findings.push(self.of_cut(&RING_SLOTS_BEYOND_COUNT, what).in_file(&file.name));
                }
            }
        }
        if self.control != ControlState::NotAsked {
            let (double_writes, otherwise) = (self.double_writes, self.otherwise);
            let what = format!("startup in mode double_writes {double_writes}; in another mode it {otherwise}");
            findings.push(if double_writes.is_failure() { RING_START.problem(what) } else { RING_START.note(what) });
        }
        findings
    }

    fn summary(&self) -> Option<RingSummary> {
        let known = self.control.whole();
        let number = |number: Option<u64>| number.map_or(RingFact::Unknown, RingFact::Number);
        let facts = vec![
            ("control", RingFact::Code(self.control.code())),
            ("generation", number(self.generation.map(|(generation, _)| generation))),
            ("generation_is_guessed", RingFact::Flag(self.generation.is_none_or(|(_, is_guess)| is_guess))),
            ("num_batches", number(known.map(|control| u64::from(control.num_batches)))),
            ("batch_pages", number(known.map(|control| u64::from(control.batch_pages)))),
            ("clean", known.map_or(RingFact::Unknown, |control| RingFact::Flag(control.is_clean()))),
            ("start_in_double_writes", RingFact::Code(self.double_writes.code())),
            ("start_in_other_modes", RingFact::Code(self.otherwise.code())),
            ("slots_that_count", RingFact::Number(self.candidates)),
            ("pages_with_a_slot_that_counts", RingFact::Number(self.winners.len() as u64)),
        ];
        let directory = RingDirectory;
        Some(RingSummary { format: directory.name(), knowledge: directory.knowledge(), facts })
    }

    fn start_writes(&self, pages: &dyn PageSource, page_bytes: usize, coverage: &mut Coverage) -> StartWrites {
        let mut writes = StartWrites::default();
        if self.double_writes != StartAction::Applies {
            return writes;
        }
        let mut bytes = vec![0; page_bytes];
        let (mut named, mut count, mut left) = (Vec::new(), 0_u64, 0_u64);
        for (page, (file, index)) in &self.winners {
            let run = self.files.get(*file).and_then(|file| file.trace.runs.get(usize::try_from(*index).ok()?));
            let Some(run) = run else { continue };
            let read = match pages.read_page(*page, &mut bytes) {
                Ok(read) => read,
                Err(error) => {
                    coverage.skip_once(*page, error);
                    continue;
                }
            };
            let action = PageAction::of(read, &bytes, *page, run.slot_lsn);
            if !action.is_write() {
                left = left.saturating_add(1);
                continue;
            }
            if action == PageAction::WritesOlder {
                writes.newer.push((*page, run.slot_lsn));
            }
            count = count.saturating_add(1);
            if named.len() < MAX_NAMED {
                named.push(*page);
            }
        }
        let mut what = format!(
            "startup in mode double_writes overwrites {count} pages from {} slots that count and leaves {left} as \
                they are",
            self.candidates
        );
        let more = count.saturating_sub(named.len() as u64);
        for (index, page) in named.iter().enumerate() {
            let separator = if index == 0 { ": " } else { ", " };
            what.push_str(&format!("{separator}{} {} block {}", page.rel, page.fork, page.block));
        }
        if more > 0 {
            what.push_str(&format!(" and {more} more"));
        }
        writes.finding = Some(RING_START_WRITES.note(what));
        writes
    }
}
