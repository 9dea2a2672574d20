//! The redo log: where recovery starts, and which server made it.
//! Its end: blocks or mini-transactions are counted from the checkpoint on, and none is unpacked.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{InnodbFiles, REDO_NAME, number_after};
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::innodb::redo::{
    Checkpoint, MAX_MTR_BYTES, MTR_LOG_START, MTR_TRAILER_BYTES, REDO_BLOCK_BYTES, REDO_HEAD_BYTES, REDO_HEADER_BYTES,
    RedoBlock, RedoFormat, RedoHeader, block_end, block_number, block_records, block_start, checkpoints,
    has_both_checkpoints, is_latest_certain, latest, mini_transaction,
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

const WINDOW_BYTES: usize = 4 << 20;

/// The high bit of the format word of MariaDB: the log is encrypted.
const ENCRYPTED: u32 = 1 << 31;

/// Longest record that names a checkpoint, as a whole mini-transaction.
const MAX_CHECKPOINT_RECORD: u64 = 16;

#[derive(Debug)]
pub enum NoEnd {
    /// It is encrypted, has no checksums, or its start is unknown.
    NotTestable,
    /// It continues in a file that is missing or too short.
    Missing,
    Interrupted,
    Unreadable(AccessError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoEnd {
    pub lsn: InnodbLsn,
    /// The log has nothing after the checkpoint, except for the record of the checkpoint itself.
    pub is_clean: bool,
}

impl RedoEnd {
    /// Finds the end of a log with a checkpoint; `None` without one. `watch` interrupts it.
    pub fn find(
        data_dir: &Path,
        files: &InnodbFiles,
        log: &RedoLog,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Option<Result<Self, NoEnd>> {
        let (checkpoint, _) = log.checkpoint.as_ref()?;
        let is_physical = log.format == Some(RedoFormat::MariadbPhysical);
        if is_physical && log.format_word & ENCRYPTED != 0 {
            return Some(Err(NoEnd::NotTestable));
        }
        let map = match RedoMap::open(data_dir, files, log) {
            Ok(Some(map)) => map,
            Ok(None) => return Some(Err(NoEnd::NotTestable)),
            Err(error) => return Some(Err(NoEnd::Unreadable(error))),
        };
        let walk = Walk { map: &map, first: checkpoint.lsn, watch };
        let found = if is_physical { walk.mini_transactions() } else { walk.blocks() };
        Some(found.and_then(|(lsn, is_clean)| match checkpoint.end_lsn {
            Some(needed) if lsn < needed => Err(NoEnd::Missing),
            _ => Ok(Self { lsn, is_clean }),
        }))
    }
}

struct Walk<'a> {
    map: &'a RedoMap,
    first: InnodbLsn,
    watch: &'a dyn Fn() -> ControlFlow<()>,
}

impl Walk<'_> {
    fn read(&self, lsn: InnodbLsn, buf: &mut [u8]) -> Result<usize, NoEnd> {
        if (self.watch)().is_break() {
            return Err(NoEnd::Interrupted);
        }
        self.map.read(lsn, buf).map_err(NoEnd::Unreadable)
    }

    /// The end of a log of blocks, and whether nothing is after the checkpoint.
    fn blocks(&self) -> Result<(InnodbLsn, bool), NoEnd> {
        if !self.map.has_even_files() {
            return Err(NoEnd::Missing);
        }
        let mut start = block_start(self.first);
        let (mut end, mut is_tested, mut is_clean) = (start, true, false);
        let mut buf = vec![0; WINDOW_BYTES];
        'log: loop {
            let filled = self.read(start, &mut buf)?;
            if filled < REDO_BLOCK_BYTES {
                return Err(NoEnd::Missing);
            }
            for block in buf.get(..filled).unwrap_or_default().chunks_exact(REDO_BLOCK_BYTES) {
                let whole = RedoBlock::decode(block).filter(|block| block.number == block_number(start));
                let Some(RedoBlock { length, is_tested: has_sum, .. }) = whole else { break 'log };
                is_tested &= has_sum;
                if start == block_start(self.first) {
                    let from = usize::try_from(self.first.0.saturating_sub(start.0)).unwrap_or(usize::MAX);
                    is_clean = is_checkpoint_record(block_records(block, length, from), self.first);
                }
                end = block_end(start, length);
                start = InnodbLsn(start.0.saturating_add(REDO_BLOCK_BYTES as u64));
                if length < REDO_BLOCK_BYTES as u64 {
                    break 'log;
                }
            }
        }
        // The server wrote the block of the checkpoint before the checkpoint. A log seldom ends where its files start over.
        if end < self.first || self.map.starts_over(start) {
            return Err(NoEnd::Missing);
        }
        if !is_tested {
            return Err(NoEnd::NotTestable);
        }
        let is_short = end.0.saturating_sub(self.first.0) <= MAX_CHECKPOINT_RECORD;
        Ok((end, end == self.first || (is_short && is_clean)))
    }

    /// The end of a log of mini-transactions, and whether nothing is after the checkpoint.
    fn mini_transactions(&self) -> Result<(InnodbLsn, bool), NoEnd> {
        let capacity = self.map.capacity();
        let (mut lsn, mut is_clean) = (self.first, true);
        let mut buf = vec![0; usize::try_from(capacity).unwrap_or(usize::MAX).min(WINDOW_BYTES)];
        loop {
            let filled = self.read(lsn, &mut buf)?;
            if filled < buf.len() || buf.is_empty() {
                return Err(NoEnd::Missing);
            }
            let mut at: usize = 0;
            // The longest one must fit in what is left.
            while at == 0 || buf.len().saturating_sub(at) > MAX_MTR_BYTES.saturating_add(MTR_TRAILER_BYTES) {
                let rest = buf.get(at..).unwrap_or_default();
                let whole = mini_transaction(rest).filter(|(bytes, bit)| self.is_of_this_turn(lsn, *bytes, *bit));
                let Some((record_bytes, _)) = whole else { return Ok((lsn, is_clean)) };
                is_clean &= is_checkpoint_record(rest.get(..record_bytes).unwrap_or_default(), self.first);
                let length = record_bytes.saturating_add(MTR_TRAILER_BYTES);
                at = at.saturating_add(length);
                lsn = InnodbLsn(lsn.0.saturating_add(length as u64));
                // The log would be longer than its file.
                if lsn.0.saturating_sub(self.first.0) > capacity {
                    return Err(NoEnd::Missing);
                }
            }
        }
    }

    /// True for one that was written in the turn of the log over its file to which its LSN belongs.
    fn is_of_this_turn(&self, lsn: InnodbLsn, record_bytes: usize, sequence_bit: u8) -> bool {
        let at = InnodbLsn(lsn.0.saturating_add(record_bytes as u64));
        self.map.turn(at).is_some_and(|turn| turn & 1 == u64::from(sequence_bit == 0))
    }
}

/// True for the record with which a server names its checkpoint: `FILE_CHECKPOINT` of MariaDB 10.5 and later (first 3 bytes), or
/// `MLOG_CHECKPOINT` (1 byte), each with the LSN in 8 bytes, and the byte that ends records in blocks.
/// Source: `fil_names_clear`, `storage/innobase/fil/fil0fil.cc`.
fn is_checkpoint_record(records: &[u8], checkpoint: InnodbLsn) -> bool {
    let lsn = checkpoint.0.to_be_bytes();
    let named = [[0xFA, 0, 0].as_slice(), &[0x38]].into_iter().find_map(|head| records.strip_prefix(head));
    named.and_then(|rest| rest.strip_prefix(&lsn)).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

const MAX_FILES: usize = 100;

/// A file of the log: where and how long it is after its header.
#[derive(Debug)]
struct Part {
    file: ReadFile,
    start_lsn: InnodbLsn,
    bytes: u64,
}

/// The files of a log in the order in which they are written.
#[derive(Debug)]
struct RedoMap {
    parts: Vec<Part>,
    header_bytes: u64,
    least_files: usize,
    /// For a log that is written over and over: an LSN, and where its byte is among those after the headers. `None` where each file
    /// tells its own.
    ring: Option<(InnodbLsn, u64)>,
}

impl RedoMap {
    /// Opens the files of a log with a checkpoint; `None` where its format is not known to be followed, or nothing tells where in the
    /// files the checkpoint is.
    fn open(data_dir: &Path, files: &InnodbFiles, log: &RedoLog) -> Result<Option<Self>, AccessError> {
        let (Some(format), Some((checkpoint, _))) = (log.format, &log.checkpoint) else { return Ok(None) };
        let header_bytes = if format == RedoFormat::MariadbPhysical { MTR_LOG_START } else { REDO_HEADER_BYTES };
        let mut parts = Vec::new();
        for path in paths(data_dir, files) {
            parts.extend(Part::open(&path, header_bytes)?);
        }
        let least_files = if log.may_have_one_file() { 1 } else { 2 };
        let mut map = Self { parts, header_bytes, least_files, ring: None };
        map.ring = match format {
            RedoFormat::Directory => None,
            RedoFormat::MariadbPhysical => {
                map.parts.first().filter(|first| first.bytes > 0).map(|first| (first.start_lsn, 0))
            }
            RedoFormat::Block | RedoFormat::Old => {
                let start = block_start(checkpoint.lsn);
                let inside = checkpoint.lsn.0.saturating_sub(start.0);
                let at = checkpoint.position.and_then(|at| at.checked_sub(inside)).and_then(|at| map.after_headers(at));
                match at {
                    Some(at) => Some((start, at)),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(map))
    }

    /// How many bytes after headers are before an offset into all files laid end to end.
    fn after_headers(&self, mut offset: u64) -> Option<u64> {
        let mut before: u64 = 0;
        for part in &self.parts {
            let size = part.bytes.saturating_add(self.header_bytes);
            if offset < size {
                return before.checked_add(offset.checked_sub(self.header_bytes)?);
            }
            offset = offset.saturating_sub(size);
            before = before.saturating_add(part.bytes);
        }
        None
    }

    fn capacity(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// How often the log was written over its files before this LSN; `None` where it is not.
    fn turn(&self, lsn: InnodbLsn) -> Option<u64> {
        let (origin, _) = self.ring?;
        lsn.0.checked_sub(origin.0)?.checked_div(self.capacity())
    }

    /// True when the files are of one size and as many as servers make of a log that is written over and over.
    fn has_even_files(&self) -> bool {
        let are_even = self.parts.windows(2).all(|two| matches!(two, [one, next] if one.bytes == next.bytes));
        self.ring.is_none() || (are_even && self.parts.len() >= self.least_files)
    }

    /// True for an LSN at which a log that is written in a circle continues at the start of its first file.
    fn starts_over(&self, lsn: InnodbLsn) -> bool {
        let Some((origin, at)) = self.ring else { return false };
        let distance = lsn.0.saturating_sub(origin.0);
        distance > 0 && at.saturating_add(distance).checked_rem(self.capacity()) == Some(0)
    }

    /// The file of an LSN, the offset in it, and how many bytes of the log follow there.
    fn locate(&self, lsn: InnodbLsn) -> Option<(&Part, u64, u64)> {
        let Some((origin, at)) = self.ring else {
            let of = |part: &&Part| lsn.0.checked_sub(part.start_lsn.0).is_some_and(|inside| inside < part.bytes);
            let part = self.parts.iter().find(of)?;
            let inside = lsn.0.saturating_sub(part.start_lsn.0);
            return Some((part, inside, part.bytes.saturating_sub(inside)));
        };
        let distance = lsn.0.checked_sub(origin.0)?.checked_rem(self.capacity())?;
        let mut inside = at.checked_add(distance)?.checked_rem(self.capacity())?;
        for part in &self.parts {
            if inside < part.bytes {
                return Some((part, inside, part.bytes.saturating_sub(inside)));
            }
            inside = inside.saturating_sub(part.bytes);
        }
        None
    }

    /// Fills `buf` with the log from an LSN on, as far as files have it; returns the bytes read.
    fn read(&self, lsn: InnodbLsn, buf: &mut [u8]) -> Result<usize, AccessError> {
        let mut filled: usize = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let Some((part, inside, left)) = self.locate(InnodbLsn(lsn.0.saturating_add(filled as u64))) else { break };
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
            let Some(wanted) = rest.get_mut(..length) else { break };
            let read = part.file.read_at(wanted, self.header_bytes.saturating_add(inside))?;
            filled = filled.saturating_add(read);
            if read < length {
                break;
            }
        }
        Ok(filled)
    }
}

impl Part {
    /// Opens a file; `None` where it has no header.
    fn open(path: &Path, header_bytes: u64) -> Result<Option<Self>, AccessError> {
        let file = ReadFile::open(path, Links::Refuse)?;
        let mut head = vec![0; REDO_HEAD_BYTES];
        let filled = file.read_at(&mut head, 0)?;
        head.truncate(filled);
        let Some(header) = RedoHeader::decode(&head) else { return Ok(None) };
        let bytes = file.size_bytes().saturating_sub(header_bytes);
        Ok(Some(Self { file, start_lsn: header.start_lsn, bytes }))
    }
}

/// The files of the log: those of its directory, or `ib_logfile0` and those that follow it.
fn paths(data_dir: &Path, files: &InnodbFiles) -> Vec<PathBuf> {
    if !files.redo_directory.is_empty() {
        return files.redo_directory.clone();
    }
    let Some(first) = &files.redo_file else { return Vec::new() };
    let first = data_dir.join(first);
    let further = (1..MAX_FILES).map(|number| first.with_file_name(format!("ib_logfile{number}")));
    let further: Vec<PathBuf> = further.take_while(|path| path.symlink_metadata().is_ok()).collect();
    std::iter::once(first).chain(further).collect()
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

    #[test]
    fn record_of_a_checkpoint_names_its_lsn() {
        let lsn = InnodbLsn(0x0168_B630);
        let of = |head: &[u8], tail: &[u8]| [head, &lsn.0.to_be_bytes(), tail].concat();
        assert!(is_checkpoint_record(&of(&[0xFA, 0, 0], &[]), lsn));
        assert!(is_checkpoint_record(&of(&[0x38], &[]), lsn));
        assert!(!is_checkpoint_record(&of(&[0x38], &[1]), lsn));
        assert!(!is_checkpoint_record(&of(&[0x38], &[]), InnodbLsn(1)));
        assert!(!is_checkpoint_record(&of(&[0x39], &[]), lsn));
        assert!(!is_checkpoint_record(&[], lsn));
    }
}
