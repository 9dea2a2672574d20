//! Which access method a page belongs to, judged by the size of its special space and its last bytes.

use super::decode::{le_u16, le_u32};
use super::page::PageHeader;
use crate::types::{ForkNumber, Oid};

/// Name of an access method that every server has.
///
/// Source: `src/include/catalog/pg_am.dat`.
pub(crate) const fn access_method_name(oid: Oid) -> Option<&'static str> {
    match oid {
        403 => Some("btree"),
        405 => Some("hash"),
        783 => Some("gist"),
        2742 => Some("gin"),
        3580 => Some("brin"),
        4000 => Some("spgist"),
        _ => None,
    }
}

/// Kind of a page. Trailers of the access methods share the page's last 2 bytes, with values kept apart on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageKind {
    /// Never initialised.
    New,
    /// Heap, toast or materialised view.
    Heap,
    /// Free space map.
    FreeSpaceMap,
    /// Visibility map.
    VisibilityMap,
    /// B-tree page with items.
    Btree,
    /// B-tree metapage or deleted page.
    BtreeOther,
    /// Hash bucket or overflow page.
    Hash,
    /// Hash metapage, bitmap or unused page.
    HashOther,
    /// GiST page with items.
    Gist,
    /// Deleted GiST page.
    GistDeleted,
    /// SP-GiST page with items.
    SpGist,
    /// SP-GiST metapage.
    SpGistMeta,
    /// GIN entry page.
    GinEntry,
    /// GIN metapage, posting-tree or deleted page.
    GinOther,
    /// BRIN page with summaries.
    BrinRegular,
    /// BRIN metapage or range map.
    BrinOther,
    /// Sequence.
    Sequence,
    /// None of the kinds above.
    Unknown,
}

/// True for the metapage of an index: block 0, and no other, of every access method but GiST. That of a B-tree or hash index has
/// its magic at offset 24 too.
///
/// Source: `BTP_META`, `LH_META_PAGE`, `GIN_META`, `BRIN_PAGETYPE_META`, `SPGIST_META` and the magic numbers in
/// `src/include/access/{nbtree,hash,ginblock,brin_page,spgist_private}.h`.
pub(crate) fn is_metapage(kind: PageKind, page: &[u8]) -> bool {
    let from_end = |back: usize| {
        let at = page.len().checked_sub(back)?;
        le_u16(page.get(at..)?).ok().map(|(_, flags)| flags)
    };
    let magic = || page.get(24..).and_then(|bytes| le_u32(bytes).ok()).map(|(_, magic)| magic);
    match kind {
        PageKind::BtreeOther => from_end(4).is_some_and(|flags| flags & 0x08 != 0) && magic() == Some(0x0005_3162),
        PageKind::HashOther => from_end(4).is_some_and(|flags| flags & 0x08 != 0) && magic() == Some(0x0644_0640),
        PageKind::GinOther => from_end(2).is_some_and(|flags| flags & 0x08 != 0),
        PageKind::BrinOther => from_end(2) == Some(0xF091),
        PageKind::SpGistMeta => true,
        _ => false,
    }
}

impl PageKind {
    /// Judges a page by its header and last bytes. Heap pages have no mark of their own, so `Heap` means "no special
    /// space, main or init fork".
    ///
    /// Source: the trailer values in `src/include/access/{nbtree,hash,gist,spgist_private,ginblock,brin_page}.h` and
    /// `SEQ_MAGIC`, `src/backend/commands/sequence.c`.
    pub fn of(header: &PageHeader, page: &[u8], fork: ForkNumber) -> Self {
        if header.is_new() {
            return Self::New;
        }
        match fork {
            ForkNumber::Fsm => return Self::FreeSpaceMap,
            ForkNumber::Vm => return Self::VisibilityMap,
            ForkNumber::Main | ForkNumber::Init => {}
        }
        let special = page.get(usize::from(header.special)..).unwrap_or_default();
        let trailer = special.last_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let flags_at = |at: usize| special.get(at..).and_then(|bytes| le_u16(bytes).ok()).map_or(0, |(_, flags)| flags);
        match (special.len(), trailer) {
            (0, _) => Self::Heap,
            (16, Some(0xFF80)) if flags_at(12) & 0x0F > 0 && flags_at(12) & 0x0C == 0 => Self::Hash,
            (16, Some(0xFF80)) => Self::HashOther,
            (16, Some(0xFF81)) if flags_at(12) & 0x02 != 0 => Self::GistDeleted,
            (16, Some(0xFF81)) => Self::Gist,
            (16, Some(cycle)) if cycle <= 0xFF7F && flags_at(12) & 0x0C != 0 => Self::BtreeOther,
            (16, Some(cycle)) if cycle <= 0xFF7F => Self::Btree,
            (8, Some(0xFF82)) if flags_at(0) & 0x01 != 0 => Self::SpGistMeta,
            (8, Some(0xFF82)) => Self::SpGist,
            (8, Some(0xF093)) => Self::BrinRegular,
            (8, Some(0xF091 | 0xF092)) => Self::BrinOther,
            (8, _) if le_u32(special).is_ok_and(|(_, magic)| magic == 0x1717) => Self::Sequence,
            (8, Some(flags)) if flags <= 0x01FF && flags & 0x0D == 0 => Self::GinEntry,
            (8, Some(flags)) if flags <= 0x01FF => Self::GinOther,
            _ => Self::Unknown,
        }
    }

    /// True when the space from the header to `pd_lower` is an array of line pointers. Metapages, maps and GIN posting
    /// trees keep other things there.
    pub const fn has_line_pointers(self) -> bool {
        matches!(
            self,
            Self::Heap
                | Self::Btree
                | Self::Hash
                | Self::Gist
                | Self::SpGist
                | Self::GinEntry
                | Self::BrinRegular
                | Self::Sequence
        )
    }

    /// Short name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Heap => "heap",
            Self::FreeSpaceMap => "fsm",
            Self::VisibilityMap => "vm",
            Self::Btree => "btree",
            Self::BtreeOther => "btree meta or deleted",
            Self::Hash => "hash",
            Self::HashOther => "hash meta or bitmap",
            Self::Gist => "gist",
            Self::GistDeleted => "gist deleted",
            Self::SpGist => "spgist",
            Self::SpGistMeta => "spgist meta",
            Self::GinEntry => "gin entry",
            Self::GinOther => "gin meta or data",
            Self::BrinRegular => "brin",
            Self::BrinOther => "brin meta or map",
            Self::Sequence => "sequence",
            Self::Unknown => "unknown",
        }
    }
}
