//! Rows out of clusters that no server can start, held against what a healthy server printed.

#[path = "../common/mod.rs"]
mod common;
mod cases;
mod judge;
mod refusals;
