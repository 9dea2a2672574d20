//! The redo log: where recovery starts, and which server made it.

use std::path::Path;

use super::files::InnodbFiles;
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::innodb::InnodbLsn;
use crate::parsers::innodb::redo::{Checkpoint, REDO_HEAD_BYTES, RedoFormat, RedoHeader, checkpoints, latest};

/// What the redo log says.
#[derive(Debug, Default)]
pub struct RedoLog {
    /// How it is laid out; `None` without a redo log.
    pub format: Option<RedoFormat>,
    /// The format word of its first file.
    pub format_word: u32,
    /// The server that made it, as it names itself.
    pub creator: Option<String>,
    /// The newest valid checkpoint, and the file that it is in.
    pub checkpoint: Option<(InnodbLsn, String)>,
    /// Checkpoint blocks with a wrong checksum: file and offset.
    pub damaged: Vec<(String, u64)>,
    /// Files that could not be read.
    pub skipped: Vec<AccessError>,
}

impl RedoLog {
    /// Reads the starts of the files.
    #[must_use]
    pub fn read(data_dir: &Path, files: &InnodbFiles) -> Self {
        let mut log = Self::default();
        let mut found: Vec<(Checkpoint, String)> = Vec::new();
        if files.redo_directory.is_empty() {
            if let Some(path) = &files.redo_file {
                log.add(&data_dir.join(path), None, &mut found);
            }
        } else {
            for path in &files.redo_directory {
                log.add(path, Some(RedoFormat::Directory), &mut found);
            }
        }
        let blocks: Vec<Checkpoint> = found.iter().map(|(checkpoint, _)| *checkpoint).collect();
        log.checkpoint = latest(&blocks).and_then(|best| {
            let (_, file) = found.iter().find(|(checkpoint, _)| *checkpoint == best)?;
            Some((best.lsn, file.clone()))
        });
        log.damaged = found
            .into_iter()
            .filter(|(checkpoint, _)| !checkpoint.is_valid)
            .map(|(checkpoint, file)| (file, checkpoint.offset))
            .collect();
        log
    }

    fn add(&mut self, path: &Path, format: Option<RedoFormat>, found: &mut Vec<(Checkpoint, String)>) {
        let mut head = vec![0; REDO_HEAD_BYTES];
        let read = ReadFile::open(path, Links::Refuse).and_then(|file| file.read_at(&mut head, 0));
        match read {
            Ok(filled) => head.truncate(filled),
            Err(error) => return self.skipped.push(error),
        }
        let Some(header) = RedoHeader::decode(&head) else { return };
        let format = format.unwrap_or(RedoFormat::of_word(header.format));
        if self.format.is_none() {
            self.format = Some(format);
            self.format_word = header.format;
        }
        self.creator = self.creator.take().or(header.creator);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(checkpoints(format, &head).into_iter().map(|checkpoint| (checkpoint, name.clone())));
    }

    /// Where recovery starts, if that is known.
    #[must_use]
    pub fn checkpoint_lsn(&self) -> Option<InnodbLsn> {
        self.checkpoint.as_ref().map(|(lsn, _)| *lsn)
    }
}

/// Servers whose recovery goes by the same rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// MySQL 8.0.20 and later.
    Mysql8,
    /// MySQL 5.7 to 8.0.19.
    Mysql57,
    /// MySQL 5.6 and before.
    Mysql56,
    /// MariaDB.
    Mariadb,
    /// Unknown.
    Unknown,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Mysql8, Self::Mysql57, Self::Mysql56, Self::Mariadb, Self::Unknown];

    /// Stable name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mysql8 => "mysql_8",
            Self::Mysql57 => "mysql_5_7",
            Self::Mysql56 => "mysql_5_6",
            Self::Mariadb => "mariadb",
            Self::Unknown => "unknown",
        }
    }

    /// The family that the files of a directory show. `has_full_crc32`: a tablespace has what MariaDB alone makes.
    #[must_use]
    pub fn of(files: &InnodbFiles, log: &RedoLog, has_full_crc32: bool) -> Self {
        let is_mariadb = log.creator.as_ref().is_some_and(|creator| creator.starts_with("MariaDB"))
            || matches!(log.format_word & 0x7FFF_FFFF, 0x5068_7973 | 0x5048_5953 | 103 | 104)
            || has_full_crc32;
        if is_mariadb {
            return Self::Mariadb;
        }
        if !files.doublewrite.is_empty() || !files.redo_directory.is_empty() {
            return Self::Mysql8;
        }
        match log.format {
            Some(RedoFormat::Block) => Self::Mysql57,
            Some(RedoFormat::Old) => Self::Mysql56,
            _ if files.has_dictionary => Self::Mysql8,
            _ => Self::Unknown,
        }
    }
}
