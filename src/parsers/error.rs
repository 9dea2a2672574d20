//! What a decoder says when bytes run out.

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
    /// What was wrong.
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
    /// A value that decides how to go on is outside what the format allows.
    #[error("found {found:#X}, {expected}")]
    Invalid {
        /// The value in the input.
        found: u64,
        /// What the format allows, as a phrase.
        expected: &'static str,
    },
}
