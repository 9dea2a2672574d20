//! Parsers of argument values: a wrong one fails before any file is opened.

use clap::Args;

pub use crate::analysis::pages::select::{PageSelection, RelationPattern, Span};
use crate::cluster::names::RelationNames;
use crate::inspect::error::InspectError;
use crate::inspect::page_target::RelationChoice;
use crate::parsers::dwb::Slot;
use crate::types::{BlockNumber, ForkNumber, Lsn, RelFileLocator, TimelineId};

/// Filter of the pages shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct PageFilter {
    /// Relations by name (relation, schema.relation, database.schema.relation) or numbers (REL, DB/REL, SPC/DB/REL)
    #[arg(long, value_name = "REL", value_delimiter = ',')]
    relation: Vec<RelationChoice>,
    /// The resolved relations, once they are known.
    #[arg(skip)]
    selection: PageSelection,
    /// Forks: main, fsm, vm, init
    #[arg(long, value_name = "FORK", value_delimiter = ',')]
    fork: Vec<ForkNumber>,
    /// Blocks: N, FIRST-LAST, FIRST- or -LAST
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    block: Option<Span<BlockNumber>>,
}

impl PageFilter {
    /// The filter with its relations resolved. `names`: those of the cluster, where they are known.
    pub(crate) fn resolved(&self, names: Option<&RelationNames>) -> Result<Self, InspectError> {
        Ok(Self { selection: self.selection(names)?, ..self.clone() })
    }

    /// The pages that are asked for. `names`: those of the cluster, where they are known.
    ///
    /// # Errors
    /// When a name matches no relation, or several.
    pub fn selection(&self, names: Option<&RelationNames>) -> Result<PageSelection, InspectError> {
        let relations = RelationChoice::resolve_all(&self.relation, names)?;
        Ok(PageSelection { relations, forks: self.fork.clone(), blocks: self.block })
    }

    /// The requested relations, as typed and as resolved.
    pub fn relations(&self) -> impl Iterator<Item = (&RelationChoice, RelationPattern)> {
        self.relation.iter().zip(self.selection.relations.iter().copied())
    }

    /// True when anything was asked for.
    pub(crate) fn is_set(&self) -> bool {
        !self.relation.is_empty() || !self.fork.is_empty() || self.block.is_some()
    }

    /// True when the page fits; `fork` is `None` for a code without a meaning.
    pub fn takes(&self, rel: RelFileLocator, fork: Option<ForkNumber>, block: BlockNumber) -> bool {
        self.selection.takes(rel, fork, block)
    }
}

/// Name under which an image is saved: the one that `pg_waldump` gives its saved pages, then file and slot, because one
/// page can be in several slots.
pub(crate) fn image_file_name(timeline: u32, page_lsn: Lsn, file: &str, slot: &Slot<'_>) -> String {
    let header = &slot.header;
    let fork = header.fork().map_or_else(|| header.fork_code.to_string(), |fork| fork.to_string());
    let file: String = file.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let page = page_file_name(TimelineId(timeline), page_lsn, header.rel, header.block, &fork);
    format!("{page}.{file}-{}", slot.index)
}

/// The name that `pg_waldump --save-fullpage` gives a page.
pub(crate) fn page_file_name(tli: TimelineId, lsn: Lsn, rel: RelFileLocator, block: BlockNumber, fork: &str) -> String {
    let (high, low) = (lsn.0 >> 32, lsn.0 & 0xFFFF_FFFF);
    let RelFileLocator { spc_oid, db_oid, rel_number } = rel;
    format!("{:08X}-{high:08X}-{low:08X}.{spc_oid}.{db_oid}.{rel_number}.{block}_{fork}", tli.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_belong_to_a_range() {
        let span: Span<u64> = "3-5".parse().unwrap();
        assert_eq!((2..7).filter(|value| span.contains(value)).collect::<Vec<_>>(), [3, 4, 5]);
        let open: Span<u64> = "3-".parse().unwrap();
        assert!(open.contains(&u64::MAX) && !open.contains(&2));
        let lsn: Span<Lsn> = "0/1000-0/02000".parse().unwrap();
        assert!(lsn.contains(&Lsn(0x2000)) && !lsn.contains(&Lsn(0x2001)));
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for text in ["", "-", "a", "1-b", "5-3", "1-2-3"] {
            assert!(text.parse::<Span<u64>>().is_err(), "{text}");
        }
    }

    #[test]
    fn relation_patterns() {
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 };
        for text in ["16384", "5/16384", "1663/5/16384"] {
            let pattern: RelationPattern = text.parse().unwrap();
            assert!(pattern.matches(rel) && pattern.to_string() == text);
        }
        assert!(!"6/16384".parse::<RelationPattern>().unwrap().matches(rel));
        for text in ["", "a", "1/2/3/4", "1/", "-1"] {
            assert!(text.parse::<RelationPattern>().is_err(), "{text}");
        }
    }
}
