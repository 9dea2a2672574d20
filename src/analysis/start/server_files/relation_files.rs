//! Missing pages of the first files of relations.

use std::io::Read;
use std::path::Path;

use super::rules;
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationName;
use crate::parsers::catalog::RelKind;
use crate::report::Finding;

/// That there are more than those that are named.
pub(crate) fn more_files(further: usize) -> Option<Finding> {
    let count = u64::try_from(further).unwrap_or(u64::MAX);
    (count > 0).then(|| {
        rules::MORE_RELATION_FILES
            .problem(format!("more relations in the catalog whose first file is missing: {count}"))
    })
}

pub(crate) enum FirstPageLack {
    /// It has no bytes.
    NoPage,
    /// The page is all zero.
    Zero,
}

/// Missing first page of a file. A file that cannot be read or ends inside the page is reported by the page scan.
pub(crate) fn first_page_lack(file: &Path, block_size: u32) -> Option<FirstPageLack> {
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    if metadata.len() == 0 {
        return Some(FirstPageLack::NoPage);
    }
    // Every page of an index or a sequence that was filled has a header that is not zero.
    let mut page = vec![0xFF; usize::try_from(block_size.min(1 << 15)).ok()?];
    std::fs::File::open(file).ok()?.read_exact(&mut page).ok()?;
    page.iter().all(|byte| *byte == 0).then_some(FirstPageLack::Zero)
}

/// Fault of the init fork of an unlogged relation, from which recovery creates its main fork. The fork of a table has no page,
/// that of an index has.
pub(crate) fn init_fork_fault(directory: &DataDir, file: &Path, name: &RelationName) -> Option<Finding> {
    let metadata = directory.root().join(file).symlink_metadata();
    let is_empty = match metadata {
        Ok(metadata) if name.kind == Some(RelKind::INDEX) && metadata.len() == 0 => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        _ => return None,
    };
    let finding = if is_empty {
        let what = format!("empty: the init fork of the unlogged index {name}");
        rules::INIT_FORK_MISSING.problem(what).because(rules::INIT_FORK_EMPTY)
    } else {
        rules::INIT_FORK_MISSING.problem(format!("missing: the init fork of the unlogged {name}"))
    };
    Some(finding.in_file(&file.display().to_string()))
}
