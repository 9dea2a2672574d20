//! A donor in tar archives, as `pg_basebackup --format=tar` writes them. They are read from their beginning to their end, once to
//! say what the donor is and once for the pages that are wanted, which are kept; nothing is unpacked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    DonorFacts, DonorGap, DonorHost, DonorRead, DonorRefusal, INCREMENTAL_PREFIX, compare, refuse_own, trusted,
};
use crate::cluster::backup_files::{BackupLabel, HISTORY_LIMIT_BYTES, LABEL_LIMIT_BYTES};
use crate::cluster::control_file::{CONTROL_PATH, ControlRead};
use crate::cluster::data_dir::VERSION_LIMIT_BYTES;
use crate::cluster::open::AccessError;
use crate::cluster::page_source::{RelationFileName, tablespace_version_directory};
use crate::cluster::tar_backup::{TarBackup, TarMember, read_members};
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile, ControlPrefix};
use crate::parsers::wal::timeline::TimelineHistory;
use crate::parsers::wal::version::Major;
use crate::types::{
    DEFAULT_TABLESPACE_OID, ForkNumber, GLOBAL_TABLESPACE_OID, Oid, PageId, RelFileLocator, TimelineId,
};

/// Bytes of pages that are kept of one donor.
const MAX_KEPT_BYTES: usize = 512 << 20;

const MAX_HISTORIES: usize = 1000;

type FileKey = (RelFileLocator, ForkNumber, u32);

/// One archive, and whose files it holds.
#[derive(Clone, Debug)]
struct Archive {
    path: PathBuf,
    /// `None`: the data directory.
    tablespace: Option<Oid>,
}

/// Archives that pages are taken from.
#[derive(Debug)]
pub(super) struct DonorArchive {
    archives: Vec<Archive>,
    wal: Option<PathBuf>,
    histories: BTreeMap<TimelineId, TimelineHistory>,
    unlogged: FxHashSet<RelFileLocator>,
    /// Name of the directory of this major in each tablespace.
    version_directory: String,
    rel_segment_blocks: u32,
    block_size: usize,
    pages: FxHashMap<PageId, DonorRead>,
}

/// Facts about the donor from the archives; the last copy of each file counts.
#[derive(Default)]
struct Said {
    version: Option<String>,
    control: Option<Vec<u8>>,
    label: Option<String>,
    histories: BTreeMap<TimelineId, TimelineHistory>,
    unlogged: FxHashSet<RelFileLocator>,
    is_incremental: bool,
    has_wal: bool,
}

impl DonorArchive {
    /// True for what is opened here: a directory with `base.tar`, or a file.
    pub(super) fn is_one(path: &Path) -> bool {
        if path.is_dir() {
            !path.join("PG_VERSION").exists() && TarBackup::find(path).is_some()
        } else {
            path.is_file()
        }
    }

    /// Reads the archives once, and says what the donor is.
    pub(super) fn open(path: &Path, host: &DonorHost<'_>) -> Result<(Self, DonorFacts), DonorRefusal> {
        refuse_own(path, host.root)?;
        let directory = if path.is_dir() { Some(path) } else { path.parent() };
        let backup = directory.and_then(TarBackup::find);
        // A file that is not the base of a backup stands for itself.
        let backup = backup.filter(|backup| path.is_dir() || path.file_name() == Some(backup.base.name.as_ref()));
        let (archives, wal) = match &backup {
            Some(backup) => (archives_of(backup), backup.wal.as_ref().map(|wal| backup.directory.join(&wal.name))),
            None => (vec![Archive { path: path.to_owned(), tablespace: None }], None),
        };
        let mut said = Said::default();
        for archive in &archives {
            read_members(&archive.path, |member| said.add(member, archive.tablespace).map(ControlFlow::Continue))?;
        }
        let base = archives.first().map_or(path, |archive| &archive.path);
        let Said { version, control, label, histories, unlogged, is_incremental, has_wal } = said;
        let missing = |name: &str| {
            let source = io::Error::new(io::ErrorKind::NotFound, format!("no {name} in it"));
            DonorRefusal::Unreadable(AccessError::io("read archive", base, source))
        };
        let control = trusted(control_read(&control.ok_or_else(|| missing(CONTROL_PATH))?))?;
        let version = version.ok_or_else(|| missing("PG_VERSION"))?;
        let number = version.split('.').next().and_then(|digits| digits.trim().parse().ok());
        let control_version = Some(control.prefix.pg_control_version);
        let major = number
            .and_then(|number| Major::from_files(number, control_version))
            .ok_or(DonorRefusal::UnknownMajor { found: version })?;
        compare(&control, major, host)?;
        if is_incremental {
            return Err(DonorRefusal::Incremental);
        }
        let label = label.as_deref().map(BackupLabel::parse);
        // Whether `pg_resetwal` was run shows in WAL alone: the worse is believed.
        let facts = DonorFacts::of(&control, label.as_ref(), control.looks_reset())?;
        let donor = Self {
            wal: wal.or_else(|| has_wal.then(|| base.to_owned())),
            archives,
            histories,
            unlogged,
            version_directory: tablespace_version_directory(major, control.prefix.catalog_version_no),
            rel_segment_blocks: control.geometry.rel_segment_blocks.max(1),
            block_size: usize::try_from(control.geometry.block_size).unwrap_or_default(),
            pages: FxHashMap::default(),
        };
        Ok((donor, facts))
    }

