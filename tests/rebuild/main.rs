//! Pages and files that are made anew from backups, base images and WAL.

mod chain;
#[path = "../common/mod.rs"]
mod common;
mod donors;
mod engine;
mod faults;
mod plan;
mod scene;
mod signals;
mod verdict;
