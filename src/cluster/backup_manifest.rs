//! `backup_manifest`, as far as it says what a base backup was when it was made.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use super::open::{AccessError, Links, ReadFile};
use crate::types::{Lsn, TimelineId};

pub(crate) const MANIFEST_NAME: &str = "backup_manifest";

/// Longest manifest that is read, in bytes: of some million files.
const LIMIT_BYTES: u64 = 256 << 20;

/// Content of a manifest.
///
/// Source: `src/backend/backup/backup_manifest.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackupManifest {
    /// `backup_label` is among its files.
    pub lists_label: bool,
    /// Where the WAL begins that recovery needs: the least "Start-LSN".
    pub start_lsn: Lsn,
    /// Where the WAL ends that recovery needs at least: the highest "End-LSN".
    pub end_lsn: Lsn,
    pub timeline: TimelineId,
}

#[derive(Deserialize)]
struct Text {
    #[serde(rename = "Files")]
    files: Files,
    #[serde(rename = "WAL-Ranges")]
    ranges: Vec<Range>,
}

#[derive(Deserialize)]
struct Range {
    #[serde(rename = "Timeline")]
    timeline: u32,
    #[serde(rename = "Start-LSN")]
    start_lsn: String,
    #[serde(rename = "End-LSN")]
    end_lsn: String,
}

/// The list of files, of which one is looked for and none is kept.
struct Files {
    lists_label: bool,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "Path")]
    path: Option<String>,
}

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Files;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of files")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Files, A::Error> {
                let mut lists_label = false;
                while let Some(entry) = list.next_element::<Entry>()? {
                    lists_label |= entry.path.as_deref() == Some("backup_label");
                }
                Ok(Files { lists_label })
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

impl BackupManifest {
    /// Reads the manifest of a data directory; `None` if it is missing.
    ///
    /// # Errors
    /// When it cannot be read, or names no range of WAL.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, AccessError> {
        let path = data_dir.join(MANIFEST_NAME);
        let file = match ReadFile::open(&path, Links::Refuse) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = Self::of(BufReader::new(file.into_reader().take(LIMIT_BYTES)));
        read.map(Some).map_err(|error| AccessError::io("read", &path, error))
    }

    fn of(text: impl Read) -> io::Result<Self> {
        let Text { files, ranges } = serde_json::from_reader(text)?;
        let starts = ranges.iter().filter_map(|range| Some((range.start_lsn.parse::<Lsn>().ok()?, range.timeline)));
        let first = starts.min();
        let (start_lsn, timeline) =
            first.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no range of WAL"))?;
        // An invalid end may be anywhere: no checkpoint is known to come after it.
        let ends = ranges.iter().map(|range| range.end_lsn.parse().unwrap_or(Lsn(u64::MAX)));
        let end_lsn = ends.max().unwrap_or(Lsn(u64::MAX));
        Ok(Self { lists_label: files.lists_label, start_lsn, end_lsn, timeline: TimelineId(timeline) })
    }
}
