//! WAL read for its own sake: how much of it is full-page images, which images, and where it ends and why.

pub(crate) mod advise;
pub mod chain;
pub mod compare;
mod counting;
pub mod export;
pub mod follow;
pub mod images;
pub(crate) mod kept;
pub mod names;
#[cfg(feature = "tables")]
pub mod report;
pub mod request;
pub(crate) mod rules;
pub mod source;
pub mod stats;
pub(crate) mod times;
pub mod whatif;

/// Archives of WAL of these majors, those that are there: a packed crate has the ones of 16 and 18 alone.
#[cfg(test)]
fn archives(majors: &[u32]) -> Vec<(u32, std::path::PathBuf)> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wal");
    let all = majors.iter().map(|major| (*major, directory.join(format!("pg{major}.tar.zst"))));
    let there: Vec<_> = all.filter(|(_, archive)| archive.exists()).collect();
    let is_packed = !directory.join("README.md").exists();
    assert!(there.len() == majors.len() || is_packed && !there.is_empty(), "{there:?}");
    there
}
