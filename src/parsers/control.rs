//! `global/pg_control` of majors 10 to 19devel, laid out by its own version number.

use nom::Parser;
use nom::error::context;

use super::control_layout::{ControlLayout, Field};
use super::crc::crc32c;
use super::decode::{ParseError, ParseStep, decode_at, le_i32, le_i64, le_u8, le_u32, le_u64};
use super::wal::checkpoint::CheckPoint;
use super::wal::version::Major;
use crate::types::{
    Geometry, LONG_WAL_HEADER_BYTES, Lsn, TimelineId, is_block_size, is_wal_block_size, is_wal_segment_size,
};

/// `wal_level` of a server that logs no more than its own recovery needs.
///
/// Source: `WalLevel`, `src/include/access/xlog.h`.
pub(crate) const WAL_LEVEL_MINIMAL: i32 = 0;

/// Bytes of the file; the struct sits at offset 0, the rest is zero.
///
/// Source: `PG_CONTROL_FILE_SIZE`, `src/include/catalog/pg_control.h`.
pub(crate) const CONTROL_FILE_SIZE: usize = 8192;

/// No future version is as high as this: they go up by about a hundred with each major.
const MAX_LATER_VERSION: u32 = 65_536;

/// Most blocks in one segment file of a relation: the server counts them in a signed number.
const MAX_SEGMENT_BLOCKS: u32 = 0x7FFF_FFFF;

/// The double that every server writes: `FLOATFORMAT_VALUE`, `src/include/catalog/pg_control.h`.
const FLOAT_FORMAT: f64 = 1_234_567.0;

/// Alignment on 64-bit machines.
const MAX_ALIGN: u32 = 8;

/// Bytes of a toast chunk, of which four rows fit on a page.
///
/// Source: `TOAST_MAX_CHUNK_SIZE`, `src/include/access/heaptoast.h`.
fn toast_chunk_size(block_size: u32) -> u32 {
    // A page header with four line pointers; a row header; chunk id, number and length word of a chunk.
    let of_row = (block_size.saturating_sub(40) / 4) & !(MAX_ALIGN.saturating_sub(1));
    of_row.saturating_sub(24 + 12)
}

/// The fields that stand at the same offset in every version: bytes 0 to 24.
///
/// | bytes  | field                | C type   |
/// |--------|----------------------|----------|
/// | 0..8   | `system_identifier`  | `uint64` |
/// | 8..12  | `pg_control_version` | `uint32` |
/// | 12..16 | `catalog_version_no` | `uint32` |
/// | 16..20 | `state`              | `int32`  |
///
/// Source: `ControlFileData`, `src/include/catalog/pg_control.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPrefix {
    /// Random number of the cluster, also in every WAL segment.
    pub system_identifier: u64,
    /// Layout of this file.
    pub pg_control_version: u32,
    /// Layout of the system catalogs.
    pub catalog_version_no: u32,
    /// State of the server when it wrote the file.
    pub state: DbState,
}

impl ControlPrefix {
    /// Bytes that are needed.
    pub const SIZE: usize = 20;

    /// Decodes without judging.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than [`Self::SIZE`].
    pub fn decode(buf: &[u8]) -> Result<Self, ParseError> {
        decode_at("ControlFileData", 0, buf, |i| {
            let (i, system_identifier) = context("system_identifier", le_u64).parse(i)?;
            let (i, pg_control_version) = context("pg_control_version", le_u32).parse(i)?;
            let (i, catalog_version_no) = context("catalog_version_no", le_u32).parse(i)?;
            let (i, state) = context("state", le_i32).parse(i)?;
            let state = DbState(state);
            Ok((i, Self { system_identifier, pg_control_version, catalog_version_no, state }))
        })
    }

    /// True when the file was written by a machine with the other byte order.
    pub(crate) const fn is_byte_swapped(&self) -> bool {
        self.pg_control_version.is_multiple_of(65_536) && self.pg_control_version != 0
    }

