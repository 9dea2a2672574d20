//! CRC-32C as the server computes it, in one function: which kernel does the work depends on the number of bytes.
//! Also here: SHA-256, as people compare it.

use sha2::{Digest, Sha256};

use super::cpu_dispatch::{short_crc32c, short_crc32c_append};

/// From this many bytes on the crate is faster, which computes three parts side by side. Below, one CRC instruction after
/// the other is: there is no fixed cost.
const LONG_BYTES: usize = 768;

/// CRC-32C (Castagnoli, reflected, start and final XOR `0xFFFFFFFF`) of one run of bytes.
///
/// Source: `INIT_CRC32C`, `COMP_CRC32C`, `FIN_CRC32C`, `src/include/port/pg_crc32c.h`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Continues a CRC-32C: returns the CRC of the bytes that `before` covers, followed by `bytes`.
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    let short = if bytes.len() < LONG_BYTES { short_crc32c_append(before, bytes) } else { None };
    short.unwrap_or_else(|| ::crc32c::crc32c_append(before, bytes))
}

/// CRC-32C of `first` followed by `second`, without joining them: a WAL record's CRC covers the body, then the header.
#[inline]
pub fn crc32c_of_two<const N: usize>(first: &[u8], second: &[u8; N]) -> u32 {
    if first.len() < LONG_BYTES
        && let Some(crc) = short_crc32c(first, second)
    {
        return crc;
    }
    crc32c_append(crc32c(first), second)
}

/// SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn sha256_text(bytes: &[u8]) -> String {
    let mut sum = Sha256Sum::default();
    sum.add(bytes);
    sum.text()
}

/// SHA-256 of bytes that come one part after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sha256Sum(Sha256);

impl Sha256Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn text(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_parameters() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_of_two(b"1234", b"56789"), 0xE306_9283);
        assert_eq!(crc32c_of_two(b"123456789", b""), 0xE306_9283);
    }

    #[test]
    fn all_kernels_agree_at_every_length_and_alignment() {
        let bytes: Vec<u8> = (0..9000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let lengths = (0..1100).chain([2047, 2048, 4095, 8150, 8168, 8192]);
        for length in lengths {
            for start in [0, 1, 3, 7, 8] {
                let piece = &bytes[start..start + length];
                let expected = ::crc32c::crc32c(piece);
                assert_eq!(crc32c(piece), expected, "{length} bytes from {start}");
                for split in [0, length.min(1), length / 3, length] {
                    let (first, second) = piece.split_at(split);
                    assert_eq!(crc32c_append(crc32c(first), second), expected, "{length} bytes split at {split}");
                }
                let Some((first, second)) = piece.split_last_chunk::<20>() else { continue };
                assert_eq!(crc32c_of_two(first, second), expected, "{length} bytes from {start}");
                if let Some(short) = short_crc32c(first, second) {
                    assert_eq!(short, expected, "{length} bytes from {start}");
                }
            }
        }
    }

    #[test]
    fn sum_of_parts_is_that_of_the_whole() {
        // What sha256sum says.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_text(b"abc"), known);
        let mut sum = Sha256Sum::default();
        sum.add(b"a");
        sum.add(b"bc");
        assert_eq!(sum.text(), known);
    }
}
