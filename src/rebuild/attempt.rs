//! One start of the server: from the records to the pages, and by what it wrote how far it came.

use std::io::ErrorKind;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::time::{Duration, Instant};

use super::choose::{BaseBytes, Choice, ChoiceRequest, KeptSink, Track, WantedPage, choose};
use super::control::ClusterControl;
use super::sandbox::{
    CountBytes, Sandbox, SandboxRun, SegmentFiles, base_page, placeholder, segment_path, write_relations,
};
use super::server::ServerRun;
use super::stream::{STREAM_TIMELINE, SegmentSink, StreamError, StreamFormat, StreamSummary, StreamWriter};
use super::{BuiltPage, NotBuilt, RebuildError, ReplayRequest, ReplayStats, ServerFailure};
use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::wal::segment::WatchRead;
use crate::cluster::open::AccessError;
use crate::cluster::page_source::RelationPaths;
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile, DbState};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::reader::{ReadStep, ReaderOptions, WalReader};
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, Lsn, PageId, TimelineId};

/// How long a server may run: as long as this, and so many bytes of WAL less for each second more.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const BYTES_PER_SECOND: u64 = 2 << 20;

/// Bytes of small files, and of other files that the server writes.
const OTHER_BYTES: u64 = 2 << 20;

pub(super) struct Attempt<'a> {
    pub request: &'a ReplayRequest<'a>,
    pub control: &'a ClusterControl,
    pub major: Major,
    pub run: Range<usize>,
    pub indexes: &'a [usize],
    pub watch: WatchRead<'a>,
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub settled: Vec<(usize, Result<BuiltPage, NotBuilt>)>,
    pub deferred: Vec<usize>,
    /// The server died; nothing is known of the others.
    pub died: Option<ServerFailure>,
}

impl<S: SegmentSink> KeptSink for StreamWriter<S> {
    fn keep(&mut self, start_lsn: Lsn, bytes: &[u8]) -> Result<(), RebuildError> {
        self.put(start_lsn, bytes).map_err(RebuildError::from)
    }
}

impl From<StreamError> for RebuildError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Access(error) => Self::Access(error),
            StreamError::Fault(fault) => Self::Stream(fault),
        }
    }
}

