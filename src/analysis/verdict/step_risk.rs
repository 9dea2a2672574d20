//! The worst that a next step can do, and the pages it is about. Also here: empty pages instead of expected ones, so that
//! recovery passes records that would crash without them.

use strum::{IntoStaticStr, VariantNames};

use super::next_step::{Lost, NextStep, pages_of};
use crate::analysis::changes::needed::OnStart;
use crate::analysis::start::replay::{Recovery, Replay};
use crate::parsers::checksum::page_checksum;
use crate::parsers::page::{LAYOUT_VERSION, PageHeader};
use crate::types::{Lsn, PageId};

/// The worst that a step can do, from harmless to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Risk {
    /// It reads, adds missing files, or rebuilds what other data determines.
    None,
    /// It writes pages and keeps a journal, so `undo` takes it back.
    Undoable,
    /// Nothing takes it back, and whether it is right is not proven: it needs a copy of the cluster.
    Irreversible,
    /// Nothing takes it back, and committed data is lost with it: it needs a copy of the cluster.
    LosesData,
}

impl NextStep {
    /// The worst that it can do.
    pub const fn risk(&self) -> Risk {
        match self {
            Self::Repair { .. }
            | Self::RebuildPages { .. }
            | Self::MakeStandIns { .. }
            | Self::BlankMaps { .. }
            | Self::BlankMapsOfReplay { .. } => Risk::Undoable,
            Self::LookAtProcess { .. }
            | Self::BringFiles
            | Self::BringControl { .. }
            | Self::Decide { .. }
            | Self::RebuildDoubtful { .. }
            | Self::ResetAfterShutdown
            | Self::Start { is_proven: false, .. } => Risk::Irreversible,
            Self::GetPast { .. } | Self::ResetByWal { .. } | Self::ResetPastPages { .. } => Risk::LosesData,
            _ => Risk::None,
        }
    }

    /// True for a step that is done in a copy: it may lose what the original still holds.
    pub(crate) const fn is_for_copy(&self) -> bool {
        matches!(
            self,
            Self::Decide { .. }
                | Self::RebuildDoubtful { .. }
                | Self::ResetAfterShutdown
                | Self::ResetByWal { .. }
                | Self::ResetPastPages { .. }
                | Self::GetPast { .. }
                | Self::Start { in_copy: true, .. }
        )
    }

    /// True for a step that continues what another one began: in the copy, where there is one.
    pub(crate) const fn follows_copy(&self) -> bool {
        !matches!(
            self,
            Self::CopyFirst
                | Self::Salvage { .. }
                | Self::StopServer
                | Self::LookAtProcess { .. }
                | Self::RunAsOwner { .. }
        )
    }

    /// It changes the data directory, and startup with it.
    pub(crate) const fn changes_files(&self) -> bool {
        matches!(
            self,
            Self::LookAtProcess { .. }
                | Self::BringFiles
                | Self::BringControl { .. }
                | Self::CompleteBackup
                | Self::MakeStandIns { .. }
                | Self::Repair { .. }
                | Self::RebuildPages { .. }
                | Self::RebuildDoubtful { .. }
                | Self::Decide { .. }
                | Self::BlankMaps { .. }
                | Self::BlankMapsOfReplay { .. }
        )
    }

    /// Its statements need a started server.
    pub const fn needs_server(&self) -> bool {
        match self {
            Self::Rebuild { .. } => true,
            Self::Salvage { kind, .. } => !matches!(kind, Lost::Catalogs),
            _ => false,
        }
    }

    /// Damaged pages that it is about, if it is about pages.
    pub fn pages(&self) -> Option<u64> {
        let count = |pages: usize| Some(pages as u64);
        match self {
            Self::MakeStandIns { pages }
            | Self::Repair { pages, .. }
            | Self::RebuildPages { pages }
            | Self::RebuildAgain { pages }
            | Self::LookForSegments { pages, .. }
            | Self::LookIntoArchive { pages }
            | Self::BlankMaps { pages, .. }
            | Self::BlankMapsOfReplay { pages } => count(*pages),
            Self::Decide { pages } | Self::RebuildDoubtful { pages } => count(pages.len()),
            Self::Rebuild { relations, .. } | Self::Salvage { relations, .. } => {
                Some(relations.iter().map(pages_of).sum())
            }
            _ => None,
        }
    }
}

/// An empty page whose LSN is the end of WAL: redo holds every record of the page for done, and changes nothing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// The header; all bytes after it are zero.
    pub header: [u8; PageHeader::SIZE],
    /// Bytes of the whole page.
    pub page_bytes: usize,
    /// Replay removes the page later, so nothing is lost; otherwise the index must be rebuilt after startup.
    pub is_removed: bool,
}

impl StandIn {
    /// The page that would let replay pass; `None` where it is not needed or the end of replay is not known.
    pub fn of(page: PageId, on_start: &OnStart, replay: &Replay, page_bytes: usize, checksums: bool) -> Option<Self> {
        let OnStart::Dies { is_removed, .. } = *on_start else { return None };
        // Elsewhere more WAL may come, with records of this page after the end that is known.
        let end_lsn = replay.end_lsn.filter(|_| replay.recovery == Recovery::Crash)?;
        let header = header(end_lsn, page.block, page_bytes, checksums)?;
        Some(Self { header, page_bytes, is_removed })
    }
}

/// Header of an empty page without special space.
///
/// Source: `PageInit`, `src/backend/storage/page/bufpage.c`.
fn header(lsn: Lsn, block: u32, page_bytes: usize, checksums: bool) -> Option<[u8; PageHeader::SIZE]> {
    let size = u16::try_from(page_bytes).ok()?;
    let lower = u16::try_from(PageHeader::SIZE).ok()?;
    let mut page = vec![0; page_bytes.max(PageHeader::SIZE)];
    let [high, low] = [lsn.0 >> 32, lsn.0 & 0xFFFF_FFFF].map(|half| u32::try_from(half).unwrap_or_default());
    page[0..4].copy_from_slice(&high.to_le_bytes());
    page[4..8].copy_from_slice(&low.to_le_bytes());
    for (at, field) in [(12_usize, lower), (14, size), (16, size), (18, size | LAYOUT_VERSION)] {
        page[at..at.saturating_add(2)].copy_from_slice(&field.to_le_bytes());
    }
    if checksums {
        let checksum = page_checksum(&page, block);
        page[8..10].copy_from_slice(&checksum.to_le_bytes());
    }
    page[..PageHeader::SIZE].try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::page::page_faults;

    #[test]
    fn page_is_empty_and_sound() {
        let header = header(Lsn(0x1_0186_2698), 2, 8192, true).unwrap();
        let mut page = vec![0; 8192];
        page[..24].copy_from_slice(&header);
        let decoded = PageHeader::decode(0, &page).unwrap();
        assert_eq!((decoded.lsn, decoded.line_pointer_count()), (Lsn(0x1_0186_2698), 0));
        assert!(page_faults(&decoded, &page).is_empty());
        assert_eq!(decoded.checksum, page_checksum(&page, 2));
        let without = super::header(Lsn(8), 2, 8192, false).unwrap();
        assert_eq!(without[8..10], [0, 0]);
    }
}
