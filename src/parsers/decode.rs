//! The only glue to nom: fixed-width primitives, and the step from nom's errors to absolute offsets.
//!
//! The primitives are our own because the generic ones of nom 8 go through a byte loop; these compile to one load.
//! Also here: error of a decoder that runs out of bytes.

use nom::error::{ContextError, ErrorKind};
use nom::{Err, IResult};

/// Where and why a nom parser stopped; turned into a [`ParseError`] by `decode_at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Bytes not consumed at the field that failed.
    left: usize,
    /// Name of that field, set by `context`.
    field: &'static str,
    kind: ParseErrorKind,
}

impl nom::error::ParseError<&[u8]> for Stop {
    fn from_error_kind(input: &[u8], _: ErrorKind) -> Self {
        Self { left: input.len(), field: "", kind: ParseErrorKind::Truncated { left: input.len() } }
    }

    fn append(_: &[u8], _: ErrorKind, other: Self) -> Self {
        other
    }
}

impl ContextError<&[u8]> for Stop {
    fn add_context(_: &[u8], field: &'static str, mut other: Self) -> Self {
        if other.field.is_empty() {
            other.field = field;
        }
        other
    }
}

/// Result of a parser over bytes.
pub(crate) type ParseStep<'a, T> = IResult<&'a [u8], T, Stop>;

fn truncated<T>(input: &[u8]) -> ParseStep<'_, T> {
    Err(Err::Error(nom::error::ParseError::from_error_kind(input, ErrorKind::Eof)))
}

/// Fails at `input` because `found` is outside what the format allows.
pub(crate) fn invalid<'a, T>(
    input: &'a [u8],
    field: &'static str,
    found: u64,
    expected: &'static str,
) -> ParseStep<'a, T> {
    Err(Err::Error(Stop { left: input.len(), field, kind: ParseErrorKind::Invalid { found, expected } }))
}

macro_rules! fixed_width {
    ($($name:ident: $type:ty, $what:literal;)*) => {$(
        #[doc = concat!("Reads ", $what, ", least significant byte first.")]
        #[inline]
        pub fn $name(input: &[u8]) -> ParseStep<'_, $type> {
            match input.split_first_chunk() {
                Some((bytes, rest)) => Ok((rest, <$type>::from_le_bytes(*bytes))),
                None => truncated(input),
            }
        }
    )*};
}

fixed_width! {
    le_u8: u8, "one byte";
    le_u16: u16, "2 bytes";
    le_u32: u32, "4 bytes";
    le_i32: i32, "4 bytes, signed";
    le_u64: u64, "8 bytes";
    le_i64: i64, "8 bytes, signed";
}

/// A field of a structure that is read for every page or row: what `context` of nom does, in line.
///
/// # Errors
/// Those of `parser`, with the name of the field.
#[inline(always)]
pub(crate) fn field<'a, T>(
    input: &'a [u8],
    name: &'static str,
    parser: impl FnOnce(&'a [u8]) -> ParseStep<'a, T>,
) -> ParseStep<'a, T> {
    parser(input).map_err(|error| error.map(|stop| Stop::add_context(input, name, stop)))
}

/// Takes `length` bytes as they are.
#[inline]
pub fn take(length: usize) -> impl Fn(&[u8]) -> ParseStep<'_, &[u8]> {
    move |input| match input.split_at_checked(length) {
        Some((bytes, rest)) => Ok((rest, bytes)),
        None => truncated(input),
    }
}

/// Two bytes at an offset, little-endian; `None` past the end.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

/// Four bytes at an offset, little-endian; `None` past the end.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Two bytes at an offset, big-endian; `None` past the end.
#[inline]
pub(crate) fn be_u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Four bytes at an offset, big-endian; `None` past the end.
#[inline]
pub(crate) fn be_u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Eight bytes at an offset, little-endian; `None` past the end.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Eight bytes at an offset, big-endian; `None` past the end.
#[inline]
pub(crate) fn be_u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Runs `parser` over `buf` and reports a failure with the structure's name and the absolute offset of the field.
/// `base` is the offset of `buf[0]` in the file. Bytes left over are not examined.
#[inline]
pub(crate) fn decode_at<'a, T>(
    structure: &'static str,
    base: u64,
    buf: &'a [u8],
    parser: impl FnOnce(&'a [u8]) -> ParseStep<'a, T>,
) -> Result<T, ParseError> {
    match parser(buf) {
        Ok((_, value)) => Ok(value),
        Err(Err::Error(stop) | Err::Failure(stop)) => {
            let consumed = buf.len().saturating_sub(stop.left);
            let offset = base.saturating_add(u64::try_from(consumed).unwrap_or(u64::MAX));
            Err(ParseError { structure, field: stop.field, offset, kind: stop.kind })
        }
        Err(Err::Incomplete(_)) => {
            let kind = ParseErrorKind::Truncated { left: buf.len() };
            Err(ParseError { structure, field: "", offset: base, kind })
        }
    }
}

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

#[cfg(test)]
mod tests {
    use nom::Parser;
    use nom::error::context;

    use super::*;

    #[test]
    fn failure_names_field_and_absolute_offset() {
        let error = decode_at("Pair", 0x2000, &[1, 0, 0, 0, 9, 9], |i| {
            let (i, a) = context("first", le_u32).parse(i)?;
            let (i, b) = context("second", le_u32).parse(i)?;
            Ok((i, (a, b)))
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "Pair.second at offset 0x2004: input ends, 2 bytes left");
    }
}
