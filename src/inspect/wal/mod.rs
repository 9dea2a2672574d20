//! WAL read for its own sake: how much of it is full-page images, which images, and where it ends and why.

pub mod advise;
pub mod chain;
pub mod compare;
mod counting;
pub mod dwb_size;
pub mod export;
pub mod follow;
pub mod images;
pub mod merge;
pub mod names;
pub mod part;
pub mod read_wal;
pub mod recompress;
#[cfg(feature = "tables")]
pub mod report;
pub mod request;
pub mod restored;
mod segments;
pub mod source;
pub mod stats;
mod time_range;
pub mod timeline;
pub mod times;
pub mod watch;
pub mod whatif;
