//! Damaged pages one by one: what happened to each, with every image of it and the verdict.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::candidate::{Candidate, CandidateEvidence, CandidateOutcome, ImageSource, Judged};
use super::case::Case;
use super::donor_proof::{PageOfNoDonor, donors_without};
use super::judge::{PageFacts, PageVerdict, Reason, Verdict, judge_page};
use super::rebuild::{BuildFailure, NotRebuildable, RebuildEvidence, RebuildPlan, empty_since, plan_rebuild};
use super::rebuilt_proof::{Disproof, Proofs};
use super::step_risk::StandIn;
use super::symptom::{ImpossibleLinks, Symptom};
use crate::analysis::changes::events::{BlockEvent, Touch};
use crate::analysis::changes::history::{Interest, WalHistory};
use crate::analysis::changes::needed::{OnStart, Suspicion};
use crate::analysis::changes::sectors::{MapImage, SectorMarks, TearDirection, TearMap, map_tear};
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::dwb::staleness::Confidence;
use crate::analysis::pages::page_check::{PageCondition, PageDamage};
use crate::analysis::pages::page_links::BrokenLink;
use crate::analysis::skipped::{Coverage, SkippedPart};
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::missing_wal::WalNames;
use crate::analysis::start::replay::Replay;
use crate::cluster::donor::{Donor, DonorRead};
use crate::cluster::open::AccessError;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::checksum::page_checksum;
use crate::parsers::dwb::Slot;
use crate::parsers::page::PageHeader;
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator};

/// Bits in which a page may differ from an image and still be called the image with flipped bits.
const MAX_FLIPPED_BITS: u32 = 2;

/// Everything that pages are judged by.
pub(crate) struct Context<'a> {
    pub case: &'a Case<'a>,
    pub donors: &'a [Donor],
    /// The prediction of recovery, with what WAL says.
    pub replay: &'a Replay,
    /// History of the pages of `interest`.
    pub history: &'a WalHistory,
    /// The pages that `history` is of.
    pub interest: &'a Interest,
    pub wal_names: Option<&'a WalNames>,
    /// Doubts about images of the double write buffer.
    pub dwb_doubts: &'a [Doubt],
    /// Proofs by replay of pages without checksums.
    pub proofs: &'a Proofs,
    /// Pages of a cluster without checksums that name pages of their index that cannot have been.
    pub impossible: &'a BTreeMap<PageId, ImpossibleLinks>,
    /// Pages that another page of their index names, and that are all zero or not there.
    pub named: BTreeMap<PageId, BrokenLink>,
    pub specials: RefCell<FxHashMap<(RelFileLocator, ForkNumber), Option<usize>>>,
    pub unread: RefCell<Coverage>,
}

/// One page that something is wrong with.
#[derive(Clone, Debug)]
pub struct PageReport {
    /// The page.
    pub page: PageId,
    /// Its comparison.
    pub disk: Comparison,
    /// How sure that is.
    pub strength: Confidence,
    /// Symptoms of damage.
    pub damage: Vec<Symptom>,
    /// LSN in its header, where the header makes sense.
    pub disk_lsn: Option<Lsn>,
    /// Where its sectors come from; images beyond the candidates stand for an all-zero page.
    pub tear: Option<TearMap>,
    /// The verdict.
    pub verdict: PageVerdict,
    /// It is damaged; false for an intact page, which is checked on request.
    pub is_wrong: bool,
    /// Recovery resets the relation.
    pub is_unlogged: bool,
    /// The file ends inside the page or before it.
    pub is_cut: bool,
    /// A server that reads it reports an error.
    pub server_rejects: bool,
    /// Nothing shows which LSN the page had: its header makes no sense, and no slot holds an image of it. Every write of a
    /// server with a double write buffer goes there first, and the oldest slots are overwritten first: a slot of the page
    /// is at least as new as the page was.
    pub is_silent: bool,
    /// The candidate that the patched server's own recovery would restore over an unreadable page.
    pub server_takes: Option<usize>,
    /// A start in mode `double_writes` writes that candidate over the page before it replays anything.
    pub is_overwritten: bool,
    /// The page that would let recovery pass, if it crashes without the page.
    pub stand_in: Option<StandIn>,
    /// Whether the page can be rebuilt from an older copy and WAL, where no image of it is proven.
    pub rebuild: Option<Result<RebuildPlan, NotRebuildable>>,
    /// Something about the cluster as a whole keeps every image from being called safe.
    pub is_doubtful: bool,
    /// Pages of the same table that stay as they are, if this one would be from another time.
    pub left_beside: Option<Doubt>,
    /// Why the page was not built, where that was asked for.
    pub build_failure: Option<BuildFailure>,
    /// Donors without the page.
    pub donor_gaps: Vec<PageOfNoDonor>,
}

