//! Commands that show what is there, and what all commands have in common.

mod bad_input;
#[path = "../common/mod.rs"]
mod common;
mod conventions;
mod demo;
mod denied;
mod dump;
mod help;
mod info;
mod newer_major;
mod next_steps;
mod page;
