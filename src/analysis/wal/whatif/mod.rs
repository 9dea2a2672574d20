//! What another setting would have written.

pub mod compression;