/// A page on disk, read and judged by itself.
pub(crate) struct Disk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) read: PageRead,
    pub(crate) condition: PageCondition,
    pub(crate) lsn: Option<Lsn>,
    /// The header makes sense and has the LSN that such a page has: none in a free space map that was never logged.
    pub(crate) has_lsn: bool,
    pub(crate) marks: SectorMarks,
}

impl PageReport {
    /// Weighs what is doubtful about the whole cluster, and says of a page without a proven image whether it can be built.
    pub(crate) fn weigh(&mut self, doubts: &[Doubt]) {
        self.verdict.weigh(doubts);
        self.is_doubtful |= doubts.iter().any(Doubt::forbids_restore);
        if doubts.iter().any(|doubt| matches!(doubt, Doubt::NotOneCluster { .. })) {
            // Nothing shows that the WAL belongs to this page.
            self.rebuild = None;
        }
        if let Some(rebuild) = &self.rebuild {
            self.verdict.add_rebuild(rebuild);
        }
    }

    /// Weighs that other pages of the table stay as they are. What is built later is weighed by it too.
    pub(crate) fn weigh_left_beside(&mut self, doubt: Doubt) {
        self.weigh(std::slice::from_ref(&doubt));
        self.left_beside = Some(doubt);
    }

    /// True when the page can be built by replay and was not yet, and no doubt about the cluster would keep it from being
    /// proven.
    pub(crate) fn can_be_rebuilt(&self) -> bool {
        let is_tried =
            self.build_failure.is_some() || self.verdict.candidates.iter().any(|one| one.rebuilt().is_some());
        // Of a map that servers do without nobody need start one.
        let is_wanted = self.verdict.verdict != Verdict::Leave;
        matches!(self.rebuild, Some(Ok(_))) && is_wanted && !self.is_doubtful && !is_tried
    }

    /// True when the page can be built by replay and was not yet, and a doubt about the cluster keeps it from being proven.
    pub(crate) fn can_be_rebuilt_unproven(&self) -> bool {
        let is_wanted = self.verdict.verdict != Verdict::Leave;
        matches!(self.rebuild, Some(Ok(_))) && is_wanted && self.is_doubtful && self.build_failure.is_none()
    }

    /// True when rebuilding the page was attempted, but replay did not run for a reason unrelated to the page.
    pub(crate) fn can_be_tried_again(&self) -> bool {
        matches!(self.rebuild, Some(Ok(_)))
            && !self.is_doubtful
            && self.build_failure.as_ref().is_some_and(BuildFailure::is_of_all)
    }

    /// True for a page of a visibility map that stops replay, where a page of zeros does not.
    pub(crate) fn keeps_replay_as_map(&self) -> bool {
        self.verdict.reasons.contains(&Reason::MapStopsReplay { may_be_blank: true })
    }

    /// True for a damaged page of a map that nothing better is known for than a page of zeros: servers take it for one.
    pub(crate) fn can_be_blank(&self) -> bool {
        let is_map = matches!(self.page.fork, ForkNumber::Fsm | ForkNumber::Vm);
        let is_left = self.verdict.verdict == Verdict::Leave || self.keeps_replay_as_map();
        self.is_wrong && is_map && is_left && self.server_rejects && !self.is_cut && !self.is_unlogged
    }
}

