//! CRC-32C as the server computes it, behind one door so that the kernel can be exchanged.

/// CRC-32C (Castagnoli, reflected, start and final XOR `0xFFFFFFFF`) of one run of bytes.
///
/// Source: `INIT_CRC32C`, `COMP_CRC32C`, `FIN_CRC32C`, `src/include/port/pg_crc32c.h`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// Goes on with a CRC-32C: the CRC of what `before` is the CRC of, followed by `bytes`.
#[must_use]
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(before, bytes)
}

/// CRC-32C of `first` followed by `second`, without joining them: a WAL record's CRC covers the body, then the header.
#[must_use]
pub fn crc32c_of_two(first: &[u8], second: &[u8]) -> u32 {
    crc32c_append(crc32c(first), second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_parameters() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_of_two(b"1234", b"56789"), 0xE306_9283);
    }
}
