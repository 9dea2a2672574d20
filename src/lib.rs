//! Offline forensics for PostgreSQL data directories: torn pages and the images that repair them, the double write buffer,
//! full-page images in WAL.
//!
//! The programs `pg_dwbinspect` and `pg_walfpi` are thin: what they can do is here for other programs too. Requests are plain
//! structs, answers are values; nothing is printed. Damage is a finding in the answer, with its offset; an error says that
//! there was nothing to examine. What could not be examined is in the [`Coverage`](analysis::skipped::Coverage) of every
//! report. Nothing is written but by [`repair`](mod@inspect::repair), which locks the data directory, judges it, and keeps
//! the old bytes in a journal first.
//!
//! # Damaged pages
//!
//! Every page is read, compared with the images of the double write buffer and of WAL, and judged. `()` watches nothing;
//! a [`Watch`](inspect::check::Watch) of your own receives the progress of the check, and can interrupt it.
//!
//! ```
//! use pgforensics::analysis::verdict::answer::Answer;
//! use pgforensics::analysis::verdict::judge::Verdict;
//! use pgforensics::inspect::check::CheckRequest;
//!
//! # let unpacked = tempfile::tempdir()?;
//! # let mut archive = zstd::Decoder::new(std::fs::File::open("fixtures/dwb/checkpoint.tar.zst")?)?;
//! # archive.window_log_max(27)?;
//! # tar::Archive::new(archive).unpack(unpacked.path())?;
//! # let path = unpacked.path().join("checkpoint");
//! let examined = pgforensics::check(&CheckRequest::of(&path), &())?;
//! println!("{}", examined.state);
//! for page in &examined.report.pages {
//!     println!("{} block {}: {}", examined.called(page.page), page.page.block, page.verdict.verdict.name());
//! }
//! assert_eq!(examined.answer(), Answer::Wrong);
//! # assert!(examined.report.pages.iter().any(|page| page.verdict.verdict == Verdict::Restore));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Full-page images in WAL
//!
//! Images in WAL are counted from whatever holds it: a data directory, `pg_wal`, an archive, single segments, compressed
//! or not. Damage is a finding in the answer; an error says that there was nothing to read.
//!
//! ```
//! use pgforensics::inspect::{WalRequest, WalStatsRequest, unwatched, wal_stats};
//!
//! let wal = WalRequest::of_paths(vec!["fixtures/wal/pg16.tar.zst".into()]);
//! let stats = wal_stats(&WalStatsRequest { wal, group: None, resynchronise: false, relations: Vec::new() }, &unwatched)?;
//! let total = &stats.counts.total;
//! println!("{} of {} bytes are images", total.fpi_bytes, total.combined_bytes());
//! // What pg_waldump --stats says of the same segments.
//! assert_eq!((total.records, total.fpi_bytes, total.combined_bytes()), (10_607, 1_657_400, 2_878_912));
//! assert!(stats.wal.coverage.skipped.is_empty());
//! # Ok::<(), pgforensics::inspect::error::InspectError>(())
//! ```
//!
//! # A repair
//!
//! A plan is shown first; [`repair`](fn@repair) writes it, with a journal that takes it back.
//!
//! ```
//! use pgforensics::inspect::repair::{RepairRequest, propose};
//!
//! # let unpacked = tempfile::tempdir()?;
//! # let mut archive = zstd::Decoder::new(std::fs::File::open("fixtures/dwb/checkpoint.tar.zst")?)?;
//! # archive.window_log_max(27)?;
//! # tar::Archive::new(archive).unpack(unpacked.path())?;
//! # let path = unpacked.path().join("checkpoint");
//! let request = RepairRequest { data_dir: path, journal: Some(unpacked.path().join("undo")), ..Default::default() };
//! let proposal = propose(&request, &())?;
//! println!("{} pages to restore, {} blockers", proposal.plan.steps.len(), proposal.blockers.len());
//! let repair = pgforensics::repair(&request, &())?;
//! # let written = repair.written.map_or(0, |written| written.applied.written.len());
//! # assert_eq!(written, proposal.plan.steps.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # As a dependency
//!
//! ```toml
//! [dependencies]
//! pgforensics = { path = "../pgforensics", default-features = false }
//! ```
//!
//! This has all of the above, the words of [`output`] included. The features, all on by default: `cli` brings the programs
//! and their argument parser, `tui` the screens, `parquet` the writer of Parquet files. Names of fields and codes are documented in `docs/` of the repository.
//!
//! # Where things are
//!
//! | module | holds |
//! |---|---|
//! | [`types`] | LSNs, page identities, sizes |
//! | [`report`] | what a finding is, and the rules that it goes by |
//! | [`parsers`] | formats on disk: decoded without judging, total on any bytes |
//! | [`cluster`] | data directories, relation files, WAL and buffers, read and never written |
//! | [`analysis`] | judgement: verdicts, doubts and findings as values with codes |
//! | [`rebuild`] | pages built by a server's own redo in a sandbox |
//! | [`salvage`] | rows out of a cluster that no server can start |
//! | [`mod@repair`] | plans, journals, and the only code that writes into a cluster |
//! | [`output`] | words for all these values; tables, JSON, CSV |
//! | [`inspect`] | the work itself: requests in, reports out |
#![deny(clippy::disallowed_methods)]
// What only the programs use is unused in a library without them.
#![cfg_attr(not(all(feature = "cli", feature = "tui")), allow(dead_code))]

pub mod analysis;
#[cfg(feature = "cli")]
pub mod cli;
pub mod cluster;
pub mod inspect;
pub mod output;
pub mod parsers;
pub mod rebuild;
pub mod repair;
pub mod report;
pub mod salvage;
#[cfg(feature = "tui")]
pub mod tui;
pub mod types;

pub use cluster::data_dir::DataDir;
pub use cluster::dwb_files::DwbSet;
pub use inspect::dwb_source::DwbSource;
pub use inspect::repair::apply as repair;
pub use inspect::{check, wal_stats};
pub use parsers::wal::reader::WalReader;
