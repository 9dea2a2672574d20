//! Whether WAL belongs to the pages: where `pg_control` is lost, no file tells, and WAL of another cluster may name the same relations.

use strum::IntoStaticStr;

use super::rows::has_right_checksum;
use super::source::{DatabaseFiles, FIRST_USER_NUMBER, Source};
use crate::analysis::wal::row_facts::PageLogs;
use crate::parsers::page::PageHeader;
use crate::types::{BlockNumber, Lsn, Oid};

/// Most pages that are held against WAL.
const MAX_PAGES: usize = 16_384;

/// How far WAL can be trusted to belong to the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WalTrust {
    /// No WAL could be applied.
    #[default]
    Missing,
    /// The pages it changes are its own.
    Proven,
    /// Most of the pages it changes are its own, or none with rows of users: what it gives is uncertain.
    Likely,
    /// No page shows that it belongs here: it was not applied.
    Unproven,
    /// Pages contradict it: it was not applied.
    Contradicted,
}

impl WalTrust {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// Pages on disk, held against the records that change them.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// In a state that WAL gives them.
    pub agree: usize,
    /// Those of them with rows of users: system catalogs may be alike in all clusters of a major.
    pub agree_of_users: usize,
    /// In another state.
    pub strangers: Vec<((Oid, u32), BlockNumber)>,
    /// Newer than all WAL.
    pub newer: usize,
}

impl Compared {
    pub const fn has_rows_of_users(&self) -> bool {
        self.agree_of_users > 0
    }

    /// Adds pages held against the WAL before.
    pub fn add(&mut self, before: Self) {
        self.agree = self.agree.saturating_add(before.agree);
        self.agree_of_users = self.agree_of_users.saturating_add(before.agree_of_users);
        self.strangers.extend(before.strangers);
    }

    /// `has_control`: WAL has the system identifier of `pg_control`.
    pub const fn trust(&self, has_control: bool) -> WalTrust {
        match (self.agree, self.strangers.len()) {
            (agree, strangers) if strangers > agree => WalTrust::Contradicted,
            _ if has_control => WalTrust::Proven,
            (0, _) => WalTrust::Unproven,
            (_, 0) if self.has_rows_of_users() => WalTrust::Proven,
            _ => WalTrust::Likely,
        }
    }
}

/// Holds pages of tables against WAL that ends at `wal_end`.
pub(crate) fn compare(source: &Source, logs: &PageLogs, wal_end: Lsn) -> Compared {
    let mut compared = Compared::default();
    let forks = source.databases.iter().flat_map(DatabaseFiles::all_forks);
    let pages = forks.filter_map(|files| Some((files, logs.get(&files.rel())?)));
    let pages = pages.flat_map(|(files, logs)| logs.iter().map(move |(block, log)| (files, *block, log)));
    for (files, block, log) in pages.take(MAX_PAGES) {
        let Some(page) = source.page_on_disk(files, block) else { continue };
        let Some(header) = PageHeader::decode(0, &page).ok().filter(|header| !header.is_new()) else { continue };
        // Pages of indexes and sequences have a special space; their other records are not kept.
        let is_table = header.faults(page.len()).is_empty() && usize::from(header.special) == page.len();
        if !is_table || !has_right_checksum(source, block, &page) {
            continue;
        }
        let is_of_user = files.rel().1 >= FIRST_USER_NUMBER && usize::from(header.lower) > PageHeader::SIZE;
        let count = match log.agrees(&page, wal_end) {
            Some(true) => {
                compared.agree_of_users = compared.agree_of_users.saturating_add(usize::from(is_of_user));
                &mut compared.agree
            }
            Some(false) => {
                compared.strangers.push((files.rel(), block));
                continue;
            }
            None if header.lsn > wal_end => &mut compared.newer,
            None => continue,
        };
        *count = count.saturating_add(1);
    }
    compared
}
