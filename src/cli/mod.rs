//! Arguments, dispatch and exit status of the two programs.

mod context;
pub mod dwbinspect;
pub mod exit;
mod generate;
mod screen;
mod stamps;
mod values;
pub mod walfpi;
pub mod work;
