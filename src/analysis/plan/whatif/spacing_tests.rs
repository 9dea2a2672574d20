use super::*;
use crate::analysis::plan::whatif::{NoKnee, knee};

const MIB: u64 = 1 << 20;

const fn server(segment_mb: u32, completion_target: f64, keeps_two_checkpoints: bool) -> Server {
    Server { segment_size: segment_mb << 20, completion_target, keeps_two_checkpoints }
}

/// `CheckPointSegments` of the server, worked out by hand: from 11 on max_wal_size / (1 + target), in 10 / (2 + target), rounded down.
#[test]
fn max_wal_size_asks_for_a_checkpoint_after_the_segments_of_the_servers_formula() {
    for (mb, server, segments) in [
        (1024, server(16, 0.9, false), 33),
        (1024, server(16, 0.5, false), 42),
        (1024, server(16, 0.5, true), 25),
        (1024, server(64, 0.9, false), 8),
        (1024, server(1, 0.9, false), 538),
        // Never less than one.
        (64, server(64, 0.9, false), 1),
        (32, server(16, 0.9, true), 1),
    ] {
        assert_eq!(server.checkpoint_segments(mb * MIB), segments, "{mb} {server:?}");
    }
}

fn replay(spacings: &[Spacing]) -> SpacingReplay {
    let mut replay = SpacingReplay::new(spacings, server(16, 0.9, false), false);
    replay.begin(Lsn(16 * MIB), Some(0));
    replay
}

fn checkpoints(replay: &SpacingReplay) -> Vec<u64> {
    let open = OpenImages::default();
    // All begin at one.
    replay.rows(&Tally::default(), None, open).iter().map(|row| row.outcome.checkpoints - 1).collect()
}

/// A segment number that lies so many segments after that of the redo point (`XLogCheckpointNeeded`): where in its segment the
/// redo point lies does not matter.
#[test]
fn distance_counts_segments_begun_since_the_one_of_the_redo_point() {
    let (four, five) = (Spacing::MaxWalSize { bytes: 128 * MIB }, Spacing::MaxWalSize { bytes: 160 * MIB });
    // 128 / 1.9 / 16 = 4.2 and 160 / 1.9 / 16 = 5.3.
    let mut replay = replay(&[four, five]);
    replay.pass(Lsn(16 * 5 * MIB - 8), None);
    assert_eq!(checkpoints(&replay), [0, 0]);
    replay.pass(Lsn(16 * 5 * MIB), None);
    assert_eq!(checkpoints(&replay), [1, 0]);
    replay.pass(Lsn(16 * 6 * MIB + 100 * 8), None);
    assert_eq!(checkpoints(&replay), [1, 1]);
    // The next is due in segment 9 of the one and 11 of the other.
    replay.pass(Lsn(16 * 9 * MIB - 8), None);
    assert_eq!(checkpoints(&replay), [1, 1]);
    replay.pass(Lsn(16 * 9 * MIB), None);
    assert_eq!(checkpoints(&replay), [2, 1]);
    replay.pass(Lsn(16 * 11 * MIB), None);
    assert_eq!(checkpoints(&replay), [2, 2]);
}

#[test]
fn images_that_are_spared_put_the_next_checkpoint_off() {
    let mut replay = replay(&[Spacing::MaxWalSize { bytes: 128 * MIB }]);
    // 17 MiB of images of pages that were changed since the redo point.
    for number in 0..17 * 128 {
        let at = Lsn(32 * MIB + number * 8192);
        let image = OrdinaryImage {
            lsn: at,
            before: Some(Lsn(16 * MIB + 8)),
            maybe_later: false,
            bytes: 8192,
            wal_bytes: 8192,
        };
        replay.image(&image, Lsn(24 * MIB));
    }
    replay.pass(Lsn(16 * 5 * MIB + 15 * MIB), None);
    assert_eq!(checkpoints(&replay), [0], "80 + 15 - 17 MiB are in segment 4");
    replay.pass(Lsn(16 * 5 * MIB + 17 * MIB), None);
    assert_eq!(checkpoints(&replay), [1]);
}

#[test]
fn timeout_counts_from_the_last_redo_point_and_both_settings_from_whichever_came() {
    let (time, size) = (Spacing::Timeout { seconds: 30 }, Spacing::MaxWalSize { bytes: 128 * MIB });
    let mut replay = replay(&[time, Spacing::Both { bytes: 128 * MIB, seconds: 30 }, size]);
    let second = 1_000_000;
    let at = |mb: u64| Lsn(mb * MIB);
    replay.tick(at(20), 30 * second - 1);
    assert_eq!(checkpoints(&replay), [0, 0, 0]);
    replay.tick(at(21), 30 * second);
    assert_eq!(checkpoints(&replay), [1, 1, 0]);
    // Without a record that tells the time nothing is due by it.
    replay.pass(at(79), None);
    assert_eq!(checkpoints(&replay), [1, 1, 0]);
    // Segment 5: four after that of the beginning, and of the second checkpoint.
    replay.pass(at(80), Some(40 * second));
    assert_eq!(checkpoints(&replay), [1, 2, 1]);
    // Thirty seconds after the first checkpoint by time; the other had one by size ten seconds after its first.
    replay.tick(at(81), 60 * second);
    assert_eq!(checkpoints(&replay), [2, 2, 1]);
    replay.tick(at(82), 70 * second);
    assert_eq!(checkpoints(&replay), [2, 3, 1]);
    // All have one at which everything stops, and count from there.
    replay.shutdown(at(83), Some(75 * second));
    replay.tick(at(84), 105 * second - 1);
    assert_eq!(checkpoints(&replay), [3, 4, 2]);
}

