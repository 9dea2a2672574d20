//! Names of segment files, and timeline history files.

use std::fmt;

use crate::types::{Lsn, LsnParseError, TimelineId};

/// A WAL segment: timeline and number. The same file name means another address with another segment size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalSegment {
    /// Timeline in the file's name.
    pub tli: TimelineId,
    /// Number of the segment: its first LSN divided by the segment size.
    pub number: u64,
}

impl WalSegment {
    /// The segment that holds `lsn`. `None` for segment size 0.
    pub(crate) fn holding(tli: TimelineId, lsn: Lsn, segment_size: u32) -> Option<Self> {
        Some(Self { tli, number: lsn.0.checked_div(u64::from(segment_size))? })
    }

    /// LSN of the segment's first byte; `None` when it does not fit into 64 bits.
    pub fn start_lsn(&self, segment_size: u32) -> Option<Lsn> {
        self.number.checked_mul(u64::from(segment_size)).map(Lsn)
    }

    /// Reads a file name of 24 upper-case hexadecimal digits: timeline, and the number in two parts. `None` for any other
    /// name, also for a low part that this segment size does not allow.
    ///
    /// Source: `XLogFromFileName`, `src/include/access/xlog_internal.h`.
    pub fn from_file_name(name: &str, segment_size: u32) -> Option<Self> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
        if name.len() != 24 || !name.bytes().all(hex) {
            return None;
        }
        let part = |from: usize| u64::from_str_radix(name.get(from..from.saturating_add(8))?, 16).ok();
        let per_high = (1_u64 << 32).checked_div(u64::from(segment_size))?;
        let (high, low) = (part(8)?, part(16)?);
        let number = high.checked_mul(per_high)?.checked_add(low)?;
        let tli = TimelineId(u32::try_from(part(0)?).ok()?);
        (low < per_high).then_some(Self { tli, number })
    }

    /// The file name: 24 upper-case hexadecimal digits. `None` when the number is too large or the size impossible.
    ///
    /// Source: `XLogFileName`, `src/include/access/xlog_internal.h`.
    pub fn file_name(&self, segment_size: u32) -> Option<String> {
        let per_high = (1_u64 << 32).checked_div(u64::from(segment_size))?;
        let high = u32::try_from(self.number.checked_div(per_high)?).ok()?;
        let low = self.number.checked_rem(per_high)?;
        Some(format!("{:08X}{high:08X}{low:08X}", self.tli.0))
    }
}

/// History of a timeline: its ancestors, oldest first, from a file `TTTTTTTT.history`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineHistory {
    /// The timeline whose history this is.
    pub tli: TimelineId,
    /// Its ancestors, oldest first.
    pub ancestors: Vec<Ancestor>,
}

/// A line of a history file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// The ancestor.
    pub tli: TimelineId,
    /// WAL before this address belongs to the ancestor (or to one before it); the rest does not.
    pub switch_lsn: Lsn,
    /// Why it was left, in the server's words; may be empty.
    pub reason: String,
}

/// Why a text is not a timeline history file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the timeline history: {kind}")]
pub struct HistoryError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The problem.
    pub kind: HistoryErrorKind,
}

/// A problem of a line of a history file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryErrorKind {
    /// The line does not start with a number.
    #[error("\"{0}\" is not a valid timeline")]
    Timeline(String),
    /// There is not a valid LSN after the number.
    #[error("no LSN after the timeline")]
    LsnMissing,
    /// The LSN is not valid.
    #[error(transparent)]
    Lsn(#[from] LsnParseError),
    /// The timelines do not ascend.
    #[error("timeline {found} after {before}")]
    Order {
        /// Timeline of this line.
        found: TimelineId,
        /// Timeline of the line before.
        before: TimelineId,
    },
    /// An ancestor is not older than the timeline whose history this is.
    #[error("timeline {found} is not an ancestor of {own}")]
    NotOlder {
        /// Timeline of this line.
        found: TimelineId,
        /// The timeline of the file.
        own: TimelineId,
    },
}

