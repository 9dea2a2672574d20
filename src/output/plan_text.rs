//! A repair plan as text: for the command, and for what the screen exports.

use std::io::{self, Write};

use super::escape::printable;
use super::figures::many;
use super::table::{plain_table, write_table};
use super::text::{Layout, write_fact};
use crate::analysis::verdict::judge::Verdict;
use crate::repair::blocker::Blocker;
use crate::repair::plan::{Plan, PlanPage};

/// Pages that are named of those that are left for the same reasons.
const MAX_LEFT: usize = 12;

/// A plan that was not applied, and what blocks it.
pub(crate) fn write_plan_text(
    out: &mut dyn Write,
    layout: Layout,
    plan: &Plan,
    blockers: &[Blocker],
) -> io::Result<()> {
    let paint = layout.paint;
    let title = match plan.steps.len() {
        0 => "NOTHING TO WRITE".to_owned(),
        1 => "1 page to write; nothing was written yet".to_owned(),
        count => format!("{count} pages to write; nothing was written yet"),
    };
    writeln!(out, "{}", paint.heading(&title))?;
    if !plan.steps.is_empty() {
        write_steps(out, layout, plan)?;
    }
    write_left(out, layout, plan)?;
    if !blockers.is_empty() && !plan.steps.is_empty() {
        writeln!(out, "\n{}", paint.heading("--apply is blocked"))?;
        for blocker in blockers {
            write_fact(out, layout, blocker.kind, &blocker.to_string())?;
        }
    }
    Ok(())
}

/// The pages that a plan writes, and what may be wrong with them.
pub(crate) fn write_steps(out: &mut dyn Write, layout: Layout, plan: &Plan) -> io::Result<()> {
    let mut table = plain_table(&["page", "image", "LSN", "action"]);
    for step in &plan.steps {
        table.add_row([
            page_label(&step.page, step.relation.as_deref()),
            printable(&step.image.to_string()),
            printable(&step.page_lsn),
            label_of(&step.verdict),
        ]);
    }
    write_table(out, &table)?;
    for step in plan.steps.iter().filter(|step| !step.warnings.is_empty()) {
        writeln!(
            out,
            "\n  {}",
            layout.paint.bad(&format!("WARNING: {}", page_label(&step.page, step.relation.as_deref())))
        )?;
        for warning in &step.warnings {
            write_fact(out, layout, "may be lost or wrong", warning)?;
        }
    }
    Ok(())
}

/// Damaged pages that a plan leaves as they are, and why.
pub(crate) fn write_left(out: &mut dyn Write, layout: Layout, plan: &Plan) -> io::Result<()> {
    if plan.left.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Not changed"))?;
    // Pages that are left for the same reasons stand together; those that need nothing are counted.
    let mut groups: Vec<(&str, String, Vec<String>)> = Vec::new();
    for left in plan.left.iter().filter(|left| stays_damaged(&left.verdict)) {
        let (reason, label) = (left.reasons.join("; "), page_label(&left.page, left.relation.as_deref()));
        match groups.iter_mut().find(|(verdict, same, _)| *verdict == left.verdict && *same == reason) {
            Some((_, _, labels)) => labels.push(label),
            None => groups.push((&left.verdict, reason, vec![label])),
        }
    }
    for (verdict, reason, labels) in groups {
        let more = labels.len().saturating_sub(MAX_LEFT);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = labels.iter().take(MAX_LEFT).map(String::as_str).collect::<Vec<_>>().join(", ");
        write_fact(out, layout, &label_of(verdict), &format!("{named}{more}: {reason}"))?;
    }
    for verdict in Verdict::ALL.into_iter().filter(|verdict| verdict.needs_nothing()) {
        match plan.left.iter().filter(|left| left.verdict == verdict.name()).count() {
            0 => {}
            count => write_fact(out, layout, verdict.facts().label, &many(count as u64, "page"))?,
        }
    }
    Ok(())
}

/// A page with this verdict needs something that the plan does not do.
pub(crate) fn stays_damaged(code: &str) -> bool {
    verdict_of(code).is_none_or(|verdict| !verdict.needs_nothing())
}

fn verdict_of(code: &str) -> Option<Verdict> {
    Verdict::ALL.into_iter().find(|verdict| verdict.name() == code)
}

/// The name for people of a verdict that a plan has by its code.
fn label_of(code: &str) -> String {
    verdict_of(code).map_or_else(|| printable(code), |verdict| verdict.facts().label.to_owned())
}

fn page_label(page: &PlanPage, relation: Option<&str>) -> String {
    let fork = if page.fork == "main" { String::new() } else { format!(" {}", printable(&page.fork)) };
    let rel = relation.map_or_else(|| format!("{}/{}/{}", page.spc_oid, page.db_oid, page.rel_number), printable);
    format!("{rel}{fork} block {}", page.block)
}
