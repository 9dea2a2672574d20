//! Journals that repairs have left beside a data directory. Nothing is written.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cluster::page_source::{PageRead, PageSource, RelationPages};
use crate::inspect::examination::Examination;
use crate::repair::journal_seen::{FoundJournals, journals_beside, look_at, newest_first};
use crate::types::PageId;

pub(in crate::inspect) fn disk_reader(examined: &Examination) -> impl FnMut(PageId) -> Option<Vec<u8>> {
    let root = examined.source.directory.as_ref().map_or(Path::new("."), |directory| directory.root());
    let pages = RelationPages::new(root, examined.paths.clone());
    let block_size = examined.block_size;
    move |page| {
        let mut bytes = vec![0; block_size];
        matches!(pages.read_page(page, &mut bytes), Ok(PageRead::Whole)).then_some(bytes)
    }
}

/// The journals that lie beside the data directory, and those that are `named`, compared with its pages as they are now.
pub(crate) fn journals_of(examined: &Examination, named: &[PathBuf]) -> FoundJournals {
    let Some(directory) = &examined.source.directory else {
        return FoundJournals { journals: Ok(Vec::new()), more: 0 };
    };
    let (mut found, more) = match journals_beside(directory.root()) {
        Ok(found) => found,
        Err(error) => return FoundJournals { journals: Err(error.to_string()), more: 0 },
    };
    let mut owners = vec![rustix::process::geteuid().as_raw()];
    owners.extend(directory.root().metadata().map(|metadata| metadata.uid()));
    let system = directory.control().trusted().map(|control| control.prefix.system_identifier);
    let mut disk = disk_reader(examined);
    for journal in named {
        // One that was named may lie beside the data directory, too.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !found.iter().any(|other| real(other) == real(journal)) {
            found.push(journal.clone());
        }
    }
    let seen = found.into_iter().map(|journal| look_at(journal, directory.root(), &owners, system, &mut disk));
    FoundJournals { journals: Ok(newest_first(seen.collect())), more }
}