    /// True when the version is higher than that of every major that is known, and can be that of a later one.
    pub(crate) fn is_newer(&self) -> bool {
        let newest = Major::NEWEST.facts().control_version;
        (newest.saturating_add(1)..MAX_LATER_VERSION).contains(&self.pg_control_version)
    }
}

/// State of the cluster as written by the server; unknown codes are kept.
///
/// Source: `DBState`, `src/include/catalog/pg_control.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DbState(pub i32);

impl DbState {
    /// Shut down cleanly; no replay will happen.
    pub(crate) const SHUT_DOWN: Self = Self(1);
    /// A standby that was stopped cleanly; recovery continues at the redo point.
    pub(crate) const SHUT_DOWN_IN_RECOVERY: Self = Self(2);
    /// Archive recovery was running: a standby or a restored backup.
    pub(crate) const IN_ARCHIVE_RECOVERY: Self = Self(5);
    pub(crate) const IN_PRODUCTION: Self = Self(6);

    /// The words of the server's own tool, or `None` for a code without a meaning.
    pub const fn name(self) -> Option<&'static str> {
        match self.0 {
            0 => Some("starting up"),
            1 => Some("shut down"),
            2 => Some("shut down in recovery"),
            3 => Some("shutting down"),
            4 => Some("in crash recovery"),
            5 => Some("in archive recovery"),
            6 => Some("in production"),
            _ => None,
        }
    }

    /// True for a state that a server starts with; it refuses all others.
    ///
    /// Source: `StartupXLOG`, `src/backend/access/transam/xlog.c`.
    pub(crate) const fn is_startable(self) -> bool {
        matches!(self.0, 1..=6)
    }

    /// True when the server was shut down cleanly (states 1 and 2).
    pub(crate) const fn is_stopped_in_order(self) -> bool {
        matches!(self.0, 1 | 2)
    }
}

impl std::fmt::Display for DbState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "unrecognised state {:#x}", self.0),
        }
    }
}

/// Meaning of `data_checksum_version`. Before 19devel only `Off` and `On` exist; other values are kept.
///
/// Source: `ChecksumStateType`, `src/include/storage/checksum.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumState {
    /// `pd_checksum` may hold anything.
    Off,
    /// Every page on disk carries its checksum.
    On,
    /// Being switched off: pages are still written with checksums, but reads no longer require them.
    TurningOff,
    /// Being switched on: pages are written with checksums, older ones may lack them.
    TurningOn,
    /// A value without a meaning.
    Unknown(u32),
}

impl ChecksumState {
    /// Reads the field.
    pub const fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Off,
            1 => Self::On,
            2 => Self::TurningOff,
            3 => Self::TurningOn,
            other => Self::Unknown(other),
        }
    }

    /// The number on disk.
    pub const fn code(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::On => 1,
            Self::TurningOff => 2,
            Self::TurningOn => 3,
            Self::Unknown(code) => code,
        }
    }

    /// True when a page on disk without a right checksum is damaged.
    pub const fn is_enforced(self) -> bool {
        matches!(self, Self::On)
    }

    /// True when the server computes a checksum for every page that it writes.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::On | Self::TurningOff | Self::TurningOn)
    }
}

impl std::fmt::Display for ChecksumState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.pad("off"),
            Self::On => f.pad("on"),
            Self::TurningOff => f.pad("being switched off"),
            Self::TurningOn => f.pad("being switched on"),
            Self::Unknown(code) => write!(f, "unrecognised value {code}"),
        }
    }
}

/// A size in `pg_control` that cannot be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeFault {
    /// The server's name of the field.
    pub field: &'static str,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Value of the field.
    pub found: u32,
    /// Value that it should have.
    pub expected: SizeExpected,
}