impl fmt::Display for WalSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} of timeline {}", self.number, self.tli)
    }
}

impl TimelineHistory {
    /// The history of a timeline without ancestors, as timeline 1 is.
    pub const fn root(tli: TimelineId) -> Self {
        Self { tli, ancestors: Vec::new() }
    }

    /// The name of the file that holds the history of a timeline: `00000002.history`.
    ///
    /// Source: `TLHistoryFileName`, `src/include/access/xlog_internal.h`.
    pub fn file_name(tli: TimelineId) -> String {
        format!("{:08X}.history", tli.0)
    }

    /// The timeline whose history a file of this name holds: `00000002.history`.
    pub(crate) fn tli_of_file_name(name: &str) -> Option<TimelineId> {
        let digits = name.strip_suffix(".history").filter(|digits| digits.len() == 8)?;
        let hex = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
        if !digits.bytes().all(hex) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok().map(TimelineId)
    }

    /// Reads a history file. Empty lines and those that begin with `#` say nothing; what follows the LSN is the reason.
    ///
    /// Source: `readTimeLineHistory`, `src/backend/access/transam/timeline.c`.
    ///
    /// # Errors
    /// [`HistoryError`] with the line that breaks the format.
    pub fn parse(tli: TimelineId, text: &str) -> Result<Self, HistoryError> {
        let mut history = Self::root(tli);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index.saturating_add(1);
            let ancestor = Self::ancestor(line).map_err(|kind| HistoryError { line: number, kind })?;
            let found = ancestor.tli;
            let before = history.ancestors.last().map(|last| last.tli);
            let kind = match before {
                Some(before) if found <= before => Some(HistoryErrorKind::Order { found, before }),
                _ if found >= tli => Some(HistoryErrorKind::NotOlder { found, own: tli }),
                _ => None,
            };
            if let Some(kind) = kind {
                return Err(HistoryError { line: number, kind });
            }
            history.ancestors.push(ancestor);
        }
        Ok(history)
    }

    fn ancestor(line: &str) -> Result<Ancestor, HistoryErrorKind> {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let tli = first.parse().map_err(|_| HistoryErrorKind::Timeline(first.to_owned()))?;
        let rest = rest.trim_start();
        let (lsn, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if lsn.is_empty() {
            return Err(HistoryErrorKind::LsnMissing);
        }
        Ok(Ancestor { tli: TimelineId(tli), switch_lsn: lsn.parse()?, reason: reason.trim().to_owned() })
    }

    /// The timeline to which the byte at `lsn` belongs.
    pub fn tli_at(&self, lsn: Lsn) -> TimelineId {
        self.ancestors.iter().find(|ancestor| lsn < ancestor.switch_lsn).map_or(self.tli, |ancestor| ancestor.tli)
    }

    /// All timelines of the history, oldest first, this one last.
    pub fn timelines(&self) -> Vec<TimelineId> {
        self.ancestors.iter().map(|ancestor| ancestor.tli).chain([self.tli]).collect()
    }

    /// Timelines whose file may hold segment `number`, best first: the newest whose first segment is not a later one, then
    /// its ancestors.
    ///
    /// Source: `XLogFileReadAnyTLI`, `src/backend/access/transam/xlogrecovery.c`.
    pub fn candidates(&self, number: u64, segment_size: u32) -> Vec<TimelineId> {
        let mut begin = Some(0_u64);
        let mut found = Vec::new();
        for (index, tli) in self.timelines().into_iter().enumerate() {
            if begin.is_some_and(|begin| begin <= number) {
                found.push(tli);
            }
            begin = self
                .ancestors
                .get(index)
                .and_then(|ancestor| ancestor.switch_lsn.0.checked_div(u64::from(segment_size)));
        }
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEGMENT: u32 = 16 << 20;

    #[test]
    fn names_depend_on_the_segment_size() {
        let segment = WalSegment { tli: TimelineId(1), number: 0x1_0000_0002 };
        assert_eq!(WalSegment::from_file_name("0000000100000001000000FF", SEGMENT).map(|s| s.number), Some(0x1FF));
        assert_eq!(WalSegment::from_file_name("000000010000000100000100", SEGMENT), None);
        assert_eq!(
            WalSegment::from_file_name("000000010000000100000100", 1 << 20).map(|s| s.start_lsn(1 << 20)),
            Some(Some(Lsn(0x1_1000_0000)))
        );
        assert_eq!(segment.file_name(1 << 20), Some("000000010010000000000002".to_owned()));
        assert_eq!(
            WalSegment::holding(TimelineId(1), Lsn(0x1FF_FFFF), SEGMENT).and_then(|s| s.file_name(SEGMENT)),
            Some("000000010000000000000001".to_owned())
        );
        assert_eq!(segment.file_name(0), None);
    }

    #[test]
    fn other_names_are_no_segments() {
        for name in ["", "00000001000000000000000", "00000001000000000000000a", "000000010000000000000001.partial"] {
            assert_eq!(WalSegment::from_file_name(name, SEGMENT), None, "{name}");
        }
        assert_eq!(TimelineHistory::tli_of_file_name("0000000A.history"), Some(TimelineId(10)));
        assert_eq!(TimelineHistory::tli_of_file_name("A.history"), None);
    }

    #[test]
    fn history_with_copied_parent_is_read() {
        let text = "1\t0/A002368\tno recovery target specified\n\n  # note\n2\t0/C000000\t before 2026\n";
        let history = TimelineHistory::parse(TimelineId(3), text).unwrap();
        assert_eq!(history.ancestors.len(), 2);
        assert_eq!(history.ancestors[0].reason, "no recovery target specified");
        assert_eq!(history.tli_at(Lsn(0xA00_2367)), TimelineId(1));
        assert_eq!(history.tli_at(Lsn(0xA00_2368)), TimelineId(2));
        assert_eq!(history.tli_at(Lsn(0xC00_0000)), TimelineId(3));
        assert_eq!(history.timelines(), [TimelineId(1), TimelineId(2), TimelineId(3)]);
        // The switch lies in segment 10: both timelines have it, the newer one is read.
        assert_eq!(history.candidates(9, SEGMENT), [TimelineId(1)]);
        assert_eq!(history.candidates(10, SEGMENT), [TimelineId(2), TimelineId(1)]);
        assert_eq!(history.candidates(12, SEGMENT), [TimelineId(3), TimelineId(2), TimelineId(1)]);
    }

    #[test]
    fn bad_lines_are_reported_by_number() {
        let error = |text: &str| TimelineHistory::parse(TimelineId(3), text).unwrap_err().to_string();
        assert_eq!(error("x\t0/1"), "line 1 of the timeline history: \"x\" is not a valid timeline");
        assert_eq!(error("\n1"), "line 2 of the timeline history: no LSN after the timeline");
        assert!(error("1\t0-1").contains("\"0-1\" is not a valid LSN"));
        assert_eq!(error("2\t0/1\n2\t0/2"), "line 2 of the timeline history: timeline 2 after 2");
        assert_eq!(error("3\t0/1"), "line 1 of the timeline history: timeline 3 is not an ancestor of 3");
    }

    proptest! {
        #[test]
        fn names_go_there_and_back(tli in 1_u32.., number in 0_u64..1 << 32, shift in 20_u32..=30) {
            let size = 1 << shift;
            let segment = WalSegment { tli: TimelineId(tli), number: number >> (shift - 20) };
            let name = segment.file_name(size);
            prop_assert!(name.is_some());
            prop_assert_eq!(WalSegment::from_file_name(&name.unwrap_or_default(), size), Some(segment));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
            let _outcome = TimelineHistory::parse(TimelineId(9), &text);
        }
    }
}
