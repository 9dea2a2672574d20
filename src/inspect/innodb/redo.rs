//! Whether the redo log is all there that a start replays.

use std::ops::ControlFlow;

use super::source::{InnodbSource, about};
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::innodb::candidates::BufferContent;
use crate::analysis::innodb::finding::InnodbFinding;
use crate::analysis::innodb::opened::RedoFacts;
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::cluster::innodb::redo_extent::{RedoExtent, RedoStop};
use crate::cluster::innodb::redo_log::Family;
use crate::parsers::innodb::InnodbLsn;

/// The redo log, followed from the checkpoint on.
#[derive(Debug)]
pub struct Redo {
    extent: Option<RedoExtent>,
    /// Each file is as a server leaves it.
    has_whole_files: bool,
    /// The server deletes files once the drop of their tables is committed.
    deletes_after_commit: bool,
}

impl Redo {
    /// Follows the log, until `watch` breaks it off.
    pub fn follow(source: &InnodbSource, watch: &dyn Fn() -> ControlFlow<()>) -> Self {
        let extent = RedoExtent::follow(&source.root, &source.files, &source.log, watch);
        let deletes_after_commit = matches!(source.family, Family::Mysql8 | Family::Mariadb);
        Self { extent, has_whole_files: source.log.has_whole_files(), deletes_after_commit }
    }

    /// The same, and says where it is not as a server leaves it.
    pub fn of(
        source: &InnodbSource,
        findings: &mut Vec<Finding>,
        coverage: &mut Coverage,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Self {
        let redo = Self::follow(source, watch);
        let Some(found) = &redo.extent else {
            coverage.skip(SkippedPart::RedoLog, SkipReason::CheckpointNotFound);
            return redo;
        };
        let end_lsn = found.end;
        let finding = match &found.stop {
            RedoStop::Ended => None,
            RedoStop::GoesOn => Some(InnodbFinding::InnodbRedoDamaged { end_lsn, goes_on: true }),
            RedoStop::Damaged => Some(InnodbFinding::InnodbRedoDamaged { end_lsn, goes_on: false }),
            RedoStop::Missing => Some(InnodbFinding::InnodbRedoMissing { end_lsn }),
            RedoStop::NotTestable => {
                coverage.skip(SkippedPart::RedoLog, SkipReason::RedoNotTestable);
                None
            }
            RedoStop::Interrupted => {
                coverage.skip_once(SkippedPart::RedoLog, SkipReason::Interrupted(Lacking::Pages));
                None
            }
            RedoStop::Unreadable(error) => {
                coverage.skip(SkippedPart::RedoLog, error);
                None
            }
        };
        if let Some(finding) = finding {
            let finding = about(Finding::problem, finding, found.place.as_ref().map(|place| place.file.as_str()));
            findings.push(match &found.place {
                Some(place) => finding.at(place.offset),
                None => finding,
            });
        }
        redo
    }

    /// True for a tablespace whose file the log deletes, of a server that does so once the drop is committed. MySQL 5.6 and 5.7 do it before,
    /// and recovery may bring the table back without its file.
    #[must_use]
    pub fn deletes(&self, space_id: u32) -> bool {
        self.deletes_after_commit
            && self.extent.as_ref().is_some_and(|extent| extent.changes.deleted.contains(&space_id))
    }

    /// True for a tablespace whose pages the log makes from the first on.
    #[must_use]
    pub fn makes(&self, space_id: u32) -> bool {
        self.extent.as_ref().is_some_and(|extent| extent.changes.made.contains(&space_id))
    }

    /// What is known of the log. It is not whole where it does not reach as far as the pages and images that are there, and that is said.
    ///
    /// Servers write a page, and its image, after the log of its changes.
    pub fn facts(self, content: &BufferContent, newest_lsn: &[InnodbLsn], findings: &mut Vec<Finding>) -> RedoFacts {
        let Some(extent) = self.extent else { return RedoFacts::default() };
        let end_lsn = extent.end;
        let is_end_known =
            matches!(extent.stop, RedoStop::Ended | RedoStop::GoesOn | RedoStop::Damaged | RedoStop::Missing);
        let newest = newest_lsn.iter().copied().chain(content.newest_lsn()).max();
        let behind = newest.filter(|newest| is_end_known && *newest > end_lsn);
        if let Some(newest_lsn) = behind {
            let finding = InnodbFinding::InnodbRedoBehind { end_lsn, newest_lsn };
            findings.push(about(Finding::problem, finding, None));
        }
        let is_whole = behind.is_none() && extent.is_whole() && self.has_whole_files;
        RedoFacts {
            is_whole,
            end_lsn: is_end_known.then_some(end_lsn),
            is_any: end_lsn > extent.start,
            changed: extent.changes.changed,
            sized: extent.changes.sized,
        }
    }
}
