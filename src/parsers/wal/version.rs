//! Differences between major versions: one row of facts for each, in one table.
//!
//! Code asks for a fact and never compares majors, so that nothing is assumed about a major version that has no row yet.
//! A new major is a new row, and the compiler names every fact that the row lacks.

use std::fmt;

use crate::parsers::catalog::{self, CatalogLayout};
use crate::parsers::filenode_map::MapLayout;
use crate::parsers::image::Compression;

/// Facts about one major version.
#[derive(Debug)]
pub struct MajorFacts {
    /// The number users know it by, and that `PG_VERSION` says.
    pub number: u32,
    /// Servers as released write it; others with that number are built from development trees or with patches.
    pub is_released: bool,
    /// How it is printed.
    pub name: &'static str,
    /// Magic of its WAL pages (`XLOG_PAGE_MAGIC`, `src/include/access/xlog_internal.h`).
    pub magic: u16,
    /// Version of its `pg_control` (`PG_CONTROL_VERSION`, `src/include/catalog/pg_control.h`).
    pub control_version: u32,
    /// It keeps a double write buffer in `pg_dwb`, and `PARAMETER_CHANGE` says how torn pages are prevented, between `wal_level` and `wal_log_hints`.
    pub keeps_ring: bool,
    /// Layout of its checkpoints and of the other records of the resource manager XLOG.
    pub xlog: XlogFormat,
    /// Longest record that is accepted, header included, in bytes. From 16 on the server states the limit
    /// (`XLogRecordMaxSize`, 1020 MiB); older servers cannot allocate more than 1 GiB - 1 to read one back.
    pub max_record_length: u32,
    /// Flags of its WAL pages.
    pub page_flags: PageFlags,
    /// Highest id of a resource manager that is built in (`src/include/access/rmgrlist.h`).
    pub last_rmgr: u8,
    /// Extensions may bring resource managers, with the ids from `FIRST_CUSTOM_RMGR` on.
    pub has_custom_rmgrs: bool,
    /// Meaning of the flags of images.
    pub images: ImageFlags,
    /// Records may carry the id of their top-level transaction.
    pub has_top_xid: bool,
    /// Records of the resource manager Database.
    pub database: DatabaseRecords,
    /// Rows of its system catalogs.
    pub catalog: &'static CatalogLayout,
    /// Records of the resource manager Heap2 that prune and freeze pages.
    pub prune: PruneRecords,
    /// Records of the resource manager Btree whose position in the page can be followed.
    pub btree: BtreeRecords,
    /// `pg_resetwal` takes the size of segments (`--wal-segsize`).
    pub reset_takes_size: bool,
    /// `pg_resetwal` takes the oldest transaction (`-u`).
    pub reset_takes_oldest_xid: bool,
    /// `VACUUM_REDIRECT` of SP-GiST has the form that can be followed.
    pub follows_spgist_redirects: bool,
    /// Redo of BRIN `INSERT` and `UPDATE` crashes when their page is missing. Servers of 10 to 15 read stray memory of
    /// their own and continue; 16 and later end with a segmentation fault.
    pub dies_without_brin_page: bool,
    /// Data checksums can be turned on and off while the server runs.
    pub checksums_change_online: bool,
    /// Length of `pg_filenode.map`.
    pub filenode_map: MapLayout,
    /// Crash recovery lists the directories of statistics, and fails where one is missing; also it gets to its end without
    /// `pg_subtrans`.
    pub resets_stats_files: bool,
    /// Files of prepared transactions are named by transaction ids with their epoch.
    pub prepares_by_full_xid: bool,
    /// It removes the file of a prepared transaction that is damaged, and starts; later ones refuse to start.
    pub removes_bad_prepared: bool,
    /// With `wal_level` minimal it logs no rows of `COPY` into a table of the same transaction, and they keep the LSN of the page.
    pub copies_without_wal: bool,
    /// No recovery beyond a crash over WAL of `wal_level` minimal; before, only one that serves queries was refused.
    pub refuses_minimal_wal: bool,
    /// It does not start where there is a `recovery.conf`; what that held are settings.
    pub refuses_recovery_conf: bool,
    /// Crash recovery fails because of a directory of a database that it cannot list.
    pub recovery_lists_databases: bool,
    /// Settings under which it replays a sandbox in the plainest way, beyond those that every major has.
    pub replay_settings: &'static [(&'static str, &'static str)],
    /// There are servers of it that copy pages to a double write buffer without a lock, and what each of its records
    /// shows in such a copy was looked into.
    pub has_unlocked_copies: bool,
    /// B-tree `DELETE` begins with the file of the table.
    pub btree_delete_names_table: bool,
    /// Rows are frozen by plans, each for several rows.
    pub freezes_by_plans: bool,
    /// A row is updated in place only to change it. Earlier versions marked an index to be dropped again at each attempt.
    pub updates_in_place_change: bool,
    /// Default of `checkpoint_completion_target`.
    pub completion_target: f64,
    /// WAL is kept since the checkpoint before the last one, so that checkpoints come more often for one `max_wal_size`.
    pub keeps_two_checkpoints: bool,
    /// `FPI_FOR_HINT` has its image even without full-page writes, of a page that is copied after its LSN was looked at.
    pub hints_force_images: bool,
    /// A record stands at each redo point.
    pub marks_redo_points: bool,
    /// Places of the members of multixacts have 8 bytes, in records and in `pg_multixact`.
    pub has_wide_multixacts: bool,
    /// Startup treats a missing file of `pg_xact` as zeros when it looks up the outcome of a prepared transaction.
    pub prepares_without_xact_file: bool,
    /// Records that prune or freeze a page set its bits in the visibility map, too.
    pub prunes_set_map_bits: bool,
}

