//! Any text as a timeline history: ancestors are older than the timeline and come in order, every byte of WAL belongs to one
//! of them, and an error names a line that is there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::wal::timeline::TimelineHistory;
use pgforensics::types::{Lsn, TimelineId};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for tli in [TimelineId(2), TimelineId(u32::MAX)] {
        match TimelineHistory::parse(tli, &text) {
            Ok(history) => {
                assert!(history.ancestors.windows(2).all(|pair| pair[0].tli < pair[1].tli));
                assert!(history.ancestors.iter().all(|ancestor| ancestor.tli < tli));
                let timelines = history.timelines();
                for lsn in history.ancestors.iter().map(|ancestor| ancestor.switch_lsn).chain([Lsn(0), Lsn(u64::MAX)]) {
                    assert!(timelines.contains(&history.tli_at(lsn)));
                }
                for size in [1 << 20, 1 << 24, 1 << 30] {
                    let _ = history.candidates(7, size).len();
                }
            }
            Err(error) => assert!(error.line >= 1 && error.line <= text.lines().count()),
        }
    }
});
