//! A cluster that was opened: what every stage of a check reads. Also here: which of its pages are judged.

use crate::analysis::changes::provable::PageHeads;
use crate::analysis::dwb::report::DwbReport;
use crate::analysis::pages::relation_files::RelationFiles;
use crate::analysis::start::cluster_condition::is_settled;
use crate::analysis::start::replay::Replay;
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::data_dir::DataDir;
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::RelationPages;
use crate::cluster::running::ServerSign;
use crate::cluster::wal::WalSources;
use crate::parsers::control::ControlFile;
use crate::types::{Lsn, PageId};

/// Which pages are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All, also missing ones that recovery needs.
    All,
    /// Those that the double write buffer holds.
    DwbPages,
    /// This one, even when it turns out to be in order; slots of others show how far WAL had been written, no more.
    Page(PageId),
}

impl Scope {
    /// True when this page is judged if it is a suspect.
    pub(crate) fn takes(self, page: PageId) -> bool {
        match self {
            Self::All | Self::DwbPages => true,
            Self::Page(only) => only == page,
        }
    }
}

/// A cluster, opened once and lent to every stage.
pub(crate) struct Case<'a> {
    pub scope: Scope,
    /// Threads.
    pub jobs: usize,
    /// Pages that can be rebuilt will be: objections are looked for, as for an image that is safe.
    pub will_rebuild: bool,
    pub directory: &'a DataDir,
    /// The control file, if it can be trusted.
    pub control: Option<&'a ControlFile>,
    pub server: ServerSign,
    pub signs: RecoverySigns,
    /// Prediction of recovery, as far as it is known before WAL is read.
    pub replay: Replay,
    /// Pages have checksums that are enforced, by `pg_control` or by the pages themselves.
    pub has_checksums: bool,
    /// Lowest number that can be a WAL address.
    pub lowest_wal_lsn: Lsn,
    pub files: RelationFiles,
    pub pages: RelationPages,
    pub heads: PageHeads,
    pub names: RelationNames,
    pub wal: WalSources,
    /// Files of the double write buffer.
    pub dwb_set: &'a DwbSet,
    /// The double write buffer by itself.
    pub dwb: DwbReport,
    /// The configuration says that the double write buffer is used.
    pub uses_dwb: bool,
    /// A start writes images of the double write buffer over damaged pages before it replays anything.
    pub applies_first: bool,
}

impl Case<'_> {
    /// A server was stopped in it or crashed; no recovery, standby or backup, whose catalogs may be older than its files.
    pub(crate) fn is_settled(&self) -> bool {
        is_settled(self.control, &self.signs, &self.server)
    }

    /// Pages that look sound are whole: without checksums a page may be torn, which replay heals.
    pub(crate) fn has_whole_pages(&self) -> bool {
        self.has_checksums || !self.replay.recovery.replays()
    }

    /// Pages carry no checksums that are enforced.
    pub(crate) fn lacks_checksums(&self) -> bool {
        self.control.is_some() && !self.has_checksums
    }
}
