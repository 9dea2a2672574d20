//! An image of the doublewrite buffer against the page in the data file.

use crate::parsers::innodb::compressed::{FullCrc32Size, mariadb_length, unpack_mysql};
use crate::parsers::innodb::flags::SpaceFlags;
use crate::parsers::innodb::page::{PageHeader, PageType};
use crate::parsers::innodb::page_check::PageState;
use crate::parsers::innodb::{InnodbLsn, stable_names};

/// How the page in the data file stands to an image of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the names are documented in docs/json.md")]
pub enum InnodbComparison {
    /// Part of the page is the image, the rest is not.
    Torn,
    /// The page fails its checks and has no sector in common with the image.
    Damaged,
    Zeroed,
    DiskOlder,
    DiskNewer,
    /// Both have the same LSN, and different bytes.
    SameLsn,
    Identical,
    BeyondEnd,
    NoTablespace,
    /// The page could not be read, or the image names no tablespace that can be known.
    Unknown,
}

stable_names!(InnodbComparison);

const SECTOR_BYTES: usize = 512;

/// Compares an image with the page in the data file, both of one tablespace with these flags.
pub fn compare(image: &[u8], disk: &[u8], disk_state: PageState, flags: &SpaceFlags) -> InnodbComparison {
    if is_same(image, disk, flags) {
        return InnodbComparison::Identical;
    }
    if disk_state == PageState::Empty {
        return InnodbComparison::Zeroed;
    }
    if disk_state.is_damaged() {
        let shares = |(one, other): (&[u8], &[u8])| one == other && one.iter().any(|byte| *byte != 0);
        let shared = image.chunks(SECTOR_BYTES).zip(disk.chunks(SECTOR_BYTES)).any(shares);
        return if shared { InnodbComparison::Torn } else { InnodbComparison::Damaged };
    }
    match (PageHeader::of(image), PageHeader::of(disk)) {
        (Some(in_image), Some(on_disk)) => by_lsn(on_disk.lsn, in_image.lsn),
        _ => InnodbComparison::Unknown,
    }
}

/// The word for a page in a data file and an LSN that was written down of it without an image.
pub(crate) fn compare_entry(disk_state: PageState, disk_lsn: InnodbLsn, entry_lsn: InnodbLsn) -> InnodbComparison {
    match disk_state {
        PageState::Empty => InnodbComparison::Zeroed,
        PageState::Damaged(_) => InnodbComparison::Damaged,
        PageState::Sound(_) | PageState::Unverifiable(_) => by_lsn(disk_lsn, entry_lsn),
    }
}

fn by_lsn(disk: InnodbLsn, image: InnodbLsn) -> InnodbComparison {
    match disk.cmp(&image) {
        std::cmp::Ordering::Greater => InnodbComparison::DiskNewer,
        std::cmp::Ordering::Less => InnodbComparison::DiskOlder,
        std::cmp::Ordering::Equal => InnodbComparison::SameLsn,
    }
}

/// True when both hold the same page. What comes after the payload of a page that MariaDB compressed is left over from
/// others; a page that MySQL compressed stands as it was before in the doublewrite buffer.
fn is_same(image: &[u8], disk: &[u8], flags: &SpaceFlags) -> bool {
    let length = payload_length(image, flags);
    if image.get(..length).is_some_and(|image| disk.get(..length) == Some(image)) {
        return true;
    }
    let is_packed =
        |page: &[u8]| PageHeader::of(page).is_some_and(|header| header.page_type == PageType::MYSQL_COMPRESSED);
    if is_packed(image) == is_packed(disk) {
        return false;
    }
    let plain = |page: &[u8]| if is_packed(page) { unpack_mysql(page).ok() } else { Some(page.to_vec()) };
    let parts = |page: &[u8]| Some((page.get(..26)?.to_vec(), page.get(34..)?.to_vec()));
    let (image, disk) = (plain(image).and_then(|image| parts(&image)), plain(disk).and_then(|disk| parts(&disk)));
    image.is_some() && image == disk
}

fn payload_length(page: &[u8], flags: &SpaceFlags) -> usize {
    let is_packed = PageHeader::of(page).is_some_and(|header| header.page_type == PageType::MARIADB_COMPRESSED);
    let length = match FullCrc32Size::of(page) {
        FullCrc32Size::Compressed(length) if flags.is_full_crc32 => Some(length),
        _ => mariadb_length(page).filter(|_| is_packed && !flags.is_full_crc32 && flags.zip_bytes.is_none()),
    };
    length.unwrap_or(page.len())
}
