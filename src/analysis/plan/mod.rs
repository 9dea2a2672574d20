//! WAL under other settings, and comparisons: what checkpoints, compression or a double write buffer would change.

pub mod compare;
pub(crate) mod dwb_size;
pub(crate) mod kept;
pub mod savings;
pub mod whatif;