/// Valid values of a size in `pg_control`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeExpected {
    /// A rule of the server, in words.
    Rule(&'static str),
    /// The size that the pages themselves name.
    Headers {
        /// The size.
        size: u32,
        /// Pages that name it.
        pages: u64,
    },
}

impl std::fmt::Display for SizeFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}, ", self.field, self.found)?;
        match &self.expected {
            SizeExpected::Rule(rule) => write!(f, "expected {rule}"),
            SizeExpected::Headers { size, pages } => write!(f, "the headers of {pages} pages say {size}"),
        }
    }
}

/// `pg_control` of a known version.
///
/// Offsets: [`ControlLayout`]. Source: `ControlFileData`, `src/include/catalog/pg_control.h` of each major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFile {
    /// Identity, version and state.
    pub prefix: ControlPrefix,
    /// When the file was last written, Unix seconds.
    pub time_s: i64,
    /// Start of the latest completed checkpoint record.
    pub checkpoint_lsn: Lsn,
    /// Start of the checkpoint record before it, major 10 only.
    pub prev_checkpoint_lsn: Option<Lsn>,
    /// Copy of that record.
    pub checkpoint: CheckPoint,
    /// Counter for LSNs of unlogged relations; no WAL address.
    pub unlogged_lsn: u64,
    /// Archive recovery only: replay must reach this before the cluster is consistent.
    pub min_recovery_lsn: Lsn,
    /// Timeline of `min_recovery_lsn`.
    pub min_recovery_timeline: TimelineId,
    /// Not 0 while a restored backup has not reached the end of the backup.
    pub backup_start_lsn: Lsn,
    /// End of a backup that was taken from a standby.
    pub backup_end_lsn: Lsn,
    /// Replay must meet a record that ends the backup.
    pub backup_end_required: bool,
    /// `wal_level`: 0 minimal, 1 replica, 2 logical.
    pub wal_level: i32,
    /// `wal_log_hints`.
    pub wal_log_hints: bool,
    /// `max_connections`.
    pub max_connections: i32,
    /// `max_worker_processes`.
    pub max_worker_processes: i32,
    /// `max_wal_senders`, since 12.
    pub max_wal_senders: Option<i32>,
    /// `max_prepared_transactions`.
    pub max_prepared_xacts: i32,
    /// `max_locks_per_transaction`.
    pub max_locks_per_xact: i32,
    /// `track_commit_timestamp`.
    pub track_commit_timestamp: bool,
    /// `io_torn_pages_protection`, of a server that has it: 0 off, 1 full_pages, 2 double_writes.
    pub torn_pages_protection: Option<i32>,
    /// Alignment that the server was built with.
    pub max_align: u32,
    /// Bytes of 1234567.0 as a double, kept as bits.
    pub float_format_bits: u64,
    /// Block and segment sizes.
    pub geometry: Geometry,
    /// Pages in one SLRU segment, since 19devel.
    pub slru_pages_per_segment: Option<u32>,
    /// Bytes of a name.
    pub name_data_len: u32,
    /// Columns in an index.
    pub index_max_keys: u32,
    /// Bytes of a toast chunk.
    pub toast_max_chunk_size: u32,
    /// Bytes of a large-object chunk.
    pub lo_block_size: u32,
    /// `float4` passed by value, up to 12. Servers refuse a byte other than 0 and 1 here.
    pub float4_by_val: Option<bool>,
    /// `float8` passed by value.
    pub float8_by_val: bool,
    /// Data checksums.
    pub checksums: ChecksumState,
    /// Signedness of `char`, since 18.
    pub default_char_signedness: Option<bool>,
    /// Secret for mock authentication.
    pub mock_authentication_nonce: [u8; 32],
    /// Stored CRC.
    pub crc: u32,
    /// CRC-32C of the bytes before the stored one.
    pub computed_crc: u32,
}

