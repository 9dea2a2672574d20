//! Tables that are far shorter than the server once counted, and whose visibility map is gone with the rest.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::names::{RelationName, RelationNames, RowAge};
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::relation_walk::RelationFile;
use crate::report::{Finding, rules};
use crate::types::{ForkNumber, RelFileLocator};

/// Pages that a table may lack in addition to one half of those that were counted.
const SLACK: u64 = 8;

/// The tables. A server counts again when it truncates a table, and gives a table that it empties or rewrites other files and
/// counts. It may be interrupted between truncating and counting, but it never removes the map of files that stay.
///
/// Source: `heap_vacuum_rel`, `src/backend/access/heap/vacuumlazy.c`; `RelationSetNewRelfilenumber`,
/// `src/backend/utils/cache/relcache.c`; `swap_relation_files`, `src/backend/commands/cluster.c`; `RelationTruncate`,
/// `src/backend/catalog/storage.c`.
pub(crate) fn short_relations(
    names: &RelationNames,
    paths: &RelationPaths,
    files: &[RelationFile],
    block_size: u32,
) -> Vec<Finding> {
    let mut bytes: BTreeMap<RelFileLocator, u64> = BTreeMap::new();
    let mut mapped: BTreeSet<RelFileLocator> = BTreeSet::new();
    for file in files {
        match file.name.fork {
            ForkNumber::Main => {
                let held = bytes.entry(file.rel).or_default();
                *held = held.saturating_add(file.size_bytes);
            }
            ForkNumber::Vm => drop(mapped.insert(file.rel)),
            ForkNumber::Fsm | ForkNumber::Init => {}
        }
    }
    let short = |(rel, name, _): (RelFileLocator, &RelationName, RowAge)| {
        let blocks = bytes.get(&rel)?.div_ceil(u64::from(block_size).max(1));
        let counted = u64::from(name.mapped_pages);
        let is_short =
            name.is_heap && counted >= blocks.saturating_mul(2).saturating_add(SLACK) && !mapped.contains(&rel);
        let file = paths.segment_file(rel, ForkNumber::Main, 0).display().to_string();
        is_short.then(|| {
            RELATION_SHORT
                .problem(format!(
                    "{name}: pages {blocks}, pages that the server counted {counted}, and its visibility map is \
                        missing"
                ))
                .in_file(&file)
        })
    };
    names.certain().into_iter().filter_map(short).collect()
}

rules! {
    RELATION_SHORT: ServerFiles "relation_short",
        why: "its files were cut or replaced: queries silently return no rows of the missing pages. Restore the files \
            of this relation from a copy of the same point in time, or its rows from a backup",
        means: "A table has far fewer pages than `relpages` says (less than half, and at least eight fewer). Its visibility \
            map is missing, although `relallvisible` says that it had one; the server does not remove that map while \
            the files exist. So they were cut or replaced. Reported for permanent tables of 10 to 17 after \
            a clean shutdown; in 18 and later a dump includes such counts, and `UPDATE pg_class` may set them in any \
            version",
        action: "Restore the files from a copy of the same point in time, or the rows from a backup";
}
