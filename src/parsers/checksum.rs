//! The page checksum of `data_checksum_version` 1: 32 interleaved FNV-like lanes, folded to 16 bits.
//!
//! The body is plain safe Rust that the compiler vectorises; the private `cpu_dispatch` module picks, at run time,
//! the copy of it that was compiled for the widest registers of this machine.

use super::cpu_dispatch;

/// Words taken in one round, one a lane.
const LANES: usize = 32;

/// Bytes taken in one round.
const ROUND_BYTES: usize = LANES * 4;

/// Multiplier of a lane's step.
///
/// Source: `FNV_PRIME`, `src/include/storage/checksum_impl.h`.
const PRIME: u32 = 16_777_619;

/// Start value of every lane.
///
/// Source: `checksumBaseOffsets`, `src/include/storage/checksum_impl.h`.
const LANE_START: [u32; LANES] = [
    0x5B1F_36E9,
    0xB852_5960,
    0x02AB_50AA,
    0x1DE6_6D2A,
    0x79FF_467A,
    0x9BB9_F8A3,
    0x217E_7CD2,
    0x83E1_3D2C,
    0xF8D4_474F,
    0xE39E_B970,
    0x42C6_AE16,
    0x9932_16FA,
    0x7B09_3B5D,
    0x98DA_FF3C,
    0xF718_902A,
    0x0B1C_9CDB,
    0xE58F_764B,
    0x1876_36BC,
    0x5D7B_3BB1,
    0xE73D_E7DE,
    0x92BE_C979,
    0xCCA6_C0B2,
    0x304A_0979,
    0x85AA_43D4,
    0x7831_25BB,
    0x6CA8_EAA2,
    0xE407_EAC6,
    0x4B5C_FC3E,
    0x9FBF_8C76,
    0x15CA_20BE,
    0xF2CA_9FD3,
    0x959B_D756,
];

/// Word of the page that holds `pd_checksum` (low half) and `pd_flags` (high half): bytes 8 to 11.
const CHECKSUM_WORD: usize = 2;

/// Computes the checksum of a data page, `pd_checksum` itself (bytes 8 and 9) taken as zero.
///
/// `block` is the number within the fork, not within a segment file. The server never computes a checksum for a page
/// whose `pd_upper` is 0. Bytes behind the last multiple of 128 are not part of the sum; every page size of the server
/// is such a multiple.
///
/// Source: `pg_checksum_page`, `src/include/storage/checksum_impl.h`.
#[must_use]
pub fn page_checksum(page: &[u8], block: u32) -> u16 {
    fold(cpu_dispatch::mix(page), block)
}

/// The checksums of consecutive pages of `page_bytes` bytes each, the first of them block `first_block`, appended to
/// `sums`. Bytes behind the last whole page are not looked at.
///
/// Two pages are computed at a time: a step waits for the multiplication before it, and the other page fills the wait.
pub fn page_checksums(pages: &[u8], page_bytes: usize, first_block: u32, sums: &mut Vec<u16>) {
    let mut block = first_block;
    let mut pairs = pages.chunks_exact(page_bytes.max(1).saturating_mul(2));
    for pair in &mut pairs {
        let (one, other) = pair.split_at(page_bytes);
        let mixed = cpu_dispatch::mix_two(one, other);
        for mixed in mixed {
            sums.push(fold(mixed, block));
            block = block.wrapping_add(1);
        }
    }
    for page in pairs.remainder().chunks_exact(page_bytes.max(1)) {
        sums.push(page_checksum(page, block));
        block = block.wrapping_add(1);
    }
}

/// Turns the mixed lanes and the block number into 1 ..= 65535.
fn fold(mixed: u32, block: u32) -> u16 {
    let reduced = (mixed ^ block) % 65_535;
    u16::try_from(reduced.saturating_add(1)).unwrap_or(u16::MAX)
}

/// The whole computation up to the block number. Inlined into each copy that `cpu_dispatch` compiles; a closure
/// here would be compiled for the baseline registers and cost half the speed.
#[inline(always)]
pub(super) fn mix_body(page: &[u8]) -> u32 {
    let mut lanes = LANE_START;
    let mut rounds = page.chunks_exact(ROUND_BYTES);
    if let Some(first) = rounds.next() {
        step(&mut lanes, &first_words(first));
    }
    for round in rounds {
        step(&mut lanes, &words_of(round));
    }
    finish(lanes)
}

/// The same for two pages of equal length, in turns.
#[inline(always)]
pub(super) fn mix_two_body(one: &[u8], other: &[u8]) -> [u32; 2] {
    let (mut lanes, mut other_lanes) = (LANE_START, LANE_START);
    let mut rounds = one.chunks_exact(ROUND_BYTES).zip(other.chunks_exact(ROUND_BYTES));
    if let Some((first, other)) = rounds.next() {
        step(&mut lanes, &first_words(first));
        step(&mut other_lanes, &first_words(other));
    }
    for (round, other) in rounds {
        step(&mut lanes, &words_of(round));
        step(&mut other_lanes, &words_of(other));
    }
    [finish(lanes), finish(other_lanes)]
}

