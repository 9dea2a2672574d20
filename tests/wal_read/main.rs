//! What is read as WAL: records, images, damage, and every way in which files come.

#[path = "../common/mod.rs"]
mod common;
mod cut;
mod damage;
mod fixtures;
mod follow;
mod hidden_redo;
mod history;
mod images_unreadable;
mod impossible;
mod input;
mod input_hostile;
mod payloads;
mod plain;
mod recompression;
mod sources;
mod unfinished;
mod width;