impl Context<'_> {
    /// Examines a page under suspicion, `slots` being those of this page.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub fn examine(&self, page: PageId, suspicion: Suspicion, slots: &[SlotRef]) -> Result<PageReport, AccessError> {
        let disk = self.read_disk(page)?;
        let is_unlogged = page.fork != ForkNumber::Init && self.case.pages.has_fork(page.rel, ForkNumber::Init)?;
        let events = self.interest.index_of(page).map_or(&[][..], |index| self.history.events(index));
        let (mut candidates, server_takes) = self.dwb_candidates(page, &disk, slots);
        candidates.extend(self.wal_candidates(page, &disk));
        let (of_donors, donor_gaps) = self.donor_candidates(page, &disk, is_unlogged);
        candidates.extend(of_donors);
        let tear = self.map_of(&disk, &candidates);
        let is_cut = matches!(disk.read, PageRead::Partial { .. } | PageRead::BeyondEnd | PageRead::NoFile);
        let is_zero = disk.condition == PageCondition::Zeroed;
        let server_rejects = disk.condition.damage().is_some_and(|damage| damage.server_rejects);
        let has_no_file = disk.read == PageRead::NoFile;
        let subject = PageFacts { page, is_unlogged, server_rejects, is_cut, has_no_file, is_zero };
        let evidence = CandidateEvidence {
            replay: self.replay,
            history: self.history,
            events,
            lowest_wal_lsn: self.case.lowest_wal_lsn,
            disk_lsn: disk.lsn,
            dwb_doubts: self.dwb_doubts,
        };
        let mut verdict = judge_page(&subject, candidates, &evidence);
        let found = self.judge_disk(page, suspicion, &disk, &subject, tear.as_ref(), &verdict, slots);
        let stand_in =
            StandIn::of(page, &verdict.on_start, self.replay, self.case.files.block_size, self.case.has_checksums);
        let mut damage: Vec<Symptom> =
            disk.condition.damage().into_iter().flat_map(PageDamage::flaws).map(Symptom::Flaw).collect();
        let is_wrong = found.is_some();
        let (comparison, strength, more) = found.unwrap_or_else(|| {
            let (reason, strength) = self.without_damage(&disk, &subject, &verdict);
            verdict.settle_in_order(reason);
            (word_of(&disk, slots), strength, Vec::new())
        });
        damage.extend(more);
        // A page that replay builds has no header yet when the crash cuts its first write: no evidence is lost by that.
        let is_headless = is_cut || disk.marks.is_zero(0);
        // Without checksums a link may itself be damage: then it names a page that never was.
        let is_only_named = !self.case.has_checksums && self.named.contains_key(&page);
        let is_first_write = verdict.verdict == Verdict::HealsInReplay && is_headless;
        let rebuild = (is_wrong && verdict.wants_rebuild())
            .then(|| self.plan_rebuild(&subject, &verdict, &evidence, &donor_gaps));
        let is_taken = server_rejects && server_takes.is_some() && self.case.dwb.staleness.applies_first();
        let is_overwritten = is_taken && verdict.on_start != OnStart::Harmless;
        Ok(PageReport {
            page,
            disk: comparison,
            strength,
            damage,
            disk_lsn: disk.lsn,
            tear: tear.filter(|_| comparison == Comparison::Torn),
            verdict,
            is_wrong,
            is_unlogged,
            is_cut,
            server_rejects,
            is_silent: is_wrong
                && !is_unlogged
                && !disk.has_lsn
                && slots.is_empty()
                && !is_first_write
                && !is_only_named,
            is_overwritten,
            server_takes,
            stand_in,
            rebuild,
            is_doubtful: false,
            left_beside: None,
            build_failure: None,
            donor_gaps,
        })
    }

    /// Whether the page can be built as it was where replay begins.
    fn plan_rebuild(
        &self,
        subject: &PageFacts,
        verdict: &PageVerdict,
        evidence: &CandidateEvidence<'_>,
        donor_gaps: &[PageOfNoDonor],
    ) -> Result<RebuildPlan, NotRebuildable> {
        let target = self.replay.rebuild_target().zip(self.wal_names).ok_or(NotRebuildable::TargetUnknown);
        if subject.is_unlogged {
            return Err(NotRebuildable::NotLogged);
        }
        if subject.is_cut {
            return Err(NotRebuildable::PageCutOff);
        }
        let (until, names) = target?;
        if self.history.is_minimal {
            return Err(NotRebuildable::MinimalWal);
        }
        let evidence = RebuildEvidence {
            candidates: &verdict.candidates,
            events: evidence.events,
            history: self.history,
            names,
            disk_lsn: evidence.disk_lsn,
            empty_at: &empty_since(subject.page, self.history, &donors_without(self.donors, donor_gaps)),
        };
        plan_rebuild(subject.page, &evidence, until)
    }

    /// Judgement of a page that nothing contradicts, with its confidence. Without a checksum only an image that it
    /// equals byte for byte proves it whole.
    fn without_damage(&self, disk: &Disk, subject: &PageFacts, verdict: &PageVerdict) -> (Reason, Confidence) {
        if self.case.has_checksums || disk.read != PageRead::Whole {
            return (Reason::NothingWrong, Confidence::Proven);
        }
        let is_whole = |judged: &&Judged| {
            let is_checked = !matches!(
                judged.candidate.source,
                ImageSource::Dwb { is_verified: false, .. } | ImageSource::Donor { is_checked: false, .. }
            );
            is_checked && judged.candidate.sectors_matching == disk.marks.len()
        };
        if let Some(judged) = verdict.candidates.iter().find(is_whole) {
            return (Reason::EqualsImage { source: judged.candidate.source.clone() }, Confidence::Proven);
        }
        (Reason::NotProvenWhole { is_unlogged: subject.is_unlogged }, Confidence::Possible)
    }

    fn read_disk(&self, page: PageId) -> Result<Disk, AccessError> {
        let mut bytes = vec![0; self.case.files.block_size];
        let read = self.case.pages.read_page(page, &mut bytes)?;
        let condition = PageCondition::of(&bytes, page.fork, page.block, self.case.has_checksums);
        let header = PageHeader::decode(0, &bytes).ok();
        let sane =
            header.filter(|header| header.faults(bytes.len()).is_empty() && header.oddities(bytes.len()).is_empty());
        let lsn = sane.map(|header| header.lsn).filter(|lsn| *lsn >= self.case.lowest_wal_lsn);
        let is_map_without = page.fork == ForkNumber::Fsm && sane.is_some_and(|header| header.lsn == Lsn::INVALID);
        let has_lsn = lsn.is_some() || is_map_without;
        let marks = SectorMarks::of(&bytes);
        Ok(Disk { bytes, read, condition, lsn, has_lsn, marks })
    }

    fn map_of(&self, disk: &Disk, candidates: &[Candidate]) -> Option<TearMap> {
        let zero = SectorMarks::zero(self.case.files.block_size);
        let mut images: Vec<MapImage<'_>> = candidates
            .iter()
            .map(|candidate| MapImage { marks: &candidate.marks, lsn: Some(candidate.page_lsn) })
            .collect();
        images.push(MapImage { marks: &zero, lsn: None });
        map_tear(&disk.marks, disk.lsn.unwrap_or_default(), &images)
    }

    /// Comparison, confidence and symptoms of the page; `None` if it is intact.
    #[allow(clippy::too_many_arguments, reason = "the facts of one page, distinguished only here")]
    fn judge_disk(
        &self,
        page: PageId,
        suspicion: Suspicion,
        disk: &Disk,
        subject: &PageFacts,
        tear: Option<&TearMap>,
        verdict: &PageVerdict,
        slots: &[SlotRef],
    ) -> Option<(Comparison, Confidence, Vec<Symptom>)> {
        let settled = verdict.verdict.needs_nothing();
        // A missing or empty page is damage only when replay or an image shows that it should be.
        // Maps are filled as they are needed: a zero-filled page is valid.
        let is_map = matches!(page.fork, ForkNumber::Fsm | ForkNumber::Vm);
        let dies = matches!(verdict.on_start, OnStart::Dies { .. });
        let proven_missing = dies
            || !settled
                && !is_map
                && (matches!(verdict.on_start, OnStart::Read { .. } | OnStart::PassedOver { .. })
                    || subject.is_zero && self.had_content(page)
                    || verdict.candidates.iter().any(|judged| self.shows_missing(judged, suspicion, disk)));
        // What names it does not show damage where replay may make the page.
        let may_be_made = verdict.on_start == OnStart::Unknown && self.history.full_from().is_some();
        let named = self.named.get(&page).filter(|_| !settled && !may_be_made);
        let absent = match disk.read {
            PageRead::BeyondEnd => Some(Comparison::BeyondEnd),
            PageRead::Whole if subject.is_zero => Some(Comparison::Zeroed),
            _ => None,
        };
        if let Some(disproof) = self.proofs.wrong.get(&page).filter(|found| found.absent.is_some() && !settled) {
            return absent.map(|_| disproof.judgement());
        }
        if let (Some(word), Some(link)) = (absent, named) {
            let is_proven = link.is_settled && self.case.has_checksums;
            let strength = if is_proven { Confidence::Proven } else { Confidence::Likely };
            let doubt = Symptom::NamingPageMayBeDamaged { block: link.by.page.block };
            let more = Some(doubt).filter(|_| !self.case.has_checksums);
            return Some((word, strength, [Symptom::BrokenLink(*link)].into_iter().chain(more).collect()));
        }
        match (&disk.condition, disk.read) {
            (_, PageRead::Partial { have_bytes }) => {
                let have_bytes = have_bytes as u64;
                Some((Comparison::Torn, Confidence::Proven, vec![Symptom::FileEndsInside { have_bytes }]))
            }
            (_, PageRead::BeyondEnd) => {
                proven_missing.then(|| (Comparison::BeyondEnd, Confidence::Likely, vec![Symptom::FileEndsBefore]))
            }
            (_, PageRead::NoFile) => {
                let what = if proven_missing {
                    Symptom::FileMissing
                } else if !settled && !is_map && !subject.is_unlogged && self.should_exist(page) {
                    Symptom::FileMissingByCatalog
                } else {
                    return None;
                };
                Some((Comparison::MissingFile, Confidence::Likely, vec![what]))
            }
            (PageCondition::Damaged(_), PageRead::Whole) => Some(match self.proofs.wrong.get(&page) {
                Some(disproof) => disproof.judgement(),
                None => self.judge_damaged(page, disk, tear, verdict),
            }),
            (PageCondition::Zeroed, _) => {
                proven_missing.then(|| (Comparison::Zeroed, Confidence::Likely, vec![Symptom::ZeroedContent]))
            }
            (PageCondition::Sound, _) if self.case.has_checksums && self.proofs.wrong.contains_key(&page) => {
                self.proofs.wrong.get(&page).map(Disproof::judgement)
            }
            (PageCondition::Sound, _) if suspicion == Suspicion::LostWrite => {
                let reported = proven_missing && !subject.is_unlogged && disk.lsn.is_some();
                reported.then(|| (Comparison::DiskOlder, Confidence::Likely, vec![Symptom::LostWrite]))
            }
            (PageCondition::Sound, _) if !self.case.has_checksums && !subject.is_unlogged => {
                self.judge_unchecked(page, disk, tear, slots, &verdict.candidates)
            }
            (PageCondition::Sound, _) => None,
        }
    }

    /// True when records before the redo point filled the page and none removed it after that: a checkpoint had written it.
    fn had_content(&self, page: PageId) -> bool {
        let (Some(index), Some(redo_lsn)) = (self.interest.index_of(page), self.replay.rebuild_target()) else {
            return false;
        };
        let removed = self.history.file_events(page).filter(|event| event.start_lsn < redo_lsn).last();
        let is_zero = |event: &BlockEvent| match &event.touch {
            Touch::Image { marks, .. } => {
                marks.as_deref().is_none_or(|marks| (0..marks.len()).all(|at| marks.is_zero(at)))
            }
            _ => false,
        };
        let last = self.history.events(index).iter().rfind(|event| event.end_lsn <= redo_lsn && event.matters());
        last.is_some_and(|last| {
            !is_zero(last)
                && self.history.covers(last.start_lsn, redo_lsn)
                && removed.is_none_or(|removed| removed.start_lsn < last.start_lsn)
        })
    }

    /// True for a page of a relation that the catalog has and whose end WAL does not give.
    fn should_exist(&self, page: PageId) -> bool {
        self.case.names.has(page.rel) && !self.history.file_events(page).any(|event| event.ends(page))
    }

    /// True when an image proves that the page on disk lacks something: the image is safe, or WAL shows a change after
    /// it that the page lacks too.
    fn shows_missing(&self, judged: &Judged, suspicion: Suspicion, disk: &Disk) -> bool {
        let is_newer = |lsn: Lsn| disk.lsn.is_none_or(|own| lsn > own);
        // Replay repeats what came after the redo point: a sound page may well lack it.
        let is_due =
            |lsn: Lsn| suspicion != Suspicion::LostWrite || self.replay.redo_lsn.is_some_and(|redo| lsn <= redo);
        match judged.outcome {
            CandidateOutcome::Safe => is_newer(judged.candidate.page_lsn) && is_due(judged.candidate.page_lsn),
            CandidateOutcome::LosesChanges => judged.lost.iter().any(|lsn| is_newer(*lsn)),
            CandidateOutcome::Unproven | CandidateOutcome::Unusable => false,
        }
    }

    fn judge_damaged(
        &self,
        page: PageId,
        disk: &Disk,
        tear: Option<&TearMap>,
        verdict: &PageVerdict,
    ) -> (Comparison, Confidence, Vec<Symptom>) {
        let rejects = disk.condition.damage().is_some_and(|damage| damage.server_rejects);
        let damaged = if rejects { Confidence::Proven } else { Confidence::Likely };
        let count = disk.marks.len();
        if let Some(judged) = verdict.candidates.iter().find(|judged| judged.candidate.sectors_matching == count) {
            let what = Symptom::EqualsButChecksum { source: judged.candidate.source.clone() };
            return (Comparison::Damaged, damaged, vec![what]);
        }
        let Some(tear) = tear else { return (Comparison::Damaged, damaged, Vec::new()) };
        if let Some(what) = self.flipped_bits(page, disk, verdict) {
            return (Comparison::Damaged, damaged, vec![what]);
        }
        let newer = tear.newer.and_then(|index| verdict.candidates.get(index));
        let checksum_fits = tear.direction == TearDirection::Head
            && newer.and_then(|judged| self.image_of(&judged.candidate.source, page)).is_some_and(|image| {
                let stored = PageHeader::decode(0, &disk.bytes).map_or(0, |header| header.checksum);
                self.case.has_checksums && stored == page_checksum(&image, page.block)
            });
        let strength = match tear.direction {
            _ if tear.is_explained || checksum_fits => Confidence::Proven,
            TearDirection::Head | TearDirection::Tail => Confidence::Likely,
            TearDirection::Scattered => Confidence::Possible,
        };
        let mut more = Vec::new();
        if checksum_fits && let Some(judged) = newer {
            more.push(Symptom::ChecksumOfImage { source: judged.candidate.source.clone() });
        }
        (Comparison::Torn, strength, more)
    }

    /// Bytes of an image of `page` in the double write buffer or a donor.
    pub(crate) fn image_of(&self, source: &ImageSource, page: PageId) -> Option<Vec<u8>> {
        let (file_index, slot_index) = match source {
            ImageSource::Dwb { file_index, slot_index, .. } => (file_index, slot_index),
            ImageSource::Donor { donor, .. } => match self.donors.get(*donor)?.read_page(page) {
                Ok(DonorRead::Page(bytes)) => return Some(bytes),
                Ok(DonorRead::Gap(_)) => return None,
                Err(error) => {
                    self.unread.borrow_mut().skip_once(SkippedPart::from(page), error);
                    return None;
                }
            },
            ImageSource::Wal { .. } | ImageSource::Rebuilt(_) => return None,
        };
        let mut buf = Vec::new();
        let slot = self.read_slot_at(*file_index, *slot_index, &mut buf)?;
        Some(slot.image.to_vec())
    }

    /// A slot; `None` when it cannot be read, which is counted.
    pub(crate) fn read_slot<'b>(&self, slot: &SlotRef, buf: &'b mut Vec<u8>) -> Option<Slot<'b>> {
        self.read_slot_at(slot.file, slot.index, buf)
    }

    fn read_slot_at<'b>(&self, file: usize, index: u64, buf: &'b mut Vec<u8>) -> Option<Slot<'b>> {
        let file = self.case.dwb_set.files.get(file)?;
        match file.read_slot(index, buf) {
            Ok(slot) => Some(slot),
            Err(error) => {
                self.unread.borrow_mut().skip_once(SkippedPart::file(&file.name), error);
                None
            }
        }
    }

    /// Says so when the page is an image but for a bit or two: no torn write does that.
    fn flipped_bits(&self, page: PageId, disk: &Disk, verdict: &PageVerdict) -> Option<Symptom> {
        let nearly = |judged: &&Judged| judged.candidate.sectors_matching.saturating_add(1) == disk.marks.len();
        for judged in verdict.candidates.iter().filter(nearly) {
            let Some(image) = self.image_of(&judged.candidate.source, page) else { continue };
            let bits = |range: std::ops::Range<usize>| -> u32 {
                let pairs =
                    disk.bytes.get(range.clone()).into_iter().flatten().zip(image.get(range).into_iter().flatten());
                pairs.map(|(one, other)| (one ^ other).count_ones()).sum()
            };
            let flipped = bits(0..8).saturating_add(bits(10..disk.bytes.len()));
            if flipped <= MAX_FLIPPED_BITS {
                return Some(Symptom::FlippedBits { source: judged.candidate.source.clone(), bits: flipped });
            }
        }
        None
    }
}

/// Comparison of an intact page with its newest image; "identical" without one.
fn word_of(disk: &Disk, slots: &[SlotRef]) -> Comparison {
    match disk.read {
        PageRead::NoFile => Comparison::MissingFile,
        PageRead::BeyondEnd | PageRead::Partial { .. } => Comparison::BeyondEnd,
        PageRead::Whole => slots.last().and_then(|slot| slot.comparison).unwrap_or(Comparison::Identical),
    }
}
