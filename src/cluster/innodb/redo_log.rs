//! The redo log: where recovery starts, and which server made it.

use std::path::Path;

use super::files::{InnodbFiles, REDO_NAME, number_after};
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::innodb::redo::{
    Checkpoint, REDO_HEAD_BYTES, REDO_HEADER_BYTES, RedoFormat, RedoHeader, checkpoints, has_both_checkpoints,
    is_latest_certain, latest,
};
use crate::parsers::innodb::{InnodbLsn, stable_names};

#[derive(Debug, Default)]
pub struct RedoLog {
    pub format: Option<RedoFormat>,
    pub format_word: u32,
    pub creator: Option<String>,
    /// The newest valid checkpoint, and the file that it is in.
    pub checkpoint: Option<(Checkpoint, String)>,
    /// Every checkpoint block is there that a newer checkpoint can have been in.
    pub is_checkpoint_certain: bool,
    /// Files whose header is not all there or has a wrong checksum.
    pub bad_headers: Vec<String>,
    pub gaps: Vec<String>,
    /// Checkpoint blocks with a wrong checksum: file and offset.
    pub damaged: Vec<(String, u64)>,
    pub skipped: Vec<AccessError>,
}

struct Head {
    number: u64,
    name: String,
    header: RedoHeader,
    end_lsn: InnodbLsn,
    has_both_checkpoints: bool,
}

impl RedoLog {
    pub fn read(data_dir: &Path, files: &InnodbFiles) -> Self {
        let mut log = Self::default();
        let mut found: Vec<(Checkpoint, String)> = Vec::new();
        let mut heads = Vec::new();
        if files.redo_directory.is_empty() {
            if let Some(path) = &files.redo_file {
                heads.extend(log.add(&data_dir.join(path), None, &mut found));
            }
        } else {
            for path in &files.redo_directory {
                heads.extend(log.add(path, Some(RedoFormat::Directory), &mut found));
            }
            log.gaps = gaps(&heads);
        }
        // What a damaged header says counts only where there is no other.
        let best = |head: &&Head| head.header.has_right_checksum;
        if let Some(head) = heads.iter().find(best).or(heads.first()) {
            log.format_word = head.header.format;
            log.format = Some(match files.redo_directory.is_empty() {
                true => RedoFormat::of_word(log.format_word),
                false => RedoFormat::Directory,
            });
        }
        let creator = |head: &Head| head.header.creator.clone();
        log.creator = heads.iter().filter(best).find_map(creator).or_else(|| heads.iter().find_map(creator));
        let blocks: Vec<Checkpoint> = found.iter().map(|(checkpoint, _)| *checkpoint).collect();
        log.checkpoint = latest(&blocks).and_then(|best| {
            let (_, file) = found.iter().find(|(checkpoint, _)| *checkpoint == best)?;
            Some((best, file.clone()))
        });
        log.is_checkpoint_certain = match &log.checkpoint {
            // A newer one is in the same file or a later one.
            Some((_, file)) if log.format == Some(RedoFormat::Directory) => {
                log.has_whole_files()
                    && log.skipped.is_empty()
                    && heads.iter().skip_while(|head| head.name != *file).all(|head| head.has_both_checkpoints)
            }
            _ => is_latest_certain(&blocks),
        };
        log.damaged = found
            .into_iter()
            .filter(|(checkpoint, _)| !checkpoint.is_valid)
            .map(|(checkpoint, file)| (file, checkpoint.offset))
            .collect();
        log
    }

    fn add(&mut self, path: &Path, format: Option<RedoFormat>, found: &mut Vec<(Checkpoint, String)>) -> Option<Head> {
        let mut head = vec![0; REDO_HEAD_BYTES];
        let opened = ReadFile::open(path, Links::Refuse);
        let read = opened.and_then(|file| Ok((file.read_at(&mut head, 0)?, file.size_bytes())));
        let (filled, size_bytes) = match read {
            Ok(read) => read,
            Err(error) => {
                self.skipped.push(error);
                return None;
            }
        };
        head.truncate(filled);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let header = RedoHeader::decode(&head);
        let format = format.or(header.as_ref().map(|header| RedoFormat::of_word(header.format)));
        let has_checksum = format.is_none_or(RedoFormat::has_header_checksum);
        if has_checksum && !header.as_ref().is_some_and(|header| header.has_right_checksum) {
            self.bad_headers.push(name.clone());
        }
        let (header, format) = (header?, format?);
        found.extend(checkpoints(format, &head).into_iter().map(|checkpoint| (checkpoint, name.clone())));
        let bytes = size_bytes.saturating_sub(REDO_HEADER_BYTES);
        let end_lsn = InnodbLsn(header.start_lsn.0.saturating_add(bytes));
        let has_both_checkpoints = has_both_checkpoints(&head);
        Some(Head { number: number_after(path, REDO_NAME), name, header, end_lsn, has_both_checkpoints })
    }

    /// True for a log that need not have `ib_logfile1`: `innodb_log_files_in_group` is at least 2, but for MariaDB 10.2 and later.
    pub(crate) fn may_have_one_file(&self) -> bool {
        let is_mariadb = self.creator.as_deref().is_some_and(|creator| creator.starts_with("MariaDB"));
        is_mariadb || !matches!(self.format_word & 0x7FFF_FFFF, 0..=6) || self.format == Some(RedoFormat::Directory)
    }

    /// True when every file is as a server leaves it, as far as headers tell.
    pub(crate) fn has_whole_files(&self) -> bool {
        self.bad_headers.is_empty() && self.gaps.is_empty()
    }

