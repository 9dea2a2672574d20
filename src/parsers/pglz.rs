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

/// A match that is longer needs a third byte.
const LONGEST_SHORT_MATCH: usize = 17;
const SHORTEST_MATCH: usize = 3;
/// A match begins at most this far back.
const FARTHEST: usize = 4094;
/// Positions that are remembered: more than can be reached, and a power of two.
const HISTORY: usize = 4096;
/// Most lists of positions with the same hash.
const MAX_LISTS: usize = 8192;
/// The server compresses nothing shorter, in bytes.
const SHORTEST_INPUT: usize = 32;
/// Of no page size that a server can have.
const LONGEST_INPUT: usize = 1 << 15;
/// Without a match in so many bytes of output the server gives up.
const FIRST_MATCH_WITHIN: usize = 1024;
/// The result has at most so many percent of the input, less one byte.
const WORTH_PERCENT: usize = 75;
/// A match of so many bytes ends the search.
const GOOD_MATCH: usize = 128;
/// The length that ends the search falls by this many percent with each position.
const GOOD_MATCH_DROP_PERCENT: usize = 10;

/// Compresses images as the server does it for block images; keeps its tables, so use one per thread for many images.
///
/// The bytes are the same, so that what another setting would have stored is known and not estimated.
/// At each byte the latest positions are tried whose next four bytes have the same hash, newest first. The longest match
/// wins, and of equal ones the newest. The search ends early at a match that is good enough, and what is good enough falls
/// with each position tried. Positions inside a match are remembered as well.
///
/// Source: `pglz_compress` with `PGLZ_strategy_default`, `src/common/pg_lzcompress.c`. The server keeps its history in
/// doubly linked lists from which it takes what is too old to be reached; a search that ends there gives the same. Its hash
/// takes bytes as C's `char`: with a sign, as on x86. A server whose `char` has none (ARM) finds other matches now and then.
#[derive(Clone, Debug)]
pub struct PglzCompressor {
    /// By hash: the newest position plus one, or 0.
    newest: Vec<u16>,
    /// By position, modulo [`HISTORY`]: the one before it with the same hash, plus one, or 0.
    before: Vec<u16>,
}

impl Default for PglzCompressor {
    fn default() -> Self {
        Self { newest: vec![0; MAX_LISTS], before: vec![0; HISTORY] }
    }
}

impl PglzCompressor {
    /// A compressor that has not seen an image yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes what the server would store for `input`, a page without its hole, over `output`. False when the server would
    /// give up, because it is too short or saves less than a quarter; `output` then holds anything. Of input that is longer
    /// than any page nothing is compressed.
    pub fn compress(&mut self, input: &[u8], output: &mut Vec<u8>) -> bool {
        output.clear();
        if !(SHORTEST_INPUT..=LONGEST_INPUT).contains(&input.len()) {
            return false;
        }
        let limit = input.len().saturating_mul(WORTH_PERCENT) / 100;
        let mask = lists_for(input.len()).saturating_sub(1);
        if let Some(used) = self.newest.get_mut(..=mask) {
            used.fill(0);
        }
        let (mut control_at, mut control_bit) = (0_usize, 0_u8);
        let mut has_match = false;
        let mut at = 0_usize;
        while at < input.len() {
            if output.len() >= limit || (!has_match && output.len() >= FIRST_MATCH_WITHIN) {
                return false;
            }
            if control_bit == 0 {
                control_at = output.len();
                output.push(0);
                control_bit = 1;
            }
            let taken = match self.longest_match(input, at, mask) {
                Some((length, distance)) => {
                    has_match = true;
                    if let Some(control) = output.get_mut(control_at) {
                        *control |= control_bit;
                    }
                    put_match(output, length, distance);
                    length
                }
                None => {
                    output.extend(input.get(at));
                    1
                }
            };
            control_bit <<= 1;
            let next = at.saturating_add(taken);
            while at < next {
                self.remember(input, at, mask);
                at = at.saturating_add(1);
            }
        }
        output.len() < limit
    }

