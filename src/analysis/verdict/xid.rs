//! Transaction numbers, which wrap around.

/// True when `xid` was handed out after `other`: numbers wrap around, so this is about distance.
///
/// Source: `TransactionIdFollows`, `src/backend/access/transam/transam.c`.
pub(crate) const fn is_newer_xid(xid: u32, other: u32) -> bool {
    xid.wrapping_sub(other).cast_signed() > 0
}

#[inline]
pub(super) fn newer_xid(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if is_newer_xid(other, one) { other } else { one }),
        (one, other) => one.or(other),
    }
}