/// Majors 10 and 11: the segment with the last record is not removed at the end.
const PLAIN_TO_11: &[(&str, &str)] = &[("wal_keep_segments", "8")];
/// Major 12: new segments are not filled with zeros, and none is renamed for later.
const PLAIN_12: &[(&str, &str)] = &[("wal_keep_segments", "8"), ("wal_init_zero", "off"), ("wal_recycle", "off")];
/// Majors 13 and 14: segments that are not removed are counted in bytes.
const PLAIN_TO_14: &[(&str, &str)] = &[("wal_keep_size", "'8GB'"), ("wal_init_zero", "off"), ("wal_recycle", "off")];
/// Majors 15 to 17: pages are not read ahead of redo.
const PLAIN_TO_17: &[(&str, &str)] =
    &[("wal_keep_size", "'8GB'"), ("wal_init_zero", "off"), ("wal_recycle", "off"), ("recovery_prefetch", "off")];
/// From 18 on: no process reads for others.
const PLAIN_SINCE_18: &[(&str, &str)] = &[
    ("wal_keep_size", "'8GB'"),
    ("wal_init_zero", "off"),
    ("wal_recycle", "off"),
    ("recovery_prefetch", "off"),
    ("io_method", "sync"),
];

/// Layout of `CheckPoint`, and of the payloads of XLOG records that changed in the same majors. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum XlogFormat {
    /// Majors 10 and 11: the epoch of the next transaction apart from its number.
    To11,
    /// Majors 12 to 16: with `max_wal_senders`.
    To16,
    /// Majors 17 and 18: with `wal_level`, and records that mark the redo point.
    To18,
    /// Major 19: multixact offsets of 8 bytes, and logical decoding that is switched on and off.
    Since19,
}

impl XlogFormat {
    /// Size of the `CheckPoint` struct, in bytes.
    pub(crate) const fn checkpoint_size(self) -> usize {
        match self {
            Self::To11 => 80,
            Self::To16 | Self::To18 => 88,
            Self::Since19 => 96,
        }
    }
}

/// Flags in `xlp_info` whose meaning has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFlags {
    /// The page replaces the missing rest of a record that a crash cut off (`XLP_FIRST_IS_OVERWRITE_CONTRECORD`).
    pub overwrites: u16,
    /// No base backup was running when the page was initialised (`XLP_BKP_REMOVABLE`); 0 where nothing says so.
    pub no_backup: u16,
}

