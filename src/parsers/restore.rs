//! A page image made ready for a data file.

use super::checksum::page_checksum;
use crate::types::{BlockNumber, Lsn};

/// Sets what redo and the writing of a page set: the LSN (bytes 0 to 8, high half first) to the end of the record, and
/// the checksum (bytes 8 and 9) if the cluster has checksums. A page that was never initialised (`pd_upper` 0) gets no
/// checksum, as the server gives none.
///
/// Source: `XLogReadBufferForRedoExtended`, `src/backend/access/transam/xlogutils.c`; `PageSetChecksumCopy`,
/// `src/backend/storage/page/bufpage.c`.
pub(crate) fn ready_page(page: &mut [u8], lsn: Lsn, block: BlockNumber, checksums: bool) {
    let is_new = page.get(14..16) == Some(&[0, 0]);
    let high = u32::try_from(lsn.0 >> 32).unwrap_or(u32::MAX).to_le_bytes();
    let low = u32::try_from(lsn.0 & 0xFFFF_FFFF).unwrap_or(u32::MAX).to_le_bytes();
    if is_new {
        // Redo leaves the LSN of an all-zero page alone, since it would no longer be all zero.
        return;
    }
    if let Some((lsn_bytes, _)) = page.split_first_chunk_mut::<8>() {
        let (high_bytes, low_bytes) = lsn_bytes.split_at_mut(4);
        high_bytes.copy_from_slice(&high);
        low_bytes.copy_from_slice(&low);
    }
    if checksums {
        set_checksum(page, block);
    }
}

/// Writes the checksum that the page's bytes give into bytes 8 and 9.
pub fn set_checksum(page: &mut [u8], block: BlockNumber) {
    let sum = page_checksum(page, block).to_le_bytes();
    if let Some(field) = page.get_mut(8..10) {
        field.copy_from_slice(&sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::page::PageHeader;

    #[test]
    fn lsn_and_checksum_are_those_of_the_server() {
        // Page B of the checksum's fact sheet has LSN 1/28 and checksum 10682 at block 1.
        let mut page = vec![0; 8192];
        page[8..20].copy_from_slice(&[0x34, 0x12, 4, 0, 24, 0, 0, 32, 0, 32, 4, 32]);
        page[100] = 0xAB;
        page[8191] = 0xFF;
        ready_page(&mut page, Lsn(0x1_0000_0028), 1, true);
        let header = PageHeader::decode(0, &page).unwrap();
        assert_eq!((header.lsn, header.checksum), (Lsn(0x1_0000_0028), 10_682));
    }

    #[test]
    fn page_that_was_never_initialised_stays_as_it_is() {
        let mut page = vec![0; 8192];
        ready_page(&mut page, Lsn(77), 1, true);
        assert_eq!(page, vec![0; 8192]);
    }
}
