//! The fast path through bodies that hold what nearly all bodies hold, field by field at fixed offsets. Whatever is out of
//! the ordinary, or wrong, is left to the full path, which alone says what is wrong.

use super::{
    BlockHead, BodyLayout, HAS_DATA, HAS_IMAGE, ID_MAIN_SHORT, MAX_BLOCK_ID, MAX_FRAGMENT_HEADER, SAME_REL,
    block_header,
};
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::wal::version::Major;
use crate::types::RelFileLocator;

/// Reads a block reference without an image, after its id. `None`: take the full path.
#[inline(always)]
pub(super) fn block_head(i: &[u8], rel_before: Option<RelFileLocator>) -> Option<(&[u8], BlockHead)> {
    const OWN_REL: usize = 19;
    const SAME: usize = 7;
    let fork_flags = *i.first()?;
    let (rest, rel, block) = match fork_flags & (HAS_IMAGE | SAME_REL) {
        0 => {
            let (head, rest) = i.split_first_chunk::<OWN_REL>()?;
            let (spc_oid, db_oid, rel_number) = (u32_at(head, 3)?, u32_at(head, 7)?, u32_at(head, 11)?);
            (rest, RelFileLocator { spc_oid, db_oid, rel_number }, u32_at(head, 15)?)
        }
        SAME_REL => {
            let (head, rest) = i.split_first_chunk::<SAME>()?;
            (rest, rel_before?, u32_at(head, 3)?)
        }
        _ => return None,
    };
    let data_length = u16_at(i, 1)?;
    ((fork_flags & HAS_DATA != 0) == (data_length > 0))
        .then_some((rest, BlockHead { fork_flags, data_length, image: None, rel, block }))
}

impl BodyLayout {
    /// As `walk` over a body of which `beyond` bytes were not kept, headers not among them. `None`: walk it.
    ///
    /// Always inlined: a result that goes through memory is written in small parts and read back in large ones, which
    /// takes longer than all the rest.
    #[inline(always)]
    pub(in crate::parsers::wal) fn quick(major: Major, block_size: u32, body: &[u8], beyond: usize) -> Option<Self> {
        let mut layout = Self::default();
        let (mut i, mut data_total, mut next_id) = (body, 0_usize, 0_u8);
        let (mut rel, mut main_length) = (None, 0_usize);
        while i.len().saturating_add(beyond) > data_total {
            if beyond > 0 && i.len() < MAX_FRAGMENT_HEADER {
                return None;
            }
            let (&id, rest) = i.split_first()?;
            match id {
                0..=MAX_BLOCK_ID if id >= next_id => {
                    next_id = id.saturating_add(1);
                    let (rest, head) = match block_head(rest, rel) {
                        Some(found) => found,
                        None => block_header(rest, major, block_size, rel).ok()?,
                    };
                    i = rest;
                    rel = Some(head.rel);
                    data_total = data_total.saturating_add(usize::try_from(layout.add_block(&head)).ok()?);
                }
                ID_MAIN_SHORT => {
                    let (&length, rest) = rest.split_first()?;
                    main_length = usize::from(length);
                    data_total = data_total.saturating_add(main_length);
                    i = rest;
                    break;
                }
                _ => return None,
            }
        }
        if i.len().saturating_add(beyond) != data_total {
            return None;
        }
        layout.headers_length = u32::try_from(body.len().checked_sub(i.len())?).ok()?;
        layout.main_start = u32::try_from(body.len().saturating_add(beyond).checked_sub(main_length)?).ok()?;
        Some(layout)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parsers::decode::decode_at;
    use crate::parsers::wal::block::Keep;
    use crate::parsers::wal::tests::{VECTORS, bytes_of};

    /// Where the fast path finds something in the first bytes of a body, the full path finds the same.
    fn agree_on_cut(major: Major, body: &[u8], beyond: usize) -> bool {
        let cut = (beyond as u64, if beyond == 0 { Keep::Blocks } else { Keep::Heads });
        let full = decode_at("body", 0, body, |i| BodyLayout::walk(i, cut, major, 8192));
        match BodyLayout::quick(major, 8192, body, beyond) {
            Some(layout) => full.as_ref() == Ok(&layout),
            None => true,
        }
    }

    fn agree(major: Major, body: &[u8]) -> bool {
        agree_on_cut(major, body, 0)
    }

    #[test]
    fn fast_path_and_full_path_agree_on_real_records_and_their_mutations() {
        let (mut taken, mut cut) = (0, 0);
        for vector in VECTORS {
            let bytes = bytes_of(vector.hex);
            let body = &bytes[24..];
            taken += usize::from(BodyLayout::quick(vector.major, 8192, body, 0).is_some());
            for kept in 0..body.len() {
                let beyond = body.len() - kept;
                cut += usize::from(BodyLayout::quick(vector.major, 8192, &body[..kept], beyond).is_some());
                for beyond in [1, beyond - 1, beyond, beyond + 1] {
                    assert!(agree_on_cut(vector.major, &body[..kept], beyond), "{} cut at {kept}", vector.name);
                }
            }
            assert!(agree(vector.major, body), "{}", vector.name);
            for at in 0..body.len().min(96) {
                for value in [0, 1, 0x10, 0x20, 0x80, 0xA0, 252, 253, 254, 255] {
                    let mut changed = body.to_vec();
                    changed[at] = value;
                    assert!(agree(vector.major, &changed), "{} byte {at} = {value}", vector.name);
                }
                assert!(agree(vector.major, &body[..at]), "{} cut at {at}", vector.name);
            }
        }
        assert!(taken * 2 > VECTORS.len() && cut > 0, "{taken} of {}, {cut} cut", VECTORS.len());
    }

    proptest! {
        #[test]
        fn fast_path_and_full_path_agree_on_anything(
            bytes in prop::collection::vec(prop_oneof![0_u8..3, Just(0x20), Just(0x80), Just(255), any::<u8>()], 0..80)
        ) {
            prop_assert!(agree(Major::V16, &bytes));
        }
    }
}
