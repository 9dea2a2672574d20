//! Where each field of `pg_control` stands, by version of the file.

use super::wal::version::{Major, XlogFormat};

/// Number of layouts in [`LAYOUTS`].
const VERSIONS: usize = 10;

/// Marks a field that a version does not have.
const NONE: u16 = u16::MAX;

/// One version of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct ControlLayout {
    /// `pg_control_version` on disk.
    pub version: u32,
    /// Layout of the copy of the checkpoint in it.
    pub xlog: XlogFormat,
    column: usize,
}

/// Every layout that can be read, oldest first. Version 1300 serves four majors: only `PG_VERSION` or the catalog
/// version distinguish them.
///
/// Versions 1801 and 1802 are those of a server built from 18 that keeps its double write buffer in `pg_dwb`. Where the fields of 1801
/// stand is known from a description alone.
///
/// Source: `PG_CONTROL_VERSION`, `src/include/catalog/pg_control.h` of each major.
pub(crate) const LAYOUTS: [ControlLayout; VERSIONS] = [
    ControlLayout { version: 1002, xlog: XlogFormat::To11, column: 0 },
    ControlLayout { version: 1100, xlog: XlogFormat::To11, column: 1 },
    ControlLayout { version: 1201, xlog: XlogFormat::To16, column: 2 },
    ControlLayout { version: 1300, xlog: XlogFormat::To16, column: 3 },
    ControlLayout { version: 1700, xlog: XlogFormat::To18, column: 4 },
    ControlLayout { version: 1800, xlog: XlogFormat::To18, column: 5 },
    ControlLayout { version: 1801, xlog: XlogFormat::To18, column: 6 },
    ControlLayout { version: 1802, xlog: XlogFormat::To18, column: 7 },
    ControlLayout { version: 1901, xlog: XlogFormat::Since19, column: 8 },
    ControlLayout { version: 1905, xlog: XlogFormat::Since19, column: 9 },
];

const fn has_layout(major: Major) -> bool {
    let mut rest: &[ControlLayout] = &LAYOUTS;
    while let [layout, others @ ..] = rest {
        if layout.version == major.facts().control_version {
            return true;
        }
        rest = others;
    }
    false
}

const _: () = {
    let mut rest: &[Major] = &Major::ALL;
    while let [major, others @ ..] = rest {
        assert!(has_layout(*major), "add the pg_control of the new major: a row of LAYOUTS and a column of offsets");
        rest = others;
    }
};

impl ControlLayout {
    /// The layout with this version number.
    pub fn of_version(version: u32) -> Option<&'static Self> {
        LAYOUTS.iter().find(|layout| layout.version == version)
    }

    /// Description of an unsupported version of the file.
    pub const fn meaning(version: u32) -> Option<&'static str> {
        match version {
            1902 | 1903 => Some("a beta of 19 or a development tree"),
            1904 => Some("a development tree of 19"),
            _ => None,
        }
    }

    /// Offset of a field in the file, in bytes; `None` when this version does not have it.
    pub fn offset(&self, field: Field) -> Option<usize> {
        let offset = field.offsets().get(self.column).copied().unwrap_or(NONE);
        (offset != NONE).then_some(usize::from(offset))
    }

    /// True when servers of this major write this version, or servers built from it.
    pub(crate) const fn is_written_by(&self, major: Major) -> bool {
        let control_version = major.facts().control_version;
        control_version == self.version || (self.is_from_description() && major.facts().control_version == 1800)
    }

    /// True for a version that was never compared with a file of a server.
    pub(crate) const fn is_from_description(&self) -> bool {
        self.version == 1801
    }

    /// Bytes of a checkpoint record: header, the 2-byte header of its main data, payload.
    pub(crate) fn checkpoint_record_bytes(&self) -> u64 {
        let payload = u64::try_from(self.xlog.checkpoint_size()).unwrap_or_default();
        payload.saturating_add(26)
    }
}

