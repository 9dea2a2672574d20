//! Which WAL is read, and how.
//! Also here: progress of reading, and its interruption.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::analysis::in_order::all_cores;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::open::AccessError;
use crate::inspect::error::InspectError;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::timeline::WalSegment;
use crate::types::{Lsn, TimelineId};

/// Which WAL is read, and how.
#[derive(Clone, Debug)]
pub struct WalRequest {
    /// Data directories, `pg_wal` or archive directories, segments, tar archives, patterns, or `-` for standard input.
    pub paths: Vec<PathBuf>,
    /// The segments that limit it.
    pub span: SegmentSpan,
    /// No record that starts before this is counted.
    pub start: Option<Lsn>,
    /// No record that ends after this is counted.
    pub end: Option<Lsn>,
    /// No record that was written before this is counted.
    pub since: Option<TimeBound>,
    /// No record that was written then or later is counted.
    pub until: Option<TimeBound>,
    /// The timeline that is followed; `None`: that of the first segment of `span`, else the newest there is.
    pub timeline: Option<TimelineId>,
    /// Where names of relations are looked up: a stopped data directory, or a file that holds them.
    pub names: Option<PathBuf>,
    /// Threads that read.
    pub jobs: usize,
}

impl WalRequest {
    /// All WAL of these paths, by numbers only, with a thread per core.
    pub fn of_paths(paths: Vec<PathBuf>) -> Self {
        let span = SegmentSpan::default();
        Self {
            paths,
            span,
            start: None,
            end: None,
            since: None,
            until: None,
            timeline: None,
            names: None,
            jobs: all_cores(),
        }
    }

    /// The WAL of a data directory and of further paths, with the names of that data directory.
    pub fn of_cluster(data_dir: PathBuf, further: &[PathBuf]) -> Self {
        let paths = std::iter::once(data_dir.clone()).chain(further.iter().cloned()).collect();
        Self { names: Some(data_dir), ..Self::of_paths(paths) }
    }

    /// Directories that nothing is written into: those that were named, and all that belongs to a data directory.
    ///
    /// # Errors
    /// When what belongs to one of them is unknown.
    pub fn protected(&self) -> Result<Vec<PathBuf>, InspectError> {
        let mut protected = Vec::new();
        for path in &self.paths {
            match path.metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    let opened = match DataDir::open(path) {
                        // As `pg_wal`: all of the data that it is a part of.
                        Err(NotADataDir::Inside { data_dir, .. }) => DataDir::open(&data_dir),
                        opened => opened,
                    };
                    match opened {
                        Ok(directory) => {
                            protected.extend(directory.own_directories().map_err(InspectError::OwnDirectories)?);
                        }
                        Err(NotADataDir::NoVersion(_)) => protected.push(path.clone()),
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(_) => {}
                // A pattern or standard input.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(InspectError::OwnDirectories(AccessError::io("examine", path, source))),
            }
        }
        Ok(protected)
    }
}

/// A time that limits what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeBound {
    /// This one.
    At(PgTimestamp),
    /// So long before the latest time that the WAL tells.
    BeforeLast {
        /// In microseconds.
        us: i64,
    },
}

/// Names of the first and last segment to be read, each without a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSpan {
    /// The first; `None`: from the start of what there is.
    pub first: Option<String>,
    /// The last; `None`: to the end of what there is.
    pub last: Option<String>,
}

impl SegmentSpan {
    /// Timeline of the first segment.
    pub fn timeline(&self) -> Option<TimelineId> {
        let digits = self.first.as_ref()?.get(..8)?;
        u32::from_str_radix(digits, 16).ok().map(TimelineId)
    }

    /// From the start of the first segment to the end of the last.
    ///
    /// # Errors
    /// When no segment of that size has such a name, or the last comes before the first.
    pub fn range(&self, segment_size: u32) -> Result<(Option<Lsn>, Option<Lsn>), InspectError> {
        let start_of = |name: &Option<String>| {
            let Some(name) = name else { return Ok(None) };
            let segment = WalSegment::from_file_name(name, segment_size);
            let wrong = || InspectError::NotASegment { name: name.clone(), segment_size };
            segment.and_then(|segment| segment.start_lsn(segment_size)).map(Some).ok_or_else(wrong)
        };
        let (first, last) = (start_of(&self.first)?, start_of(&self.last)?);
        if let (Some(start), Some(end)) = (first, last)
            && start > end
        {
            return Err(InspectError::SpanReversed);
        }
        Ok((first, last.map(|lsn| lsn.advanced_by(u64::from(segment_size)))))
    }
}

/// True for 24 hexadecimal digits.
pub(crate) fn is_segment_name(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Told the bytes of WAL that are done and those in all, now and then and from all threads; breaks reading off.
pub(crate) type WatchWal<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Ignores progress and never interrupts.
///
/// # Errors
/// Never.
pub const fn unwatched(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A watch, with what it was told and what it answered.
pub(super) struct Watched<'a> {
    watch: WatchWal<'a>,
    total: u64,
    done: AtomicU64,
    interrupted: AtomicBool,
}

impl<'a> Watched<'a> {
    /// Nothing of `total` bytes is done.
    pub(super) const fn new(watch: WatchWal<'a>, total: u64) -> Self {
        Self { watch, total, done: AtomicU64::new(0), interrupted: AtomicBool::new(false) }
    }

    /// So many more bytes are done: whether to continue. Once interrupted, always interrupted.
    pub(super) fn advance(&self, bytes: u64) -> ControlFlow<()> {
        if self.is_interrupted() {
            return ControlFlow::Break(());
        }
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let flow = (self.watch)(done, self.total);
        if flow.is_break() {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        flow
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: &str, last: &str) -> SegmentSpan {
        SegmentSpan { first: Some(first.to_owned()), last: Some(last.to_owned()) }
    }

    #[test]
    fn span_reaches_from_its_first_byte_to_its_last() {
        let both = span("000000020000000100000003", "000000020000000100000004");
        assert_eq!(both.timeline(), Some(TimelineId(2)));
        let size = 16 << 20;
        assert_eq!(both.range(size).unwrap(), (Some(Lsn(0x1_0300_0000)), Some(Lsn(0x1_0500_0000))));
        assert_eq!(SegmentSpan::default().range(size).unwrap(), (None, None));
    }

    #[test]
    fn impossible_spans_are_refused() {
        let size = 1 << 30;
        let error = span("000000010000000000000005", "000000010000000000000005").range(size).unwrap_err();
        assert!(matches!(error, InspectError::NotASegment { segment_size, .. } if segment_size == size));
        let error = span("000000010000000000000002", "000000010000000000000001").range(size).unwrap_err();
        assert!(matches!(error, InspectError::SpanReversed));
    }

    #[test]
    fn bytes_add_up_until_it_is_broken_off_for_good() {
        let told = std::sync::Mutex::new(Vec::new());
        let watch = |done, total| {
            told.lock().unwrap().push((done, total));
            if done == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let watched = Watched::new(&watch, 9);
        assert!(watched.advance(2).is_continue() && !watched.is_interrupted());
        assert!(watched.advance(3).is_break() && watched.is_interrupted());
        assert!(watched.advance(1).is_break());
        assert_eq!(*told.lock().unwrap(), [(2, 9), (5, 9)]);
    }
}
