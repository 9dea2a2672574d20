//! Verdicts on pages of crashed clusters that were edited by hand, for every case that the server's rules tell apart.
//!
//! The cluster is `wrapped`: the redo point is 0/021A4D58, the first segment in `pg_wal` starts at 0/02100000. Records are appended to its WAL where a case needs them, so
//! what WAL says about the page of a test is known from how it was made.

#[path = "../common/mod.rs"]
mod common;
mod evidence;
mod exchange;
mod field_belonging;
mod field_formats;
mod field_rows;
mod field_whole_table;
mod files;
mod hole;
mod mass;
mod needed;
mod revision_a;
mod rows;
mod scene;
mod slots;
mod states;
mod unread;
mod wal;
