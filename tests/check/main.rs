//! What `check`, `verify` and `page` answer about whole clusters.

mod any_file;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod control_build;
mod crash_report;
mod dwb_ring_cluster;
mod dwb_ring_live;
mod first_screen;
mod hole;
mod innodb;
mod innodb_evidence;
mod innodb_field;
mod innodb_hostile;
mod innodb_innochecksum;
mod innodb_lost_files;
mod innodb_redo;
mod innodb_refusals;
mod innodb_variants;
mod interruption;
mod page_at;
mod page_history;
mod page_links;
mod predictions;
mod room;
mod unlogged_copies;
mod verify;
mod verify_replay;
mod verify_tar;
mod without_checksums;
