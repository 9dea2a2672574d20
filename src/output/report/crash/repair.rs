//! Planned and earlier writes of repairs.

use super::super::more;
use super::CrashReport;
use crate::output::document::{Blocks, Span};
use crate::repair::blocker::Blocker;
use crate::repair::journal_seen::JournalState;
use crate::repair::plan::{LeftPage, Plan, PlanPage, PlanStep};

const MAX_STEPS: usize = 1000;

/// Pages that are left as they are and named one by one.
const MAX_LEFT: usize = 1000;

/// A plan that was not applied.
#[derive(Debug)]
pub struct PlanShown {
    /// The plan.
    pub plan: Plan,
    /// Blockers.
    pub blockers: Vec<Blocker>,
    /// Bytes of each step, as far as they were computed.
    pub bytes: Vec<PlannedBytes>,
}

/// Identity of the bytes of a page before and after a step.
#[derive(Clone, Debug)]
pub struct PlannedBytes {
    /// SHA-256 of the page as it is, or why it is not known.
    pub before: Result<String, String>,
    /// SHA-256 of the page as it would be written, or why it is not known.
    pub after: Result<String, String>,
}

impl CrashReport<'_> {
    pub(super) fn write_plan(&self, main: &mut Blocks) {
        main.section("plan", "Repair plan", |inner| {
            let PlanShown { plan, blockers, bytes } = match &self.plan {
                Ok(shown) => shown,
                Err(why) => return inner.paragraph(format!("There is no plan: {why}")),
            };
            inner.paragraph("The plan of the command repair. Nothing was written.");
            if !blockers.is_empty() {
                inner.facts(blockers.iter().map(|blocker| ("blocked now by", blocker.to_string())));
            }
            if plan.steps.is_empty() {
                inner.paragraph("Nothing would be written.");
            } else {
                write_step_table(inner, &plan.steps, bytes);
                more(inner, plan.steps.len(), MAX_STEPS, "repair");
                if bytes.len() < plan.steps.len() {
                    let (known, all) = (bytes.len(), plan.steps.len());
                    inner.note(format!("SHA-256 of the first {known} of {all} pages; the plan has a CRC-32C of each."));
                }
            }
            for step in plan.steps.iter().take(MAX_STEPS).filter(|step| !step.warnings.is_empty()) {
                let label = page_label(&step.page, step.relation.as_deref());
                inner.note(format!("{label} may be wrong or lose something: {}", step.warnings.join("; ")));
            }
            if !plan.left.is_empty() {
                let row = |left: &LeftPage| {
                    [
                        Span::Text(page_label(&left.page, left.relation.as_deref())),
                        Span::text(&left.verdict),
                        Span::Text(left.reasons.join("; ")),
                    ]
                };
                let caption = "Damaged pages that would be left as they are";
                inner.table(caption, ["page", "verdict", "why"], plan.left.iter().take(MAX_LEFT).map(row));
                more(inner, plan.left.len(), MAX_LEFT, "repair");
            }
        });
    }

    pub(super) fn write_journals(&self, main: &mut Blocks) {
        main.section("journals", "Journals of repairs", |inner| {
            let journals = match &self.journals.journals {
                Ok(journals) => journals,
                Err(why) => return inner.paragraph(format!("Not checked: {why}")),
            };
            if journals.is_empty() {
                return inner
                    .paragraph("No journal is next to the data directory. Journals elsewhere are unknown here.");
            }
            for seen in journals {
                let directory = seen.directory.display().to_string();
                let mut known = vec![("journal", directory)];
                match &seen.state {
                    Ok(state) => known.extend(self.journal_facts(state)),
                    Err(why) => known.push(("not checked", why.to_string())),
                }
                inner.facts(known);
            }
            if self.journals.more > 0 {
                inner.paragraph(format!("{} older ones exist and were not checked.", self.journals.more));
            }
        });
    }

    fn journal_facts(&self, state: &JournalState) -> Vec<(&'static str, String)> {
        let JournalState { system_identifier, began, pages, compared, .. } = state;
        let began = began.clone().unwrap_or_else(|| "unknown".to_owned());
        let mut known = vec![("repair began", began), ("pages in it", pages.to_string())];
        if *compared == 0 && *pages > 0 {
            known.push((
                "pages now",
                format!(
                    "not compared: it belongs to another directory or cluster (its system identifier is \
                     {system_identifier}), or the identity of this cluster is unknown"
                ),
            ));
            return known;
        }
        known.push(("pages now", state.to_string()));
        known
    }
}

fn page_label(page: &PlanPage, relation: Option<&str>) -> String {
    let fork = if page.fork == "main" { String::new() } else { format!(" {}", page.fork) };
    let rel = relation.map_or_else(|| format!("{}/{}/{}", page.spc_oid, page.db_oid, page.rel_number), str::to_owned);
    format!("{rel}{fork} block {}", page.block)
}

fn write_step_table(parent: &mut Blocks, steps: &[PlanStep], bytes: &[PlannedBytes]) {
    let digest = |digest: Option<&Result<String, String>>, crc: &str| match digest {
        Some(Ok(sum)) => Span::Digest(sum.clone()),
        Some(Err(why)) => Span::text(why),
        None => Span::Code(format!("CRC-32C {crc}")),
    };
    let row = |(index, step): (usize, &PlanStep)| {
        let planned = bytes.get(index);
        [
            Span::Text(page_label(&step.page, step.relation.as_deref())),
            Span::Text(step.image.to_string()),
            Span::code(&step.page_lsn),
            digest(planned.map(|planned| &planned.before), &step.before_crc),
            digest(planned.map(|planned| &planned.after), &step.after_crc),
        ]
    };
    parent.table(
        format!("Pages that would be written: {}", steps.len()),
        ["page", "image", "LSN", "SHA-256 as it is", "SHA-256 as it would be"],
        steps.iter().take(MAX_STEPS).enumerate().map(row),
    );
}
