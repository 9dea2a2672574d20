//! The worst that a next step can do, and the pages it is about.

use strum::{IntoStaticStr, VariantNames};

use super::next_step::{Lost, NextStep, pages_of};

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

    /// It changes the data directory, and startup with it.
    pub(super) const fn changes_files(&self) -> bool {
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
            | Self::Repair { pages }
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
