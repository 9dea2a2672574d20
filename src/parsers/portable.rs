//! Counts as bytes, so that those of one part of some WAL can be added to those of another on another machine.
//!
//! Numbers have as many bytes as they need: seven bits a byte, the lowest first, 0x80 where more follow. What is read may
//! have been written by anybody: lists grow as their items are read, so that no number sizes memory.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::wal::payload::PgTimestamp;
use crate::types::{Lsn, RelFileLocator, TimelineId};

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at offset {offset:#x} of its state")]
pub struct BadState {
    /// What is wrong.
    pub what: Wrong,
    /// Where, in bytes from the beginning.
    pub offset: usize,
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There are too few.
    #[error("input ends")]
    Ends,
    /// There are too many.
    #[error("bytes after the end")]
    Trailing,
    /// More than fit into any number.
    #[error("a number of more than 64 bits")]
    LongNumber,
    /// More than fits here.
    #[error("a number that is too large")]
    LargeNumber,
    /// Of two values that can be.
    #[error("neither 0 nor 1")]
    Flag,
    /// A key of a list came before.
    #[error("the same key twice")]
    Twice,
    /// A list that is not ascending.
    #[error("numbers that do not ascend")]
    Order,
    /// A code that stands for nothing.
    #[error("unknown {0}")]
    Unknown(&'static str),
    /// Not UTF-8.
    #[error("a text that is not valid")]
    Text,
    /// Headers of a record that are none.
    #[error("a WAL record that cannot be decoded")]
    Record,
    /// Not base64 at all.
    #[error("base64 that is not valid")]
    Base64,
    /// Not as many runs of segments as are listed.
    #[error("another number of runs of segments than is listed")]
    Runs,
}

/// Reads bytes from the beginning to the end.
#[derive(Clone, Copy, Debug)]
pub struct StateReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> StateReader<'a> {
    /// Begins.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error here.
    #[must_use]
    pub const fn wrong(&self, what: Wrong) -> BadState {
        BadState { what, offset: self.at }
    }

    /// True after the last byte.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn take(&mut self, length: u64) -> Result<&'a [u8], BadState> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        match end.and_then(|end| Some((end, self.bytes.get(self.at..end)?))) {
            Some((end, taken)) => {
                self.at = end;
                Ok(taken)
            }
            None => Err(self.wrong(Wrong::Ends)),
        }
    }

    fn number(&mut self) -> Result<u64, BadState> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            let bits = u64::from(byte & 0x7F);
            let shifted = bits.checked_shl(shift).unwrap_or_default();
            if shifted >> shift != bits {
                break;
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.wrong(Wrong::LongNumber))
    }
}

/// What can be written as bytes and read again.
pub trait Portable: Sized {
    /// Writes it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it.
    ///
    /// # Errors
    /// When the bytes are not such a value.
    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState>;
}

/// Implements [`Portable`] for a struct, field by field.
macro_rules! portable {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::parsers::portable::Portable for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::parsers::portable::Portable::put(&self.$field, out);)*
            }

            fn get(
                from: &mut $crate::parsers::portable::StateReader<'_>,
            ) -> Result<Self, $crate::parsers::portable::BadState> {
                $(let $field = $crate::parsers::portable::Portable::get(from)?;)*
                Ok(Self { $($field),* })
            }
        }
    };
}

pub(crate) use portable;

impl Portable for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push((rest & 0x7F).to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        out.push(rest.to_le_bytes()[0]);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        from.number()
    }
}

/// Smaller numbers, written as a `u64`.
macro_rules! portable_numbers {
    ($($type:ty),*) => {$(
        impl Portable for $type {
            fn put(&self, out: &mut Vec<u8>) {
                u64::from(*self).put(out);
            }

            fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
                let at = *from;
                Self::try_from(from.number()?).map_err(|_| at.wrong(Wrong::LargeNumber))
            }
        }
    )*};
}

portable_numbers!(u8, u16, u32);

