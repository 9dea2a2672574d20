//! Every page of every relation file, read once: what looks wrong, and what the sound ones tell.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{KnownDamage, Remarks, Scope, Stage, Watch};
use crate::analysis::changes::needed::Suspicion;
use crate::analysis::changes::rows::layout::layout_fault;
use crate::analysis::dwb::slots::{SlotRef, Unchanged};
use crate::analysis::pages::checksum_witness::{CHECKSUMS_OFF, ChecksumWitness, ChecksumsContradict};
use crate::analysis::pages::other_kind::KindWitness;
use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::pages::page_links::LinkReport;
use crate::analysis::pages::page_scan::{ScanOptions, ScannedFiles, scan_pages};
use crate::analysis::pages::relation_files::{ChecksumRule, PageRules, RelationFiles};
use crate::analysis::pages::segment_check::{MISSING_PAGES, segment_findings};
use crate::analysis::pages::table_links::TableLinkInput;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::analysis::start::belonging::{CounterWitness, Counters};
use crate::analysis::start::doubt::Doubt;
use crate::analysis::verdict::case::Case;
use crate::analysis::verdict::rebuilt_proof::Proofs;
use crate::cluster::data_dir::encryption_keys;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page_kind::access_method_name;
use crate::report::Finding;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

#[derive(Default)]
pub(super) struct Scanned {
    pub suspects: BTreeMap<PageId, Suspicion>,
    /// The newest LSN of a sound page of a logged relation, and which page.
    pub newest: Option<(Lsn, PageId)>,
    /// How much was read; `None` when no scan was made.
    pub files: Option<ScannedFiles>,
    /// Blocks of main forks of logged relations that are all zero.
    pub zeroed: Vec<(RelFileLocator, Range<BlockNumber>)>,
    /// References between pages of indexes.
    pub links: LinkReport,
    /// Files that lack pages, and checksums that should not be there, as doubts.
    pub incomplete: Vec<Doubt>,
    /// Rows that name transactions or multixacts which were never handed out.
    pub counters: Counters,
    other_kinds: Vec<Finding>,
    /// Pages have checksums although `pg_control` denies it.
    contradict: Option<ChecksumsContradict>,
}

impl Scanned {
    /// Pages that are proven whole are unproven no more; those that are not are suspects.
    pub(super) fn take_proofs(&mut self, proofs: &Proofs) {
        let mut settled = proofs.whole.len() as u64;
        for page in proofs.wrong.keys() {
            // One that breaks a rule was never among the unproven ones.
            self.suspects.entry(*page).or_insert_with(|| {
                settled += 1;
                Suspicion::Differs
            });
        }
        if let Some(unproven) = self.files.as_mut().and_then(|files| files.unproven.as_mut()) {
            *unproven = unproven.saturating_sub(settled);
        }
    }
}

/// Reads the relation files, as far as the request wants them. Slots whose page was seen with the same bytes are marked.
/// Where pages have checksums although `pg_control` denies it, they are read again and judged by these.
pub(super) fn scan(case: &mut Case<'_>, slots: &mut [SlotRef], watch: &dyn Watch, remarks: &mut Remarks) -> Scanned {
    for error in &case.files.walk.skipped {
        remarks.coverage.skip(SkippedPart::RelationFiles, error);
    }
    let rules = match (case.scope, case.files.rules) {
        (Scope::Page(page), Some(rules)) => return scan_page(case, &rules, page, watch, remarks),
        (Scope::Page(page), None) => {
            return Scanned { suspects: BTreeMap::from([(page, Suspicion::Differs)]), ..Scanned::default() };
        }
        (Scope::DwbPages, _) | (Scope::All, None) => return Scanned::default(),
        (Scope::All, Some(rules)) => rules,
    };
    let before = remarks.coverage.clone();
    let mut scanned = scan_once(case, &rules, slots, watch, &mut remarks.coverage);
    if let Some(contradicts) = scanned.contradict.take() {
        if contradicts.are_most() {
            case.has_checksums = true;
            remarks.coverage = before;
            let rules = PageRules { checksums: ChecksumRule::Damage, ..rules };
            scanned = scan_once(case, &rules, slots, watch, &mut remarks.coverage);
            remarks.findings.retain(|finding| !finding.is(&CHECKSUMS_OFF));
        }
        scanned.incomplete.push(Doubt::ChecksumsContradict);
        remarks.findings.push(contradicts.finding());
    }
    remarks.findings.append(&mut scanned.other_kinds);
    if let Some(keys) = encryption_keys(case.directory) {
        leave_encrypted(&mut scanned, &case.files, keys, &mut remarks.coverage);
    }
    if rules.by_control {
        let found = segment_findings(&case.files.walk.files, case.files.geometry, |_| true);
        scanned.incomplete.extend(doubt_of_segments(&found));
        remarks.findings.extend(found);
    }
    scanned
}

