//! WAL that is read while a server writes it. Apart from other tests: the more they keep a machine busy, the more often a file is gone
//! before it is read.

#[path = "../common/mod.rs"]
mod common;
mod follow;
mod wal;
