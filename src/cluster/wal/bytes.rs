//! Where the bytes of a segment are, and reading them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::codec::{Codec, Stream, fill, peel};
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::wal::reader::ReaderError;

/// Most bytes that [`SegmentBytes::next_piece`] gives at once.
pub const PIECE_BYTES: usize = 256 * 1024;

/// The first piece of [`SegmentBytes::into_small_pieces`].
const SMALL_PIECE_BYTES: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub(super) enum StoredAt {
    /// In a file of its own, or a stretch of an archive.
    File {
        path: Arc<PathBuf>,
        links: Links,
        file_bytes: u64,
        offset: u64,
        size_bytes: u64,
    },
    Scratch {
        offset: u64,
        size_bytes: u64,
    },
}

impl StoredAt {
    pub(super) const fn size_bytes(&self) -> u64 {
        match self {
            Self::File { size_bytes, .. } | Self::Scratch { size_bytes, .. } => *size_bytes,
        }
    }
}

/// The bytes of a segment could not be read, or are not what a segment has.
#[derive(Debug, thiserror::Error)]
pub enum WalReadError {
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The file is not the one that was examined.
    #[error("{label} has changed: {found_bytes} bytes, {expected_bytes} before")]
    Changed {
        /// Which segment.
        label: String,
        /// Size of the file now.
        found_bytes: u64,
        /// Size when the set was opened.
        expected_bytes: u64,
    },
    /// The bytes stop before the segment does, or cannot be unpacked.
    #[error("{label}: unpacking stops after {unpacked_bytes} bytes, {stored_bytes} bytes into the file: {source}")]
    Unpack {
        /// Which segment.
        label: String,
        /// Bytes of the segment that were unpacked and delivered.
        unpacked_bytes: u64,
        /// Stored bytes that had been taken by then, up to 64 KiB more than were used.
        stored_bytes: u64,
        /// Bytes that a segment has.
        expected_bytes: u64,
        /// Error of the decoder or the system.
        source: io::Error,
    },
    /// There are fewer bytes than a segment has.
    #[error("{label} ends after {found_bytes} of {expected_bytes} bytes")]
    Short {
        /// Which segment.
        label: String,
        /// Bytes that were delivered.
        found_bytes: u64,
        /// Bytes that a segment has.
        expected_bytes: u64,
    },
    /// The sizes in the page headers are impossible.
    #[error(transparent)]
    Sizes(#[from] ReaderError),
    /// There are more bytes than a segment has. All that belong to it were delivered.
    #[error("{label} continues after the {expected_bytes} bytes of a segment; the rest is not read")]
    Longer {
        /// Which segment.
        label: String,
        /// Bytes that a segment has.
        expected_bytes: u64,
    },
}

impl WalReadError {
    /// True when the file just ends early: the set has said so already, and what is there was delivered.
    pub const fn is_short(&self) -> bool {
        matches!(self, Self::Short { .. })
    }

    /// True when the file no longer exists: a running server gives old segments a new name.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Access(error) if error.is_not_found())
    }

    /// True when every byte of the segment was delivered before: something is odd, but nothing is missing.
    pub const fn is_past_the_segment(&self) -> bool {
        match self {
            Self::Longer { .. } => true,
            Self::Unpack { unpacked_bytes, expected_bytes, .. } => *unpacked_bytes == *expected_bytes,
            Self::Access(_) | Self::Changed { .. } | Self::Short { .. } | Self::Sizes(_) => false,
        }
    }
}

enum Handle<'a> {
    File(ReadFile),
    Shared(&'a File),
}

/// A stretch of a file as a stream. Never moves the file's own position.
pub(in crate::cluster) struct StoredWindow<'a> {
    handle: Handle<'a>,
    at: u64,
    end: u64,
    taken: Arc<AtomicU64>,
}

impl<'a> StoredWindow<'a> {
    pub(super) fn open(stored_at: &StoredAt, scratch: Option<&'a File>, label: &str) -> Result<Self, WalReadError> {
        let (handle, at, size_bytes) = match stored_at {
            StoredAt::File { path, links, file_bytes, offset, size_bytes } => {
                let file = ReadFile::open(path, *links)?;
                // A file that has become shorter still has its first bytes, but a member of an archive may have moved.
                if *offset > 0 && file.size_bytes() != *file_bytes {
                    return Err(WalReadError::Changed {
                        label: label.to_owned(),
                        found_bytes: file.size_bytes(),
                        expected_bytes: *file_bytes,
                    });
                }
                (Handle::File(file), *offset, *size_bytes)
            }
            StoredAt::Scratch { offset, size_bytes } => match scratch {
                Some(scratch) => (Handle::Shared(scratch), *offset, *size_bytes),
                None => {
                    return Err(WalReadError::Short {
                        label: label.to_owned(),
                        found_bytes: 0,
                        expected_bytes: *size_bytes,
                    });
                }
            },
        };
        Ok(Self { handle, at, end: at.saturating_add(size_bytes), taken: Arc::default() })
    }

    /// A file that is open already, from its start.
    pub(in crate::cluster) fn whole(file: ReadFile) -> Self {
        let end = file.size_bytes();
        Self { handle: Handle::File(file), at: 0, end, taken: Arc::default() }
    }

    pub(in crate::cluster) const fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn seek(&mut self, at: u64) {
        self.at = at;
    }

