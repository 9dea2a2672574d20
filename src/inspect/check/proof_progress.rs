//! How far the proofs of a check are.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Stage, Watch};
use crate::cluster::wal::WalSet;

/// Bytes of all segments.
pub(super) fn wal_bytes(set: &WalSet) -> u64 {
    set.segments().len() as u64 * u64::from(set.geometry().wal_segment_size)
}

/// Progress and interruption of the proofs.
pub(super) struct ProofProgress<'a> {
    stage: Stage,
    watch: &'a dyn Watch,
    total: u64,
    done: AtomicU64,
    broken_off: AtomicBool,
}

impl<'a> ProofProgress<'a> {
    pub(super) fn new(stage: Stage, watch: &'a dyn Watch, total: u64) -> Self {
        Self { stage, watch, total, done: AtomicU64::new(0), broken_off: AtomicBool::new(false) }
    }

    /// So many bytes of WAL more were read.
    pub(super) fn read(&self, bytes: u64) -> ControlFlow<()> {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let flow = self.watch.at(self.stage, done.min(self.total), self.total);
        self.broken_off.fetch_or(flow.is_break(), Ordering::Relaxed);
        flow
    }

    /// WAL is read again, or a server runs.
    pub(super) fn wait(&self) -> ControlFlow<()> {
        self.read(0)
    }

    pub(super) fn is_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Relaxed)
    }
}