impl ControlFile {
    /// The server was shut down cleanly: the state says so, and the last checkpoint is its own redo point. A server whose redo
    /// point lies before the checkpoint replays, whatever the state says.
    ///
    /// Source: `InitWalRecovery`, `src/backend/access/transam/xlogrecovery.c`.
    pub(crate) fn was_shut_down(&self) -> bool {
        self.prefix.state == DbState::SHUT_DOWN && self.checkpoint.redo_lsn >= self.checkpoint_lsn
    }

    /// The timeline that recovery follows unless it is asked for another: that of the checkpoint, or a later one that was already
    /// replayed.
    ///
    /// Source: `InitWalRecovery`, `src/backend/access/transam/xlogrecovery.c`.
    pub fn timeline(&self) -> TimelineId {
        self.checkpoint.tli.max(self.min_recovery_timeline)
    }

    /// Decodes the file, layout by `pg_control_version`; `None` when that version is not one of ours.
    ///
    /// # Errors
    /// `Truncated` when `buf` ends before the struct does.
    pub fn decode(buf: &[u8]) -> Result<Option<Self>, ParseError> {
        let prefix = ControlPrefix::decode(buf)?;
        match ControlLayout::of_version(prefix.pg_control_version) {
            Some(layout) => Self::decode_layout(prefix, layout, buf).map(Some),
            None => Ok(None),
        }
    }

    /// True when the stored CRC is that of the bytes; nothing of the file can be trusted otherwise.
    pub const fn crc_is_good(&self) -> bool {
        self.crc == self.computed_crc
    }

    /// True when the layout was never compared with a file of a server.
    pub(crate) fn is_from_description(&self) -> bool {
        ControlLayout::of_version(self.prefix.pg_control_version).is_some_and(ControlLayout::is_from_description)
    }

    /// True on a standby, and on a restored backup until it is consistent: replay there is driven by restartpoints.
    pub(crate) fn is_in_archive_recovery(&self) -> bool {
        let state = self.prefix.state;
        let by_state = state == DbState::IN_ARCHIVE_RECOVERY || state == DbState::SHUT_DOWN_IN_RECOVERY;
        by_state || self.min_recovery_lsn.is_valid() || self.backup_start_lsn.is_valid()
    }

    /// True when the file can be one that `pg_resetwal` wrote: a shutdown checkpoint at the first record of a segment
    /// together with the values that it uses instead of the server's settings. A server with these settings can write such
    /// a file too; the checkpoint record in WAL says which it was.
    ///
    /// Source: `RewriteControlFile`, `src/bin/pg_resetwal/pg_resetwal.c`.
    pub(crate) fn looks_reset(&self) -> bool {
        let segment = u64::from(self.geometry.wal_segment_size);
        let first_record = self.checkpoint_lsn.0.checked_rem(segment) == Some(u64::from(LONG_WAL_HEADER_BYTES));
        let settings = self.wal_level == 0 && self.max_connections == 100 && self.max_worker_processes == 8;
        self.prefix.state == DbState::SHUT_DOWN
            && self.checkpoint.redo_lsn == self.checkpoint_lsn
            && first_record
            && settings
            && !self.wal_log_hints
    }

