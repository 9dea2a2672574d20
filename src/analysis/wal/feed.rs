//! The bytes of a run of segments in order, piece by piece.

use std::ops::{ControlFlow, Range};

use crate::cluster::wal::{WalReadError, WalSet};

#[derive(Debug)]
pub(super) struct Fed {
    pub(super) file: usize,
    pub(super) how: FedEnd,
    /// Files that have more bytes than belong to their segment, all of which were delivered.
    pub(super) past_end: Vec<(usize, WalReadError)>,
}

pub(super) enum Feed<'p> {
    /// The bytes of this segment are next.
    File(usize),
    Piece(&'p [u8]),
}

#[derive(Debug)]
pub(super) enum FedEnd {
    Whole,
    Enough,
    /// The segment has fewer bytes than belong to it: what follows in the next file does not follow in WAL. The error says
    /// why, unless the set has said so.
    Short(Option<WalReadError>),
    Closed(WalReadError),
}

/// Gives the bytes of the segments `files` to `receive`, without the first `skip` bytes, until it stops. Of segments
/// after `last` probably little is needed. `buffer` is of any content; it is taken into use and given back, so that the
/// next segment needs no memory of its own.
pub(super) fn feed(
    set: &WalSet,
    files: Range<usize>,
    mut skip: u64,
    last: usize,
    buffer: &mut Vec<u8>,
    mut receive: impl FnMut(Feed<'_>) -> ControlFlow<()>,
) -> Fed {
    let mut past_end = Vec::new();
    for file in files.clone() {
        if receive(Feed::File(file)).is_break() {
            return Fed { file, how: FedEnd::Enough, past_end };
        }
        let reader = match set.reader_into(file, std::mem::take(buffer)) {
            Ok(reader) => reader,
            Err(error) => return Fed { file, how: FedEnd::Closed(error), past_end },
        };
        let mut reader = if file > last { reader.into_small_pieces() } else { reader };
        let how = loop {
            let piece = match reader.next_piece() {
                Ok(Some(piece)) => piece,
                Ok(None) => break None,
                Err(error) if error.is_past_the_segment() => {
                    past_end.push((file, error));
                    break None;
                }
                Err(error) => break Some(FedEnd::Short(Some(error).filter(|error| !error.is_short()))),
            };
            let passed = skip.min(piece.len() as u64);
            skip = skip.saturating_sub(passed);
            let rest = &piece[usize::try_from(passed).unwrap_or(piece.len())..];
            if receive(Feed::Piece(rest)).is_break() {
                break Some(FedEnd::Enough);
            }
        };
        *buffer = reader.into_buffer();
        if let Some(how) = how {
            return Fed { file, how, past_end };
        }
    }
    Fed { file: files.end, how: FedEnd::Whole, past_end }
}