impl Attempt<'_> {
    pub(super) fn carry_out(&self, sandbox: &mut Sandbox, stats: &mut ReplayStats) -> Result<Outcome, RebuildError> {
        let mut outcome = Outcome::default();
        let mut indexes = self.indexes.to_vec();
        loop {
            let pages: Vec<&WantedPage> = indexes.iter().filter_map(|index| self.request.pages.get(*index)).collect();
            self.check_room_for_wal(sandbox, &pages)?;
            let mut run = sandbox.begin_run(self.major)?;
            let begin = Instant::now();
            let (choice, summary) = self.write_stream(&run, &pages)?;
            stats.choice_time = stats.choice_time.saturating_add(begin.elapsed());
            let in_conflict: Vec<usize> =
                indexes.iter().zip(&choice.tracks).filter(|(_, track)| track.is_in_conflict).map(|(i, _)| *i).collect();
            if !in_conflict.is_empty() {
                run.remove()?;
                let others: Vec<usize> = indexes.iter().copied().filter(|index| !in_conflict.contains(index)).collect();
                let (now, later) = match others.is_empty() {
                    false => (others, in_conflict),
                    // Each is in the way of another: one alone is in nobody's way.
                    true => (in_conflict[..1].to_vec(), in_conflict[1..].to_vec()),
                };
                outcome.deferred.extend(later);
                indexes = now;
                continue;
            }
            stats.records = stats.records.saturating_add(choice.records);
            let is_hopeless = pages.iter().zip(&choice.tracks).all(|(wanted, track)| track.failure(wanted).is_some());
            match summary.filter(|_| !is_hopeless) {
                None => self.settle_bases(&indexes, &pages, &choice, &mut outcome),
                Some(summary) => {
                    stats.wal_bytes = stats.wal_bytes.saturating_add(summary.bytes);
                    self.check_room_for_pages(sandbox, &choice)?;
                    self.write_sandbox(&mut run, &pages, &choice, &summary)?;
                    let failure = self.start_server(sandbox, &run, &choice, stats)?;
                    match replayed(&run, self.major, self.control.file.geometry, &summary)? {
                        Replayed::Nothing => return Err(RebuildError::Server(failure)),
                        Replayed::Part => {
                            // Whatever it died of, it cannot have done its work without space.
                            self.refuse_beyond(sandbox, OTHER_BYTES / 2, sandbox.free_bytes()?)?;
                            outcome.died = Some(failure);
                        }
                        Replayed::All => {}
                    }
                    self.settle(&run, &indexes, &pages, &choice, &mut outcome)?;
                }
            }
            if !self.request.sandbox.keep {
                run.remove()?;
            }
            return Ok(outcome);
        }
    }

    fn choice_request<'p>(&'p self, pages: &'p [&'p WantedPage]) -> ChoiceRequest<'p> {
        ChoiceRequest { wal: self.request.wal, run: &self.run, control: self.control, pages, jobs: self.request.jobs }
    }

    fn format(&self) -> StreamFormat {
        StreamFormat {
            geometry: self.control.file.geometry,
            magic: self.major.magic(),
            system_identifier: self.control.file.prefix.system_identifier,
            checkpoint_bytes: self.control.checkpoint_bytes(),
        }
    }

    fn paths(&self) -> RelationPaths {
        let control = &self.control.file;
        RelationPaths::new(self.major, control.prefix.catalog_version_no, control.geometry.rel_segment_blocks)
    }

    fn write_stream(
        &self,
        run: &SandboxRun,
        pages: &[&WantedPage],
    ) -> Result<(Choice, Option<StreamSummary>), RebuildError> {
        let begin = || {
            run.remove_wal()?;
            let files = SegmentFiles::new(run, self.control.file.geometry.wal_segment_size);
            Ok(StreamWriter::new(self.format(), files))
        };
        let (choice, writer) = choose(self.choice_request(pages), self.watch, begin)?;
        let (summary, _) = writer.finish(|lsn| self.control.checkpoint(lsn, choice.newest_xid))?;
        Ok((choice, summary))
    }

    /// Most bytes of WAL that can be written, at least where all that is there were.
    fn most_wal_bytes(&self, pages: &[&WantedPage]) -> u64 {
        let geometry = self.control.file.geometry;
        let from = pages.iter().map(|wanted| wanted.from).min().unwrap_or_default();
        let until = pages.iter().map(|wanted| wanted.until).max().unwrap_or_default();
        until.bytes_since(from).unwrap_or_default().saturating_add(2 * u64::from(geometry.wal_segment_size))
    }

    /// Refuses what does not fit. Only where all WAL would not fit is it found out how much of it is needed.
    fn check_room_for_wal(&self, sandbox: &Sandbox, pages: &[&WantedPage]) -> Result<(), RebuildError> {
        let available_bytes = sandbox.free_bytes()?;
        let others = self.page_bytes(pages.len() as u64);
        if self.most_wal_bytes(pages).saturating_add(others) <= available_bytes {
            return Ok(());
        }
        let begin = || Ok(StreamWriter::new(self.format(), CountBytes::default()));
        let (choice, writer) = choose(self.choice_request(pages), self.watch, begin)?;
        let (_, count) = writer.finish(|lsn| self.control.checkpoint(lsn, choice.newest_xid))?;
        let companions = self.page_bytes(choice.companions.len() as u64);
        let needed_bytes = count.bytes.saturating_add(others).saturating_add(companions);
        self.refuse_beyond(sandbox, needed_bytes, available_bytes)
    }

    fn check_room_for_pages(&self, sandbox: &Sandbox, choice: &Choice) -> Result<(), RebuildError> {
        let pages = (choice.companions.len() as u64).saturating_add(choice.tracks.len() as u64);
        self.refuse_beyond(sandbox, self.page_bytes(pages), sandbox.free_bytes()?)
    }

    fn refuse_beyond(&self, sandbox: &Sandbox, needed: u64, available: u64) -> Result<(), RebuildError> {
        if needed <= available {
            return Ok(());
        }
        let directory = sandbox.path().to_owned();
        Err(RebuildError::NoRoom { directory, needed_bytes: needed, available_bytes: available })
    }

    /// Bytes of this number of pages and of the other files of a server.
    fn page_bytes(&self, pages: u64) -> u64 {
        let geometry = self.control.file.geometry;
        // Servers that fill new segments with zeros.
        let fills = !self.major.facts().replay_settings.contains(&("wal_init_zero", "off"));
        let segments = if fills { 2 * u64::from(geometry.wal_segment_size) } else { 0 };
        pages.saturating_mul(u64::from(geometry.block_size)).saturating_add(segments).saturating_add(OTHER_BYTES)
    }

    fn write_sandbox(
        &self,
        run: &mut SandboxRun,
        pages: &[&WantedPage],
        choice: &Choice,
        summary: &StreamSummary,
    ) -> Result<(), RebuildError> {
        let (geometry, checksums) = (self.control.file.geometry, self.control.has_checksums());
        let bases = pages.iter().filter_map(|wanted| match &wanted.base {
            BaseBytes::Page(bytes) => Some((wanted.page, bytes)),
            BaseBytes::Nothing => None,
        });
        let bases: std::collections::BTreeMap<PageId, &Vec<u8>> = bases.collect();
        let mut all: Vec<PageId> = bases.keys().chain(&choice.companions).copied().collect();
        all.sort_unstable();
        all.dedup();
        let contents = all.into_iter().map(|page| match bases.get(&page) {
            Some(bytes) => (page, base_page(bytes, page.block, checksums)),
            None => (page, placeholder(geometry, summary.end_lsn, page.block, checksums)),
        });
        write_relations(run, &self.paths(), geometry, &choice.extents, contents)?;
        let payload = self.control.checkpoint(summary.checkpoint_lsn, choice.newest_xid);
        let control = self.control.for_sandbox(summary.checkpoint_lsn, &payload);
        Ok(run.write_settings(self.control, &control, self.major)?)
    }

    fn start_server(
        &self,
        sandbox: &Sandbox,
        run: &SandboxRun,
        choice: &Choice,
        stats: &mut ReplayStats,
    ) -> Result<ServerFailure, RebuildError> {
        let limit = TIME_LIMIT.saturating_add(Duration::from_secs(choice.bytes / BYTES_PER_SECOND));
        let watch = || (self.watch)(0);
        sandbox.hand_over(run)?;
        let begin = Instant::now();
        let ended = self.request.server.run(run.data(), &run.log(), self.request.sandbox.owner, limit, &watch);
        stats.runs = stats.runs.saturating_add(1);
        stats.server_time = stats.server_time.saturating_add(begin.elapsed());
        sandbox.take_back()?;
        let is_refused = |error: &AccessError| matches!(error, AccessError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied);
        if ended.as_ref().is_err_and(is_refused)
            && let Some((directory, uid)) = sandbox.not_reachable()
        {
            return Err(RebuildError::NotReachable { directory, uid });
        }
        match ended? {
            ServerRun::Ended(failure) => Ok(failure),
            ServerRun::BrokenOff => Err(RebuildError::Interrupted),
        }
    }

    /// No record is needed: pages are what they were.
    fn settle_bases(&self, indexes: &[usize], pages: &[&WantedPage], choice: &Choice, outcome: &mut Outcome) {
        for ((index, wanted), track) in indexes.iter().zip(pages).zip(&choice.tracks) {
            let result = match (track.failure(wanted), &wanted.base) {
                (Some(why), _) => Err(why),
                (None, BaseBytes::Nothing) => Err(NotBuilt::NoBase { lsn: None }),
                (None, BaseBytes::Page(bytes)) => {
                    self.judge(wanted, track, base_page(bytes, wanted.page.block, self.control.has_checksums()))
                }
            };
            outcome.settled.push((*index, result));
        }
    }

    fn settle(
        &self,
        run: &SandboxRun,
        indexes: &[usize],
        pages: &[&WantedPage],
        choice: &Choice,
        outcome: &mut Outcome,
    ) -> Result<(), RebuildError> {
        for ((index, wanted), track) in indexes.iter().zip(pages).zip(&choice.tracks) {
            let result = match track.failure(wanted) {
                Some(why) => Err(why),
                None if outcome.died.is_some() => continue,
                None => match read_page(run, &self.paths(), self.control.file.geometry, wanted.page)? {
                    Some(bytes) => self.judge(wanted, track, bytes),
                    None => Err(NotBuilt::NoPage),
                },
            };
            outcome.settled.push((*index, result));
        }
        Ok(())
    }

    fn judge(&self, wanted: &WantedPage, track: &Track, bytes: Vec<u8>) -> Result<BuiltPage, NotBuilt> {
        let WantedPage { page, .. } = *wanted;
        let condition = PageCondition::of(&bytes, page.fork, page.block, self.control.has_checksums());
        let found = PageHeader::decode(0, &bytes).map_or(Lsn::INVALID, |header| header.lsn);
        if condition.damage().is_some() {
            return Err(NotBuilt::Unsound(condition));
        }
        if let Err(expected) = track.judge_lsn(found, condition == PageCondition::Zeroed) {
            return Err(NotBuilt::OtherLsn { found, expected });
        }
        let Track { records, first_lsn, last_lsn, end_lsn, .. } = *track;
        Ok(BuiltPage { page, bytes, records, first_lsn, last_lsn, end_lsn })
    }
}

