//! Decoders of on-disk formats: bytes in, values out. No files, no clock, no environment, no output, no panic.
//!
//! Decoding and judging are apart: `decode` fails only when bytes run out, so that a damaged structure can still be
//! shown; `faults` lists every rule that it breaks.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation
)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::cast_possible_truncation
    )
)]

pub mod catalog;
pub mod checksum;
pub mod control;
pub mod control_layout;
mod cpu_dispatch;
pub mod crc;
pub(crate) mod decode;
pub mod dwb;
pub mod filenode_map;
pub mod heap;
pub mod image;
pub mod innodb;
pub mod page;
pub mod page_kind;
pub(crate) mod page_links;
pub mod pglz;
pub(crate) mod state_files;
pub(crate) mod table_pointers;
pub mod tuple;
pub mod wal;