impl Portable for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let at = *from;
        Self::try_from(from.number()?).map_err(|_| at.wrong(Wrong::LargeNumber))
    }
}

impl Portable for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        ((self.cast_unsigned() << 1) ^ (*self >> 63).cast_unsigned()).put(out);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let number = from.number()?;
        Ok((number >> 1).cast_signed() ^ 0_i64.wrapping_sub((number & 1).cast_signed()))
    }
}

impl Portable for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let at = *from;
        match from.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(at.wrong(Wrong::Flag)),
        }
    }
}

/// Types that stand for a number.
macro_rules! portable_wrapped {
    ($($type:ident),*) => {$(
        impl Portable for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
                Portable::get(from).map($type)
            }
        }
    )*};
}

portable_wrapped!(Lsn, TimelineId, PgTimestamp);
portable!(RelFileLocator { spc_oid, db_oid, rel_number });

impl<T: Portable> Portable for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        bool::get(from)?.then(|| T::get(from)).transpose()
    }
}

impl<T: Portable> Portable for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let mut items = Self::new();
        for _ in 0..from.number()? {
            items.push(T::get(from)?);
        }
        Ok(items)
    }
}

impl<T: Portable> Portable for Arc<[T]> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        Vec::get(from).map(Into::into)
    }
}

impl<A: Portable, B: Portable> Portable for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        Ok((A::get(from)?, B::get(from)?))
    }
}

impl<T: Portable + Copy + Default, const N: usize> Portable for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.put(out));
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::get(from)?;
        }
        Ok(items)
    }
}

impl Portable for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let at = *from;
        let length = u64::get(from)?;
        let text = from.take(length)?;
        Self::from_utf8(text.to_vec()).map_err(|_| at.wrong(Wrong::Text))
    }
}

impl<K: Portable + Ord + Copy + Hash, V: Portable> Portable for FxHashMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        let mut items: Vec<(&K, &V)> = self.iter().collect();
        items.sort_unstable_by_key(|(key, _)| **key);
        (items.len() as u64).put(out);
        for (key, value) in items {
            key.put(out);
            value.put(out);
        }
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let mut items = Self::default();
        for _ in 0..from.number()? {
            let at = *from;
            if items.insert(K::get(from)?, V::get(from)?).is_some() {
                return Err(at.wrong(Wrong::Twice));
            }
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(unsigned: u64, signed: i64, list: Vec<Option<u32>>, flag: bool) {
            let value = ((unsigned, signed), (list, flag));
            let mut bytes = Vec::new();
            value.put(&mut bytes);
            let mut from = StateReader::new(&bytes);
            prop_assert_eq!(<((u64, i64), (Vec<Option<u32>>, bool))>::get(&mut from), Ok(value));
            prop_assert!(from.is_at_end());
            for cut in 0..bytes.len() {
                let cut = <((u64, i64), (Vec<Option<u32>>, bool))>::get(&mut StateReader::new(&bytes[..cut]));
                prop_assert!(cut.is_err());
            }
        }
    }

    #[test]
    fn numbers_that_say_too_much_are_refused() {
        let long = [0xFF; 10];
        assert_eq!(u64::get(&mut StateReader::new(&long)).unwrap_err().what, Wrong::LongNumber);
        let mut list = Vec::new();
        u64::MAX.put(&mut list);
        assert_eq!(Vec::<u32>::get(&mut StateReader::new(&list)).unwrap_err().what, Wrong::Ends);
        assert_eq!(u8::get(&mut StateReader::new(&[0x80, 0x02])).unwrap_err().what, Wrong::LargeNumber);
        assert_eq!(bool::get(&mut StateReader::new(&[2])).unwrap_err().offset, 0);
        let twice = [2, 1, 0, 1, 0];
        let map = <FxHashMap<u32, u32> as Portable>::get(&mut StateReader::new(&twice));
        assert_eq!(map.unwrap_err().what, Wrong::Twice);
    }
}
