//! Results of a server in its sandbox: how far it replayed, and the pages.

use std::ops::ControlFlow;

use super::files::segment_path;
use super::sandbox::SandboxRun;
use super::stream::{STREAM_TIMELINE, StreamSummary};
use crate::cluster::open::AccessError;
use crate::cluster::page_source::RelationPaths;
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile, DbState};
use crate::parsers::wal::reader::{ReadStep, ReaderOptions, WalReader};
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, Lsn, PageId, TimelineId};
use std::path::Path;

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
