//! The bytes of an image, read again where it was found.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::candidate::ImageSource;
use crate::analysis::start::replay::run_of;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::walk::walk_run;
use crate::cluster::donor::{Donor, DonorRead};
use crate::cluster::dwb_files::{DwbSet, SlotReadError};
use crate::cluster::open::AccessError;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::dwb::CrcVerdict;
use crate::parsers::image::{ImageDecoder, ImageError, ready_page};
use crate::parsers::wal::block::Keep;
use crate::types::{Lsn, PageId};

/// Why an image could not be read again.
#[derive(Debug)]
pub enum FetchError {
    Slot(SlotReadError),
    SlotChanged {
        file: String,
        /// Index of the slot in the file.
        slot_index: u64,
    },
    Wal(WalReadError),
    NoRecord(Lsn),
    Image(ImageError),
    Donor(AccessError),
    NoPageInDonor {
        path: String,
    },
    NotBuilt,
}

#[derive(Clone, Copy)]
pub(crate) struct ImageFiles<'a> {
    pub dwb: &'a DwbSet,
    pub wal: Option<&'a WalSet>,
    pub donors: &'a [Donor],
    pub built: &'a BTreeMap<PageId, Vec<u8>>,
    /// Bytes of a page.
    pub block_size: usize,
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Slot(error) => error.source(),
            Self::Wal(error) => error.source(),
            Self::Image(error) => error.source(),
            Self::Donor(error) => error.source(),
            Self::SlotChanged { .. } | Self::NoRecord(_) | Self::NoPageInDonor { .. } | Self::NotBuilt => None,
        }
    }
}

impl From<SlotReadError> for FetchError {
    fn from(error: SlotReadError) -> Self {
        Self::Slot(error)
    }
}

impl From<WalReadError> for FetchError {
    fn from(error: WalReadError) -> Self {
        Self::Wal(error)
    }
}

impl From<ImageError> for FetchError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

/// Where a version of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionOf {
    Disk,
    /// In the image with this index among the candidates.
    Image(usize),
    /// Nowhere: it was built as it was at this LSN.
    Then(Lsn),
}

/// The bytes of a page, as they are on disk or as an image has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageVersion {
    pub of: VersionOf,
    pub bytes: Vec<u8>,
}

/// Reads the bytes of an image of `page`: those of a slot or a donor as they stand there, those of WAL with the LSN that redo
/// sets and without checksum.
pub(crate) fn fetch_image(source: &ImageSource, page: PageId, files: &ImageFiles<'_>) -> Result<Vec<u8>, FetchError> {
    let &ImageFiles { dwb, wal, donors, built, block_size } = files;
    match source {
        ImageSource::Dwb { file: name, file_index, slot_index, .. } => {
            let changed = || FetchError::SlotChanged { file: name.clone(), slot_index: *slot_index };
            let file = dwb.files.get(*file_index).ok_or_else(changed)?;
            let mut buf = Vec::new();
            let slot = file.read_slot(*slot_index, &mut buf)?;
            let sound = slot.crc_verdict() != CrcVerdict::Bad && slot.header.page_id() == Some(page);
            if sound && slot.image.len() == block_size { Ok(slot.image.to_vec()) } else { Err(changed()) }
        }
        ImageSource::Donor { donor, path, .. } => {
            let gone = || FetchError::NoPageInDonor { path: path.clone() };
            match donors.get(*donor).ok_or_else(gone)?.read_page(page).map_err(FetchError::Donor)? {
                DonorRead::Page(bytes) => Ok(bytes),
                DonorRead::Gap(_) => Err(gone()),
            }
        }
        ImageSource::Rebuilt(_) => built.get(&page).cloned().ok_or(FetchError::NotBuilt),
        ImageSource::Wal { record_lsn } => {
            let set = wal.ok_or(FetchError::NoRecord(*record_lsn))?;
            let run = run_of(set, *record_lsn).ok_or(FetchError::NoRecord(*record_lsn))?;
            let plan = ScanPlan { start_lsn: *record_lsn, ..ScanPlan::totals() };
            let mut found = Err(FetchError::NoRecord(*record_lsn));
            let stretch = plan.stretch(set, &run, Keep::Blocks);
            walk_run(&stretch, false, &mut |_| ControlFlow::Continue(()), |record| {
                if record.start_lsn == *record_lsn {
                    let image =
                        record.blocks().find(|block| block.page_id() == Some(page)).and_then(|block| block.image);
                    if let Some(image) = image {
                        let mut bytes = vec![0; block_size];
                        found = ImageDecoder::new().restore(&image, &mut bytes).map_err(FetchError::from).map(|()| {
                            ready_page(&mut bytes, record.end_lsn, page.block, false);
                            bytes
                        });
                    }
                }
                ControlFlow::Break(())
            })?;
            found
        }
    }
}
