//! The screens, drawn without a terminal and run in one.

mod colours;
#[path = "../common/mod.rs"]
mod common;
mod filter;
mod glance;
mod guide;
mod innodb;
mod keys;
mod next_steps_agree;
mod picture;
mod pty;
mod settings;
mod stale;
mod triage;
mod views;
mod wal;
