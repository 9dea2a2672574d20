//! The cluster as a whole: whether its files belong together, what startup reads and replays, and doubts about it.

pub(crate) mod backup;
pub(crate) mod belonging;
pub mod cluster_condition;
pub mod doubt;
pub(crate) mod missing_wal;
pub mod replay;
pub(crate) mod server_files;
