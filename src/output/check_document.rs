//! Text output of `check` about a judged cluster: for the command, and for exports of the terminal UI.

use std::io::{self, Write};
use std::path::Path;

use super::check_text::{
    page_title, write_counts, write_evidence, write_outlook, write_pages, write_slot_counts, write_slots,
};
use super::closing::Closing;
use super::documents::JudgedCluster;
use super::next_step_text::write_steps;
use super::stand_in_text::write_stand_ins;
use super::text::{Layout, write_fact};
use super::words::cluster::checksum_words;
use crate::analysis::cluster_condition::ClusterCondition;
use crate::analysis::page_scan::ScannedFiles;
use crate::analysis::verdict::next_step::NextStep;
use crate::parsers::control::ChecksumState;
use crate::types::PageId;

/// Everything that the text of `check` is made from.
#[derive(Clone, Copy)]
pub struct CheckText<'a> {
    pub cluster: JudgedCluster<'a>,
    pub state: &'a ClusterCondition,
    /// Data checksums according to `pg_control`.
    pub checksums: Option<ChecksumState>,
    /// How much the page scan read, if it ran.
    pub scanned: Option<&'a ScannedFiles>,
}

impl CheckText<'_> {
    /// Writes all of it. `explain`: also the evidence for every verdict; `all`: also pages that are not damaged and that the
    /// double write buffer holds.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn write(
        &self,
        out: &mut dyn Write,
        layout: Layout,
        (explain, all): (bool, bool),
        closing: &Closing,
        steps: &[NextStep],
    ) -> io::Result<()> {
        self.write_pages(out, layout, explain, all)?;
        closing.write_text(out, layout)?;
        // Last, where it stays in view.
        let JudgedCluster { report, context, .. } = self.cluster;
        let title = |page: PageId| page_title(&self.called(page), page);
        writeln!(out, "\n{}", layout.paint.heading("Verdict"))?;
        write_outlook(out, layout, &report.replay, &report.outlook, &report.pages, &title)?;
        write_counts(out, layout, &report.pages)?;
        write_steps(out, layout, steps, context)
    }

    fn write_pages(&self, out: &mut dyn Write, layout: Layout, explain: bool, all: bool) -> io::Result<()> {
        let JudgedCluster { report, paths, dwb, proof, context, .. } = self.cluster;
        let name = |page: PageId| self.called(page);
        let title = |page: PageId| page_title(&self.called(page), page);
        writeln!(out, "{}", layout.paint.heading("State"))?;
        write_fact(out, layout, "data directory", context.data_dir)?;
        write_fact(out, layout, "what happened", &self.state.to_string())?;
        write_fact(out, layout, "data checksums", &checksum_words(self.checksums))?;
        if let Some(scanned) = self.scanned {
            write_fact(out, layout, "pages checked", &scanned.to_string())?;
        }
        if let Some(proof) = proof {
            write_fact(out, layout, "proven by replay", &proof.to_string())?;
        }
        write_slot_counts(out, layout, &report.slots)?;
        write_pages(out, layout, &report.pages, &name)?;
        let location_of = |page: PageId| {
            let (path, block) = paths.path_and_block(page);
            (Path::new(context.data_dir).join(path), block)
        };
        write_stand_ins(out, layout, &report.pages, &title, &location_of)?;
        if explain {
            for page in &report.pages {
                let path = paths.path_and_block(page.page).0;
                write_evidence(out, layout, page, &format!("{} ({})", title(page.page), path.display()))?;
            }
        }
        if all {
            let file_name = |file: usize| dwb.files.get(file).map_or_else(String::new, |file| file.name.clone());
            write_slots(out, layout, &report.slots, &name, &file_name)?;
        }
        Ok(())
    }

    /// How a page's relation is called: by name where there is one, else by its numbers.
    fn called(&self, page: PageId) -> String {
        self.cluster.names.full_name(page.rel).unwrap_or_else(|| page.rel.to_string())
    }
}
