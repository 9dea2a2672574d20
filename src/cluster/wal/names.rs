//! What the name of a file in `pg_wal` or an archive says.

use super::codec::Codec;
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::types::TimelineId;

/// What a name promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// A segment.
    Segment(SegmentName),
    /// A timeline history.
    History(TimelineId),
    /// Something of the server that holds no WAL.
    Ignored,
    /// No name that the server or its tools give.
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

/// The name of a segment.
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
    let (base, partial) = without_partial(name);
    let digits = base.get(..24).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let tail = base.get(24..).unwrap_or_default();
    match digits {
        // Some archivers put the file's hash after the name.
        Some(digits) if tail.is_empty() || is_hash(tail) => NameKind::Segment(SegmentName {
            digits: digits.to_ascii_uppercase(),
            partial,
            lower_case: digits.bytes().any(|byte| byte.is_ascii_lowercase()),
        }),
        _ => NameKind::Stranger,
    }
}

/// A directory below an archive that holds segments: some archivers sort by timeline and high part of the number.
pub(super) fn is_segment_directory(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
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
    // pg_receivewal puts `.partial` after the codec's ending, others before it.
    let inner = without_codec(name);
    match inner.strip_suffix(".partial") {
        Some(base) => (without_codec(base), true),
        None => (inner, false),
    }
}

fn is_hash(tail: &str) -> bool {
    tail.strip_prefix('-').is_some_and(|hash| hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_ignored(name: &str) -> bool {
    let plain = without_codec(name);
    plain.ends_with(".backup")
        || plain.ends_with(".ready")
        || plain.ends_with(".done")
        || plain.ends_with(".summary")
        || plain.starts_with("xlogtemp.")
        || matches!(plain, "RECOVERYXLOG" | "RECOVERYHISTORY")
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
        ] {
            assert_eq!(segment(name), Some(expected), "{name}");
        }
        assert_eq!(kind_of_name("0000000A.history.xz"), NameKind::History(TimelineId(10)));
        for name in ["000000010000000000000002.00000028.backup", "xlogtemp.12", "RECOVERYXLOG", "x.ready"] {
            assert_eq!(kind_of_name(name), NameKind::Ignored, "{name}");
        }
        for name in
            ["", "README", "00000001000000000000000", "00000001000000000000000A.tmp", "ü00000001000000000000000A"]
        {
            assert_eq!(kind_of_name(name), NameKind::Stranger, "{name}");
        }
    }
}
