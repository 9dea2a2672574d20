//! The library on real clusters, without the programs.

#[path = "../common/mod.rs"]
mod common;
mod control_files;
mod dwb_ring;
mod facts;
mod page_scan;
mod relation_names;
mod relation_names_damaged;
mod relations;
mod server_process;
