//! Values of type `numeric`.

use crate::parsers::decode::u16_at;

/// Most decimal digits before or after the point that are written out; a page can claim 131072 in six bytes.
const MAX_DIGITS: usize = 2000;

/// Bits of the first two bytes.
///
/// Source: `NUMERIC_SHORT` and its neighbours, `src/backend/utils/adt/numeric.c`.
const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const SPECIAL_MASK: u16 = 0xF000;

/// A number, or what stands for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numeric {
    NotANumber,
    /// Infinity, negative or not (since 14).
    Infinity {
        is_negative: bool,
    },
    /// A number in decimal digits, as the server prints it.
    Number(String),
}

impl Numeric {
    /// Decodes the bytes after the length; `None` when they are not a number of a size that is written out.
    ///
    /// | bytes | field          | meaning                                                              |
    /// |-------|----------------|----------------------------------------------------------------------|
    /// | 0..2  | `n_header`     | two bits 10: sign, 6 bits of digits after the point, 7 bits of weight |
    /// |       | or `n_sign_dscale` | sign, 14 bits of digits after the point; the weight follows        |
    /// | ..    | digits         | `int16` each, to the base of 10000; the first one times 10000 to the power of the weight |
    ///
    /// Source: `NumericChoice`, `src/backend/utils/adt/numeric.c`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = u16_at(bytes, 0)?;
        let (is_negative, scale, weight, digits_at) = match header & SIGN_MASK {
            SPECIAL => {
                return Some(match header & SPECIAL_MASK {
                    0xD000 => Self::Infinity { is_negative: false },
                    0xF000 => Self::Infinity { is_negative: true },
                    _ => Self::NotANumber,
                });
            }
            SHORT => {
                let low = (header & 0x003F).cast_signed();
                let weight = if header & 0x0040 == 0 { low } else { low | !0x003F };
                (header & 0x2000 != 0, (header & 0x1F80) >> 7, weight, 2)
            }
            sign => (sign == NEGATIVE, header & 0x3FFF, u16_at(bytes, 2)?.cast_signed(), 4),
        };
        let (groups, _) = bytes.get(digits_at..)?.as_chunks::<2>();
        let groups: Vec<u16> = groups.iter().map(|group| u16::from_le_bytes(*group)).collect();
        if groups.iter().any(|group| *group >= 10_000) {
            return None;
        }
        let (scale, weight) = (usize::from(scale), i32::from(weight));
        let whole = usize::try_from(weight.checked_add(1)?).unwrap_or(0);
        if scale > MAX_DIGITS || whole.checked_mul(4)? > MAX_DIGITS {
            return None;
        }
        let group = |index: i32| {
            let at = usize::try_from(index).ok();
            at.and_then(|at| groups.get(at)).copied().unwrap_or(0)
        };
        let mut text = String::new();
        for index in 0..=weight {
            if text.is_empty() {
                let first = group(index);
                if first > 0 {
                    text.push_str(&first.to_string());
                }
            } else {
                text.push_str(&format!("{:04}", group(index)));
            }
        }
        if text.is_empty() {
            text.push('0');
        }
        if scale > 0 {
            let mut fraction = String::new();
            let mut index = weight.checked_add(1)?;
            // Groups between the point and the first digit that is stored are zero: their index is negative.
            if weight < -1 {
                for _ in 0..weight.checked_add(1)?.unsigned_abs() {
                    if fraction.len() >= scale {
                        break;
                    }
                    fraction.push_str("0000");
                }
                index = 0;
            }
            while fraction.len() < scale {
                fraction.push_str(&format!("{:04}", group(index)));
                index = index.checked_add(1)?;
            }
            fraction.truncate(scale);
            text.push('.');
            text.push_str(&fraction);
        }
        let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        Some(Self::Number(if is_negative && !is_zero { format!("-{text}") } else { text }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(words: &[u16]) -> Option<Numeric> {
        Numeric::decode(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn forms_that_the_server_writes() {
        let text = |words: &[u16]| match number(words) {
            Some(Numeric::Number(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text(&[0x8000]), "0");
        assert_eq!(text(&[0x8000 | 2 << 7]), "0.00");
        assert_eq!(text(&[0x8000 | 2 << 7 | 1, 1, 2345, 6700]), "12345.67");
        assert_eq!(text(&[0xA000 | 4 << 7 | 0x7F, 12]), "-0.0012", "weight -1");
        assert_eq!(text(&[0x8000 | 10 << 7 | 0x7E, 1230]), "0.0000123000", "weight -2: one zero group before it");
        assert_eq!(text(&[0x4000, 2, 1]), "-100000000", "the long form");
        assert_eq!(number(&[0xC000]), Some(Numeric::NotANumber));
        assert_eq!(number(&[0xF000]), Some(Numeric::Infinity { is_negative: true }));
    }

    #[test]
    fn numbers_that_only_a_page_could_claim_are_left_alone() {
        assert_eq!(number(&[0x0000, 0x7FFF, 1]), None, "131072 digits");
        assert_eq!(number(&[0x3FFF, 0]), None, "16383 digits after the point");
        assert_eq!(number(&[0x8000, 10_000]), None, "a digit of more than 9999");
        assert_eq!(Numeric::decode(&[1]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_give_short_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(Numeric::Number(text)) = Numeric::decode(&bytes) {
                prop_assert!(text.len() <= 2 * MAX_DIGITS + 8);
                prop_assert!(text.parse::<f64>().is_ok());
            }
        }
    }
}
