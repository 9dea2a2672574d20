//! Printing: functions take a writer. Computes nothing and judges nothing.

pub mod check_text;
pub mod closing;
pub mod colour;
pub mod control_fields;
pub mod documents;
pub mod escape;
pub mod hexdump;
pub mod json;
pub mod next_step_text;
pub mod page_parts;
pub mod page_text;
pub mod progress;
pub mod shell;
pub mod sink;
pub mod sql;
pub mod stand_in_text;
pub mod tar_text;
pub mod text;
pub mod wal_text;
pub mod ways_on;
pub mod words;