impl PageFlags {
    /// Majors up to 18.
    pub(crate) const TO_18: Self = Self { overwrites: 0x0008, no_backup: 0x0004 };
    /// From 19 on.
    pub(crate) const SINCE_19: Self = Self { overwrites: 0x0004, no_backup: 0 };
}

/// Meaning of the flags in `bimg_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFlags {
    /// Majors 10 to 14: hole, compressed, apply.
    To14,
    /// From 15 on: hole, apply, one bit for each method of compression.
    Since15,
}

/// Records of the resource manager Database. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatabaseRecords {
    /// Majors 10 to 12: a database is dropped from one tablespace.
    To12,
    /// Majors 13 and 14: from a list of them.
    To14,
    /// From 15 on: databases are also created page by page, and `DROP` has another number.
    Since15,
}

/// Records of the resource manager Heap2 that prune and freeze pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneRecords {
    /// Majors 10 to 13: `CLEAN`, `FREEZE_PAGE`, `CLEANUP_INFO`.
    To13,
    /// Majors 14 to 16: `PRUNE`, `VACUUM`, `FREEZE_PAGE`.
    To16,
    /// Majors 17 and 18: one record for all, a byte with the reason before the flags.
    To18,
    /// Major 19: one record for all, flags first.
    Since19,
}

/// Records of the resource manager Btree. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BtreeRecords {
    /// Majors 10 to 12: splits, deletions and vacuum are not followed.
    To12,
    /// Major 13: splits and vacuum are.
    V13,
    /// From 14 on: deletions too.
    Since14,
}

macro_rules! majors {
    ($($(#[$doc:meta])* $variant:ident { $($facts:tt)* })*) => {
        /// Major version of a server. Ordered by age.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Major { $($(#[$doc])* $variant,)* }

        impl Major {
            /// All majors, oldest first.
            pub const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];

            /// Facts about it.
            pub const fn facts(self) -> &'static MajorFacts {
                match self { $(Self::$variant => &const { MajorFacts { $($facts)* } },)* }
            }
        }
    };
}

/// Facts shared by the two formats of 18.
const OF_18: MajorFacts = MajorFacts {
    is_released: true,
    number: 18,
    name: "18",
    magic: 0xD118,
    control_version: 1800,
    xlog: XlogFormat::To18,
    keeps_ring: false,
    max_record_length: 1020 << 20,
    page_flags: PageFlags::TO_18,
    last_rmgr: 21,
    has_custom_rmgrs: true,
    images: ImageFlags::Since15,
    has_top_xid: true,
    database: DatabaseRecords::Since15,
    catalog: &catalog::SINCE_18,
    prune: PruneRecords::To18,
    btree: BtreeRecords::Since14,
    reset_takes_size: true,
    reset_takes_oldest_xid: true,
    follows_spgist_redirects: true,
    dies_without_brin_page: true,
    has_unlocked_copies: false,
    btree_delete_names_table: false,
    freezes_by_plans: true,
    updates_in_place_change: true,
    completion_target: 0.9,
    keeps_two_checkpoints: false,
    hints_force_images: false,
    marks_redo_points: true,
    has_wide_multixacts: false,
    prepares_without_xact_file: false,
    prunes_set_map_bits: false,
    checksums_change_online: false,
    filenode_map: MapLayout::Bytes524,
    resets_stats_files: false,
    prepares_by_full_xid: true,
    removes_bad_prepared: false,
    copies_without_wal: false,
    refuses_minimal_wal: true,
    refuses_recovery_conf: true,
    recovery_lists_databases: true,
    replay_settings: PLAIN_SINCE_18,
};

/// The development tree of 19, of which the release has most.
const OF_19_TREE: MajorFacts = MajorFacts {
    is_released: false,
    number: 19,
    name: "19devel",
    magic: 0xD11B,
    control_version: 1901,
    xlog: XlogFormat::Since19,
    prune: PruneRecords::Since19,
    has_wide_multixacts: true,
    prepares_without_xact_file: true,
    prunes_set_map_bits: true,
    has_unlocked_copies: true,
    checksums_change_online: true,
    ..OF_18
};

