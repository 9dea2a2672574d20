//! The verdict: which pages are torn, and which image may be put back without losing anything.
//!
//! [`survey`] compares every slot with its page and gathers the damaged pages; `changes::history` reads what WAL says about
//! them; [`candidate`] judges each image, [`judge`] the page.

pub mod answer;
pub mod candidate;
pub mod case;
pub mod check;
pub(crate) mod donor_proof;
pub mod evidence;
pub mod facts;
pub mod fate;
pub(crate) mod identity;
pub(crate) mod images;
pub mod judge;
pub mod next_step;
pub mod outlook;
pub mod page_history;
pub mod rebuild;
pub(crate) mod rebuilt_proof;
pub(crate) mod step_risk;
pub mod survey;
pub mod symptom;
pub(crate) mod without_checksum;