    /// Length and distance of the match that the server would take at `at`, if it would take one.
    #[inline]
    fn longest_match(&self, input: &[u8], at: usize, mask: usize) -> Option<(usize, usize)> {
        let rest = input.get(at..)?;
        let rest = rest.get(..LONGEST_MATCH).unwrap_or(rest);
        let (mut length, mut distance) = (0_usize, 0_usize);
        let mut good = GOOD_MATCH;
        let mut entry = self.newest.get(hash(rest) & mask).copied()?;
        while let Some(position) = usize::from(entry).checked_sub(1) {
            let back = at.saturating_sub(position);
            if back > FARTHEST {
                break;
            }
            let candidate = input.get(position..)?;
            // Only one that is longer counts, so the byte after the longest so far must fit.
            if candidate.get(length) == rest.get(length) && length < rest.len() {
                let common = common_length(rest, candidate);
                if common > length {
                    (length, distance) = (common, back);
                }
            }
            if length >= good {
                break;
            }
            good = good.saturating_sub(good.saturating_mul(GOOD_MATCH_DROP_PERCENT) / 100);
            entry = self.before.get(position % HISTORY).copied()?;
        }
        (length >= SHORTEST_MATCH).then_some((length, distance))
    }

    /// Remembers position `at`.
    #[inline]
    fn remember(&mut self, input: &[u8], at: usize, mask: usize) {
        let slot = hash(input.get(at..).unwrap_or_default()) & mask;
        if let (Some(newest), Some(before)) = (self.newest.get_mut(slot), self.before.get_mut(at % HISTORY)) {
            *before = *newest;
            *newest = u16::try_from(at.saturating_add(1)).unwrap_or_default();
        }
    }
}

/// How many lists the server uses for an input: few for a short one, since they are emptied first.
const fn lists_for(length: usize) -> usize {
    match length {
        0..128 => 512,
        128..256 => 1024,
        256..512 => 2048,
        512..1024 => 4096,
        _ => MAX_LISTS,
    }
}

/// Hash of the first four bytes, or of the first alone where there are fewer.
#[inline]
fn hash(rest: &[u8]) -> usize {
    let signed = |byte: u8| i32::from(byte.cast_signed());
    let key = match rest {
        [a, b, c, d, ..] => (signed(*a) << 6) ^ (signed(*b) << 4) ^ (signed(*c) << 2) ^ signed(*d),
        [a, ..] => signed(*a),
        [] => 0,
    };
    // Only low bits are used.
    usize::try_from(key & i32::from(u16::MAX)).unwrap_or_default()
}

/// How many bytes are equal from the start.
#[inline]
fn common_length(one: &[u8], other: &[u8]) -> usize {
    let mut length = 0_usize;
    for (left, right) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if differing != 0 {
            return length.saturating_add(usize::try_from(differing.trailing_zeros() / 8).unwrap_or_default());
        }
        length = length.saturating_add(8);
    }
    let tail = one.get(length..).unwrap_or_default().iter().zip(other.get(length..).unwrap_or_default());
    length.saturating_add(tail.take_while(|(left, right)| left == right).count())
}