    /// Sizes that no server can be built with, in the order of the file; nothing may be read by them.
    pub(crate) fn size_faults(&self) -> Vec<SizeFault> {
        let Geometry { block_size, rel_segment_blocks, wal_block_size, wal_segment_size } = self.geometry;
        let mut faults = Vec::new();
        let mut demand = |holds: bool, field, found, expected| {
            if !holds {
                faults.push(self.size_fault(field, found, SizeExpected::Rule(expected)));
            }
        };
        demand(is_block_size(block_size), Field::Blcksz, block_size, "a power of two from 1024 to 32768");
        let blocks = rel_segment_blocks;
        demand(blocks > 0 && blocks <= MAX_SEGMENT_BLOCKS, Field::RelsegSize, blocks, "1 to 2147483647 blocks");
        let rule = "a power of two from 1024 to 65536";
        demand(is_wal_block_size(wal_block_size), Field::XlogBlcksz, wal_block_size, rule);
        let rule = "a power of two from 1 MiB to 1 GiB";
        demand(is_wal_segment_size(wal_segment_size), Field::XlogSegSize, wal_segment_size, rule);
        let upper = u32::try_from(self.float_format_bits >> 32).unwrap_or_default();
        let is_usual = self.float_format_bits == FLOAT_FORMAT.to_bits();
        demand(is_usual, Field::FloatFormat, upper, "the bits of 1234567.0");
        demand(self.max_align == MAX_ALIGN, Field::MaxAlign, self.max_align, "8, as on every 64-bit machine");
        let (lo_size, toast_size) = (block_size.checked_div(4).unwrap_or_default(), toast_chunk_size(block_size));
        // Both follow from another page size: then that of the file is wrong, which the pages tell.
        let implied = self.lo_block_size.saturating_mul(4);
        let agree = is_block_size(implied) && self.toast_max_chunk_size == toast_chunk_size(implied);
        demand(self.name_data_len == 64, Field::NameDataLen, self.name_data_len, "64");
        let found = self.toast_max_chunk_size;
        demand(found == toast_size || agree, Field::ToastMaxChunkSize, found, "derived from the page size");
        demand(
            self.lo_block_size == lo_size || agree,
            Field::Loblksize,
            self.lo_block_size,
            "a quarter of the page size",
        );
        if self.float4_by_val.is_none() {
            demand(
                self.float8_by_val,
                Field::Float8ByVal,
                u32::from(self.float8_by_val),
                "1, as on every 64-bit machine",
            );
        }
        if let Some(pages) = self.slru_pages_per_segment {
            demand(pages > 0, Field::SlruPagesPerSegment, pages, "1 or more");
        }
        faults
    }

    /// The page size is not the one that `pages` page headers name.
    pub(crate) fn page_size_fault(&self, named: u32, pages: u64) -> SizeFault {
        self.size_fault(Field::Blcksz, self.geometry.block_size, SizeExpected::Headers { size: named, pages })
    }

    fn size_fault(&self, field: Field, found: u32, expected: SizeExpected) -> SizeFault {
        let layout = ControlLayout::of_version(self.prefix.pg_control_version);
        let offset = layout.and_then(|layout| layout.offset(field)).unwrap_or_default();
        SizeFault { field: field.name(), offset: u64::try_from(offset).unwrap_or_default(), found, expected }
    }

