//! What is known of a block that was touched, in 8 bytes.

use crate::types::Lsn;

/// Bits of an LSN that are always 0: records start at multiples of 8.
const ALIGNED_BITS: u32 = 3;
/// Bits that an LSN takes: enough for the first 128 TiB of WAL.
const LSN_BITS: u32 = 44;
const LSN_MASK: u64 = (1 << LSN_BITS) - 1;
/// Bits that the bytes of an image take.
const IMAGE_MASK: u64 = (1 << 16) - 1;
const MAYBE: u64 = 1 << 60;
const WHOLE: u64 = 1 << 61;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockState(u64);

impl BlockState {
    /// Start of the last record that is sure to have set the page's LSN.
    pub(super) const fn touched_at(self) -> Option<Lsn> {
        match self.0 & LSN_MASK {
            0 => None,
            lsn => Some(Lsn(lsn << ALIGNED_BITS)),
        }
    }

    /// A record after that may have set the LSN too.
    pub(super) const fn maybe_later(self) -> bool {
        self.0 & MAYBE != 0
    }

    /// Bytes of an image for hint bits, after which nothing else is known to have changed the page.
    pub(super) fn hint_bytes(self) -> Option<u64> {
        Some(self.0 >> LSN_BITS & IMAGE_MASK).filter(|bytes| *bytes > 0)
    }

    /// A record at `lsn` is sure to have set the page's LSN.
    pub(super) const fn touched(lsn: Lsn) -> Self {
        let lsn = lsn.0 >> ALIGNED_BITS;
        Self(if lsn > LSN_MASK { LSN_MASK } else { lsn })
    }

    /// So many bytes of image were written for hint bits.
    pub(super) fn with_hint(self, bytes: u16) -> Self {
        Self(self.0 | u64::from(bytes) << LSN_BITS)
    }

    /// It was changed by nothing but records that log it as a whole, since the redo point before the last of them.
    pub(super) const fn is_logged_whole(self) -> bool {
        self.0 & WHOLE != 0
    }

    pub(super) const fn logged_whole(self) -> Self {
        Self(self.0 | WHOLE)
    }

    /// A record may have set the page's LSN.
    pub(super) const fn maybe_touched(self) -> Self {
        Self(self.0 | MAYBE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_keeps_what_it_is_told() {
        let none = BlockState::default();
        assert_eq!((none.touched_at(), none.hint_bytes(), none.maybe_later()), (None, None, false));
        let state = BlockState::touched(Lsn(0x7FFF_FFFF_FFF8)).with_hint(32_768);
        assert_eq!((state.touched_at(), state.hint_bytes()), (Some(Lsn(0x7FFF_FFFF_FFF8)), Some(32_768)));
        let maybe = state.maybe_touched();
        assert!(maybe.maybe_later() && maybe.touched_at() == state.touched_at());
        assert_eq!(none.maybe_touched().touched_at(), None);
        let whole = maybe.logged_whole();
        assert!(whole.is_logged_whole() && !maybe.is_logged_whole() && whole.maybe_later());
        assert_eq!((whole.touched_at(), whole.hint_bytes()), (state.touched_at(), state.hint_bytes()));
    }
}
