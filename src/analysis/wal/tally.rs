//! Counts over records and images.

use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Sums over some records. All but `records` and `fpi_count` are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// Bytes of the records without their images (`pg_waldump --stats`: record size).
    pub record_bytes: u64,
    /// Images, whether redo applies them or not.
    pub fpi_count: u64,
    /// Bytes of the images as stored (`pg_waldump --stats`: FPI size).
    pub fpi_bytes: u64,
    /// Bytes of the pages that the images hold: before hole removal and compression.
    pub fpi_raw_bytes: u64,
}

impl Tally {
    /// Bytes of the records with their images.
    #[must_use]
    pub const fn combined_bytes(&self) -> u64 {
        self.record_bytes.saturating_add(self.fpi_bytes)
    }

    /// Part of the combined bytes that is images, 0 to 1; 0 when there are no bytes.
    #[must_use]
    pub fn fpi_share(&self) -> f64 {
        match self.combined_bytes() {
            0 => 0.0,
            bytes => self.fpi_bytes as f64 / bytes as f64,
        }
    }

    /// Counts one record with all its images.
    #[inline]
    pub fn add_record(&mut self, record: &Record<'_>) {
        let images = u64::from(record.layout.image_count);
        self.records = self.records.saturating_add(1);
        self.record_bytes = self.record_bytes.saturating_add(u64::from(record.length_without_images()));
        if images > 0 {
            self.fpi_count = self.fpi_count.saturating_add(images);
            self.fpi_bytes = self.fpi_bytes.saturating_add(u64::from(record.fpi_length()));
            self.fpi_raw_bytes = self.fpi_raw_bytes.saturating_add(images.saturating_mul(u64::from(record.block_size)));
        }
    }

    /// Counts one image of `stored` bytes that stands for a page of `raw` bytes.
    pub fn add_image(&mut self, stored: u16, raw: u32) {
        self.fpi_count = self.fpi_count.saturating_add(1);
        self.fpi_bytes = self.fpi_bytes.saturating_add(u64::from(stored));
        self.fpi_raw_bytes = self.fpi_raw_bytes.saturating_add(u64::from(raw));
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.records = self.records.saturating_add(other.records);
        self.record_bytes = self.record_bytes.saturating_add(other.record_bytes);
        self.fpi_count = self.fpi_count.saturating_add(other.fpi_count);
        self.fpi_bytes = self.fpi_bytes.saturating_add(other.fpi_bytes);
        self.fpi_raw_bytes = self.fpi_raw_bytes.saturating_add(other.fpi_raw_bytes);
    }
}

/// Most points that a decay curve keeps.
const MAX_POINTS: usize = 512;

/// How the share of images changes along a stretch of WAL: bytes and image bytes by LSN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decay {
    points: Vec<(Lsn, u64, u64)>,
}

impl Decay {
    /// Counts a record at its LSN; those closer than `grid_bytes`, a power of two, share a point.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>, grid_bytes: u64) {
        let lsn = Lsn(record.start_lsn.0 & !grid_bytes.saturating_sub(1));
        let (bytes, images) = (u64::from(record.header.tot_len), u64::from(record.fpi_length()));
        match self.points.last_mut() {
            Some((last, all, fpi)) if *last == lsn => {
                *all = all.saturating_add(bytes);
                *fpi = fpi.saturating_add(images);
            }
            _ => self.points.push((lsn, bytes, images)),
        }
    }

    /// Adds what follows this stretch.
    pub fn append(&mut self, next: &Self) {
        self.points.extend_from_slice(&next.points);
        while self.points.len() > MAX_POINTS {
            let merged = self.points.chunks(2).map(|pair| {
                let (all, fpi) = pair.iter().fold((0_u64, 0_u64), |(all, fpi), point| {
                    (all.saturating_add(point.1), fpi.saturating_add(point.2))
                });
                (pair[0].0, all, fpi)
            });
            self.points = merged.collect();
        }
    }

    /// Share of images in `buckets` equal parts of the stretch `start..end`; `None` where a part has no records.
    #[must_use]
    pub fn shares(&self, start: Lsn, end: Lsn, buckets: usize) -> Vec<Option<f64>> {
        let length = end.bytes_since(start).unwrap_or(0).max(1);
        let mut sums = vec![(0_u64, 0_u64); buckets];
        for (lsn, all, fpi) in &self.points {
            let offset = lsn.bytes_since(start).unwrap_or(0).min(length.saturating_sub(1));
            let bucket =
                u128::from(offset).saturating_mul(buckets as u128).checked_div(u128::from(length)).unwrap_or_default();
            if let Some(sum) = sums.get_mut(usize::try_from(bucket).unwrap_or(0)) {
                *sum = (sum.0.saturating_add(*all), sum.1.saturating_add(*fpi));
            }
        }
        sums.into_iter().map(|(all, fpi)| (all > 0).then(|| fpi as f64 / all as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_lsn() {
        let decay = Decay { points: vec![(Lsn(0), 100, 100), (Lsn(50), 100, 50), (Lsn(90), 100, 0)] };
        assert_eq!(decay.shares(Lsn(0), Lsn(100), 4), [Some(1.0), None, Some(0.5), Some(0.0)]);
    }

    #[test]
    fn long_curves_are_thinned_without_losing_bytes() {
        let mut decay = Decay::default();
        for index in 0..2000 {
            decay.append(&Decay { points: vec![(Lsn(index * 10), 3, 1)] });
        }
        assert!(decay.points.len() <= MAX_POINTS);
        assert_eq!(decay.points.iter().map(|point| point.1).sum::<u64>(), 6000);
    }
}
