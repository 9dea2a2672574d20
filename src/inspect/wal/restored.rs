//! Full-page images as the pages that they hold.

use super::images::{FoundImage, ImageSelection};
use super::source::{Notes, WalSource};
use super::watch::WatchWal;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::wal::unreadable::{UnreadableImage, UnreadableImages};
use crate::inspect::wal::rules;
use crate::parsers::image::ImageDecoder;
use crate::parsers::restore::ready_page;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageForm {
    /// As redo would leave them: with the LSN of the record's end and a checksum that fits. Images that redo does not
    /// apply are left out.
    #[default]
    AfterRedo,
    /// As the record holds them, byte for byte; all images.
    AsStored,
}

impl WalSource {
    /// Shows the page of every image that was selected, in order, and counts the images that were left out because redo
    /// does not apply them. An image that cannot be restored is a finding. An error of `visit` ends it.
    pub(crate) fn each_page<E>(
        &mut self,
        selection: &ImageSelection,
        form: PageForm,
        jobs: usize,
        watch: WatchWal<'_>,
        mut visit: impl FnMut(&mut Notes<'_>, &FoundImage<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        // Without a control file the checksum is set: where checksums are off the field may hold anything.
        let checksums = self.set.control().is_none_or(|control| control.checksums.is_written());
        let mut page = vec![0; usize::try_from(self.set.geometry().block_size).unwrap_or_default()];
        let mut decoder = ImageDecoder::new();
        let (mut left_out, mut unreadable) = (0, UnreadableImages::default());
        let shown = self.each_image(selection, jobs, watch, |notes, found| {
            if form == PageForm::AfterRedo && !found.image.applies() {
                left_out += 1;
                return Ok(());
            }
            if let Err(error) = decoder.restore(found.image, &mut page) {
                let (block, record_lsn) = (found.block.block, found.record.start_lsn);
                unreadable.push(UnreadableImage { block, record_lsn, error });
                return Ok(());
            }
            if form == PageForm::AfterRedo {
                ready_page(&mut page, found.record.end_lsn, found.block.block, checksums);
            }
            visit(notes, found, &page)
        });
        for finding in unreadable.findings() {
            // What its cause is told by may have been looked for in it before.
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        shown?;
        if left_out > 0 {
            self.findings
                .push(rules::NOT_APPLIED.note(format!("{left_out} images that redo does not apply were left out")));
        }
        Ok(left_out)
    }
}

impl FoundImage<'_> {
    /// What a report calls it when it was not examined or written.
    pub(crate) const fn as_part(&self) -> SkippedPart {
        SkippedPart::Image { block: self.block.block, record_lsn: self.record.start_lsn }
    }
}