macro_rules! fields {
    ($($variant:ident $name:literal [$($offset:expr),*];)*) => {
        /// A field of `ControlFileData` after the part that never moves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are the server's")]
        pub enum Field { $($variant,)* }

        impl Field {
            /// All fields, in disk order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The server's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            const fn offsets(self) -> [u16; VERSIONS] {
                match self { $(Self::$variant => [$($offset),*],)* }
            }
        }
    };
}

// Columns: 10, 11, 12, 13 to 16, 17, 18, two of a server with pg_dwb, 19devel, 19.
fields! {
    Time "time" [24, 24, 24, 24, 24, 24, 24, 24, 24, 24];
    CheckPoint "checkPoint" [32, 32, 32, 32, 32, 32, 32, 32, 32, 32];
    PrevCheckPoint "prevCheckPoint" [40, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE];
    CheckPointCopy "checkPointCopy" [48, 40, 40, 40, 40, 40, 40, 40, 40, 40];
    UnloggedLsn "unloggedLSN" [128, 120, 128, 128, 128, 128, 128, 128, 136, 136];
    MinRecoveryPoint "minRecoveryPoint" [136, 128, 136, 136, 136, 136, 136, 136, 144, 144];
    MinRecoveryPointTli "minRecoveryPointTLI" [144, 136, 144, 144, 144, 144, 144, 144, 152, 152];
    BackupStartPoint "backupStartPoint" [152, 144, 152, 152, 152, 152, 152, 152, 160, 160];
    BackupEndPoint "backupEndPoint" [160, 152, 160, 160, 160, 160, 160, 160, 168, 168];
    BackupEndRequired "backupEndRequired" [168, 160, 168, 168, 168, 168, 168, 168, 176, 176];
    WalLevel "wal_level" [172, 164, 172, 172, 172, 172, 172, 172, 180, 180];
    ProtectionBeforeHints "io_torn_pages_protection" [NONE, NONE, NONE, NONE, NONE, NONE, NONE, 176, NONE, NONE];
    WalLogHints "wal_log_hints" [176, 168, 176, 176, 176, 176, 176, 180, 184, 184];
    MaxConnections "MaxConnections" [180, 172, 180, 180, 180, 180, 180, 184, 188, 188];
    MaxWorkerProcesses "max_worker_processes" [184, 176, 184, 184, 184, 184, 184, 188, 192, 192];
    MaxWalSenders "max_wal_senders" [NONE, NONE, 188, 188, 188, 188, 188, 192, 196, 196];
    MaxPreparedXacts "max_prepared_xacts" [188, 180, 192, 192, 192, 192, 192, 196, 200, 200];
    MaxLocksPerXact "max_locks_per_xact" [192, 184, 196, 196, 196, 196, 196, 200, 204, 204];
    TrackCommitTimestamp "track_commit_timestamp" [196, 188, 200, 200, 200, 200, 200, 204, 208, 208];
    ProtectionAfterTrack "io_torn_pages_protection" [NONE, NONE, NONE, NONE, NONE, NONE, 204, NONE, NONE, NONE];
    MaxAlign "maxAlign" [200, 192, 204, 204, 204, 204, 208, 208, 212, 212];
    FloatFormat "floatFormat" [208, 200, 208, 208, 208, 208, 216, 216, 216, 216];
    Blcksz "blcksz" [216, 208, 216, 216, 216, 216, 224, 224, 224, 224];
    RelsegSize "relseg_size" [220, 212, 220, 220, 220, 220, 228, 228, 228, 228];
    SlruPagesPerSegment "slru_pages_per_segment" [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 232, 232];
    XlogBlcksz "xlog_blcksz" [224, 216, 224, 224, 224, 224, 232, 232, 236, 236];
    XlogSegSize "xlog_seg_size" [228, 220, 228, 228, 228, 228, 236, 236, 240, 240];
    NameDataLen "nameDataLen" [232, 224, 232, 232, 232, 232, 240, 240, 244, 244];
    IndexMaxKeys "indexMaxKeys" [236, 228, 236, 236, 236, 236, 244, 244, 248, 248];
    ToastMaxChunkSize "toast_max_chunk_size" [240, 232, 240, 240, 240, 240, 248, 248, 252, 252];
    Loblksize "loblksize" [244, 236, 244, 244, 244, 244, 252, 252, 256, 256];
    Float4ByVal "float4ByVal" [248, 240, 248, NONE, NONE, NONE, NONE, NONE, NONE, NONE];
    Float8ByVal "float8ByVal" [249, 241, 249, 248, 248, 248, 256, 256, 260, 260];
    DataChecksumVersionInit "data_checksum_version_init" [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 264];
    DataChecksumVersion "data_checksum_version" [252, 244, 252, 252, 252, 252, 260, 260, 264, 268];
    DefaultCharSignedness "default_char_signedness" [NONE, NONE, NONE, NONE, NONE, 256, 264, 264, 268, 272];
    MockAuthenticationNonce "mock_authentication_nonce" [256, 248, 256, 256, 256, 257, 265, 265, 269, 273];
    Crc "crc" [288, 280, 288, 288, 288, 292, 300, 300, 304, 308];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_disk_order_without_overlap() {
        for layout in &LAYOUTS {
            let offsets: Vec<_> = Field::ALL.iter().filter_map(|field| layout.offset(*field)).collect();
            assert!(offsets.is_sorted_by(|a, b| a < b), "version {}: {offsets:?}", layout.version);
            assert_eq!(offsets.first(), Some(&24));
        }
    }

    #[test]
    fn every_major_has_a_layout_with_its_own_checkpoint() {
        for major in Major::ALL {
            let layout = ControlLayout::of_version(major.facts().control_version);
            assert_eq!(layout.map(|layout| layout.xlog), Some(major.facts().xlog), "{major}");
            assert!(layout.is_some_and(|layout| layout.is_written_by(major)));
        }
        for layout in &LAYOUTS {
            assert!(Major::ALL.into_iter().any(|major| layout.is_written_by(major)), "version {}", layout.version);
        }
    }

    #[test]
    fn fields_of_the_versions_with_pg_dwb() {
        use Field::{
            Blcksz, Crc, DataChecksumVersion, FloatFormat, MaxAlign, ProtectionAfterTrack, ProtectionBeforeHints,
            TrackCommitTimestamp, WalLevel, WalLogHints, XlogSegSize,
        };
        let own = [ProtectionAfterTrack, ProtectionBeforeHints];
        let common = [Blcksz, Crc, DataChecksumVersion, FloatFormat, MaxAlign, WalLevel, XlogSegSize];
        for (version, own_offsets, hints, track) in
            [(1801, [Some(204), None], 176, 200), (1802, [None, Some(176)], 180, 204)]
        {
            let layout = ControlLayout::of_version(version).unwrap();
            assert_eq!(layout.is_from_description(), version == 1801);
            assert_eq!(own.map(|field| layout.offset(field)), own_offsets);
            assert_eq!(layout.offset(WalLogHints), Some(hints));
            assert_eq!(layout.offset(TrackCommitTimestamp), Some(track));
            assert_eq!(common.map(|field| layout.offset(field).unwrap()), [224, 300, 260, 216, 208, 172, 236]);
        }
    }

    #[test]
    fn only_these_fields_are_missing_anywhere() {
        let missing: Vec<_> = Field::ALL
            .iter()
            .filter(|field| LAYOUTS.iter().any(|layout| layout.offset(**field).is_none()))
            .map(|field| field.name())
            .collect();
        assert_eq!(
            missing,
            [
                "prevCheckPoint",
                "io_torn_pages_protection",
                "max_wal_senders",
                "io_torn_pages_protection",
                "slru_pages_per_segment",
                "float4ByVal",
                "data_checksum_version_init",
                "default_char_signedness",
            ]
        );
    }
}
