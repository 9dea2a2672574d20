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
/// whose `pd_upper` is 0. Bytes after the last multiple of 128 are not part of the sum; every page size of the server
/// is such a multiple.
///
/// Source: `pg_checksum_page`, `src/include/storage/checksum_impl.h`.
pub fn page_checksum(page: &[u8], block: u32) -> u16 {
    let [mixed] = cpu_dispatch::mix(page);
    fold(mixed, block)
}

/// The checksums of consecutive pages of `page_bytes` bytes each, the first of them block `first_block`, appended to
/// `sums`. Bytes after the last whole page are not examined.
///
/// Four pages are computed at a time: a step waits for the multiplication before it, and the other pages fill the wait.
pub fn page_checksums(pages: &[u8], page_bytes: usize, first_block: u32, sums: &mut Vec<u16>) {
    let page_bytes = page_bytes.max(1);
    let mut blocks = (0..).map(|index: u32| first_block.wrapping_add(index));
    let mut fours = pages.chunks_exact(page_bytes.saturating_mul(4));
    for four in &mut fours {
        let (front, back) = four.split_at(page_bytes.saturating_mul(2));
        let ((one, two), (three, four)) = (front.split_at(page_bytes), back.split_at(page_bytes));
        let mixed = cpu_dispatch::mix_four([one, two, three, four]);
        sums.extend(mixed.into_iter().zip(&mut blocks).map(|(mixed, block)| fold(mixed, block)));
    }
    let rest = fours.remainder().chunks_exact(page_bytes);
    sums.extend(rest.zip(blocks).map(|(page, block)| page_checksum(page, block)));
}

/// Turns the mixed lanes and the block number into 1 ..= 65535.
fn fold(mixed: u32, block: u32) -> u16 {
    let reduced = (mixed ^ block) % 65_535;
    u16::try_from(reduced.saturating_add(1)).unwrap_or(u16::MAX)
}

/// The whole computation up to the block number, for pages of equal length, in turns. Inlined into each copy that
/// `cpu_dispatch` compiles; a closure here would be compiled for the baseline registers and cost half the speed.
#[inline(always)]
pub(super) fn mix_body<const N: usize>(pages: [&[u8]; N]) -> [u32; N] {
    let mut lanes = [LANE_START; N];
    let rounds = pages.map(|page| page.as_chunks::<ROUND_BYTES>().0);
    for (lanes, rounds) in lanes.iter_mut().zip(&rounds) {
        if let Some(first) = rounds.first() {
            step(lanes, &first_words(first));
        }
    }
    let count = rounds.first().map_or(0, |rounds| rounds.len());
    for round in 1..count {
        for (lanes, rounds) in lanes.iter_mut().zip(&rounds) {
            if let Some(round) = rounds.get(round) {
                step(lanes, &words_of(round));
            }
        }
    }
    let mut mixed = [0; N];
    for (mixed, lanes) in mixed.iter_mut().zip(lanes) {
        *mixed = finish(lanes);
    }
    mixed
}

/// The words of the first round, the stored checksum taken as zero.
#[inline(always)]
fn first_words(round: &[u8; ROUND_BYTES]) -> [u32; LANES] {
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
fn words_of(round: &[u8; ROUND_BYTES]) -> [u32; LANES] {
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
            assert_eq!(cpu_dispatch::mix(&page[..size]), mix_body([&page[..size]]), "size {size}");
            let quarter = |at| &page[size / 4 * at..size / 4 * (at + 1)];
            let four = [quarter(0), quarter(1), quarter(2), quarter(3)];
            let alone = four.map(|page| mix_body([page])[0]);
            assert_eq!(cpu_dispatch::mix_four(four), alone, "size {size}");
            assert_eq!(mix_body(four), alone, "size {size}");
        }
    }

    #[test]
    fn pages_together_have_the_sums_of_pages_alone() {
        let bytes: Vec<u8> = (0..150_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for size in [1024, 8192, 16_384] {
            for count in 0..=9 {
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
