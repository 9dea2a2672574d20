//! Guards against torn pages beside each other: full-page writes, a double write buffer, none.
//! Also here: what images for hint bits cost: they are written with data checksums or `wal_log_hints` alone; where an
//! ordinary record changes the same page later in the same interval, it would have needed an image itself; that it is
//! the same interval shows in the record: it has no image.

use strum::IntoStaticStr;

use crate::analysis::wal::tally::{Certainty, Tally};

/// How pages are guarded against being torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Guard {
    /// `full_page_writes = on`: an image of each page at its first change after a redo point.
    FullPageWrites,
    /// Pages go through a double write buffer; WAL has the images alone that are always written.
    DoubleWrite,
    /// `full_page_writes = off`, and nothing else.
    Off,
}

impl Guard {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::FullPageWrites, Self::DoubleWrite, Self::Off];

    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// What one guard would have made of the WAL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardColumn {
    /// The guard.
    pub guard: Guard,
    /// The WAL was written under it, or under one that leads to the same WAL.
    pub is_actual: bool,
    /// Images.
    pub images: u64,
    /// Their bytes as stored.
    pub image_bytes: u64,
    /// Bytes of all records with their images.
    pub wal_bytes: u64,
    /// Pages that would go through the double write buffer: distinct blocks of each interval. An estimate: an evicted page
    /// goes through it each time, and one that is changed again before a checkpoint writes it once for two intervals.
    pub buffer_pages: Option<u64>,
    /// How sure the number of images and their bytes are.
    pub certainty: Certainty,
    /// How sure the bytes of WAL are.
    pub wal_certainty: Certainty,
}

impl GuardColumn {
    /// Part of the WAL that is images, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.wal_bytes == 0 { 0.0 } else { self.image_bytes as f64 / self.wal_bytes as f64 }
    }
}

/// Guards beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Protection {
    /// One column for each.
    pub columns: Vec<GuardColumn>,
    /// Images that stay under any guard: records that require one, and pages logged as a whole.
    pub always: ImageSum,
    /// Images of first changes during a base backup.
    pub in_backup: ImageSum,
    /// First changes without an image, which full-page writes would have given one.
    pub missing: u64,
}

/// A number of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageSum {
    /// Images.
    pub images: u64,
    /// Their bytes as stored.
    pub image_bytes: u64,
}

impl ImageSum {
    pub(crate) const fn add(&mut self, bytes: u16) {
        self.images = self.images.saturating_add(1);
        self.image_bytes = self.image_bytes.saturating_add(bytes as u64);
    }
}

/// What was counted of images by the reason that a guard asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GuardCounts {
    /// Written whatever the LSN of the page.
    pub(crate) always: ImageSum,
    /// First changes outside base backups, hints left out.
    pub(crate) first: ImageSum,
    /// First changes during base backups, hints left out.
    pub(crate) in_backup: ImageSum,
    pub(crate) hints: ImageSum,
    pub(crate) hints_in_backup: ImageSum,
    /// First changes without an image.
    pub(crate) missing: u64,
    /// Images before the first redo point that is known: no guard is told from another there.
    pub(crate) not_replayed: u64,
    /// Images of first changes whose records may ask for one whatever the LSN of the page.
    pub(crate) maybe_always: u64,
    /// Bytes by which records would be shorter without the images of first changes outside base backups: images and their
    /// headers less the data that they stand for.
    pub(crate) saved_first: i64,
}

/// Bytes of the header of an image in a record.
pub(crate) const IMAGE_HEADER_BYTES: u64 = 5;

impl GuardCounts {
    /// True when the WAL was written with full-page writes: first changes have images. Those during base backups have them
    /// under any setting.
    pub(crate) const fn writes_images(&self) -> bool {
        self.missing <= self.first.images
    }

    /// First changes with an image and others without it, outside base backups: written under more than one guard.
    pub(crate) const fn is_mixed(&self) -> bool {
        self.missing > 0 && self.first.images > 0
    }

    /// How sure it is which images a guard writes.
    const fn certainty(&self) -> Certainty {
        match () {
            () if self.maybe_always > 0 || self.is_mixed() => Certainty::Estimate,
            () if self.not_replayed > 0 => Certainty::AtLeast,
            () => Certainty::Exact,
        }
    }

    /// Guards beside each other. `dirtied`: blocks that were changed, each once in an interval. `images_for_hints_always`:
    /// images for hint bits do not depend on the guard; so it was up to major 14.
    pub(crate) fn protection(
        &self,
        actual: &Tally,
        dirtied: u64,
        block_size: u32,
        images_for_hints_always: bool,
    ) -> Protection {
        let Self { first, in_backup, hints, hints_in_backup, .. } = *self;
        let is_full = self.writes_images();
        let wal_bytes = actual.combined_bytes();
        let hints_off = if images_for_hints_always {
            ImageSum::default()
        } else {
            ImageSum {
                images: hints.images.saturating_sub(hints_in_backup.images),
                image_bytes: hints.image_bytes.saturating_sub(hints_in_backup.image_bytes),
            }
        };
        let saved = |hints: ImageSum, records: i64| {
            // The record of a hint stays; its image goes, header and all.
            let headers = hints.images.saturating_mul(IMAGE_HEADER_BYTES);
            i64::try_from(hints.image_bytes.saturating_add(headers)).unwrap_or(i64::MAX).saturating_add(records)
        };
        let column = |guard: Guard| {
            let unchanged = GuardColumn {
                guard,
                is_actual: is_full == (guard == Guard::FullPageWrites),
                images: actual.fpi_count,
                image_bytes: actual.fpi_bytes,
                wal_bytes,
                buffer_pages: (guard == Guard::DoubleWrite).then_some(dirtied),
                certainty: Certainty::Exact,
                wal_certainty: Certainty::Exact,
            };
            let less = |gone: [ImageSum; 2], saved: i64| GuardColumn {
                images: gone.iter().fold(unchanged.images, |sum, gone| sum.saturating_sub(gone.images)),
                image_bytes: gone.iter().fold(unchanged.image_bytes, |sum, gone| sum.saturating_sub(gone.image_bytes)),
                wal_bytes: wal_bytes.saturating_add_signed(saved.saturating_neg()),
                certainty: self.certainty(),
                wal_certainty: Certainty::Estimate,
                ..unchanged
            };
            match guard {
                _ if unchanged.is_actual => unchanged,
                Guard::FullPageWrites => {
                    let bytes = self.missing.saturating_mul(u64::from(block_size));
                    let headers = self.missing.saturating_mul(IMAGE_HEADER_BYTES);
                    GuardColumn {
                        images: unchanged.images.saturating_add(self.missing),
                        image_bytes: unchanged.image_bytes.saturating_add(bytes),
                        wal_bytes: wal_bytes.saturating_add(bytes).saturating_add(headers),
                        certainty: Certainty::Estimate,
                        wal_certainty: Certainty::Estimate,
                        ..unchanged
                    }
                }
                // A base backup switches images on.
                Guard::DoubleWrite | Guard::Off => less([first, hints_off], saved(hints_off, self.saved_first)),
            }
        };
        Protection {
            columns: Guard::ALL.into_iter().map(column).collect(),
            always: self.always,
            in_backup,
            missing: self.missing,
        }
    }
}