/// Facts about one page that a scan of all pages would show: its kind, and, if it is missing or zero-filled, references from
/// its relation and the indexes of that.
fn scan_page(case: &Case<'_>, rules: &PageRules, page: PageId, watch: &dyn Watch, remarks: &mut Remarks) -> Scanned {
    let Case { files, names, pages, .. } = case;
    let mut scanned = Scanned { suspects: BTreeMap::from([(page, Suspicion::Differs)]), ..Scanned::default() };
    let mut bytes = vec![0; files.block_size];
    // One that cannot be read is reported where it is judged.
    let Ok(read) = pages.read_page(page, &mut bytes) else { return scanned };
    let condition = PageCondition::of(&bytes, page.fork, page.block, rules.checksums != ChecksumRule::Off);
    if read == PageRead::Whole && condition == PageCondition::Sound && case.has_whole_pages() {
        let kinds = KindWitness::new(names);
        kinds.look(page, &bytes);
        remarks.findings.extend(kinds.findings(|page| files.locate(page)));
    }
    let is_absent = read == PageRead::BeyondEnd || read == PageRead::Whole && condition == PageCondition::Zeroed;
    if is_absent && page.fork == ForkNumber::Main {
        let owners = names.owners();
        let speaks_of_it = |rel: RelFileLocator| rel == page.rel || owners.get(&rel) == Some(&page.rel);
        let files = files.only(speaks_of_it);
        let (nobody, look) = (|_: PageId| {}, |_: PageId, _: &[u8]| ());
        let watch = ScanWatch { watch, found: &nobody };
        let found = read_pages(case, &files, rules, &look, &watch, &mut remarks.coverage);
        scanned.links.broken.extend(found.links.broken.into_iter().filter(|link| link.page == page));
    }
    scanned
}

/// Pages of a relation that fail all alike are not judged: without the keys they cannot be checked.
fn leave_encrypted(scanned: &mut Scanned, files: &RelationFiles, keys: &'static str, coverage: &mut Coverage) {
    let mut bad: BTreeMap<(RelFileLocator, ForkNumber), u64> = BTreeMap::new();
    for page in scanned.suspects.keys() {
        *bad.entry((page.rel, page.fork)).or_default() += 1;
    }
    let zeroed = |rel| {
        let of_rel = scanned.zeroed.iter().filter(|(zeroed, _)| *zeroed == rel);
        of_rel.map(|(_, blocks)| u64::from(blocks.end.saturating_sub(blocks.start))).sum::<u64>()
    };
    bad.retain(|(rel, fork), count| {
        *fork == ForkNumber::Main && count.saturating_add(zeroed(*rel)) >= files.blocks_of(*rel, *fork)
    });
    scanned.suspects.retain(|page, _| !bad.contains_key(&(page.rel, page.fork)));
    for (rel, fork) in bad.into_keys() {
        let (path, _) = files.locate(PageId { rel, fork, block: 0 });
        coverage.skip(SkippedPart::file(path), SkipReason::MayBeEncrypted { keys });
    }
    // Relations with a few pages that look damaged may be encrypted, too.
    coverage.skip(SkippedPart::RelationFiles, SkipReason::MayBeEncrypted { keys });
}

/// Reads the relation files by these rules.
fn scan_once(
    case: &Case<'_>,
    rules: &PageRules,
    slots: &mut [SlotRef],
    watch: &dyn Watch,
    coverage: &mut Coverage,
) -> Scanned {
    let Case { files, names, heads, .. } = case;
    let lacks_checksums = case.lacks_checksums();
    let unchanged = Unchanged::new(slots);
    let off_by_control = case.control.filter(|_| !case.has_checksums);
    let witness = ChecksumWitness::of(off_by_control, case.directory.major(), case.is_settled());
    let odd = Mutex::new(Vec::new());
    let kinds = KindWitness::new(names);
    let is_whole = case.has_whole_pages();
    let stopped = case.control.filter(|_| case.signs.backup_label.is_none());
    let counters = CounterWitness::of(case.directory, stopped, names, is_whole);
    let look = |page: PageId, bytes: &[u8]| {
        heads.note(page, bytes);
        counters.look(page, bytes);
        unchanged.look(page, bytes);
        if is_whole {
            kinds.look(page, bytes);
        }
        if let Some(witness) = &witness {
            witness.look(page.block, bytes);
        }
        if lacks_checksums && breaks_layout(page, bytes, names) {
            odd.lock().unwrap_or_else(PoisonError::into_inner).push(page);
        }
    };
    let found = |page: PageId| {
        watch.found(&KnownDamage { page, names, blocks: files.blocks_of(page.rel, page.fork) });
    };
    let watch = ScanWatch { watch, found: &found };
    let mut scanned = read_pages(case, files, rules, &look, &watch, coverage);
    scanned.counters = counters.finish();
    scanned.contradict = witness.as_ref().and_then(ChecksumWitness::finish);
    let odd = odd.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(unproven) = scanned.files.as_mut().and_then(|files| files.unproven.as_mut()) {
        *unproven = unproven.saturating_sub(odd.len() as u64);
    }
    for page in odd {
        scanned.suspects.entry(page).or_insert(Suspicion::Differs);
    }
    scanned.other_kinds = kinds.findings(|page| files.locate(page));
    let is_same = unchanged.finish();
    Unchanged::note(slots, &is_same);
    scanned
}

