//! Any bytes as the state of a partial result: what is read is written and read again as the same, logs of images included.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::analysis::wal::part_state::{PartBody, PartState};
use pgforensics::analysis::wal::whatif::collect::WhatIfReplay;
use pgforensics::analysis::wal::whatif::{Spacing, WhatIfPlan};
use pgforensics::parsers::wal::version::Major;
use pgforensics::types::Geometry;

fuzz_target!(|data: &[u8]| {
    let Ok(state) = PartState::of_bytes(data, 1 << 24) else { return };
    let bytes = state.to_bytes();
    let again = PartState::of_bytes(&bytes, 1 << 24).expect("what was written can be read");
    assert_eq!(again.to_bytes(), bytes);
    if let PartBody::Touches(runs) = &state.body {
        let settings = WhatIfPlan {
            spacings: vec![Spacing::Every(2), Spacing::Both { bytes: 32 << 20, seconds: 60 }],
            completion_target: None,
        };
        let geometry =
            Geometry { block_size: 8192, rel_segment_blocks: 1 << 17, wal_block_size: 8192, wal_segment_size: 1 << 24 };
        for major in [Major::OLDEST, Major::NEWEST] {
            let mut replay = WhatIfReplay::new(&settings, geometry, Some(major));
            for run in runs {
                if run.replay(&mut replay).is_err() {
                    return;
                }
                replay.end_run(run.end_lsn());
            }
            drop(replay.finish());
        }
    }
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
