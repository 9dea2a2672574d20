//! The cluster as a whole: whether its files belong together, what startup reads and replays, and doubts about it.

pub mod backup;
pub(crate) mod belonging;
pub mod cluster_condition;
pub(crate) mod cluster_report;
pub mod doubt;
pub mod missing_wal;
pub mod replay;
pub mod server_files;