    pub(super) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }

    /// The next `size_bytes` of an open file as a stretch of its own.
    pub(in crate::cluster) fn part(&self, offset: u64, size_bytes: u64) -> WindowPart<'_, 'a> {
        WindowPart { window: self, at: offset, end: offset.saturating_add(size_bytes) }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.handle {
            Handle::File(file) => file.read_at(buf, offset).map_err(io::Error::other),
            Handle::Shared(file) => file.read_at(buf, offset),
        }
    }
}

impl Read for StoredWindow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.read_at(clipped(buf, self.at, self.end), self.at)?;
        self.at = self.at.saturating_add(bytes as u64);
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// A stretch of an open file, borrowed.
pub(in crate::cluster) struct WindowPart<'w, 'a> {
    window: &'w StoredWindow<'a>,
    at: u64,
    end: u64,
}

impl Read for WindowPart<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.window.read_at(clipped(buf, self.at, self.end), self.at)?;
        self.at = self.at.saturating_add(bytes as u64);
        Ok(bytes)
    }
}

fn clipped(buf: &mut [u8], at: u64, end: u64) -> &mut [u8] {
    let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
    let length = buf.len().min(left);
    &mut buf[..length]
}

/// Reads the bytes of one segment in order.
pub struct SegmentBytes<'a> {
    label: String,
    stream: Stream<'a>,
    taken: Arc<AtomicU64>,
    codecs: Vec<Codec>,
    buffer: Vec<u8>,
    /// Bytes of the next piece at most.
    piece_bytes: usize,
    delivered: u64,
    segment_bytes: u64,
    pending: Option<WalReadError>,
    stopped: bool,
    /// Set when the size of plain bytes was judged before.
    trailing_is_known: bool,
}

impl std::fmt::Debug for SegmentBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentBytes")
            .field("label", &self.label)
            .field("codecs", &self.codecs)
            .field("delivered", &self.delivered)
            .finish_non_exhaustive()
    }
}

impl<'a> SegmentBytes<'a> {
    pub(super) fn open(
        label: &str,
        stored_at: &StoredAt,
        scratch: Option<&'a File>,
        segment_bytes: u64,
        window_bytes: u32,
        buffer: Vec<u8>,
    ) -> Result<Self, WalReadError> {
        let window = StoredWindow::open(stored_at, scratch, label)?;
        let taken = window.taken();
        let unpack = |source| WalReadError::Unpack {
            label: label.to_owned(),
            unpacked_bytes: 0,
            stored_bytes: taken.load(Ordering::Relaxed),
            expected_bytes: segment_bytes,
            source,
        };
        let (codecs, stream): (Vec<Codec>, Stream<'a>) = match stored_at {
            StoredAt::File { .. } => {
                let peeled = peel(Box::new(window), 16, window_bytes).map_err(unpack)?;
                (peeled.codecs, peeled.stream)
            }
            StoredAt::Scratch { .. } => (Vec::new(), Box::new(window)),
        };
        let trailing_is_known = codecs.is_empty();
        Ok(Self {
            label: label.to_owned(),
            stream,
            taken,
            codecs,
            buffer,
            piece_bytes: PIECE_BYTES,
            delivered: 0,
            segment_bytes,
            pending: None,
            stopped: false,
            trailing_is_known,
        })
    }

    /// Begins with a small piece, from which each is twice as long as the one before: probably little is needed.
    pub(crate) fn into_small_pieces(self) -> Self {
        Self { piece_bytes: SMALL_PIECE_BYTES, ..self }
    }

    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// The next piece, at most [`PIECE_BYTES`]; `None` at the end of the segment. Never gives more bytes in all than a
    /// segment has.
    ///
    /// # Errors
    /// [`WalReadError`], after all bytes that could be had; `None` follows it.
    pub fn next_piece(&mut self) -> Result<Option<&[u8]>, WalReadError> {
        if let Some(error) = self.pending.take() {
            self.stopped = true;
            return Err(error);
        }
        if self.stopped {
            return Ok(None);
        }
        let left = usize::try_from(self.segment_bytes.saturating_sub(self.delivered)).unwrap_or(usize::MAX);
        if left == 0 {
            self.stopped = true;
            return self.check_end().map(|()| None);
        }
        let length = self.piece_bytes.min(left);
        self.piece_bytes = PIECE_BYTES.min(self.piece_bytes.saturating_mul(2));
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let (filled, failed) = fill(&mut self.stream, &mut self.buffer[..length]);
        self.delivered = self.delivered.saturating_add(filled as u64);
        let error = match failed {
            Some(source) => Some(self.unpack_error(source)),
            None if filled < length => Some(WalReadError::Short {
                label: self.label.clone(),
                found_bytes: self.delivered,
                expected_bytes: self.segment_bytes,
            }),
            None => None,
        };
        match error {
            Some(error) if filled == 0 => {
                self.stopped = true;
                Err(error)
            }
            error => {
                self.pending = error;
                Ok(Some(&self.buffer[..filled]))
            }
        }
    }

    /// Reads one byte after the segment: none may follow, and the codec makes its own checks at the end.
    fn check_end(&mut self) -> Result<(), WalReadError> {
        if self.trailing_is_known {
            return Ok(());
        }
        match fill(&mut self.stream, &mut [0]) {
            (_, Some(source)) => Err(self.unpack_error(source)),
            (0, None) => Ok(()),
            _ => Err(WalReadError::Longer { label: self.label.clone(), expected_bytes: self.segment_bytes }),
        }
    }

    fn unpack_error(&self, source: io::Error) -> WalReadError {
        WalReadError::Unpack {
            label: self.label.clone(),
            unpacked_bytes: self.delivered,
            stored_bytes: self.taken.load(Ordering::Relaxed),
            expected_bytes: self.segment_bytes,
            source,
        }
    }
}
