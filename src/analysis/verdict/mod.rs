//! The verdict: which pages are torn, and which image may be put back without losing anything.
//!
//! [`survey`] compares every slot with its page and gathers the damaged pages; [`history`] reads what WAL says about
//! them; [`candidate`] judges each image, [`judge`] the page.

pub mod answer;
pub mod backup;
pub mod candidate;
pub(crate) mod change_log;
pub mod check;
pub mod compare;
pub mod content;
pub(crate) mod donor_proof;
pub mod doubt;
pub mod events;
pub mod evidence;
pub mod facts;
pub mod fate;
pub(crate) mod fetch;
mod gather;
pub mod history;
pub mod identity;
pub mod images;
pub mod judge;
pub mod made;
pub mod missing_wal;
pub mod needed;
pub(crate) mod next_change;
mod next_index_change;
mod next_prune;
pub mod next_step;
pub mod outlook;
pub mod page_chain;
pub mod page_history;
pub mod proof;
pub mod rebuild;
pub(crate) mod rebuilt_proof;
pub mod replay;
pub mod rows;
pub mod sectors;
pub(crate) mod sieve;
pub mod slots;
pub mod step_risk;
pub mod survey;
pub mod symptom;
mod tuple_space;
pub(crate) mod without_checksum;
pub(crate) mod xact_ends;
