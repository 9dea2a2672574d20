//! Facts from the first page of a file, and from its name in `pg_wal` or an archive.

use super::codec::Codec;
use crate::parsers::wal::page::{LONG_HEADER, PageHeader};
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::parsers::wal::version::{Major, UnknownMagic};
use crate::types::{
    Lsn, MAX_WAL_BLOCK_SIZE, MIN_BLOCK_SIZE, MIN_WAL_SEGMENT_SIZE, TimelineId, is_wal_block_size, is_wal_segment_size,
};

/// Bytes that are examined: the largest first page and the header after it.
pub(super) const HEAD_BYTES: usize = 65536 + PageHeader::LONG_SIZE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub major: Major,
    pub tli: TimelineId,
    pub start_lsn: Lsn,
    pub system_identifier: u64,
    pub segment_size: u32,
    pub block_size: u32,
}

impl SegmentHeader {
    /// Number of the segment whose WAL it begins, within all WAL of its timeline.
    pub(super) fn number(&self) -> u64 {
        self.start_lsn.0.checked_div(u64::from(self.segment_size)).unwrap_or_default()
    }
}

/// A sound header of a second page whose first page is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SecondPage {
    pub major: Major,
    /// Where the first page should be.
    pub first_lsn: Lsn,
    pub block_size: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FirstPage {
    Sound(SegmentHeader),
    /// Not a segment's first page, but a page of WAL follows.
    Damaged {
        why: String,
        second: SecondPage,
    },
    Version(UnknownMagic),
    Zero,
    /// No bytes.
    Empty,
    /// Anything else.
    Other(String),
}

impl FirstPage {
    /// Examines the first bytes of a file, [`HEAD_BYTES`] if it has so many.
    pub(super) fn of(head: &[u8]) -> Self {
        if head.is_empty() {
            return Self::Empty;
        }
        if head.iter().all(|&byte| byte == 0) {
            return Self::Zero;
        }
        let Ok(header) = PageHeader::decode(Lsn(0), head) else {
            return Self::Other(format!("{} bytes, fewer than a page header", head.len()));
        };
        let why = match Major::from_magic(header.magic) {
            Ok(major) => match sound(&header, major) {
                Ok(found) => return Self::Sound(found),
                Err(why) => why,
            },
            Err(unknown) => {
                if let Some(second) = second_page(head) {
                    return Self::Damaged { why: unknown.to_string(), second };
                }
                if unknown.meaning() == UnknownMagic(0x1234).meaning() {
                    return Self::Other(unknown.to_string());
                }
                return Self::Version(unknown);
            }
        };
        match second_page(head) {
            Some(second) => Self::Damaged { why, second },
            None => Self::Other(why),
        }
    }
}

/// True for a head that a segment can begin with.
pub(super) fn is_segment(head: &[u8]) -> bool {
    matches!(FirstPage::of(head), FirstPage::Sound(_))
}

fn sound(header: &PageHeader, major: Major) -> Result<SegmentHeader, String> {
    if header.has_unknown_flags() {
        return Err(format!("page header with unknown flags {:#06x}", header.info));
    }
    let Some(long) = header.long else {
        return Err(format!("page at {} inside a segment, without long header", header.page_addr));
    };
    if !is_wal_segment_size(long.segment_size) {
        return Err(format!("long header with segment size {}", long.segment_size));
    }
    if !is_wal_block_size(long.block_size) {
        return Err(format!("long header with WAL page size {}", long.block_size));
    }
    if header.tli.0 == 0 {
        return Err("page header of timeline 0".to_owned());
    }
    if !header.page_addr.0.is_multiple_of(u64::from(long.segment_size)) {
        return Err(format!("page at {} has a long header, but no segment starts there", header.page_addr));
    }
    Ok(SegmentHeader {
        major,
        tli: header.tli,
        start_lsn: header.page_addr,
        system_identifier: long.system_identifier,
        segment_size: long.segment_size,
        block_size: long.block_size,
    })
}