/// The words of the first round, the stored checksum taken as zero.
#[inline(always)]
fn first_words(round: &[u8]) -> [u32; LANES] {
    let mut words = words_of(round);
    if let Some(word) = words.get_mut(CHECKSUM_WORD) {
        *word &= 0xFFFF_0000;
    }
    words
}

#[inline(always)]
fn finish(mut lanes: [u32; LANES]) -> u32 {
    step(&mut lanes, &[0; LANES]);
    step(&mut lanes, &[0; LANES]);
    let mut mixed = 0;
    for lane in lanes {
        mixed ^= lane;
    }
    mixed
}

#[inline(always)]
fn words_of(round: &[u8]) -> [u32; LANES] {
    let mut words = [0; LANES];
    let (chunks, _) = round.as_chunks::<4>();
    for (word, bytes) in words.iter_mut().zip(chunks) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

#[inline(always)]
fn step(lanes: &mut [u32; LANES], words: &[u32; LANES]) {
    for (lane, word) in lanes.iter_mut().zip(words) {
        let mixed = *lane ^ *word;
        *lane = mixed.wrapping_mul(PRIME) ^ (mixed >> 17);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(size: usize, header: &str) -> Vec<u8> {
        let mut page = vec![0; size];
        for (at, byte) in header.as_bytes().chunks(2).enumerate() {
            page[at] = u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 16).unwrap();
        }
        page
    }

    /// The fact sheet's vectors, equal to the server's own `page_checksum()` on 15 and 18.
    #[test]
    fn vectors_of_the_server() {
        let a = page(8192, "000000000000000000000000180000200020042000000000");
        for (block, expected) in [(0, 25_952), (1, 25_951), (131_072, 25_950), (4_294_967_294, 39_586)] {
            assert_eq!(page_checksum(&a, block), expected, "page A, block {block}");
        }
        let mut b = page(8192, "010000002800000034120400180000200020042000000000");
        b[100] = 0xAB;
        b[8191] = 0xFF;
        for (block, expected) in [(0, 10_681), (1, 10_682), (131_072, 10_679), (4_294_967_294, 54_855)] {
            assert_eq!(page_checksum(&b, block), expected, "page B, block {block}");
        }
    }

    #[test]
    fn vectors_of_other_page_sizes() {
        for (size, block_0, block_1) in [
            (1024_u16, 750, 749),
            (2048, 59_477, 59_476),
            (4096, 18_895, 18_896),
            (16_384, 22_430, 22_431),
            (32_768, 30_908, 30_909),
        ] {
            let mut page = page(usize::from(size), "000000000000000000000000180000000000000000000000");
            page[14..16].copy_from_slice(&size.to_le_bytes());
            page[16..18].copy_from_slice(&size.to_le_bytes());
            page[18..20].copy_from_slice(&(size | 4).to_le_bytes());
            assert_eq!(page_checksum(&page, 0), block_0, "size {size}");
            assert_eq!(page_checksum(&page, 1), block_1, "size {size}");
        }
    }

    #[test]
    fn every_flipped_bit_changes_the_sum_except_in_the_stored_checksum() {
        let mut page = page(8192, "010000002800000034120400180000200020042000000000");
        let before = page_checksum(&page, 7);
        for byte in (0..8192).step_by(61).chain([8, 9, 10, 11]) {
            for bit in 0..8 {
                page[byte] ^= 1 << bit;
                assert_eq!(page_checksum(&page, 7) == before, byte == 8 || byte == 9, "byte {byte} bit {bit}");
                page[byte] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn all_register_widths_agree() {
        let page: Vec<u8> = (0..32_768_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for size in [0, 1, 127, 128, 1024, 8192, 32_768] {
            assert_eq!(cpu_dispatch::mix(&page[..size]), mix_body(&page[..size]), "size {size}");
            let (one, other) = (&page[..size / 2], &page[size / 2..size / 2 * 2]);
            assert_eq!(cpu_dispatch::mix_two(one, other), [mix_body(one), mix_body(other)], "size {size}");
        }
    }

    #[test]
    fn pages_together_have_the_sums_of_pages_alone() {
        let bytes: Vec<u8> = (0..50_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for size in [1024, 8192, 16_384] {
            for count in 0..=5 {
                let pages = &bytes[..bytes.len().min(count * size + 100)];
                let mut sums = vec![7];
                page_checksums(pages, size, u32::MAX - 1, &mut sums);
                let alone = pages.chunks_exact(size).zip(0_u32..);
                let expected: Vec<u16> =
                    alone.map(|(page, at)| page_checksum(page, (u32::MAX - 1).wrapping_add(at))).collect();
                assert_eq!(sums[1..], expected, "{count} pages of {size}");
            }
        }
    }
}
