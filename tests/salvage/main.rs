//! Rows out of clusters that no server can start, held against what a healthy server printed.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod foreign_wal;
mod judge;
mod lost_files;
mod refusals;