/// Writes a match, 2 or 3 bytes.
#[inline]
fn put_match(output: &mut Vec<u8>, length: usize, distance: usize) {
    let low = |value: usize| u8::try_from(value & 0xFF).unwrap_or_default();
    let high_distance = low(distance >> 4) & 0xF0;
    if length > LONGEST_SHORT_MATCH {
        output.extend([high_distance | 0x0F, low(distance), low(length.saturating_sub(LONGEST_SHORT_MATCH + 1))]);
    } else {
        output.extend([high_distance | low(length.saturating_sub(SHORTEST_MATCH)), low(distance)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parsers::pglz::decompress;

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

    fn compressed(input: &[u8]) -> Option<Vec<u8>> {
        let mut output = Vec::new();
        PglzCompressor::new().compress(input, &mut output).then_some(output)
    }

    /// Worked out by hand: one literal, then the longest possible matches at distance 1.
    #[test]
    fn page_of_one_byte_is_a_literal_and_long_matches() {
        // 8191 bytes after the literal: 30 matches of 273 bytes, and one of the single byte that is left, a literal.
        let (zeros, expected_matches) = (compressed(&[0; 8192]).unwrap(), 8191 / 273);
        let mut expected = Vec::new();
        let mut items = vec![vec![0]];
        items.extend(vec![vec![0x0F, 1, 255]; expected_matches]);
        items.push(vec![0]);
        assert_eq!(8191 - expected_matches * 273, 1);
        for group in items.chunks(8) {
            let control = group.iter().enumerate().map(|(bit, item)| u8::from(item.len() > 1) << bit).sum();
            expected.push(control);
            expected.extend(group.concat());
        }
        assert_eq!(zeros, expected);
    }

    #[test]
    fn short_input_and_input_that_saves_little_is_refused() {
        assert_eq!(compressed(&[7; 31]), None);
        assert_eq!(compressed(&[7; 32]), Some(vec![0x02, 7, 0x0F, 1, 13]));
        assert_eq!(compressed(&[7; (1 << 15) + 1]), None);
        // The first half never comes again and the second is all one byte: 9 of 16 bits, then nearly nothing.
        let mixed = |literals: u32| -> Vec<u8> {
            let noise = (1..=literals).map(|i| {
                let mixed = i.wrapping_mul(0x9E37_79B9) ^ i.wrapping_mul(i).rotate_left(7);
                (mixed.wrapping_mul(0x85EB_CA6B) >> 17) as u8
            });
            noise.chain(std::iter::repeat_n(0, 512 - literals as usize)).collect()
        };
        let kept = compressed(&mixed(256)).unwrap();
        assert!((280..384).contains(&kept.len()), "{}", kept.len());
        assert_eq!(compressed(&mixed(500)), None);
    }

    #[test]
    fn without_a_match_in_the_first_kilobyte_the_server_gives_up() {
        // 911 literals and their control bytes are 1025 bytes of output, and no four bytes come twice in the first 1820.
        let noise: Vec<u8> = (0..910_u32).flat_map(|i| [(i >> 8) as u8 ^ 0x5A, i as u8]).collect();
        let mut late = noise.clone();
        late.extend([0; 6000]);
        assert_eq!(compressed(&late), None);
        let mut early = noise[..400].to_vec();
        early.extend([0; 6000]);
        assert!(compressed(&early).is_some());
    }

    #[test]
    fn what_is_farther_than_4094_bytes_is_not_found() {
        let page = |gap: usize| {
            let mut page = b"a mark of some length".to_vec();
            page.extend(vec![0; gap]);
            page.extend(b"a mark of some length");
            compressed(&page).unwrap()
        };
        let (found, not_found) = (page(4094 - 21), page(4095 - 21));
        // A match of 3 bytes against 21 literals with their control bytes.
        assert!(not_found.len() > found.len() + 18, "{} {}", not_found.len(), found.len());
    }

    /// Bytes as pages have them: runs, repeated words, and noise.
    fn page_like() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            (any::<u8>(), 1_usize..400).prop_map(|(byte, length)| vec![byte; length]),
            prop::collection::vec(any::<u8>(), 1..60),
            prop::collection::vec(prop::sample::select(vec![0_u8, 1, 0x80, 0xFF]), 1..200),
            (prop::collection::vec(any::<u8>(), 1..20), 1_usize..40).prop_map(|(word, times)| word.repeat(times)),
        ];
        prop::collection::vec(piece, 1..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(input in page_like()) {
            let mut compressor = PglzCompressor::new();
            let mut output = Vec::new();
            // A second time, with tables that are not empty, gives the same.
            for _ in 0..2 {
                if compressor.compress(&input, &mut output) {
                    prop_assert!(output.len() < input.len() * 3 / 4);
                    let mut back = vec![0xEE; input.len()];
                    prop_assert_eq!(decompress(&output, &mut back, input.len()), Ok(()));
                    prop_assert_eq!(&back, &input);
                }
                let first = output.clone();
                compressor.compress(&[output.as_slice(), &input].concat(), &mut output);
                compressor.compress(&input, &mut output);
                prop_assert_eq!(&first, &output);
            }
        }

        #[test]
        fn any_bytes_are_compressed_or_refused(input in prop::collection::vec(any::<u8>(), 0..2000)) {
            if let Some(output) = compressed(&input) {
                let mut back = vec![0; input.len()];
                prop_assert_eq!(decompress(&output, &mut back, input.len()), Ok(()));
                prop_assert_eq!(back, input);
            }
        }
    }
}
