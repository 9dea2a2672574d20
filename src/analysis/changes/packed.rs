//! Changes of a page in less memory than a list of them takes: what they have in common, then their bytes, one after the other. Long ones are
//! kept as what makes them of the page on disk, which has most of them.

use std::mem::size_of;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use super::page_chain::PageChange;

/// Shorter bytes are kept as they are.
pub(crate) const LONG_BYTES: usize = 256;

/// How many bytes are kept of so many: fewer are what makes them of the page.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    kept: u32,
    whole: u32,
}

/// Bytes as they are kept, and how many there are of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packed<'a> {
    kept: &'a [u8],
    whole: u32,
}

impl Packed<'_> {
    /// The bytes, packed with this page; `None` when that is sure not to be the one.
    fn unpacked(self, page: &[u8]) -> Option<Box<[u8]>> {
        let whole = usize::try_from(self.whole).ok()?;
        if self.kept.len() >= whole {
            return Some(self.kept.into());
        }
        decompress_with_dict(self.kept, whole, page)
            .ok()
            .filter(|bytes| bytes.len() == whole)
            .map(Vec::into_boxed_slice)
    }
}

/// Changes in the order of their records.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedChanges {
    heads: Vec<PageChange<Part>>,
    bytes: Vec<u8>,
}

impl PackedChanges {
    /// Adds a change of the page, which is packed where that is given.
    pub(crate) fn pack(&mut self, change: PageChange<&[u8]>, page: Option<&[u8]>) {
        let mut room = [Vec::new(), Vec::new(), Vec::new()];
        let mut room = room.iter_mut();
        let packed = change.map(|bytes| {
            let whole = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let short = page.filter(|_| bytes.len() >= LONG_BYTES).map(|page| compress_with_dict(bytes, page));
            let kept = match (short.filter(|short| short.len() < bytes.len()), room.next()) {
                (Some(short), Some(room)) => {
                    *room = short;
                    room.as_slice()
                }
                _ => bytes,
            };
            Packed { kept, whole }
        });
        self.push(packed);
    }

    /// Adds a change that was packed for the same page.
    pub(crate) fn push(&mut self, change: PageChange<Packed<'_>>) {
        let all = [change.image.unwrap_or_default(), change.data, change.main];
        grow(&mut self.heads, 1);
        grow(&mut self.bytes, all.iter().map(|part| part.kept.len()).fold(0, usize::saturating_add));
        all.iter().for_each(|part| self.bytes.extend_from_slice(part.kept));
        let part = |of: Packed<'_>| Part { kept: u32::try_from(of.kept.len()).unwrap_or(u32::MAX), whole: of.whole };
        self.heads.push(change.map(part));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Lets the memory go, too.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// True when the first neither has an image nor initialises the page.
    pub(crate) fn begins_with_a_change(&self) -> bool {
        self.heads.first().is_some_and(|change| change.image.is_none() && !change.is_init)
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.heads.capacity().saturating_mul(size_of::<PageChange<Part>>()).saturating_add(self.bytes.capacity())
    }

    /// The changes, packed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PageChange<Packed<'_>>> {
        let mut rest = self.bytes.as_slice();
        self.heads.iter().map(move |head| {
            head.clone().map(|part| {
                let kept = usize::try_from(part.kept).unwrap_or(usize::MAX);
                let (kept, after) = rest.split_at_checked(kept).unwrap_or_default();
                rest = after;
                Packed { kept, whole: part.whole }
            })
        })
    }

    /// The changes of this page; `None` when they cannot be unpacked with it.
    pub(crate) fn unpacked(&self, page: &[u8]) -> Option<Vec<PageChange>> {
        let whole = |change: PageChange<Packed<'_>>| {
            let mut is_whole = true;
            let change = change.map(|part| {
                part.unpacked(page).unwrap_or_else(|| {
                    is_whole = false;
                    Box::default()
                })
            });
            is_whole.then_some(change)
        };
        self.iter().map(whole).collect()
    }
}

/// Makes room for more; most pages have few changes, for which a doubled list is too large.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity().saturating_sub(list.len()) < more {
        list.reserve_exact(more.max(list.len() / 4));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change<'a>(image: Option<&'a [u8]>, data: &'a [u8]) -> PageChange<&'a [u8]> {
        PageChange { image, data, main: &[2, 3], ..PageChange::insertion(0x140) }
    }

    fn packed(changes: &[PageChange<&[u8]>], page: &[u8]) -> PackedChanges {
        let mut all = PackedChanges::default();
        changes.iter().for_each(|change| all.pack(change.clone(), Some(page)));
        let mut copy = PackedChanges::default();
        all.iter().for_each(|change| copy.push(change));
        copy
    }

    proptest! {
        #[test]
        fn changes_come_out_as_they_were(
            page in proptest::collection::vec(any::<u8>(), 8192),
            changed in proptest::collection::vec((0_usize..8192, any::<u8>()), 0..200),
            data in 0_usize..4000,
        ) {
            let mut image = page.clone();
            changed.iter().for_each(|(at, byte)| image[*at] = *byte);
            let all = [change(Some(&image), &image[..data]), change(None, &[1]), change(None, &image[data..])];
            let found = packed(&all, &page).unpacked(&page).unwrap();
            prop_assert_eq!(found.len(), all.len());
            for (found, given) in found.iter().zip(&all) {
                prop_assert_eq!(found.image.as_deref(), given.image);
                prop_assert_eq!((&*found.data, &*found.main), (given.data, given.main));
            }
        }

        /// Rows that moved, as those do before which one was removed, are not kept again.
        #[test]
        fn rows_that_moved_take_little(page in proptest::collection::vec(any::<u8>(), 8192), by in 1_usize..2000) {
            let mut image = page.clone();
            image.copy_within(1000..6000, 1000 + by);
            let bytes = packed(&[change(Some(&image), &image[..5000])], &page).bytes();
            prop_assert!(bytes < 500, "{bytes} bytes");
        }
    }

    #[test]
    fn shorter_page_unpacks_nothing() {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let page: Vec<u8> =
            std::iter::successors(Some(1), next).map(|state| state.to_be_bytes()[0]).take(8192).collect();
        let all = packed(&[change(Some(&page), &[])], &page);
        assert!(all.unpacked(&page).is_some());
        assert!(all.unpacked(&page[..4000]).is_none());
    }
}
