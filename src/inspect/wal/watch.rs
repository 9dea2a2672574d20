//! Progress of reading, and its interruption.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Told the bytes of WAL that are done and those in all, now and then and from all threads; breaks reading off.
pub(crate) type WatchWal<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Ignores progress and never interrupts.
///
/// # Errors
/// Never.
pub const fn unwatched(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A watch, with what it was told and what it answered.
pub(super) struct Watched<'a> {
    watch: WatchWal<'a>,
    total: u64,
    done: AtomicU64,
    interrupted: AtomicBool,
}

impl<'a> Watched<'a> {
    /// Nothing of `total` bytes is done.
    pub(super) const fn new(watch: WatchWal<'a>, total: u64) -> Self {
        Self { watch, total, done: AtomicU64::new(0), interrupted: AtomicBool::new(false) }
    }

    /// So many more bytes are done: whether to continue. Once interrupted, always interrupted.
    pub(super) fn advance(&self, bytes: u64) -> ControlFlow<()> {
        if self.is_interrupted() {
            return ControlFlow::Break(());
        }
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let flow = (self.watch)(done, self.total);
        if flow.is_break() {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        flow
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_add_up_until_it_is_broken_off_for_good() {
        let told = std::sync::Mutex::new(Vec::new());
        let watch = |done, total| {
            told.lock().unwrap().push((done, total));
            if done == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let watched = Watched::new(&watch, 9);
        assert!(watched.advance(2).is_continue() && !watched.is_interrupted());
        assert!(watched.advance(3).is_break() && watched.is_interrupted());
        assert!(watched.advance(1).is_break());
        assert_eq!(*told.lock().unwrap(), [(2, 9), (5, 9)]);
    }
}
