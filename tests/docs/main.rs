//! What docs say that commands print, and what they print.

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod json_schema;
mod schema;
