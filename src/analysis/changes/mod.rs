//! Changes by WAL to pages and files: their history, and whether a page has them.

pub(crate) mod change_log;
pub mod content;
pub mod events;
pub(crate) mod gather;
pub mod history;
pub mod made;
pub mod needed;
pub(crate) mod next_change;
pub(crate) mod next_index_change;
pub(crate) mod next_prune;
pub mod page_chain;
pub(crate) mod prepared_xacts;
pub(crate) mod provable;
pub mod rows;
pub mod sectors;
pub(crate) mod sieve;
pub(crate) mod tuple_space;
pub(crate) mod xact_ends;
