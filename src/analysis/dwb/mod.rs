//! The double write buffer: its slots, batches and kinds, and its images compared with pages.

pub mod batches;
pub mod compare;
pub mod format;
pub mod report;
pub mod slot_facts;
pub mod slots;
pub mod staleness;
pub mod trace;
