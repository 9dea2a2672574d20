//! A base backup in tar format: archives are read from their beginning to their end, and nothing is unpacked.
//!
//! The control file, which says how pages are judged, comes last. So the first pages are asked beforehand, and what they say
//! is compared with the control file at the end; only where they were wrong, everything is read again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use super::plan::LazyNames;
use super::replay::{HeldPage, MAX_DAMAGED, ReplayCluster, ReplayWal};
use super::{Held, Plan, Shown, VerifyReport, VerifyRequest, VisitDamaged, WatchBytes, is_clean, rules, show_held};
use crate::analysis::pages::page_check::{PageCondition, PageDamage, only_size};
use crate::analysis::pages::page_scan::{
    BadPage, STORED_PIECE_BYTES, ScanOptions, StoredPiece, StoredScan, readable_bytes, scan_stored,
};
use crate::analysis::pages::relation_files::{ChecksumRule, PageRules};
use crate::analysis::pages::segment_check::segment_findings;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::start::cluster_condition::inspect_directory;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::open::AccessError;
use crate::cluster::relation_walk::RelationFile;
use crate::cluster::running::ServerSign;
use crate::cluster::tar_backup::{MemberRole, TarBackup, TarCompression, TarFacts, TarMember, read_members};
use crate::cluster::wal::fill;
use crate::inspect::error::InspectError;
use crate::inspect::file_filter::Selection;
use crate::parsers::checksum::page_checksum;
use crate::parsers::control::ChecksumState;
use crate::parsers::page::PageHeader;
use crate::types::{Geometry, MAX_BLOCK_SIZE, MIN_BLOCK_SIZE, Oid, RelFileLocator};

/// First pages of relations that decide how pages are judged.
const ENOUGH_PAGES: u64 = 64;

/// Pieces that may wait for a thread, for each thread.
const WAITING_PIECES: usize = 2;

const MAX_FILES: usize = 1 << 20;

/// How often everything is read, at most: by what the first pages say, and by what the control file says.
const MAX_PASSES: usize = 3;

/// How pages are judged while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    geometry: Geometry,
    checksums: bool,
}

/// Reads and judges everything that is asked for.
pub(super) fn read(
    request: &VerifyRequest,
    backup: &TarBackup,
    watch: WatchBytes<'_>,
    visit: VisitDamaged<'_>,
) -> Result<VerifyReport, InspectError> {
    let selection = Selection::ahead(&request.files, &backup.directory)?;
    let mut reading = Preview::of(backup).reading(&request.data_dir);
    let server = ServerSign::NoPidFile;
    for _ in 1..MAX_PASSES {
        let pass = Pass::read(request, backup, &selection, reading, watch);
        let control = pass.directory(&request.data_dir).ok().and_then(|directory| {
            let mut ignored = (Coverage::default(), Vec::new());
            PageRules::with_headers(&directory, || only_size(&pass.named), &mut ignored.0, &mut ignored.1)
        });
        let wanted =
            control.map(|rules| Reading { geometry: rules.geometry, checksums: rules.checksums != ChecksumRule::Off });
        if wanted.is_none_or(|wanted| wanted == reading) || pass.stored.scan.interrupted {
            return pass.report(request, backup, &server, watch, visit);
        }
        reading = wanted.unwrap_or(reading);
    }
    Pass::read(request, backup, &selection, reading, watch).report(request, backup, &server, watch, visit)
}

#[derive(Default)]
struct Preview {
    facts: TarFacts,
    named: BTreeMap<u32, u64>,
    /// Pages whose checksum is right, and those whose checksum is not.
    right: u64,
    wrong: u64,
}

