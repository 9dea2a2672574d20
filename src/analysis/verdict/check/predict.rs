//! Last stage: what a start will bring, and a word for each slot.

use std::collections::BTreeMap;

use super::input::{ClusterInput, Scope};
use crate::analysis::verdict::compare::Comparison;
use crate::analysis::verdict::history::WalHistory;
use crate::analysis::verdict::outlook::{Outlook, StartConditions};
use crate::analysis::verdict::replay::Replay;
use crate::analysis::verdict::slots::SlotRef;
use crate::analysis::verdict::survey::PageReport;
use crate::types::PageId;

pub(super) fn predict(pages: &[PageReport], replay: &Replay, cluster: &ClusterInput<'_>, scope: Scope) -> Outlook {
    let given = StartConditions {
        scope,
        may_be_running: cluster.may_be_running,
        has_dwb: cluster.uses_dwb,
        applies_first: cluster.applies_first,
        checksums: cluster.has_checksums,
        obstacle: cluster.obstacle,
        of_pages: cluster.of_pages.to_vec(),
    };
    Outlook::of(pages, replay, given)
}

/// Gives slots of damaged pages and of dropped relations their word.
pub(super) fn name_slots(mut slots: Vec<SlotRef>, pages: &[PageReport], history: &WalHistory) -> Vec<SlotRef> {
    let disks: BTreeMap<PageId, Comparison> = pages.iter().map(|page| (page.page, page.disk)).collect();
    for slot in &mut slots {
        if let Some(word) = disks.get(&slot.page) {
            slot.comparison = Some(*word);
        } else if slot.comparison == Some(Comparison::MissingFile)
            && history.file_events(slot.page).any(|event| event.ends(slot.page))
        {
            slot.comparison = Some(Comparison::DroppedRelation);
        }
    }
    slots
}
