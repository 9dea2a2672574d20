//! Facts from the name of a file in `pg_wal` or an archive.

use super::codec::Codec;
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::types::TimelineId;

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