impl Preview {
    /// Reads the first pages of files; of an archive that is not compressed also the small files, since what lies
    /// between is not read there.
    fn of(backup: &TarBackup) -> Self {
        let mut preview = Self::default();
        for (path, tablespace) in backup.archives().take(1) {
            let is_plain = backup.base.compression == TarCompression::None;
            // What cannot be read is told by the pass that follows.
            drop(read_members(&path, |mut member| {
                let is_asked = preview.right.saturating_add(preview.wrong) < ENOUGH_PAGES;
                if let MemberRole::Relation(file) = MemberRole::of(member.name, tablespace, member.size_bytes) {
                    if is_asked && member.is_file && file.name.rel_segment == 0 {
                        preview.ask(&mut member)?;
                    }
                } else {
                    preview.facts.take(&mut member)?;
                }
                Ok(if is_plain || is_asked { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            }));
        }
        preview
    }

    fn ask(&mut self, member: &mut TarMember<'_>) -> io::Result<()> {
        let mut bytes = vec![0; MAX_BLOCK_SIZE as usize];
        let (filled, failed) = fill(member.bytes, &mut bytes);
        bytes.truncate(filled);
        let header = PageHeader::decode(0, &bytes).ok();
        if let Some(size) = header.and_then(|header| header.named_page_size())
            && let Some(page) = bytes.get(..size as usize)
        {
            let count = self.named.entry(size).or_default();
            *count = count.saturating_add(1);
            let is_right = header.is_some_and(|header| header.checksum == page_checksum(page, 0));
            *(if is_right { &mut self.right } else { &mut self.wrong }) += 1;
        }
        failed.map_or(Ok(()), Err)
    }

    fn reading(&self, root: &Path) -> Reading {
        let directory = self.facts.data_dir(root, &self.named).ok();
        if let Some(control) = directory.as_ref().and_then(|directory| directory.control().trusted()) {
            let checksums = control.checksums != ChecksumState::Off;
            return Reading { geometry: control.geometry, checksums };
        }
        let most = self.named.iter().max_by_key(|(_, pages)| **pages).map(|(size, _)| *size);
        let geometry = most.map_or(Geometry::USUAL, Geometry::usual_with);
        Reading { geometry, checksums: self.right >= self.wrong }
    }
}

struct FoundPage {
    held: HeldPage,
    /// Its structural damage, where a wrong checksum proves nothing.
    structural: Option<PageDamage>,
}

/// Everything that one reading of the archives gave.
struct Pass {
    facts: TarFacts,
    named: BTreeMap<u32, u64>,
    /// Relation files in the order in which they came, and whether each is asked for.
    files: Vec<(RelationFile, bool)>,
    found: Vec<FoundPage>,
    beyond: u64,
    stored: StoredScan,
    coverage: Coverage,
}

/// Results that the thread reading archives fills.
#[derive(Default)]
struct Came {
    facts: TarFacts,
    named: BTreeMap<u32, u64>,
    files: Vec<(RelationFile, bool)>,
    coverage: Coverage,
}

struct Reader<'a> {
    selection: &'a Selection<'a>,
    geometry: Geometry,
    interrupted: &'a AtomicBool,
    progress: &'a (dyn Fn(u64) + Sync),
    pieces: SyncSender<StoredPiece>,
}

impl Pass {
    fn read(
        request: &VerifyRequest,
        backup: &TarBackup,
        selection: &Selection<'_>,
        reading: Reading,
        watch: WatchBytes<'_>,
    ) -> Self {
        let (done, interrupted) = (AtomicU64::new(0), AtomicBool::new(false));
        let total = stored_bytes(backup);
        let progress = |bytes: u64| {
            let done = done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            if watch(done.min(total), total).is_break() {
                interrupted.store(true, Ordering::Relaxed);
            }
        };
        let options = ScanOptions {
            jobs: request.jobs,
            checksums: reading.checksums,
            geometry: reading.geometry,
            read_again: false,
            interrupted: &interrupted,
            look: &|_, _| {},
            links_at: None,
            progress: &|_| {},
        };
        let (mut found, mut beyond) = (Vec::new(), 0_u64);
        let mut take = |bad: BadPage| {
            if found.len() >= MAX_DAMAGED {
                beyond += 1;
                return;
            }
            let structural = PageCondition::of(&bad.bytes, bad.page.fork, bad.page.block, false);
            let held = HeldPage {
                file: bad.file,
                page: bad.page,
                offset: bad.offset,
                damage: bad.damage,
                have_bytes: None,
                lsn: HeldPage::lsn_in(&bad.bytes),
                is_zero: false,
                is_unlogged: false,
            };
            found.push(FoundPage { held, structural: structural.damage().cloned() });
        };
        let waiting = request.jobs.clamp(1, 1024).saturating_mul(WAITING_PIECES);
        let (pieces, receiver) = sync_channel(waiting);
        let reader =
            Reader { selection, geometry: reading.geometry, interrupted: &interrupted, progress: &progress, pieces };
        let (came, stored) = std::thread::scope(|scope| {
            let archives = scope.spawn(move || reader.read_all(backup));
            let stored = scan_stored(receiver.into_iter(), &options, &mut take);
            (archives.join(), stored)
        });
        let mut came = came.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut stored = stored;
        stored.scan.interrupted |= interrupted.load(Ordering::Relaxed);
        let files: Vec<RelationFile> = came.files.iter().map(|(file, _)| file.clone()).collect();
        stored.cover(&files, reading.geometry, &mut came.coverage);
        let Came { facts, named, files, coverage } = came;
        Self { facts, named, files, found, beyond, stored, coverage }
    }

