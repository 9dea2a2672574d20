//! Every page of every tablespace, judged by itself.

use std::ops::ControlFlow;

use super::source::{InnodbRequest, InnodbSource, about};
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::innodb::finding::InnodbFinding;
use crate::analysis::innodb::scan::{ScanReport, scan};
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::inspect::error::InspectError;
use crate::parsers::innodb::page_check::Unverifiable;

/// What a scan of a directory says.
#[derive(Debug)]
pub struct InnodbVerification {
    /// The directory.
    pub source: InnodbSource,
    /// The pages.
    pub scan: ScanReport,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was not examined.
    pub coverage: Coverage,
}

/// Reads every page, until `watch`, told the bytes done and in all, breaks it off.
///
/// # Errors
/// When the path is not a data directory of MySQL or MariaDB.
pub fn innodb_verify(
    request: &InnodbRequest,
    watch: &dyn Fn(u64, u64) -> ControlFlow<()>,
) -> Result<InnodbVerification, InspectError> {
    let source = InnodbSource::open(request)?;
    let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
    source.notes(&mut findings, &mut coverage);
    let scan = scan(&source.scan_request(&|_| true, &|_, _, _| false, request.jobs), &mut coverage, watch);
    note_scan(&source, &scan, &mut findings, &mut coverage);
    if scan.counts.damaged > 0 {
        let finding = InnodbFinding::InnodbBadPages { count: scan.counts.damaged, pages: scan.counts.pages };
        findings.push(about(Finding::problem, finding, None));
    }
    Ok(InnodbVerification { source, scan, findings, coverage })
}

/// What a scan says besides damaged pages: files that end inside a page, and pages that cannot be judged.
pub fn note_scan(source: &InnodbSource, scan: &ScanReport, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    for partial in &scan.partial {
        let finding = InnodbFinding::InnodbPartialPage { have_bytes: partial.have_bytes };
        findings.push(about(Finding::problem, finding, Some(&partial.path)).at(partial.offset));
    }
    for (space, counts) in source.spaces.all.iter().zip(&scan.by_space) {
        for (reason, pages) in &counts.unverifiable {
            let pages = *pages;
            let reason = match reason {
                Unverifiable::Encrypted => SkipReason::Encrypted { pages },
                Unverifiable::Codec { codec } => SkipReason::UnknownCodec { pages, codec: *codec },
            };
            coverage.skip(SkippedPart::file(space.name()), reason);
        }
    }
}
