//! Any bytes as the state of a partial result: what is read is written and read again as the same, logs of images included.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::analysis::wal::part_state::{PartBody, PartState};
use pgforensics::parsers::wal::version::Major;

fuzz_target!(|data: &[u8]| {
    let Ok(state) = PartState::of_bytes(data, 1 << 24) else { return };
    let bytes = state.to_bytes();
    let again = PartState::of_bytes(&bytes, 1 << 24).expect("what was written can be read");
    assert_eq!(again.to_bytes(), bytes);
    let PartBody::Causes { runs, .. } = &state.body else { return };
    for (_, log) in runs.iter().flat_map(|run| &run.segments) {
        for major in Major::ALL {
            let shown = log.each(major, 8192, |record, old_lsns| {
                assert_eq!(old_lsns.len(), usize::from(record.layout.image_count));
                assert_eq!(record.block_heads().count(), usize::from(record.layout.block_count));
            });
            if shown.is_err() {
                break;
            }
        }
    }
});
