//! pglz, the server's own compression, as block images carry it: a bare token stream without a header.
//!
//! A control byte governs the next up to 8 items, least significant bit first. Bit 0: one literal byte. Bit 1: a match
//! of 2 bytes, 3 when the low half of the first is 15:
//!
//! | byte | bits | meaning                                                          |
//! |------|------|------------------------------------------------------------------|
//! | 0    | 0..4 | length - 3                                                       |
//! | 0    | 4..8 | high 4 bits of the distance, 1 to 4095, back from the output end |
//! | 1    | 0..8 | low 8 bits of the distance                                       |
//! | 2    | 0..8 | only when the length so far is 18: more length, 0 to 255         |
//!
//! Source: `pglz_decompress`, `src/common/pg_lzcompress.c`. As the server requires for images, input and output must be
//! used up exactly. Newer servers cut a last match that is longer than the room; no compressor writes one, so here it is
//! an error.

/// Why bytes are not a pglz stream of the wanted size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PglzError {
    /// The stream ends before the output is full.
    #[error("pglz: input ends with {written} of {wanted} bytes written")]
    InputEnds {
        /// Bytes written so far.
        written: usize,
        /// Bytes wanted.
        wanted: usize,
    },
    /// The output is full and bytes of the stream are left, or the last match is longer than the room.
    #[error("pglz: output of {wanted} bytes is full before the input ends")]
    OutputFull {
        /// Bytes wanted.
        wanted: usize,
    },
    /// A match reaches back before the first byte of the output, or has distance 0.
    #[error("pglz: match of distance {distance} at output byte {written}")]
    Distance {
        /// How far back the match points.
        distance: usize,
        /// Bytes written before it.
        written: usize,
    },
}

/// Longest match, in bytes: 15 + 3 + 255.
const LONGEST_MATCH: usize = 273;

/// Decompresses `input` into the first `length` bytes of `output`.
///
/// Bytes of `output` after `length` may be overwritten: copies are done in whole blocks of 16 where there is room.
pub(crate) fn decompress(input: &[u8], output: &mut [u8], length: usize) -> Result<(), PglzError> {
    let full = PglzError::OutputFull { wanted: length };
    if output.len() < length {
        return Err(full);
    }
    let mut input = input;
    let mut at = 0_usize;
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if at >= length {
            return Err(full);
        }
        if control == 0
            && let Some((literals, rest)) = input.split_first_chunk::<8>()
            && at.saturating_add(8) <= length
            && let Some(to) = output.get_mut(at..).and_then(|room| room.first_chunk_mut::<8>())
        {
            *to = *literals;
            at = at.saturating_add(8);
            input = rest;
            continue;
        }
        let mut bits = control;
        for _ in 0..8 {
            if at >= length || input.is_empty() {
                break;
            }
            if bits & 1 == 0 {
                let Some((&literal, rest)) = input.split_first() else { break };
                input = rest;
                if let Some(to) = output.get_mut(at) {
                    *to = literal;
                }
                at = at.saturating_add(1);
            } else {
                let (span, distance, rest) =
                    read_match(input).ok_or(PglzError::InputEnds { written: at, wanted: length })?;
                input = rest;
                if distance == 0 || distance > at {
                    return Err(PglzError::Distance { distance, written: at });
                }
                let end = at.saturating_add(span);
                if end > length {
                    return Err(full);
                }
                copy_match(output, at, distance, span);
                at = end;
            }
            bits >>= 1;
        }
    }
    if at < length {
        return Err(PglzError::InputEnds { written: at, wanted: length });
    }
    Ok(())
}

/// Length, distance and what follows the match at the start of `input`.
#[inline]
fn read_match(input: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (&[first, second], rest) = input.split_first_chunk::<2>()?;
    let distance = usize::from(first & 0xF0) << 4 | usize::from(second);
    let span = usize::from(first & 0x0F).saturating_add(3);
    if span < 18 {
        return Some((span, distance, rest));
    }
    let (&more, rest) = rest.split_first()?;
    Some((span.saturating_add(usize::from(more)), distance, rest))
}