    fn directory(&self, root: &Path) -> Result<DataDir, NotADataDir> {
        self.facts.data_dir(root, &self.named)
    }

    fn report(
        mut self,
        request: &VerifyRequest,
        backup: &TarBackup,
        server: &ServerSign,
        watch: WatchBytes<'_>,
        visit: VisitDamaged<'_>,
    ) -> Result<VerifyReport, InspectError> {
        let directory = self.directory(&request.data_dir)?;
        let signs = self.facts.signs(directory.control());
        let mut coverage = std::mem::take(&mut self.coverage);
        let mut findings = inspect_directory(&directory, server, &signs, &mut coverage);
        let (files, taken) = self.sort_files(&mut coverage);
        // Says what fits nothing.
        Selection::new(&request.files, &backup.directory, &files, None, &mut coverage)?;
        let page_rules = PageRules::with_headers(&directory, || only_size(&self.named), &mut coverage, &mut findings);
        self.note_missing_archives(backup, &mut coverage);
        findings.push(rules::NOT_COMPARED.note("the pages of archives were checked one by one"));
        let mut report = VerifyReport::begin(&directory, server, &signs, findings, coverage);
        report.files = taken.len() as u64;
        let Some(page_rules) = page_rules else { return Ok(report) };
        let is_clean = is_clean(&directory, &signs);
        let more_wal = request.replay.as_deref();
        if !is_clean && directory.control().trusted().is_some() && more_wal.is_none() {
            report.findings.push(rules::NOT_SHUT_DOWN.note("the cluster was not shut down cleanly"));
        }
        if page_rules.by_control {
            let is_taken = |file: &RelationFile| taken.contains(&file.path);
            report.findings.extend(segment_findings(&files, page_rules.geometry, is_taken));
        }
        let unlogged: HashSet<RelFileLocator> = super::unlogged(&files);
        let mut cluster = ReplayCluster {
            control: directory.control(),
            signs: &signs,
            may_be_running: false,
            newest: None,
            jobs: request.jobs,
            is_archived: true,
        };
        let own = self.wal_archives(backup);
        let open = |more: &[PathBuf], report: &mut VerifyReport| {
            ReplayWal::open(&own, more, &cluster, &mut report.findings, &mut report.coverage)
        };
        let wal = more_wal.map(|more| open(more, &mut report)).transpose()?;
        let plan = Plan {
            kinds: None,
            checksum_witness: None,
            jobs: request.jobs,
            files: &files,
            page_rules: &page_rules,
            read_again: false,
            unlogged: &unlogged,
            links_at: None,
            wal_bytes: 0,
        };
        let held = self.hold(&plan, &mut report);
        let newest = self.stored.newest.values().filter(|(_, page)| !unlogged.contains(&page.rel)).max().copied();
        cluster.newest = newest.map(|(lsn, page)| (lsn, plan.witness(page)));
        let mut names = LazyNames::none();
        let mut shown = Shown { directory: &directory, names: &mut names, plan: &plan, visit };
        let scan = &self.stored.scan;
        let healed_cuts = show_held(&mut shown, held, scan, wal.as_ref().zip(Some(&cluster)), watch, &mut report);
        report.conclude(scan, &plan, &healed_cuts, is_clean);
        Ok(report)
    }

