//! Files of pages that a server numbers by a counter that comes round: whether those are there that it may look into.

use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{Links, ReadFile};
use super::server_files::FileFault;
use crate::parsers::control::ControlFile;

use super::xact_log::SLRU_PAGES_PER_SEGMENT;

/// Something is wrong with such a file.
#[derive(Debug)]
pub(crate) struct SlruFault {
    /// The file, relative to the data directory.
    pub file: PathBuf,
    pub fault: FileFault,
}

/// The server made it, not somebody who left a note.
pub(super) fn is_numbered(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}

pub(super) struct SlruFiles<'a> {
    /// The directory, relative to the data directory.
    pub(super) of: &'a Path,
    pub(super) per_page: NonZeroU64,
    /// The oldest value that may be looked up, and the last one.
    pub(super) values: (u64, u64),
    /// Values have 64 bits and never come round; names of files have 15 digits.
    pub(super) is_wide: bool,
}

pub(super) enum SlruPage {
    /// The file ends before it is complete.
    Cut,
    Zero,
}

impl SlruFiles<'_> {
    fn file(&self, segment: u64) -> PathBuf {
        let digits = if self.is_wide { 15 } else { 4 };
        self.of.join(format!("{segment:0digits$X}"))
    }

    /// Number of a page since numbers last came round.
    fn in_round(&self, page: u64) -> u64 {
        // Other numbers come round after 2^32.
        let values = if self.is_wide { u64::MAX } else { 1 << 32 };
        page.checked_rem(values.div_ceil(self.per_page.get())).unwrap_or_default()
    }

    /// Examines the files in order. Files before a missing one at the beginning are not reported: a server may
    /// have removed them since. `judge` checks a page of this number at this offset, if anything is.
    pub(super) fn faults(
        &self,
        directory: &DataDir,
        control: &ControlFile,
        judge: &dyn Fn(SlruPage, u64, u64) -> Option<FileFault>,
    ) -> Vec<SlruFault> {
        let mut faults = Vec::new();
        let page_bytes = u64::from(control.geometry.block_size);
        let per_segment = u64::from(control.slru_pages_per_segment.unwrap_or(SLRU_PAGES_PER_SEGMENT));
        let Some(per_segment) = NonZeroU64::new(per_segment) else { return faults };
        let (oldest, last) = self.values;
        let (mut page, last_page) = (oldest / self.per_page, last / self.per_page);
        let mut has_begun = false;
        let mut buf = vec![0; usize::try_from(page_bytes).unwrap_or_default()];
        while page <= last_page {
            let in_round = self.in_round(page);
            let segment = in_round / per_segment;
            let segment_end = page.saturating_sub(in_round % per_segment).saturating_add(per_segment.get());
            let file = self.file(segment);
            let read = match ReadFile::open(&directory.root().join(&file), Links::Refuse) {
                Ok(read) => read,
                Err(error) => {
                    if has_begun || segment_end > last_page || !error.is_not_found() {
                        faults.push(SlruFault { file, fault: error.into() });
                    }
                    page = segment_end;
                    continue;
                }
            };
            has_begun = true;
            let pages = page..segment_end.min(last_page.saturating_add(1));
            let fault = pages.into_iter().find_map(|page| {
                let offset = (self.in_round(page) % per_segment).saturating_mul(page_bytes);
                match read.read_at(&mut buf, offset) {
                    Ok(filled) if filled < buf.len() => judge(SlruPage::Cut, page, offset),
                    Ok(_) if buf.iter().all(|byte| *byte == 0) => judge(SlruPage::Zero, page, offset),
                    Ok(_) => None,
                    Err(error) => Some(error.into()),
                }
            });
            faults.extend(fault.map(|fault| SlruFault { file, fault }));
            page = segment_end;
        }
        faults
    }
}
