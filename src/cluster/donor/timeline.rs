//! Shared history of a donor and its cluster.

use super::facts::DonorFacts;
use super::refusal::DonorRefusal;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::types::{Lsn, TimelineId};

/// The LSN after which donor and cluster have different histories; `None` if all pages share one.
/// `tli`, `history`: the newest timeline of the cluster and its history, where there is one; `own`: reads a history file of
/// the donor.
pub(super) fn usable_until(
    donor: &DonorFacts,
    tli: TimelineId,
    history: Option<&TimelineHistory>,
    own: &dyn Fn(TimelineId) -> Option<TimelineHistory>,
) -> Result<Option<Lsn>, DonorRefusal> {
    let read = if history.is_none() { own(tli) } else { None };
    let history = history.or(read.as_ref()).filter(|history| history.tli == tli);
    let from = donor.timeline;
    let Some(history) = history else {
        // A timeline is its own history, from where it begins.
        if from != tli {
            return Err(DonorRefusal::TimelineUnknown { donor: from, cluster: tli });
        }
        return Ok((donor.newest_timeline != tli).then_some(donor.redo_lsn));
    };
    let cluster = history.tli_at(donor.redo_lsn);
    if cluster != from {
        return Err(DonorRefusal::OtherTimeline { donor: from, redo_lsn: donor.redo_lsn, cluster });
    }
    if let Some(of_donor) = own(from)
        && !is_same_past(&of_donor, history)
    {
        return Err(DonorRefusal::OtherHistory { tli: from });
    }
    let end_of = |tli: TimelineId| history.ancestors.iter().find(|one| one.tli == tli).map(|one| one.switch_lsn);
    let newest = donor.newest_timeline;
    // The donor may have gone on to another timeline after its redo point; the number alone does not show which.
    let is_of_cluster = newest == tli || end_of(newest).is_some();
    let is_known = newest == from || is_of_cluster && own(newest).is_some_and(|own| is_same_past(&own, history));
    if is_known {
        return Ok(end_of(newest));
    }
    Ok(Some(donor.redo_lsn))
}

/// True when the timelines before that of `donor` ended where they did in `cluster`.
fn is_same_past(donor: &TimelineHistory, cluster: &TimelineHistory) -> bool {
    let ends = |history: &TimelineHistory| -> Vec<(TimelineId, Lsn)> {
        let before = history.ancestors.iter().filter(|one| one.tli < donor.tli);
        before.map(|one| (one.tli, one.switch_lsn)).collect()
    };
    ends(donor) == ends(cluster)
}