/// Copies `span` bytes from `distance` bytes back to `at`; both lie inside, which the caller has checked.
#[inline]
fn copy_match(output: &mut [u8], at: usize, distance: usize, span: usize) {
    let room = output.len().saturating_sub(at);
    if distance >= 16 && room >= LONGEST_MATCH.saturating_add(16) {
        // Whole blocks of 16: source and target of one block do not overlap, and bytes after `span` come again.
        let Some(window) = output.get_mut(at.saturating_sub(distance)..) else { return };
        let mut done = 0_usize;
        while done < span {
            let (from, to) = (done, done.saturating_add(distance));
            let Some(&block) = window.get(from..).and_then(|rest| rest.first_chunk::<16>()) else { return };
            let Some(target) = window.get_mut(to..).and_then(|rest| rest.first_chunk_mut::<16>()) else { return };
            *target = block;
            done = done.saturating_add(16);
        }
        return;
    }
    let (mut from, mut to, mut left) = (at.saturating_sub(distance), at, span);
    if distance == 1 {
        let Some(&byte) = output.get(from) else { return };
        if let Some(run) = output.get_mut(to..to.saturating_add(left)) {
            run.fill(byte);
        }
        return;
    }
    // The distance doubles with every copy: what was just written serves as source.
    while left > 0 {
        let step = left.min(to.saturating_sub(from));
        if step == 0 || to.saturating_add(step) > output.len() {
            return;
        }
        output.copy_within(from..from.saturating_add(step), to);
        to = to.saturating_add(step);
        left = left.saturating_sub(step);
        from = at.saturating_sub(distance);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The format again, byte by byte, as an independent check of the fast paths.
    fn plain(input: &[u8], length: usize) -> Option<Vec<u8>> {
        let (mut out, mut i) = (Vec::new(), 0);
        while i < input.len() {
            let control = input[i];
            i += 1;
            if out.len() == length {
                return None;
            }
            for bit in 0..8 {
                if i >= input.len() || out.len() == length {
                    break;
                }
                if control >> bit & 1 == 0 {
                    out.push(input[i]);
                    i += 1;
                    continue;
                }
                let (a, b) = (usize::from(input[i]), usize::from(*input.get(i + 1)?));
                i += 2;
                let (mut span, distance) = ((a & 15) + 3, (a & 0xF0) << 4 | b);
                if span == 18 {
                    span += usize::from(*input.get(i)?);
                    i += 1;
                }
                if distance == 0 || distance > out.len() || out.len() + span > length {
                    return None;
                }
                for _ in 0..span {
                    out.push(out[out.len() - distance]);
                }
            }
        }
        (out.len() == length).then_some(out)
    }

    fn fast(input: &[u8], length: usize, slack: usize) -> Option<Vec<u8>> {
        let mut out = vec![0xEE; length + slack];
        decompress(input, &mut out, length).ok()?;
        out.truncate(length);
        Some(out)
    }

    /// A stream made of `items`, and nothing but valid when distances fit.
    fn stream(items: &[(bool, u8, u16, u8)]) -> (Vec<u8>, usize) {
        let (mut bytes, mut length) = (Vec::new(), 0_usize);
        for group in items.chunks(8) {
            let control = bytes.len();
            bytes.push(0);
            for (bit, &(literal, byte, distance, span)) in group.iter().enumerate() {
                if literal || length == 0 {
                    bytes.push(byte);
                    length += 1;
                    continue;
                }
                bytes[control] |= 1 << bit;
                let distance = usize::from(distance) % length.min(4095) + 1;
                let (low, more) = if span < 15 { (span, None) } else { (15, Some(span - 15)) };
                bytes.push(((distance >> 4) & 0xF0) as u8 | low);
                bytes.push((distance & 0xFF) as u8);
                bytes.extend(more);
                length += usize::from(span) + 3;
            }
        }
        (bytes, length)
    }

    #[test]
    fn micro_vectors() {
        assert_eq!(fast(&[0x02, 0x61, 0x06, 0x01], 10, 0), Some(vec![b'a'; 10]));
        assert_eq!(fast(&[0x02, 0x61, 0x0F, 0x01, 0x05], 24, 0), Some(vec![b'a'; 24]));
        assert_eq!(fast(&[0x02, 0x61, 0x0F, 0x01, 0x05], 24, 400), Some(vec![b'a'; 24]));
    }

    #[test]
    fn zero_distance_and_distance_before_the_start_are_errors() {
        let mut out = [0; 32];
        assert_eq!(
            decompress(&[0x02, 0x61, 0x00, 0x00], &mut out, 4),
            Err(PglzError::Distance { distance: 0, written: 1 })
        );
        assert_eq!(
            decompress(&[0x02, 0x61, 0x00, 0x02], &mut out, 4),
            Err(PglzError::Distance { distance: 2, written: 1 })
        );
    }

    #[test]
    fn input_and_output_must_end_together() {
        let mut out = [0; 32];
        let input = [0x02, 0x61, 0x0F, 0x01, 0x05];
        assert_eq!(decompress(&input, &mut out, 25), Err(PglzError::InputEnds { written: 24, wanted: 25 }));
        assert_eq!(decompress(&input, &mut out, 23), Err(PglzError::OutputFull { wanted: 23 }));
        assert_eq!(decompress(&[0, 1, 2, 3], &mut out, 2), Err(PglzError::OutputFull { wanted: 2 }));
        assert_eq!(decompress(&input, &mut out, 33), Err(PglzError::OutputFull { wanted: 33 }));
        assert_eq!(decompress(&[], &mut out, 0), Ok(()));
    }

    proptest! {
        #[test]
        fn fast_paths_agree_with_the_plain_loop(
            items in prop::collection::vec((any::<bool>(), any::<u8>(), any::<u16>(), any::<u8>()), 0..400),
            slack in prop::sample::select(vec![0_usize, 7, 300, 5000]),
        ) {
            let (bytes, length) = stream(&items);
            let wanted = plain(&bytes, length);
            prop_assert!(wanted.is_some());
            prop_assert_eq!(fast(&bytes, length, slack), wanted);
        }

        #[test]
        fn any_bytes_agree_and_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300), length in 0_usize..1000, slack in 0_usize..500,
        ) {
            prop_assert_eq!(fast(&bytes, length, slack), plain(&bytes, length));
        }
    }
}