fn rows(points: &[(u64, u64, u64)]) -> Vec<SpacingRow> {
    let spacings: Vec<Spacing> = points.iter().map(|(mb, ..)| Spacing::MaxWalSize { bytes: mb * MIB }).collect();
    let mut rows = replay(&spacings).rows(&Tally::default(), None, OpenImages::default());
    for (row, (_, image_bytes, checkpoints)) in rows.iter_mut().zip(points) {
        (row.outcome.image_bytes, row.outcome.checkpoints) = (*image_bytes, *checkpoints);
        row.outcome.replay_bytes_max = (*checkpoints >= MIN_ASKED).then_some(1);
    }
    rows
}

#[test]
fn knee_lies_farthest_below_the_line_between_the_ends() {
    // By their logarithm 64 to 1024 are five equal steps; the line goes down by 200 a step.
    let bent = [(64, 1000, 50), (128, 500, 25), (256, 250, 12), (512, 210, 6), (1024, 200, 3)];
    assert_eq!(knee(&rows(&bent)), Ok(256 * MIB));
    // Farther below the line at 128 than at 256: 1000 to 200 in four steps is 800 and 600 there.
    let early = [(64, 1000, 50), (128, 300, 25), (256, 250, 12), (512, 210, 6), (1024, 200, 3)];
    assert_eq!(knee(&rows(&early)), Ok(128 * MIB));
    // Settings with too few checkpoints tell the same again: only the first of them is an end.
    let flat = [(64, 1000, 50), (128, 700, 25), (256, 300, 12), (512, 200, 0), (1024, 200, 0), (65536, 200, 0)];
    assert_eq!(knee(&rows(&flat)), Ok(256 * MIB));
}

#[test]
fn curve_that_does_not_bend_so_has_no_knee() {
    assert_eq!(knee(&rows(&[(64, 1000, 9), (128, 600, 5)])), Err(NoKnee::FewValues), "two points");
    assert_eq!(knee(&rows(&[(64, 1000, 9), (128, 800, 5), (256, 600, 2)])), Err(NoKnee::NoBend), "a straight line");
    assert_eq!(knee(&rows(&[(64, 1000, 9), (128, 950, 5), (256, 100, 2)])), Err(NoKnee::NoBend), "bent the other way");
    assert_eq!(
        knee(&rows(&[(64, 1000, 9), (128, 900, 5), (256, 1000, 2)])),
        Err(NoKnee::NoBend),
        "nothing is saved at the end"
    );
    let timeouts = [30, 60, 120].map(|seconds| Spacing::Timeout { seconds });
    assert_eq!(knee(&replay(&timeouts).rows(&Tally::default(), None, OpenImages::default())), Err(NoKnee::FewValues));
    // One value alone asks for checkpoints, the others wait for more WAL than there is.
    let short = [(64, 1000, 9), (128, 950, 1), (256, 900, 0), (512, 900, 0)];
    assert_eq!(knee(&rows(&short)), Err(NoKnee::FewCheckpoints));
}

/// 128 MiB ask for a checkpoint after four segments: what recovery reads is told from the second on, and a shutdown is not one that
/// the setting asked for.
#[test]
fn what_recovery_reads_is_unknown_with_too_few_checkpoints() {
    let mut replay = replay(&[Spacing::MaxWalSize { bytes: 128 * MIB }]);
    let reads = |replay: &SpacingReplay| {
        let rows = replay.rows(&Tally::default(), None, OpenImages::default());
        (rows[0].outcome.replay_bytes_max, rows[0].outcome.replay_unknown())
    };
    assert_eq!(reads(&replay), (None, Some("few_checkpoints")));
    replay.pass(Lsn(16 * 5 * MIB), None);
    replay.shutdown(Lsn(16 * 5 * MIB + 8), None);
    assert_eq!(reads(&replay), (None, Some("few_checkpoints")));
    replay.pass(Lsn(16 * 9 * MIB), None);
    // Four segments, and 0.9 of them until the next checkpoint is done.
    let most = ((4 * 16 * MIB) as f64 * 1.9) as u64;
    assert_eq!(reads(&replay), (Some(most), None));
}