    fn decode_layout(prefix: ControlPrefix, layout: &ControlLayout, buf: &[u8]) -> Result<Self, ParseError> {
        let at = Reader { layout, buf };
        let u32_at = |field| at.need(field, le_u32);
        let i32_at = |field| at.need(field, le_i32);
        let bool_at = |field| at.need(field, le_u8).map(|byte| byte != 0);
        let lsn_at = |field| at.need(field, le_u64).map(Lsn);
        let crc_offset = layout.offset(Field::Crc).unwrap_or_default();
        let copy_offset = layout.offset(Field::CheckPointCopy).unwrap_or_default();
        let copy = buf.get(copy_offset..).unwrap_or_default();
        let base = u64::try_from(copy_offset.min(buf.len())).unwrap_or(u64::MAX);
        Ok(Self {
            prefix,
            time_s: at.need(Field::Time, le_i64)?,
            checkpoint_lsn: lsn_at(Field::CheckPoint)?,
            prev_checkpoint_lsn: at.maybe(Field::PrevCheckPoint, le_u64)?.map(Lsn),
            checkpoint: CheckPoint::decode(layout.xlog, base, copy)?,
            unlogged_lsn: at.need(Field::UnloggedLsn, le_u64)?,
            min_recovery_lsn: lsn_at(Field::MinRecoveryPoint)?,
            min_recovery_timeline: TimelineId(u32_at(Field::MinRecoveryPointTli)?),
            backup_start_lsn: lsn_at(Field::BackupStartPoint)?,
            backup_end_lsn: lsn_at(Field::BackupEndPoint)?,
            backup_end_required: bool_at(Field::BackupEndRequired)?,
            wal_level: i32_at(Field::WalLevel)?,
            wal_log_hints: bool_at(Field::WalLogHints)?,
            max_connections: i32_at(Field::MaxConnections)?,
            max_worker_processes: i32_at(Field::MaxWorkerProcesses)?,
            max_wal_senders: at.maybe(Field::MaxWalSenders, le_i32)?,
            max_prepared_xacts: i32_at(Field::MaxPreparedXacts)?,
            max_locks_per_xact: i32_at(Field::MaxLocksPerXact)?,
            track_commit_timestamp: bool_at(Field::TrackCommitTimestamp)?,
            torn_pages_protection: match at.maybe(Field::ProtectionAfterTrack, le_i32)? {
                Some(code) => Some(code),
                None => at.maybe(Field::ProtectionBeforeHints, le_i32)?,
            },
            max_align: u32_at(Field::MaxAlign)?,
            float_format_bits: at.need(Field::FloatFormat, le_u64)?,
            geometry: Geometry {
                block_size: u32_at(Field::Blcksz)?,
                rel_segment_blocks: u32_at(Field::RelsegSize)?,
                wal_block_size: u32_at(Field::XlogBlcksz)?,
                wal_segment_size: u32_at(Field::XlogSegSize)?,
            },
            slru_pages_per_segment: at.maybe(Field::SlruPagesPerSegment, le_u32)?,
            name_data_len: u32_at(Field::NameDataLen)?,
            index_max_keys: u32_at(Field::IndexMaxKeys)?,
            toast_max_chunk_size: u32_at(Field::ToastMaxChunkSize)?,
            lo_block_size: u32_at(Field::Loblksize)?,
            float4_by_val: at.maybe(Field::Float4ByVal, le_u8)?.map(|byte| byte == 1),
            float8_by_val: at.need(Field::Float8ByVal, le_u8)? == 1,
            checksums: ChecksumState::from_code(u32_at(Field::DataChecksumVersion)?),
            default_char_signedness: at.maybe(Field::DefaultCharSignedness, le_u8)?.map(|byte| byte != 0),
            mock_authentication_nonce: at.need(Field::MockAuthenticationNonce, nonce)?,
            crc: u32_at(Field::Crc)?,
            computed_crc: crc32c(buf.get(..crc_offset).unwrap_or_default()),
        })
    }
}

fn nonce(input: &[u8]) -> ParseStep<'_, [u8; 32]> {
    let (rest, bytes) = super::decode::take(32)(input)?;
    Ok((rest, bytes.try_into().unwrap_or_default()))
}

/// Reads fields by name at the offsets of one layout.
struct Reader<'a> {
    layout: &'a ControlLayout,
    buf: &'a [u8],
}

impl<'a> Reader<'a> {
    fn maybe<T>(&self, field: Field, parser: fn(&'a [u8]) -> ParseStep<'a, T>) -> Result<Option<T>, ParseError> {
        let Some(offset) = self.layout.offset(field) else { return Ok(None) };
        let bytes = self.buf.get(offset..).unwrap_or_default();
        let base = u64::try_from(offset.min(self.buf.len())).unwrap_or(u64::MAX);
        decode_at("ControlFileData", base, bytes, |i| context(field.name(), parser).parse(i)).map(Some)
    }

    /// Like [`Self::maybe`] for a field that every layout has; a test holds the table to that.
    fn need<T: Default>(&self, field: Field, parser: fn(&'a [u8]) -> ParseStep<'a, T>) -> Result<T, ParseError> {
        Ok(self.maybe(field, parser)?.unwrap_or_default())
    }
}
