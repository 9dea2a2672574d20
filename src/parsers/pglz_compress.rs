//! Compression with pglz as the server does it for block images: the same bytes, so that what another setting would have
//! stored is known and not estimated. The format is described in [`super::pglz`].
//!
//! At each byte the latest positions are tried whose next four bytes have the same hash, newest first. The longest match
//! wins, and of equal ones the newest. The search ends early at a match that is good enough, and what is good enough falls
//! with each position tried. Positions inside a match are remembered as well.
//!
//! Source: `pglz_compress` with `PGLZ_strategy_default`, `src/common/pg_lzcompress.c`. The server keeps its history in
//! doubly linked lists from which it takes what is too old to be reached; a search that ends there gives the same. Its hash
//! takes bytes as C's `char`: with a sign, as on x86. A server whose `char` has none (ARM) finds other matches now and then.

/// Longest match, in bytes: 15 + 3 + 255.
const LONGEST_MATCH: usize = 273;
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

/// Compresses images; keeps its tables, so use one per thread for many images.
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
#[path = "pglz_compress_tests.rs"]
mod tests;
