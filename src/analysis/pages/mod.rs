//! Pages by themselves, and links between them.

pub(crate) mod checksum_witness;
pub(crate) mod other_kind;
pub mod page_check;
pub(crate) mod page_diff;
pub(crate) mod page_links;
pub mod page_mask;
pub(crate) mod page_read;
pub mod page_rows;
pub mod page_scan;
pub(crate) mod relation_files;
pub(crate) mod segment_check;
pub(crate) mod select;
pub(crate) mod short_relations;
pub(crate) mod table_links;