    /// Puts the files into the order of a walk through directories. Gives them, and the paths of those that are asked for.
    fn sort_files(&mut self, coverage: &mut Coverage) -> (Vec<RelationFile>, HashSet<PathBuf>) {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        order.sort_by_key(|index| self.files.get(*index).map(|(file, _)| (file.rel, file.name)));
        let places: HashMap<usize, usize> = order.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        let renumber = |file: &mut usize| *file = places.get(file).copied().unwrap_or(*file);
        self.found.iter_mut().for_each(|found| renumber(&mut found.held.file));
        self.stored.scan.partial_pages.iter_mut().for_each(|partial| renumber(&mut partial.file));
        self.stored.scan.partial_pages.sort_by_key(|partial| partial.file);
        let sorted = order.iter().filter_map(|index| self.files.get(*index));
        let files: Vec<RelationFile> = sorted.clone().map(|(file, _)| file.clone()).collect();
        let taken = sorted.filter(|(_, taken)| *taken).map(|(file, _)| file.path.clone()).collect();
        for pair in files.windows(2) {
            if let [one, other] = pair
                && (one.rel, one.name) == (other.rel, other.name)
            {
                coverage.skip_once(
                    SkippedPart::file(one.path.display().to_string()),
                    AccessError::NotRegular { path: one.path.clone(), kind: "file that the archives hold twice" },
                );
            }
        }
        (files, taken)
    }

    /// The damaged pages by the rules that hold, counted.
    fn hold(&mut self, plan: &Plan<'_>, report: &mut VerifyReport) -> Held {
        let counted = plan.is_counted();
        let mut pages = Vec::new();
        for found in self.found.drain(..) {
            let damage = if counted { found.structural } else { Some(found.held.damage) };
            let Some(damage) = damage else { continue };
            pages.push(HeldPage { damage, is_unlogged: plan.is_unlogged(found.held.page), ..found.held });
        }
        if self.beyond > 0 {
            let reason = SkipReason::TooManyDamaged { limit: MAX_DAMAGED };
            report.coverage.skip(SkippedPart::RestOfRelationFiles, reason);
        }
        let structural = pages.len() as u64;
        let rejected = pages.iter().filter(|page| page.damage.server_rejects).count() as u64;
        report.count(&self.stored.scan, counted.then_some((structural, rejected)));
        report.damaged_files = pages.iter().map(|page| page.file).collect::<HashSet<_>>().len() as u64;
        report.unlogged = pages.iter().filter(|page| page.is_unlogged).count() as u64;
        Held { pages: Some(pages), beyond: self.beyond }
    }

    /// Tablespaces whose archive is missing.
    fn note_missing_archives(&self, backup: &TarBackup, coverage: &mut Coverage) {
        let known: HashSet<Oid> = backup.archives().filter_map(|(_, tablespace)| tablespace).collect();
        let inside: HashSet<Oid> = self.files.iter().map(|(file, _)| file.rel.spc_oid).collect();
        for tablespace in self.facts.mapped_tablespaces() {
            if !known.contains(&tablespace) && !inside.contains(&tablespace) {
                let path = backup.directory.join(format!("{tablespace}.tar"));
                let error = AccessError::io("find", &path, io::ErrorKind::NotFound.into());
                coverage.skip(SkippedPart::file(path.display().to_string()), error);
            }
        }
    }

