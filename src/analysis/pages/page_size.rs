//! The page size of a cluster whose control file does not give it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::analysis::skipped::NoPageSize;
use crate::cluster::open::open_inside;
use crate::cluster::relation_walk::RelationFile;
use crate::parsers::page::PageHeader;
use crate::types::MIN_BLOCK_SIZE;

/// The page size that the first page of every file names, and the number of files that name one. Pages without header,
/// and those whose header breaks a rule, have no say.
pub(crate) fn page_size_by_headers(root: &Path, files: &[RelationFile]) -> Result<(u32, u64), NoPageSize> {
    let mut named = BTreeMap::<u32, u64>::new();
    for file in files.iter().filter(|file| file.size_bytes >= u64::from(MIN_BLOCK_SIZE)) {
        // A file that cannot be read has no say; reading its pages will report it.
        let Ok(opened) = open_inside(root, &file.path) else { continue };
        let Ok(Some(bytes)) = opened.bytes_at(0, PageHeader::SIZE) else { continue };
        if let Ok(header) = PageHeader::decode(0, &bytes)
            && let Some(size) = header.named_page_size()
        {
            let count = named.entry(size).or_default();
            *count = count.saturating_add(1);
        }
    }
    only_size(&named)
}

/// The size that all headers name, and how many there are. `named`: how many name which.
pub(crate) fn only_size(named: &BTreeMap<u32, u64>) -> Result<(u32, u64), NoPageSize> {
    match named.iter().collect::<Vec<_>>()[..] {
        [(size, count)] => Ok((*size, *count)),
        [] => Err(NoPageSize::NoneNamed),
        _ => Err(NoPageSize::Several(named.iter().map(|(size, count)| (*size, *count)).collect())),
    }
}
