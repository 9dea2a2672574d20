//! Changes by WAL to pages and files: their history, and whether a page has them.

pub(crate) mod content;
pub mod events;
pub(crate) mod gather;
pub mod history;
pub(crate) mod made;
pub(crate) mod needed;
pub(crate) mod next_change;
pub(crate) mod next_index_change;
pub(crate) mod packed;
pub mod page_chain;
pub(crate) mod prepared_xacts;
pub(crate) mod provable;
pub mod rows;
pub(crate) mod sectors;
pub(crate) mod sieve;
pub(crate) mod tuple_space;