/// True when the items of a page break a rule that every server keeps. Indexes of an access method that is not built in have
/// rules of their own, and may look like others.
fn breaks_layout(page: PageId, bytes: &[u8], names: &RelationNames) -> bool {
    let method = || names.get(page.rel).and_then(|name| name.access_method_oid);
    page.fork == ForkNumber::Main
        && layout_fault(bytes, page.block).is_some()
        && method().is_none_or(|oid| access_method_name(oid).is_some())
}

/// Files that lack pages, as a doubt about what those pages would have told.
fn doubt_of_segments(findings: &[Finding]) -> Option<Doubt> {
    let mut short = findings.iter().filter(|finding| finding.is(&MISSING_PAGES));
    let missing = Box::new(short.next()?.clone());
    let file = missing.file.clone().unwrap_or_default();
    Some(Doubt::RelationIncomplete { file, missing, more: short.count() })
}

/// Who is told how far the reading is, and of each damaged page at once.
struct ScanWatch<'a> {
    watch: &'a dyn Watch,
    found: &'a dyn Fn(PageId),
}

/// Reads every page. `look` is shown each sound page of a logged relation.
fn read_pages(
    case: &Case<'_>,
    files: &RelationFiles,
    rules: &PageRules,
    look: &(dyn Fn(PageId, &[u8]) + Sync),
    told: &ScanWatch<'_>,
    coverage: &mut Coverage,
) -> Scanned {
    let may_be_running = case.server.may_be_running();
    let total: u64 = files.walk.files.iter().map(|file| file.size_bytes).sum();
    let (done, interrupted) = (AtomicU64::new(0), AtomicBool::new(false));
    let options = ScanOptions {
        jobs: case.jobs,
        checksums: rules.checksums != ChecksumRule::Off,
        geometry: rules.geometry,
        read_again: may_be_running,
        interrupted: &interrupted,
        look,
        links_at: case.replay.redo_lsn.filter(|_| !may_be_running),
        progress: &|bytes| {
            let before = done.fetch_add(bytes, Ordering::Relaxed);
            if told.watch.at(Stage::Scan, before + bytes, total).is_break() {
                interrupted.store(true, Ordering::Relaxed);
            }
        },
    };
    let mut scanned = Scanned::default();
    let counted = rules.checksums == ChecksumRule::Counted;
    let mut found = scan_pages(case.directory.root(), &files.walk.files, &options, coverage, |bad| {
        // Where a wrong checksum proves nothing, the page is judged without checksum.
        let judged = counted.then(|| PageCondition::of(&bad.bytes, bad.page.fork, bad.page.block, false));
        if judged.is_none_or(|judged| judged.damage().is_some()) {
            scanned.suspects.insert(bad.page, Suspicion::Damaged);
            (told.found)(bad.page);
        }
    });
    scanned.suspects.extend(found.partial_pages.iter().map(|partial| (partial.page, Suspicion::Cut)));
    if let Some(redo_lsn) = options.links_at {
        let input = TableLinkInput {
            root: case.directory.root(),
            files: &files.walk.files,
            geometry: rules.geometry,
            checksums: options.checksums,
            names: &case.names,
            redo_lsn,
            is_settled: case.is_settled(),
            only_marks: false,
            was_stopped: !case.replay.recovery.replays(),
        };
        input.add_to(&mut found, coverage);
    }
    scanned.newest = found.counts.newest;
    scanned.links = found.links;
    scanned.zeroed = found.zeroed;
    let counts = &found.counts;
    if interrupted.load(Ordering::Relaxed) && !found.interrupted {
        // Interrupted at the last piece: what follows must hear of it.
        coverage.skip(SkippedPart::RestOfCheck, SkipReason::Interrupted(Lacking::Pages));
    }
    scanned.files = Some(ScannedFiles {
        pages: counts.pages,
        files: files.walk.files.len(),
        zeroed: counts.zeroed,
        unproven: case.lacks_checksums().then_some(counts.sound),
    });
    scanned
}