majors! {
    /// 10.
    V10 {
        is_released: true, number: 10, name: "10", magic: 0xD097, control_version: 1002, xlog: XlogFormat::To11,
        keeps_ring: false, max_record_length: (1 << 30) - 1, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: false,
        images: ImageFlags::To14, has_top_xid: false, database: DatabaseRecords::To12,
        catalog: &catalog::IN_10, prune: PruneRecords::To13, btree: BtreeRecords::To12,
        reset_takes_size: false, reset_takes_oldest_xid: false,
        follows_spgist_redirects: false, dies_without_brin_page: false, has_unlocked_copies: false,
        btree_delete_names_table: true, freezes_by_plans: false, updates_in_place_change: false,
        completion_target: 0.5, keeps_two_checkpoints: true,
        hints_force_images: true, marks_redo_points: false, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes512, resets_stats_files: true, prepares_by_full_xid: false, removes_bad_prepared: true, copies_without_wal: true, refuses_minimal_wal: false, refuses_recovery_conf: false, recovery_lists_databases: false,
        replay_settings: PLAIN_TO_11,
    }
    /// 11.
    V11 {
        is_released: true, number: 11, name: "11", magic: 0xD098, control_version: 1100, xlog: XlogFormat::To11,
        keeps_ring: false, max_record_length: (1 << 30) - 1, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: false,
        images: ImageFlags::To14, has_top_xid: false, database: DatabaseRecords::To12,
        catalog: &catalog::IN_11, prune: PruneRecords::To13, btree: BtreeRecords::To12,
        reset_takes_size: true, reset_takes_oldest_xid: false,
        follows_spgist_redirects: false, dies_without_brin_page: false, has_unlocked_copies: false,
        btree_delete_names_table: true, freezes_by_plans: false, updates_in_place_change: false,
        completion_target: 0.5, keeps_two_checkpoints: false,
        hints_force_images: true, marks_redo_points: false, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes512, resets_stats_files: true, prepares_by_full_xid: false, removes_bad_prepared: true, copies_without_wal: true, refuses_minimal_wal: false, refuses_recovery_conf: false, recovery_lists_databases: true,
        replay_settings: PLAIN_TO_11,
    }
    /// 12.
    V12 {
        is_released: true, number: 12, name: "12", magic: 0xD101, control_version: 1201, xlog: XlogFormat::To16,
        keeps_ring: false, max_record_length: (1 << 30) - 1, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: false,
        images: ImageFlags::To14, has_top_xid: false, database: DatabaseRecords::To12,
        catalog: &catalog::TO_14, prune: PruneRecords::To13, btree: BtreeRecords::To12,
        reset_takes_size: true, reset_takes_oldest_xid: false,
        follows_spgist_redirects: false, dies_without_brin_page: false, has_unlocked_copies: false,
        btree_delete_names_table: false, freezes_by_plans: false, updates_in_place_change: false,
        completion_target: 0.5, keeps_two_checkpoints: false,
        hints_force_images: true, marks_redo_points: false, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes512, resets_stats_files: true, prepares_by_full_xid: false, removes_bad_prepared: false, copies_without_wal: true, refuses_minimal_wal: false, refuses_recovery_conf: true, recovery_lists_databases: true,
        replay_settings: PLAIN_12,
    }
    /// 13.
    V13 {
        is_released: true, number: 13, name: "13", magic: 0xD106, control_version: 1300, xlog: XlogFormat::To16,
        keeps_ring: false, max_record_length: (1 << 30) - 1, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: false,
        images: ImageFlags::To14, has_top_xid: false, database: DatabaseRecords::To14,
        catalog: &catalog::TO_14, prune: PruneRecords::To13, btree: BtreeRecords::V13,
        reset_takes_size: true, reset_takes_oldest_xid: false,
        follows_spgist_redirects: false, dies_without_brin_page: false, has_unlocked_copies: false,
        btree_delete_names_table: false, freezes_by_plans: false, updates_in_place_change: false,
        completion_target: 0.5, keeps_two_checkpoints: false,
        hints_force_images: true, marks_redo_points: false, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes512, resets_stats_files: true, prepares_by_full_xid: false, removes_bad_prepared: false, copies_without_wal: false, refuses_minimal_wal: false, refuses_recovery_conf: true, recovery_lists_databases: true,
        replay_settings: PLAIN_TO_14,
    }
    /// 14.
    V14 {
        is_released: true, number: 14, name: "14", magic: 0xD10D, control_version: 1300, xlog: XlogFormat::To16,
        keeps_ring: false, max_record_length: (1 << 30) - 1, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: false,
        images: ImageFlags::To14, has_top_xid: true, database: DatabaseRecords::To14,
        catalog: &catalog::TO_14, prune: PruneRecords::To16, btree: BtreeRecords::Since14,
        reset_takes_size: true, reset_takes_oldest_xid: true,
        follows_spgist_redirects: false, dies_without_brin_page: false, has_unlocked_copies: false,
        btree_delete_names_table: false, freezes_by_plans: false, updates_in_place_change: true,
        completion_target: 0.9, keeps_two_checkpoints: false,
        hints_force_images: true, marks_redo_points: false, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes512, resets_stats_files: true, prepares_by_full_xid: false, removes_bad_prepared: false, copies_without_wal: false, refuses_minimal_wal: true, refuses_recovery_conf: true, recovery_lists_databases: true,
        replay_settings: PLAIN_TO_14,
    }
    /// 15.
    V15 {
        is_released: true, number: 15, name: "15", magic: 0xD110, control_version: 1300, xlog: XlogFormat::To16,
        keeps_ring: false, max_record_length: (1 << 30) - 1, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: true,
        images: ImageFlags::Since15, has_top_xid: true, database: DatabaseRecords::Since15,
        catalog: &catalog::TO_17, prune: PruneRecords::To16, btree: BtreeRecords::Since14,
        reset_takes_size: true, reset_takes_oldest_xid: true,
        follows_spgist_redirects: false, dies_without_brin_page: false, has_unlocked_copies: false,
        btree_delete_names_table: false, freezes_by_plans: false, updates_in_place_change: true,
        completion_target: 0.9, keeps_two_checkpoints: false,
        hints_force_images: false, marks_redo_points: false, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes512, resets_stats_files: false, prepares_by_full_xid: false, removes_bad_prepared: false, copies_without_wal: false, refuses_minimal_wal: true, refuses_recovery_conf: true, recovery_lists_databases: true,
        replay_settings: PLAIN_TO_17,
    }
    /// 16.
    V16 {
        is_released: true, number: 16, name: "16", magic: 0xD113, control_version: 1300, xlog: XlogFormat::To16,
        keeps_ring: false, max_record_length: 1020 << 20, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: true,
        images: ImageFlags::Since15, has_top_xid: true, database: DatabaseRecords::Since15,
        catalog: &catalog::TO_17, prune: PruneRecords::To16, btree: BtreeRecords::Since14,
        reset_takes_size: true, reset_takes_oldest_xid: true,
        follows_spgist_redirects: true, dies_without_brin_page: true, has_unlocked_copies: false,
        btree_delete_names_table: false, freezes_by_plans: true, updates_in_place_change: true,
        completion_target: 0.9, keeps_two_checkpoints: false,
        hints_force_images: false, marks_redo_points: false, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes524, resets_stats_files: false, prepares_by_full_xid: false, removes_bad_prepared: false, copies_without_wal: false, refuses_minimal_wal: true, refuses_recovery_conf: true, recovery_lists_databases: true,
        replay_settings: PLAIN_TO_17,
    }
    /// 17.
    V17 {
        is_released: true, number: 17, name: "17", magic: 0xD116, control_version: 1700, xlog: XlogFormat::To18,
        keeps_ring: false, max_record_length: 1020 << 20, page_flags: PageFlags::TO_18, last_rmgr: 21, has_custom_rmgrs: true,
        images: ImageFlags::Since15, has_top_xid: true, database: DatabaseRecords::Since15,
        catalog: &catalog::TO_17, prune: PruneRecords::To18, btree: BtreeRecords::Since14,
        reset_takes_size: true, reset_takes_oldest_xid: true,
        follows_spgist_redirects: true, dies_without_brin_page: true, has_unlocked_copies: false,
        btree_delete_names_table: false, freezes_by_plans: true, updates_in_place_change: true,
        completion_target: 0.9, keeps_two_checkpoints: false,
        hints_force_images: false, marks_redo_points: true, has_wide_multixacts: false, prepares_without_xact_file: false, prunes_set_map_bits: false,
        checksums_change_online: false, filenode_map: MapLayout::Bytes524, resets_stats_files: false, prepares_by_full_xid: true, removes_bad_prepared: false, copies_without_wal: false, refuses_minimal_wal: true, refuses_recovery_conf: true, recovery_lists_databases: true,
        replay_settings: PLAIN_TO_17,
    }
    /// 18. The development tree of 19 had its magic too, until October 2025.
    V18 { ..OF_18 }
    /// A server built from 18 that keeps its double write buffer in `pg_dwb`, with version 1802 of `pg_control`. A development tree of 19 had
    /// its magic, too.
    V18Dwb {
        is_released: false, name: "18 with pg_dwb", magic: 0xD119, control_version: 1802, keeps_ring: true,
        ..OF_18
    }
    /// Development tree of 19 from January to March 2026. Servers with a double write buffer are built from it.
    V19Devel { ..OF_19_TREE }
    /// 19.
    V19 {
        is_released: true, name: "19", magic: 0xD122, control_version: 1905, page_flags: PageFlags::SINCE_19,
        has_unlocked_copies: false, checksums_change_online: false,
        ..OF_19_TREE
    }
}

