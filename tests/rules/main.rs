//! The rules that the code keeps about itself: which module may use which, and codes that docs know.

mod codes;
#[path = "../common/mod.rs"]
mod common;
mod finding_codes;
mod layering;
mod words;
