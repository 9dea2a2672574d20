//! Commands that show what is there, and what all commands have in common.

mod bad_input;
#[path = "../common/mod.rs"]
mod common;
mod demo;
mod denied;
mod dump;
mod help;
mod info;
mod like_postgres;
mod newer_major;
mod next_steps;
mod page;
