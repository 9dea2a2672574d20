//! Error of a decoder that runs out of bytes.

/// Bytes could not be decoded.
///
/// Displays as `DWBufFileHeader.blcksz at offset 0x2008: input ends, 2 bytes left`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}.{field} at offset {offset:#X}: {kind}")]
pub struct ParseError {
    /// The server's name of the structure.
    pub structure: &'static str,
    /// The field that could not be read.
    pub field: &'static str,
    /// Absolute offset of the field in the file (for WAL: its LSN).
    pub offset: u64,
    /// The problem.
    pub kind: ParseErrorKind,
}

/// The ways in which bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseErrorKind {
    /// The input ended inside the field.
    #[error("input ends, {left} bytes left")]
    Truncated {
        /// Bytes that were still there.
        left: usize,
    },
    /// A value that determines the following layout is outside the format.
    #[error("found {found:#X}, {expected}")]
    Invalid {
        /// The value in the input.
        found: u64,
        /// The values that the format allows, as a phrase.
        expected: &'static str,
    },
}