    pub(super) fn wal_path(&self) -> Option<PathBuf> {
        self.wal.clone()
    }

    pub(super) fn history(&self, tli: TimelineId) -> Option<TimelineHistory> {
        self.histories.get(&tli).cloned()
    }

    pub(super) fn is_unlogged(&self, rel: RelFileLocator) -> bool {
        self.unlogged.contains(&rel)
    }

    pub(super) fn read_page(&self, page: PageId) -> DonorRead {
        self.pages.get(&page).cloned().unwrap_or(DonorRead::Gap(DonorGap::DonorPageNotKept))
    }

    /// Reads the archives for these pages.
    pub(super) fn gather(&mut self, wanted: &BTreeSet<PageId>) -> Result<(), AccessError> {
        let mut files: BTreeMap<FileKey, Vec<PageId>> = BTreeMap::new();
        let fits = MAX_KEPT_BYTES.checked_div(self.block_size).unwrap_or_default();
        self.pages.clear();
        for page in wanted.iter().take(fits) {
            let segment = page.block.checked_div(self.rel_segment_blocks).unwrap_or_default();
            files.entry((page.rel, page.fork, segment)).or_default().push(*page);
            self.pages.insert(*page, DonorRead::Gap(DonorGap::DonorHasNoFile));
        }
        if files.is_empty() {
            return Ok(());
        }
        let version = self.version_directory.clone();
        for archive in self.archives.clone() {
            read_members(&archive.path, |mut member| {
                let key = relation_file(member.name, archive.tablespace, Some(&version));
                if let Some((key, pages)) = key.and_then(|key| Some((key, files.get(&key)?))) {
                    self.take_pages(key, pages, &mut member)?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(())
    }

    /// Takes pages, in the order of their blocks, out of their file.
    fn take_pages(&mut self, key: FileKey, pages: &[PageId], member: &mut TarMember<'_>) -> io::Result<()> {
        let first = key.2.saturating_mul(self.rel_segment_blocks);
        let gap = if member.is_file { DonorGap::DonorFileEndsBefore } else { DonorGap::DonorFileNotPlain };
        // Of two members of one name the last is the one that unpacking leaves.
        self.pages.extend(pages.iter().map(|page| (*page, DonorRead::Gap(gap))));
        if !member.is_file {
            return Ok(());
        }
        let mut at = 0_u64;
        for page in pages {
            let block = page.block.saturating_sub(first);
            let offset = u64::from(block).saturating_mul(self.block_size as u64);
            let skip = offset.saturating_sub(at);
            let skipped = io::copy(&mut member.bytes.take(skip), &mut io::sink())?;
            let mut bytes = Vec::with_capacity(self.block_size);
            member.bytes.take(self.block_size as u64).read_to_end(&mut bytes)?;
            at = at.saturating_add(skipped).saturating_add(bytes.len() as u64);
            if skipped < skip || bytes.len() < self.block_size {
                break;
            }
            self.pages.insert(*page, DonorRead::Page(bytes));
        }
        Ok(())
    }
}

impl Said {
    fn add(&mut self, mut member: TarMember<'_>, tablespace: Option<Oid>) -> io::Result<()> {
        let name = member.name;
        let base_name = name.rsplit('/').next().unwrap_or_default();
        if let Some((rel, ForkNumber::Init, _)) = relation_file(name, tablespace, None) {
            self.unlogged.insert(rel);
        }
        self.is_incremental |= base_name.starts_with(INCREMENTAL_PREFIX);
        if tablespace.is_some() || !member.is_file {
            return Ok(());
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match name {
            "PG_VERSION" => self.version = Some(member.read_small(VERSION_LIMIT_BYTES)?.map_or_else(String::new, text)),
            // A label that is too long says nothing, which a donor is refused for.
            "backup_label" => self.label = Some(member.read_small(LABEL_LIMIT_BYTES)?.map_or_else(String::new, text)),
            CONTROL_PATH => {
                let mut bytes = Vec::new();
                member.bytes.take(CONTROL_FILE_SIZE as u64).read_to_end(&mut bytes)?;
                self.control = Some(bytes);
            }
            _ if name.starts_with("pg_wal/") => match TimelineHistory::tli_of_file_name(base_name) {
                Some(tli) if self.histories.len() < MAX_HISTORIES => {
                    let read = member.read_small(HISTORY_LIMIT_BYTES as u64)?.map(text);
                    let history = read.and_then(|text| TimelineHistory::parse(tli, &text).ok());
                    self.histories.extend(history.map(|history| (tli, history)));
                }
                Some(_) => {}
                None => self.has_wal |= base_name.len() == 24 && member.size_bytes > 0,
            },
            _ => {}
        }
        Ok(())
    }
}

fn archives_of(backup: &TarBackup) -> Vec<Archive> {
    let of = |name: &str, tablespace| Archive { path: backup.directory.join(name), tablespace };
    let tablespaces = backup.tablespaces.iter().map(|one| of(&one.name, one.stem.parse().ok()));
    std::iter::once(of(&backup.base.name, None)).chain(tablespaces).collect()
}

/// The relation file that a member of this name is. `tablespace`: that of the archive; `version`: name of the directory in each
/// tablespace that counts, or all.
fn relation_file(name: &str, tablespace: Option<Oid>, version: Option<&str>) -> Option<FileKey> {
    let counts = |found: &str| version.map_or_else(|| found.starts_with("PG_"), |version| found == version);
    let parts: Vec<&str> = name.split('/').collect();
    let (spc_oid, db_oid, file) = match (tablespace, &parts[..]) {
        (None, ["global", file]) => (GLOBAL_TABLESPACE_OID, 0, file),
        (None, ["base", database, file]) => (DEFAULT_TABLESPACE_OID, database.parse().ok()?, file),
        (None, ["pg_tblspc", spc_oid, version, database, file]) if counts(version) => {
            (spc_oid.parse().ok()?, database.parse().ok()?, file)
        }
        (Some(spc_oid), [version, database, file]) if counts(version) => (spc_oid, database.parse().ok()?, file),
        _ => return None,
    };
    let RelationFileName { rel_number, fork, rel_segment } = RelationFileName::parse(file)?;
    Some((RelFileLocator { spc_oid, db_oid, rel_number }, fork, rel_segment))
}

fn control_read(bytes: &[u8]) -> ControlRead {
    match ControlFile::decode(bytes) {
        Ok(Some(control)) => match control.size_faults() {
            faults if faults.is_empty() || !control.crc_is_good() => ControlRead::Known(Box::new(control)),
            faults => ControlRead::WrongSizes(Box::new(control), faults),
        },
        Ok(None) => match ControlPrefix::decode(bytes) {
            Ok(prefix) => ControlRead::UnknownVersion { prefix, is_signed: false },
            Err(error) => ControlRead::Short(error),
        },
        Err(error) => ControlRead::Short(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_relation_files_by_their_names() {
        let of = |name, tablespace| {
            relation_file(name, tablespace, Some("PG_15_1"))
                .map(|(rel, fork, segment)| ((rel.spc_oid, rel.db_oid, rel.rel_number), fork, segment))
        };
        assert_eq!(of("global/1262", None), Some(((1664, 0, 1262), ForkNumber::Main, 0)));
        assert_eq!(of("base/5/16384_vm.2", None), Some(((1663, 5, 16384), ForkNumber::Vm, 2)));
        assert_eq!(of("PG_15_1/5/16390", Some(20_000)), Some(((20_000, 5, 16390), ForkNumber::Main, 0)));
        assert_eq!(of("pg_tblspc/20000/PG_15_1/5/7_init", None), Some(((20_000, 5, 7), ForkNumber::Init, 0)));
        for name in [
            "base/5/PG_VERSION",
            "base/5/t3_16384",
            "base/x/1",
            "16384",
            "base/5/1/2",
            "PG_15_1/5/16390",
            "pg_tblspc/2/PG_14_1/5/7",
        ] {
            assert_eq!(of(name, None), None, "{name}");
        }
    }
}