    pub fn checkpoint_lsn(&self) -> Option<InnodbLsn> {
        self.checkpoint.as_ref().map(|(checkpoint, _)| checkpoint.lsn)
    }
}

/// Gaps between files in the order of their numbers. A file with a damaged header has only its number.
fn gaps(heads: &[Head]) -> Vec<String> {
    let gap = |two: &[Head]| {
        let [one, next] = two else { return None };
        let is_file_missing = one.number.checked_add(1) != Some(next.number);
        let are_known = one.header.has_right_checksum && next.header.has_right_checksum;
        let is_gap = is_file_missing || (are_known && one.end_lsn != next.header.start_lsn);
        is_gap.then(|| one.name.clone())
    };
    heads.windows(2).filter_map(gap).collect()
}

/// Servers whose recovery goes by the same rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "what each says is in its words")]
pub enum Family {
    #[strum(serialize = "mysql_8")]
    Mysql8,
    #[strum(serialize = "mysql_5_7")]
    Mysql57,
    #[strum(serialize = "mysql_5_6")]
    Mysql56,
    Mariadb,
    /// MariaDB before 10.5, whose rules are not known here.
    #[strum(serialize = "mariadb_before_10_5")]
    MariadbOld,
    Unknown,
}

stable_names!(Family);

impl Family {
    /// The family that the files of a directory show. `has_full_crc32`: a tablespace has what MariaDB alone makes.
    pub fn of(files: &InnodbFiles, log: &RedoLog, has_full_crc32: bool) -> Self {
        let creator = log.creator.as_deref().unwrap_or_default();
        let word = log.format_word & 0x7FFF_FFFF;
        if let Some(version) = version_after(creator, "MariaDB ") {
            return if version < (10, 5, 0) { Self::MariadbOld } else { Self::Mariadb };
        }
        match word {
            0x5068_7973 | 0x5048_5953 => return Self::Mariadb,
            103 | 104 => return Self::MariadbOld,
            _ if has_full_crc32 => return Self::Mariadb,
            _ => {}
        }
        if !files.doublewrite.is_empty() || !files.redo_directory.is_empty() {
            return Self::Mysql8;
        }
        if let Some(version) = version_after(creator, "MySQL ") {
            return match version {
                version if version >= FIRST_WITH_FILES => Self::Mysql8,
                version if version >= (5, 7, 0) => Self::Mysql57,
                _ => Self::Mysql56,
            };
        }
        // What is in the header counts only with a checkpoint that its checksum confirms.
        match log.format.filter(|_| log.checkpoint.is_some()) {
            Some(RedoFormat::Block) if (5..=6).contains(&word) => Self::Mysql8,
            Some(RedoFormat::Block) if word < 4 && !files.has_dictionary => Self::Mysql57,
            Some(RedoFormat::Old) if !files.has_dictionary => Self::Mysql56,
            _ if files.has_dictionary => Self::Mysql8,
            _ => Self::Unknown,
        }
    }
}

/// The first MySQL that keeps the doublewrite buffer in files.
const FIRST_WITH_FILES: (u32, u32, u32) = (8, 0, 20);

/// The version in the name of a server: `MySQL 8.0.36`.
fn version_after(creator: &str, name: &str) -> Option<(u32, u32, u32)> {
    let mut parts = creator.strip_prefix(name)?.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next()?.parse().ok();
    Some((part()?, part()?, part().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKPOINT: Checkpoint =
        Checkpoint { offset: 512, number: None, lsn: InnodbLsn(9), position: None, end_lsn: None, is_valid: true };

    fn log(creator: &str, word: u32, format: RedoFormat, has_checkpoint: bool) -> RedoLog {
        RedoLog {
            format: Some(format),
            format_word: word,
            creator: (!creator.is_empty()).then(|| creator.to_owned()),
            checkpoint: has_checkpoint.then(|| (CHECKPOINT, "ib_logfile0".to_owned())),
            ..RedoLog::default()
        }
    }

    #[test]
    fn family_by_creator_format_and_dictionary() {
        use RedoFormat::{Block, MariadbPhysical, Old};
        let dictionary = InnodbFiles { has_dictionary: true, ..InnodbFiles::default() };
        let none = InnodbFiles::default();
        for (files, creator, word, format, has_checkpoint, expected) in [
            (&dictionary, "MySQL 8.0.25", 4, Block, true, Family::Mysql8),
            (&dictionary, "MySQL 8.0.19", 4, Block, true, Family::Mysql57),
            (&none, "MySQL 5.7.44", 1, Block, true, Family::Mysql57),
            (&dictionary, "", 4, Block, true, Family::Mysql8),
            (&none, "", 4, Block, true, Family::Unknown),
            (&none, "", 0, Old, true, Family::Mysql56),
            (&none, "", 0, Old, false, Family::Unknown),
            (&dictionary, "", 0, Old, false, Family::Mysql8),
            (&none, "MariaDB 10.4.34", 104, Block, true, Family::MariadbOld),
            (&none, "MariaDB 10.2.44", 1, Block, true, Family::MariadbOld),
            (&none, "", 103, Block, true, Family::MariadbOld),
            (&none, "MariaDB 10.11.19", 0x5068_7973, MariadbPhysical, true, Family::Mariadb),
            (&none, "", 0x5048_5953, Block, false, Family::Mariadb),
        ] {
            let found = Family::of(files, &log(creator, word, format, has_checkpoint), false);
            assert_eq!(found, expected, "{creator} {word} {has_checkpoint}");
        }
    }
}
