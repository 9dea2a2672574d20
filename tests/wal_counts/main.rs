//! What `pg_walfpi` counts, groups, advises, compares and writes as tables.

mod advise;
mod causes;
mod certainty;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod export;
mod groups;
mod names;
mod prometheus;
mod report;
mod time;
mod whatif;
mod whatif_compression;
