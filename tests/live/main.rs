//! What servers and their own tools say, compared with the programs; skipped where none is installed.

mod check;
mod checksums_denied;
#[path = "../common/mod.rs"]
mod common;
mod configuration;
mod crashes;
mod differential_checksums;
mod differential_waldump;
mod donors;
mod kept;
mod likely_causes;
mod lost_commits;
mod lost_files;
mod lost_maps;
mod lost_writes;
mod made_in_replay;
mod mariadb;
mod predictions;
mod prove;
mod rebuild;
mod rebuild_repair;
mod rows;
mod salvage;
mod server_files;
mod tear;
mod verify;
mod wal_end;
mod wal_reads;
mod ways_out;
mod whatif;
