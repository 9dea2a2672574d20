//! Images that are due to a redo point that is not known: of pages that were changed after the one in force.
//!
//! Up to 16 a redo point is known only when its checkpoint is done, which explains most of these images. Those that are left
//! show one that no record names.

use crate::types::Lsn;

/// Such images, as far as they matter.
#[derive(Debug, Default)]
pub(super) struct UnexplainedImages {
    /// The last change before an image, and the image. Both ascend: an image of a page that was changed before that of an
    /// earlier image is explained by whatever explains that one.
    images: Vec<(Lsn, Lsn)>,
}

impl UnexplainedImages {
    /// Takes an image at `at` of a page that was changed at `before`.
    pub(super) fn push(&mut self, before: Lsn, at: Lsn) {
        if self.images.last().is_none_or(|(last, _)| before > *last) {
            self.images.push((before, at));
        }
    }

    /// The redo point after `known` is `next`, or nothing further is read. Gives those between, each where the first image
    /// shows it.
    pub(super) fn settle(&mut self, known: Option<Lsn>, next: Lsn) -> Vec<Lsn> {
        let mut hidden: Vec<Lsn> = Vec::new();
        for (before, at) in self.images.iter().filter(|(_, at)| *at < next) {
            if Some(*before) >= hidden.last().copied().or(known) {
                hidden.push(*at);
            }
        }
        self.images.retain(|(before, _)| *before >= next);
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(images: &[(u64, u64)], known: u64, next: u64) -> (Vec<u64>, usize) {
        let mut unexplained = UnexplainedImages::default();
        images.iter().for_each(|(before, at)| unexplained.push(Lsn(*before), Lsn(*at)));
        let hidden = unexplained.settle(Some(Lsn(known)), Lsn(next));
        (hidden.into_iter().map(|lsn| lsn.0).collect(), unexplained.images.len())
    }

    #[test]
    fn redo_point_that_is_named_explains_the_images_after_it() {
        let images = [(120, 210), (110, 220), (150, 230), (190, 300)];
        assert_eq!(hidden(&images, 100, 200), (vec![], 0));
        // It lies after the first of them: another one lies before.
        assert_eq!(hidden(&images, 100, 225), (vec![210], 0));
        // Nothing names any.
        assert_eq!(hidden(&images, 100, 1000), (vec![210], 0));
        assert_eq!(hidden(&[(120, 210), (210, 300), (250, 310)], 100, 1000), (vec![210, 300], 0));
        // What is shown after the one that is named waits for the next.
        assert_eq!(hidden(&[(120, 210), (230, 300)], 100, 205), (vec![], 1));
    }
}