/// The second page, for the first page size that shows one: its address must be one page into a megabyte.
fn second_page(head: &[u8]) -> Option<SecondPage> {
    let sizes = std::iter::successors(Some(MIN_BLOCK_SIZE), |&size| size.checked_mul(2));
    sizes.take_while(|&size| size <= MAX_WAL_BLOCK_SIZE).find_map(|block_size| {
        let page = head.get(usize::try_from(block_size).ok()?..)?;
        let header = PageHeader::decode(Lsn(u64::from(block_size)), page).ok()?;
        let major = Major::from_magic(header.magic).ok()?;
        let first_lsn = Lsn(header.page_addr.0.checked_sub(u64::from(block_size))?);
        let fits = first_lsn.0.is_multiple_of(u64::from(MIN_WAL_SEGMENT_SIZE)) && header.info & LONG_HEADER == 0;
        fits.then_some(SecondPage { major, first_lsn, block_size })
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Segment(SegmentName),
    History(TimelineId),
    /// Something of the server or of an archiver that holds no WAL.
    Ignored,
    /// A file that the server writes or restores under a name for the time being.
    Temporary,
    Stranger,
}

impl NameKind {
    /// The segment's name, when it is one.
    pub(super) fn segment(self) -> Option<SegmentName> {
        match self {
            Self::Segment(name) => Some(name),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentName {
    /// The 24 digits, in upper case.
    pub digits: String,
    /// Ends in `.partial`.
    pub partial: bool,
    /// Digits in lower case, which the server does not take.
    pub lower_case: bool,
}

impl SegmentName {
    /// Timeline and number, if this segment size allows the name.
    pub(super) fn segment(&self, segment_size: u32) -> Option<WalSegment> {
        WalSegment::from_file_name(&self.digits, segment_size)
    }
}

/// Reads a file name without directory.
pub(super) fn kind_of_name(name: &str) -> NameKind {
    if let Some(tli) = TimelineHistory::tli_of_file_name(without_codec(name)) {
        return NameKind::History(tli);
    }
    if is_ignored(name) {
        return NameKind::Ignored;
    }
    if is_temporary(name) {
        return NameKind::Temporary;
    }
    let (base, partial) = without_partial(name);
    let digits = base.get(..24).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match digits {
        Some(digits) if base.len() == 24 => NameKind::Segment(SegmentName {
            digits: digits.to_ascii_uppercase(),
            partial,
            lower_case: digits.bytes().any(|byte| byte.is_ascii_lowercase()),
        }),
        _ => NameKind::Stranger,
    }
}

/// True for a name that holds that of a segment and more: renamed by hand, or with its directory, as `archive%2F…`.
pub(super) fn holds_segment_name(name: &str) -> bool {
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_hexdigit);
    name.len() > 24 && name.as_bytes().windows(24).any(digits)
}

/// A directory below an archive that holds segments: some archivers sort by timeline and high part of the number, others
/// have one directory for all WAL of a server.
///
/// Source: `archivePushFile` of pgBackRest, `hash_dir` of Barman, `WalPath` of WAL-G.
pub(super) fn is_segment_directory(name: &str) -> bool {
    let by_number = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    by_number || matches!(name, "wals" | "wal_005" | "incoming" | "streaming")
}

/// The number of a cluster by the name of its directory in an archive of pgBackRest, as `15-1`: each upgrade begins a new
/// one.
pub(super) fn history_id_of_directory(name: &str) -> Option<u64> {
    let (version, id) = name.split_once('-')?;
    let is_version = version.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    if is_version && is_number { id.parse().ok() } else { None }
}

/// A directory of the server beside the segments that holds no WAL.
pub(super) fn is_ignored_directory(name: &str) -> bool {
    matches!(name, "archive_status" | "summaries")
}

/// The name without what stands for compression.
pub(super) fn without_codec(name: &str) -> &str {
    Codec::SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

fn without_partial(name: &str) -> (&str, bool) {
    // pg_receivewal puts `.partial` after the codec's ending, others before it, with a hash between the two.
    let inner = without_hash(without_codec(name));
    match inner.strip_suffix(".partial") {
        Some(base) => (without_hash(without_codec(base)), true),
        None => (inner, false),
    }
}

/// The name without the hash of the file, which some archivers put after it.
fn without_hash(name: &str) -> &str {
    let is_hash = |hash: &str| hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('-').filter(|(_, hash)| is_hash(hash)).map_or(name, |(base, _)| base)
}

fn is_ignored(name: &str) -> bool {
    let plain = without_codec(name);
    plain.ends_with(".backup")
        || plain.ends_with(".ready")
        || plain.ends_with(".done")
        || plain.ends_with(".summary")
        || matches!(plain, "archive.info" | "archive.info.copy" | "xlog.db")
}

fn is_temporary(name: &str) -> bool {
    let plain = without_codec(name);
    plain.starts_with("xlogtemp.") || matches!(plain, "RECOVERYXLOG" | "RECOVERYHISTORY")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long header of 18 with timeline 1, segments of 1 MiB and pages of 8 KiB, and a second page.
    fn pages(start: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[0..2].copy_from_slice(&0xD118_u16.to_le_bytes());
        bytes[2] = 2;
        bytes[4] = 1;
        bytes[8..16].copy_from_slice(&start.to_le_bytes());
        bytes[24..32].copy_from_slice(&77_u64.to_le_bytes());
        bytes[32..36].copy_from_slice(&(1_u32 << 20).to_le_bytes());
        bytes[36..40].copy_from_slice(&8192_u32.to_le_bytes());
        bytes[8192..8194].copy_from_slice(&0xD118_u16.to_le_bytes());
        bytes[8196] = 1;
        bytes[8200..8208].copy_from_slice(&(start + 8192).to_le_bytes());
        bytes
    }

    fn words(page: &FirstPage) -> String {
        match page {
            FirstPage::Other(why) | FirstPage::Damaged { why, .. } => why.clone(),
            FirstPage::Version(magic) => magic.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn sound_header_is_taken_over() {
        let FirstPage::Sound(header) = FirstPage::of(&pages(0x30_0000)) else { panic!("not sound") };
        assert_eq!((header.start_lsn, header.system_identifier, header.segment_size), (Lsn(0x30_0000), 77, 1 << 20));
    }

    #[test]
    fn broken_first_page_is_distinguished_from_foreign_bytes_by_the_second() {
        for (at, value) in [(0, 0), (2, 0), (4, 0), (33, 1), (37, 1), (9, 0x20)] {
            let mut bytes = pages(0x30_0000);
            bytes[at] = value;
            let page = FirstPage::of(&bytes);
            let FirstPage::Damaged { second, .. } = &page else { panic!("{at}: {page:?}") };
            assert_eq!((second.first_lsn, second.block_size), (Lsn(0x30_0000), 8192));
            let foreign = FirstPage::of(&bytes[..8192]);
            assert!(matches!(foreign, FirstPage::Other(_) | FirstPage::Version(_)), "{at}: {foreign:?}");
        }
    }

    #[test]
    fn other_content_is_said_in_words() {
        assert_eq!(FirstPage::of(&[]), FirstPage::Empty);
        assert_eq!(FirstPage::of(&[0; 100]), FirstPage::Zero);
        assert!(words(&FirstPage::of(b"short")).contains("5 bytes"));
        assert!(words(&FirstPage::of(&[b'x'; 100])).contains("not a WAL page of any known version"));
        let mut old = pages(0x30_0000);
        old.truncate(8192);
        old[0..2].copy_from_slice(&0xD093_u16.to_le_bytes());
        assert!(words(&FirstPage::of(&old)).contains("9.6"));
    }

    #[test]
    fn names_are_distinguished() {
        let segment = |name: &str| match kind_of_name(name) {
            NameKind::Segment(found) => Some((found.partial, found.lower_case)),
            _ => None,
        };
        for (name, expected) in [
            ("00000001000000000000000A", (false, false)),
            ("00000001000000000000000a.gz", (false, true)),
            ("00000001000000000000000A.partial", (true, false)),
            ("00000001000000000000000A.gz.partial", (true, false)),
            ("00000001000000000000000A.partial.lz4", (true, false)),
            ("00000001000000000000000A-0123456789012345678901234567890123456789.zst", (false, false)),
            ("00000001000000000000000A.partial-0123456789012345678901234567890123456789.bz2", (true, false)),
            ("00000001000000000000000A.lzma", (false, false)),
        ] {
            assert_eq!(segment(name), Some(expected), "{name}");
        }
        assert_eq!(kind_of_name("0000000A.history.xz"), NameKind::History(TimelineId(10)));
        for name in ["000000010000000000000002.00000028.backup", "x.ready", "archive.info", "xlog.db"] {
            assert_eq!(kind_of_name(name), NameKind::Ignored, "{name}");
        }
        for name in ["xlogtemp.12", "RECOVERYXLOG"] {
            assert_eq!(kind_of_name(name), NameKind::Temporary, "{name}");
        }
        for name in
            ["", "README", "00000001000000000000000", "00000001000000000000000A.tmp", "ü00000001000000000000000A"]
        {
            assert_eq!(kind_of_name(name), NameKind::Stranger, "{name}");
        }
    }

    #[test]
    fn directories_of_archivers_are_known() {
        for (name, id) in [("15-1", Some(1)), ("9.6-12", Some(12)), ("main", None), ("15-", None), ("-1", None)] {
            assert_eq!(history_id_of_directory(name), id, "{name}");
        }
        assert!(["0000000100000000", "wal_005", "wals"].into_iter().all(is_segment_directory));
        assert!(!is_segment_directory("basebackups_005"));
    }
}