/// Bytes of WAL that are read at once.
const PIECE_BYTES: u64 = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replayed {
    All,
    Part,
    Nothing,
}

/// How far the server came, by what it wrote: it marks `pg_control` before replay and after it, and the checkpoint at the
/// end of replay names the last record that it replayed.
///
/// # Errors
/// When the system refuses.
pub fn replayed(
    run: &SandboxRun,
    major: Major,
    geometry: Geometry,
    summary: &StreamSummary,
) -> Result<Replayed, AccessError> {
    let file = run.open(Path::new("global/pg_control"))?;
    let control = file.bytes_at(0, CONTROL_FILE_SIZE)?.and_then(|bytes| ControlFile::decode(&bytes).ok().flatten());
    let state = control.filter(ControlFile::crc_is_good).map(|control| control.prefix.state);
    Ok(match state {
        Some(DbState::IN_PRODUCTION) => Replayed::Nothing,
        Some(DbState::SHUT_DOWN) if checkpoint_follows(run, major, geometry, summary)? => Replayed::All,
        _ => Replayed::Part,
    })
}

/// True when the record after our last one is a checkpoint that names it.
fn checkpoint_follows(
    run: &SandboxRun,
    major: Major,
    geometry: Geometry,
    summary: &StreamSummary,
) -> Result<bool, AccessError> {
    let page_bytes = u64::from(geometry.wal_block_size);
    let segment_bytes = u64::from(geometry.wal_segment_size);
    let mut options = ReaderOptions::new(geometry);
    (options.major, options.timelines) = (Some(major), vec![TimelineId(STREAM_TIMELINE)]);
    let mut at = summary.last_lsn.0 - summary.last_lsn.0 % page_bytes;
    let Ok(mut reader) = WalReader::new(options, Lsn(at)) else { return Ok(false) };
    let mut found = None;
    loop {
        let (number, offset) = (at / segment_bytes, at % segment_bytes);
        let file = match run.open(&segment_path(number, geometry.wal_segment_size)) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        };
        let length = PIECE_BYTES.min(segment_bytes - offset);
        let Some(bytes) = file.bytes_at(offset, usize::try_from(length).unwrap_or_default())? else {
            return Ok(false);
        };
        at += length;
        let mut input = bytes.as_slice();
        let step = reader.read(&mut input, |record| {
            if record.start_lsn <= summary.last_lsn {
                return ControlFlow::Continue(());
            }
            let is_checkpoint = record.kind() == RecordKind::XlogCheckpointShutdown;
            found = Some(is_checkpoint && record.header.prev == summary.last_lsn);
            ControlFlow::Break(())
        });
        match (found, step) {
            (Some(found), _) => return Ok(found),
            (None, ReadStep::NeedMore) => {}
            (None, _) => return Ok(false),
        }
    }
}

/// A page as the server left it; nothing where its file does not reach so far or is gone.
///
/// # Errors
/// When the system refuses.
pub fn read_page(
    run: &SandboxRun,
    paths: &RelationPaths,
    geometry: Geometry,
    page: PageId,
) -> Result<Option<Vec<u8>>, AccessError> {
    let (path, block) = paths.path_and_block(page);
    let file = match run.open(&path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = usize::try_from(geometry.block_size).unwrap_or_default();
    file.bytes_at(u64::from(block) * u64::from(geometry.block_size), size)
}
