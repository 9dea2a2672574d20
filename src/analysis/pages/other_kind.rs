//! Pages that are sound by themselves and of another kind than their relation: a checksum holds the block number, not the file.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::cluster::names::{RelationName, RelationNames};
use crate::parsers::catalog::RelKind;
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::{PageKind, is_metapage};
use crate::report::{Finding, rules};
use crate::types::{BlockNumber, ForkNumber, PageId};

const MAX_NAMED: usize = 20;

/// Compares the pages that a scan shows it with what the catalogs say of their relations.
pub(crate) struct KindWitness<'a> {
    names: &'a RelationNames,
    found: Mutex<(BTreeMap<PageId, PageKind>, usize)>,
}

impl<'a> KindWitness<'a> {
    pub fn new(names: &'a RelationNames) -> Self {
        Self { names, found: Mutex::default() }
    }

    /// Looks at a sound page. Names that are doubtful say nothing.
    pub fn look(&self, page: PageId, bytes: &[u8]) {
        if page.fork != ForkNumber::Main {
            return;
        }
        let Some(name) = self.names.get(page.rel).filter(|name| name.is_certain()) else { return };
        let Ok(header) = PageHeader::decode(0, bytes) else { return };
        let kind = PageKind::of(&header, bytes, page.fork);
        if fits(name, kind, page.block, bytes) {
            return;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.1 = found.1.saturating_add(1);
        // The first ones by their place, whichever thread comes first.
        found.0.insert(page, kind);
        if found.0.len() > MAX_NAMED {
            found.0.pop_last();
        }
    }

    /// The findings; `locate` returns file and offset of a page.
    pub fn findings(&self, locate: impl Fn(PageId) -> (String, u64)) -> Vec<Finding> {
        let (named, count) = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let further = count.saturating_sub(named.len());
        let of_page = |(page, kind): (PageId, PageKind)| {
            let name = self.names.full_name(page.rel).unwrap_or_default();
            let (file, offset) = locate(page);
            let block = page.block;
            let mut what =
                format!("block {block} of {name} holds a page of another kind of relation ({})", kind.name());
            if further > 0 {
                what.push_str(&format!("; {further} more such pages are not listed"));
            }
            PAGE_OF_OTHER_KIND.problem(what).in_file(&file).at(offset)
        };
        named.into_iter().map(of_page).collect()
    }
}

/// True for a page that the relation may have there, and where nothing is known of its kind.
///
/// Source: `_bt_checkpage`, `src/backend/access/nbtree/nbtpage.c`; `_hash_checkpage`, `src/backend/access/hash/hashutil.c`;
/// `src/include/access/{ginblock,gist,spgist_private,brin_page}.h`; `read_seq_tuple`, `src/backend/commands/sequence.c`.
fn fits(name: &RelationName, kind: PageKind, block: BlockNumber, bytes: &[u8]) -> bool {
    if kind == PageKind::New {
        return true;
    }
    match name.kind {
        Some(RelKind::TABLE | RelKind::TOAST | RelKind::MATERIALIZED_VIEW) => !name.is_heap || kind == PageKind::Heap,
        Some(RelKind::SEQUENCE) => kind == PageKind::Sequence,
        Some(RelKind::INDEX) => {
            let is_first = block == 0;
            let is_meta = is_metapage(kind, bytes);
            match name.access_method_oid {
                Some(403) => matches!(kind, PageKind::Btree | PageKind::BtreeOther) && is_meta == is_first,
                Some(405) => matches!(kind, PageKind::Hash | PageKind::HashOther) && is_meta == is_first,
                Some(783) => matches!(kind, PageKind::Gist | PageKind::GistDeleted),
                Some(2742) => matches!(kind, PageKind::GinEntry | PageKind::GinOther) && is_meta == is_first,
                Some(3580) => matches!(kind, PageKind::BrinRegular | PageKind::BrinOther) && is_meta == is_first,
                Some(4000) => matches!(kind, PageKind::SpGist | PageKind::SpGistMeta) && is_meta == is_first,
                _ => true,
            }
        }
        _ => true,
    }
}

rules! {
    PAGE_OF_OTHER_KIND: Cluster "page_of_other_kind",
        why: "a write went to the wrong file, or the file was copied over another one. Queries that read the page \
            fail or return wrong rows. Rebuild an index with REINDEX; restore a table or sequence from a backup",
        means: "A page is intact, but its relation has another kind or access method: a write went to the wrong file. \
            Only relations with a committed catalog row are compared",
        action: "`REINDEX` an index; restore a table or a sequence from a backup";
}