    /// Archives of the backup that hold WAL.
    fn wal_archives(&self, backup: &TarBackup) -> Vec<PathBuf> {
        let own = backup.wal.as_ref().map(|archive| backup.directory.join(&archive.name));
        let base = self.facts.has_wal.then(|| backup.directory.join(&backup.base.name));
        own.into_iter().chain(base).collect()
    }
}

fn stored_bytes(backup: &TarBackup) -> u64 {
    backup.archives().map(|(path, _)| path.metadata().map_or(0, |metadata| metadata.len())).sum()
}

impl Reader<'_> {
    fn read_all(self, backup: &TarBackup) -> Came {
        let mut came = Came::default();
        for (path, tablespace) in backup.archives() {
            if self.interrupted.load(Ordering::Relaxed) {
                break;
            }
            let read = read_members(&path, |mut member| self.take(&path, tablespace, &mut member, &mut came));
            if let Err(error) = read {
                came.coverage.skip(SkippedPart::file(path.display().to_string()), error);
            }
        }
        came
    }

    fn take(
        &self,
        archive: &Path,
        tablespace: Option<Oid>,
        member: &mut TarMember<'_>,
        came: &mut Came,
    ) -> io::Result<ControlFlow<()>> {
        let file = match MemberRole::of(member.name, tablespace, member.size_bytes) {
            MemberRole::Relation(file) => file,
            role => {
                if role == MemberRole::LeadsOut {
                    let kind = "member whose name leads out of the backup";
                    let error = AccessError::NotRegular { path: PathBuf::from(member.name), kind };
                    came.coverage.skip_once(SkippedPart::file(archive.display().to_string()), error);
                } else if tablespace.is_none() {
                    came.facts.take(member)?;
                }
                return Ok(self.go_on());
            }
        };
        if !member.is_file {
            if !member.is_directory {
                let kind = "link, a device or a file with holes left out";
                let error = AccessError::NotRegular { path: file.path.clone(), kind };
                came.coverage.skip(SkippedPart::file(file.path.display().to_string()), error);
            }
            return Ok(self.go_on());
        }
        let is_taken = self.selection.takes(&file);
        let index = came.files.len();
        if index >= MAX_FILES {
            return Err(io::Error::other(format!("more than {MAX_FILES} relation files; the rest is not read")));
        }
        came.files.push((file.clone(), is_taken));
        self.send(index, &Arc::new(file), is_taken, member, &mut came.named)
    }

    /// Gives a relation file to the threads that judge, piece by piece.
    fn send(
        &self,
        index: usize,
        relation: &Arc<RelationFile>,
        is_taken: bool,
        member: &mut TarMember<'_>,
        named: &mut BTreeMap<u32, u64>,
    ) -> io::Result<ControlFlow<()>> {
        let readable = readable_bytes(relation, self.geometry);
        let mut offset = 0;
        while offset < readable {
            let length = STORED_PIECE_BYTES.min(readable.saturating_sub(offset));
            // At most half a megabyte, whatever the header of the member says.
            let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
            let (filled, failed) = fill(member.bytes, &mut bytes);
            bytes.truncate(filled);
            if offset == 0 && relation.size_bytes >= u64::from(MIN_BLOCK_SIZE) {
                let header = PageHeader::decode(0, &bytes).ok();
                if let Some(size) = header.and_then(|header| header.named_page_size()) {
                    let count = named.entry(size).or_default();
                    *count = count.saturating_add(1);
                }
            }
            if !is_taken {
                return Ok(self.go_on());
            }
            let is_short = (filled as u64) < length;
            let reason = failed.as_ref().map(|error| {
                let error = io::Error::new(error.kind(), error.to_string());
                SkipReason::from(AccessError::io("read", &relation.path, error))
            });
            (self.progress)(filled as u64);
            let piece = StoredPiece {
                file: index,
                relation: Arc::clone(relation),
                offset,
                length: if is_short { readable.saturating_sub(offset) } else { length },
                bytes,
                failed: reason,
            };
            if self.pieces.send(piece).is_err() {
                return Ok(ControlFlow::Break(()));
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if is_short || self.go_on().is_break() {
                break;
            }
            offset = offset.saturating_add(length);
        }
        Ok(self.go_on())
    }

    fn go_on(&self) -> ControlFlow<()> {
        if self.interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