/// Lowest id of a resource manager that an extension brings (`RM_MIN_CUSTOM_ID`, `src/include/access/rmgr.h`).
pub(crate) const FIRST_CUSTOM_RMGR: u8 = 128;

/// A page magic that belongs to no format read here. Its display says in words what is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnknownMagic(pub u16);

/// Bytes of block image flags that mean compression, by layout: flag and method, in the order the server tests them.
const COMPRESSION_SINCE_15: [(u8, Compression); 3] =
    [(0x04, Compression::Pglz), (0x08, Compression::Lz4), (0x10, Compression::Zstd)];
const COMPRESSION_TO_14: [(u8, Compression); 1] = [(0x02, Compression::Pglz)];

impl Major {
    pub(crate) const OLDEST: Self = {
        let [first, ..] = Self::ALL;
        first
    };

    /// The newest major with a row. Files of a newer one are never read as its own.
    pub const NEWEST: Self = {
        let [.., last] = Self::ALL;
        last
    };

    /// The released format with this number, `None` when there is no row of it.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::from_files(number, None)
    }

    /// The format with this number whose servers write this version of `pg_control`; without one the released.
    pub(crate) fn from_files(number: u32, control_version: Option<u32>) -> Option<Self> {
        let of_number = || Self::ALL.into_iter().filter(|major| major.number() == number);
        let of_control = of_number().find(|major| Some(major.facts().control_version) == control_version);
        of_control.or_else(|| of_number().find(|major| major.facts().is_released))
    }

    /// The format that a server program of this version writes, such as `18.6`, `19rc1` and `19devel`.
    pub(crate) fn from_program(version: &str) -> Option<Self> {
        let rest = version.trim_start_matches(|sign: char| sign.is_ascii_digit());
        let released = Self::from_number(version.strip_suffix(rest)?.parse().ok()?)?;
        let is_devel = |major: &Self| major.facts().name == version;
        Self::ALL.into_iter().find(is_devel).filter(|_| rest == "devel").or(Some(released))
    }

    /// The major that wrote pages with this magic.
    pub(crate) fn from_magic(magic: u16) -> Result<Self, UnknownMagic> {
        Self::ALL.into_iter().find(|major| major.magic() == magic).ok_or(UnknownMagic(magic))
    }

    /// The magic in this major's page headers.
    pub(crate) const fn magic(self) -> u16 {
        self.facts().magic
    }

    /// The number users know it by.
    pub const fn number(self) -> u32 {
        self.facts().number
    }

    /// True when a record may carry this resource manager id.
    ///
    /// Source: `RmgrIdIsValid`, `src/include/access/rmgr.h`.
    #[inline]
    pub(crate) const fn has_rmgr(self, rmgr_id: u8) -> bool {
        let facts = self.facts();
        rmgr_id <= facts.last_rmgr || (facts.has_custom_rmgrs && rmgr_id >= FIRST_CUSTOM_RMGR)
    }

    /// Bit of `bimg_info` that says whether redo restores the image (`BKPIMAGE_APPLY`).
    #[inline]
    pub(crate) const fn image_apply_flag(self) -> u8 {
        match self.facts().images {
            ImageFlags::To14 => 0x04,
            ImageFlags::Since15 => 0x02,
        }
    }

    /// Compression that these `bimg_info` bits stand for. The server tests pglz, LZ4, zstd in this order.
    pub(crate) fn image_compression(self, bimg_info: u8) -> Option<Compression> {
        let table: &[_] = match self.facts().images {
            ImageFlags::To14 => &COMPRESSION_TO_14,
            ImageFlags::Since15 => &COMPRESSION_SINCE_15,
        };
        table.iter().find(|(flag, _)| bimg_info & flag != 0).map(|&(_, method)| method)
    }

    /// True when `wal_compression` of this major can use the method; whether a server was built with it is another matter.
    pub(crate) fn compresses_with(self, method: Compression) -> bool {
        match self.facts().images {
            ImageFlags::To14 => method == Compression::Pglz,
            ImageFlags::Since15 => true,
        }
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.facts().name)
    }
}

