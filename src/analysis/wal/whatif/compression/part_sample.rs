//! The images of a part of some WAL that were compressed again, in a form to which those of the other parts can be added.
//!
//! The images of a sample are those with the lowest numbers, so those of all parts together are among those of each part.

use super::{
    CompressionSampler, CompressionWhatIf, Found, MAX_SAMPLE, Numbered, SampleLimits, SampleSize, Sizes, Written,
};
use crate::analysis::wal::unreadable::UnreadableImage;
use crate::parsers::portable::{BadState, Portable, StateReader, Wrong, portable};

/// What was found in a part. Images that are kept to measure how long compression takes are left out.
#[derive(Debug)]
pub struct PartSample {
    size: SampleSize,
    found: Found,
}

portable!(Sizes { images, raw, stored, headers });
portable!(Written { tally, raw, headers });

impl Portable for SampleSize {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::All => None,
            Self::UpTo(number) => Some(number as u64),
        }
        .put(out);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let at = *from;
        let Some(number) = Option::<u64>::get(from)? else { return Ok(Self::All) };
        let number = usize::try_from(number).ok().filter(|number| (1..=MAX_SAMPLE).contains(number));
        number.map(Self::UpTo).ok_or_else(|| at.wrong(Wrong::LargeNumber))
    }
}

impl Portable for PartSample {
    fn put(&self, out: &mut Vec<u8>) {
        let Found { written, all, unreadable, sample, .. } = &self.found;
        self.size.put(out);
        (*written, *all).put(out);
        unreadable.put(out);
        // By their bytes where two have one number, so that the same sample is always the same bytes.
        let bytes_of = |item: &Result<Sizes, Box<UnreadableImage>>| {
            let mut bytes = Vec::new();
            item.as_ref().ok().copied().put(&mut bytes);
            item.as_ref().err().into_iter().for_each(|image| image.put(&mut bytes));
            bytes
        };
        let mut items: Vec<(u64, Vec<u8>)> =
            sample.items.iter().map(|Numbered { number, item }| (*number, bytes_of(item))).collect();
        items.sort_unstable();
        (items.len() as u64).put(out);
        for (number, bytes) in items {
            number.put(out);
            out.extend(bytes);
        }
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let size = SampleSize::get(from)?;
        let mut found = Found::new(size);
        (found.written, found.all) = Portable::get(from)?;
        found.unreadable = Portable::get(from)?;
        for _ in 0..u64::get(from)? {
            let number = u64::get(from)?;
            let item = match Option::<Sizes>::get(from)? {
                Some(sizes) => Ok(sizes),
                None => Err(Box::new(UnreadableImage::get(from)?)),
            };
            found.sample.push(Numbered { number, item });
        }
        Ok(Self { size, found })
    }
}

impl PartSample {
    /// How many images were to be compressed again.
    #[must_use]
    pub const fn size(&self) -> SampleSize {
        self.size
    }

    /// Adds what was found in the next part, with as many images of a sample.
    pub fn append(&mut self, next: Self) {
        self.found.append(next.found);
    }

    /// What all settings make of the images.
    #[must_use]
    pub fn finish(self) -> CompressionWhatIf {
        // Nothing is read with these limits any more.
        CompressionSampler { limits: &SampleLimits::new(self.size, 0), found: self.found }.finish()
    }
}

impl CompressionSampler<'_> {
    /// What was found, to be added to other parts.
    #[must_use]
    pub fn into_part(self) -> PartSample {
        PartSample { size: self.limits.size, found: self.found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(part: &PartSample) -> Vec<u8> {
        let mut bytes = Vec::new();
        part.put(&mut bytes);
        bytes
    }

    #[test]
    fn images_with_one_number_are_written_in_one_order() {
        let part_of = |order: [u64; 3]| {
            let size = SampleSize::UpTo(8);
            let mut found = Found::new(size);
            for raw in order {
                found.sample.push(Numbered { number: 7, item: Ok(Sizes { raw, ..Sizes::default() }) });
            }
            PartSample { size, found }
        };
        let written = bytes_of(&part_of([1, 2, 3]));
        assert_eq!(bytes_of(&part_of([3, 2, 1])), written);
        let read = PartSample::get(&mut StateReader::new(&written)).unwrap();
        assert_eq!(bytes_of(&read), written);
    }
}