impl UnknownMagic {
    /// It is older than the newest format, and no release wrote it.
    pub(crate) const fn is_unreleased(self) -> bool {
        self.0 > Major::OLDEST.magic() && self.0 < Major::NEWEST.magic()
    }

    /// Meaning of the magic, if known.
    pub fn meaning(self) -> String {
        let unreleased = |major: u32| format!("a development version of {major} that was never released");
        match self.0 {
            0 => "the page was never written".to_owned(),
            0xD093 => "9.6, which is not supported".to_owned(),
            0xD094..=0xD096 => unreleased(10),
            0xD099 | 0xD100 => unreleased(12),
            0xD102..=0xD105 => unreleased(13),
            0xD107..=0xD10C => unreleased(14),
            0xD10E | 0xD10F => unreleased(15),
            0xD111 | 0xD112 => unreleased(16),
            0xD114 => unreleased(17),
            0xD115 => "a beta of 17, before July 2024".to_owned(),
            0xD117 => unreleased(18),
            0xD11A => "the development tree of 19 between October 2025 and January 2026".to_owned(),
            0xD11C..=0xD11F => "a development tree of 19, March to May 2026".to_owned(),
            0xD120 => "19beta1 or 19beta2".to_owned(),
            0xD121 => "19beta3, or a development tree of 20".to_owned(),
            other if Major::from_magic(other.swap_bytes()).is_ok() => {
                "written on a machine with big-endian byte order, which is not supported".to_owned()
            }
            0xD011..=0xD092 => "a release before 9.6, which is not supported".to_owned(),
            other if (0xD100..=0xD1FF).contains(&other) && other > Major::NEWEST.magic() => {
                format!("newer than the versions known here ({} to {})", Major::OLDEST, Major::NEWEST)
            }
            _ => "not a WAL page of any known version".to_owned(),
        }
    }
}

impl fmt::Display for UnknownMagic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page magic 0x{:04X}: {}", self.0, self.meaning())
    }
}

impl std::error::Error for UnknownMagic {}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
