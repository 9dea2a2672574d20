//! Images along a stretch of WAL, by time and by records, in bounded memory.
//! Also here: some WAL in a few figures.

use super::interval::Interval;
use super::since_redo::SinceRedo;
use super::tally::Tally;
use crate::parsers::wal::payload::PgTimestamp;
use crate::types::Lsn;

/// Most points by time: a second each over a quarter of an hour.
const MAX_TIME_POINTS: usize = 1024;

const MAX_RECORD_POINTS: usize = 256;

/// The finest steps of time, an eighth of a second: those of 8 and more are whole seconds.
const FINEST_US: i64 = 125_000;

/// Counts by the time at which records were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeCurve {
    /// Step of time: that of the beginning, doubled as often as needed.
    width_us: i64,
    max_points: usize,
    /// Before any time was told.
    unknown: Tally,
    points: Vec<(i64, Tally)>,
}

impl Default for TimeCurve {
    fn default() -> Self {
        Self { width_us: FINEST_US, max_points: MAX_TIME_POINTS, unknown: Tally::default(), points: Vec::new() }
    }
}

impl TimeCurve {
    /// One whose steps are as long as this, at least a microsecond, however many there are.
    pub(crate) fn of_width(width_us: i64) -> Self {
        Self { width_us: width_us.max(1), max_points: usize::MAX, ..Self::default() }
    }

    /// Counts `tally` at `time`, which is not before that of anything counted so far.
    pub fn add(&mut self, time: Option<PgTimestamp>, tally: &Tally) {
        match time {
            _ if tally.records == 0 => {}
            Some(time) => self.add_step(self.step_of(time), tally),
            None => self.unknown.add(tally),
        }
    }

    /// Adds the stretch that follows, which was read by itself, when it was `entering` at its start.
    pub fn append(&mut self, next: &Self, entering: Option<PgTimestamp>) {
        while self.width_us < next.width_us {
            self.coarsen();
        }
        self.add(entering, &next.unknown);
        for (step, tally) in &next.points {
            // The time itself is not kept: the start of its step is in the same step here, which is as wide or wider. Both
            // numbers are of steps as wide as they are now: each one that is added can make them wider.
            let own = step.saturating_mul(next.width_us).div_euclid(self.width_us.max(1));
            let first = entering.map_or(i64::MIN, |time| self.step_of(time));
            self.add_step(own.max(first), tally);
        }
    }

    /// Takes the times for unknown, all of them.
    pub(crate) fn forget_times(&mut self) {
        for (_, tally) in std::mem::take(&mut self.points) {
            self.unknown.add(&tally);
        }
    }

    /// The length of a step, in microseconds: how exact its times are.
    pub(crate) const fn width_us(&self) -> i64 {
        self.width_us
    }

    /// What was counted before any time was told.
    pub const fn unknown(&self) -> &Tally {
        &self.unknown
    }

    /// Start of each step and what was counted in it, ascending; steps without records are left out.
    pub fn steps(&self) -> impl Iterator<Item = (PgTimestamp, &Tally)> {
        self.points.iter().map(|(step, tally)| (PgTimestamp(step.saturating_mul(self.width_us)), tally))
    }

    /// The window of `window_us`, or as many whole steps, with the most bytes. Windows do not overlap, and begin with
    /// whole ones since 2000.
    pub(crate) fn peak(&self, window_us: i64) -> Option<Peak> {
        // Whole steps.
        let steps = window_us.max(1).saturating_add(self.width_us.saturating_sub(1)).div_euclid(self.width_us.max(1));
        let window_us = steps.max(1).saturating_mul(self.width_us);
        let mut best: Option<Peak> = None;
        let mut current: Option<Peak> = None;
        for (time, tally) in self.steps() {
            let start = PgTimestamp(time.0.div_euclid(window_us).saturating_mul(window_us));
            match current.as_mut().filter(|peak| peak.start == start) {
                Some(peak) => peak.tally.add(tally),
                None => {
                    current = Some(Peak { start, window_us, tally: *tally });
                }
            }
            if current.is_some_and(|peak| best.is_none_or(|best| peak.bytes() > best.bytes())) {
                best = current;
            }
        }
        best
    }

    /// Bytes in memory, about.
    pub(crate) fn approximate_bytes(&self) -> u64 {
        (self.points.capacity() as u64).saturating_mul(size_of::<(i64, Tally)>() as u64)
    }

    /// The number of the step in which a time lies.
    pub(crate) const fn step_of(&self, time: PgTimestamp) -> i64 {
        match time.0.checked_div_euclid(self.width_us) {
            Some(step) => step,
            None => 0,
        }
    }

    fn add_step(&mut self, step: i64, tally: &Tally) {
        match self.points.last_mut() {
            Some((last, sum)) if *last >= step => sum.add(tally),
            _ => self.points.push((step, *tally)),
        }
        while self.points.len() > self.max_points {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.width_us = self.width_us.saturating_mul(2);
        let points = std::mem::take(&mut self.points);
        for (step, tally) in points {
            let step = step.div_euclid(2);
            match self.points.last_mut() {
                Some((last, sum)) if *last == step => sum.add(&tally),
                _ => self.points.push((step, tally)),
            }
        }
    }
}

/// A window of time with many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// When it begins.
    pub start: PgTimestamp,
    /// Its length, in microseconds.
    pub window_us: i64,
    pub tally: Tally,
}

impl Peak {
    /// Bytes of WAL in it; of the records alone where only some relations are counted.
    pub fn bytes(&self) -> u64 {
        self.tally.span_bytes.max(self.tally.combined_bytes())
    }

    /// The same per second.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        self.bytes() as f64 / (self.window_us.max(1) as f64 / 1e6)
    }
}

/// Counts by how many records came before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordCurve {
    per_point: u64,
    points: Vec<Tally>,
}

impl Default for RecordCurve {
    fn default() -> Self {
        Self { per_point: 1, points: Vec::new() }
    }
}

impl RecordCurve {
    pub(crate) const fn per_point(&self) -> u64 {
        self.per_point
    }

    pub fn add(&mut self, tally: &Tally) {
        if tally.records == 0 {
            return;
        }
        self.push(tally);
        while self.points.len() > MAX_RECORD_POINTS {
            self.coarsen(self.per_point.saturating_mul(2));
        }
    }

    pub fn append(&mut self, next: &Self) {
        if next.per_point > self.per_point {
            self.coarsen(next.per_point);
        }
        next.points.iter().for_each(|tally| self.add(tally));
    }

    /// What was counted in `parts` parts of as many records.
    pub fn parts(&self, parts: usize) -> Vec<Tally> {
        let mut sums = vec![Tally::default(); parts];
        let all: u64 = self.points.iter().map(|tally| tally.records).sum();
        let mut before = 0_u64;
        for tally in &self.points {
            add_to_part(&mut sums, before, all, tally);
            before = before.saturating_add(tally.records);
        }
        sums
    }

    fn push(&mut self, tally: &Tally) {
        match self.points.last_mut() {
            Some(last) if last.records.saturating_add(tally.records) <= self.per_point => last.add(tally),
            _ => self.points.push(*tally),
        }
    }

    fn coarsen(&mut self, per_point: u64) {
        self.per_point = per_point;
        let points = std::mem::take(&mut self.points);
        points.iter().for_each(|tally| self.push(tally));
    }
}

/// Adds `tally` to the part in which `at` of `whole` lies.
pub(crate) fn add_to_part(sums: &mut [Tally], at: u64, whole: u64, tally: &Tally) {
    let parts = sums.len() as u128;
    let part = u128::from(at).saturating_mul(parts).checked_div(u128::from(whole)).unwrap_or_default();
    let part = part.min(parts.saturating_sub(1));
    if let Some(sum) = usize::try_from(part).ok().and_then(|part| sums.get_mut(part)) {
        sum.add(tally);
    }
}

/// Share of images in each; `None` where there are no records.
pub(crate) fn shares_of(sums: &[Tally]) -> Vec<Option<f64>> {
    sums.iter().map(|sum| (sum.records > 0).then(|| sum.fpi_share())).collect()
}

/// A peak lasts so long at most, and a sixtieth of the whole at most, in microseconds.
const PEAK_US: i64 = 60_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Overview {
    pub total: Tally,
    /// Bytes of WAL that it lies in, page headers and padding included.
    pub wal_bytes: u64,
    pub range: Option<(Lsn, Lsn)>,
    /// The first and the last time that records tell, to the step of time that is kept.
    pub times: Option<(PgTimestamp, PgTimestamp)>,
    pub peak: Option<Peak>,
    /// Bytes of WAL per second, over the time that records tell.
    pub bytes_per_s: Option<f64>,
    /// Redo points that lie in it, those of checkpoints that did not finish included: as many as are replayed.
    pub checkpoints: u64,
    /// Images by how long after the redo point they were written.
    pub since_redo: SinceRedo,
}

impl Overview {
    pub fn new(
        total: Tally,
        wal_bytes: u64,
        range: Option<(Lsn, Lsn)>,
        intervals: &[Interval],
        times: &TimeCurve,
        since_redo: SinceRedo,
    ) -> Self {
        let mut steps = times.steps().map(|(time, _)| time);
        let first = steps.next();
        let bounds = first.map(|first| (first, steps.last().unwrap_or(first)));
        let lasts_us = bounds.map_or(0, |(first, last)| last.us_since(first));
        let is_inside = |interval: &&Interval| {
            interval.redo_lsn.is_some_and(|redo_lsn| redo_lsn >= interval.start_lsn) || interval.hidden.is_some()
        };
        // A step is as long as it is wide: the last one lasts, too.
        let known: u64 = times.steps().map(|(_, tally)| tally.span_bytes.max(tally.combined_bytes())).sum();
        let seconds = lasts_us.saturating_add(times.width_us()) as f64 / 1e6;
        Self {
            bytes_per_s: (lasts_us > 0).then(|| known as f64 / seconds),
            total,
            wal_bytes,
            range,
            times: bounds,
            peak: times.peak((lasts_us / 60).clamp(times.width_us(), PEAK_US.max(times.width_us()))),
            checkpoints: u64::try_from(intervals.iter().filter(is_inside).count()).unwrap_or(u64::MAX),
            since_redo,
        }
    }

    /// Seconds from the first to the last time; `None` where they are not known or the same.
    pub fn seconds(&self) -> Option<f64> {
        let (first, last) = self.times?;
        let us = last.us_since(first);
        (us > 0).then(|| us as f64 / 1e6)
    }

    /// The most bytes per second of any stretch of time; the mean where no whole stretch has more.
    pub fn peak_bytes_per_s(&self) -> Option<f64> {
        Some(self.peak?.bytes_per_s().max(self.bytes_per_s?))
    }

    /// A part of the WAL in bytes per second.
    pub fn per_second(&self, bytes: f64) -> Option<f64> {
        self.bytes_per_s.filter(|_| self.wal_bytes > 0).map(|all| bytes / self.wal_bytes as f64 * all)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(records: u64, record_bytes: u64, fpi_bytes: u64) -> Tally {
        Tally { records, record_bytes, fpi_bytes, fpi_count: 1, fpi_raw_bytes: 8192, span_bytes: 0 }
    }

    fn at(ms: i64) -> Option<PgTimestamp> {
        Some(PgTimestamp(ms * 1000))
    }

    #[test]
    fn long_curves_get_coarser_and_lose_nothing() {
        let (mut times, mut records) = (TimeCurve::default(), RecordCurve::default());
        for second in 0..10_000 {
            times.add(at(second * 1000), &tally(3, 2, 1));
            records.add(&tally(3, 2, 1));
        }
        let points: Vec<_> = times.steps().collect();
        assert!(points.len() <= MAX_TIME_POINTS && times.width_us() == 16_000_000, "{}", times.width_us());
        assert_eq!(points.iter().map(|(_, tally)| tally.records).sum::<u64>(), 30_000);
        assert!(points.windows(2).all(|pair| pair[1].0.0 - pair[0].0.0 == 16_000_000));
        assert!(records.points.len() <= MAX_RECORD_POINTS);
        assert_eq!(records.points.iter().map(|tally| tally.records).sum::<u64>(), 30_000);
    }

    /// However many parts are put together, the first ones are as fine as the last ones.
    #[test]
    fn many_parts_are_shown_as_evenly_as_one() {
        let mut whole = RecordCurve::default();
        for part in 0..400 {
            let mut next = RecordCurve::default();
            // The first half has images only, the second half none.
            for _ in 0..512 {
                next.add(&if part < 200 {
                    tally(1, 0, 10)
                } else {
                    Tally { records: 1, record_bytes: 10, ..Tally::default() }
                });
            }
            whole.append(&next);
        }
        let shares = shares_of(&whole.parts(8));
        assert_eq!(shares, [[Some(1.0); 4], [Some(0.0); 4]].concat());
    }

    #[test]
    fn parts_read_apart_give_the_same_steps_as_in_one() {
        let told = [(100, 1), (220, 2), (900, 3), (5_000, 4), (90_000, 5)];
        let mut whole = TimeCurve::default();
        told.iter().for_each(|(ms, records)| whole.add(at(*ms), &tally(*records, 1, 1)));
        for cut in 1..told.len() {
            let (mut first, mut second) = (TimeCurve::default(), TimeCurve::default());
            told[..cut].iter().for_each(|(ms, records)| first.add(at(*ms), &tally(*records, 1, 1)));
            told[cut..].iter().for_each(|(ms, records)| second.add(at(*ms), &tally(*records, 1, 1)));
            first.append(&second, at(told[cut - 1].0));
            assert_eq!(first, whole, "{cut}");
        }
        // What tells no time yet belongs to the time before; an earlier time does, too.
        let (mut first, mut second) = (TimeCurve::default(), TimeCurve::default());
        first.add(at(10_000), &tally(1, 1, 1));
        second.add(None, &tally(2, 1, 1));
        second.add(at(4_000), &tally(4, 1, 1));
        first.append(&second, at(10_000));
        assert_eq!(first.steps().map(|(time, tally)| (time.0, tally.records)).collect::<Vec<_>>(), [(10_000_000, 7)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Parts of any lengths, put together in any grouping, give the curve of the whole; its steps lie inside the times told.
        #[test]
        fn any_grouping_gives_one_curve_inside_the_times_of_its_input(
            start_us in 500_000_000_000_000..900_000_000_000_000_i64,
            gaps in prop::collection::vec(prop_oneof![8 => 0..400_000_i64, 1 => 0..90_000_000_i64], 1..4000),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..12),
        ) {
            let times: Vec<PgTimestamp> = gaps
                .iter()
                .scan(start_us, |now, gap| {
                    *now += gap;
                    Some(PgTimestamp(*now))
                })
                .collect();
            let of = |times: &[PgTimestamp]| {
                let mut curve = TimeCurve::default();
                times.iter().for_each(|time| curve.add(Some(*time), &tally(1, 2, 3)));
                curve
            };
            let whole = of(&times);
            let mut cuts: Vec<(usize, bool)> = cuts.iter().map(|(at, joins)| (at.index(times.len()), *joins)).collect();
            cuts.sort_unstable();
            cuts.push((times.len(), false));
            // Each part, with the time at its start; some are joined to the part before them first.
            let (mut parts, mut from): (Vec<(TimeCurve, Option<PgTimestamp>)>, usize) = (Vec::new(), 0);
            for (to, joins) in cuts {
                let entering = from.checked_sub(1).map(|before| times[before]);
                let part = of(&times[from..to]);
                match parts.last_mut().filter(|_| joins) {
                    Some((before, _)) => before.append(&part, entering),
                    None => parts.push((part, entering)),
                }
                from = to;
            }
            let mut joined = TimeCurve::default();
            parts.iter().for_each(|(part, entering)| joined.append(part, *entering));
            prop_assert_eq!(&joined, &whole);
            let (first, last) = (times[0].0, times[times.len() - 1].0);
            prop_assert!(joined.steps().all(|(step, _)| step.0 > first - joined.width_us() && step.0 <= last));
            prop_assert_eq!(joined.steps().map(|(_, tally)| tally.records).sum::<u64>(), times.len() as u64);
        }
    }

    #[test]
    fn peak_is_the_window_with_most_bytes() {
        let mut curve = TimeCurve::default();
        for (second, bytes) in [(0, 10), (59, 10), (60, 15), (61, 15), (130, 25)] {
            curve.add(at(second * 1000), &tally(1, bytes, 0));
        }
        let peak = curve.peak(60_000_000).unwrap();
        assert_eq!((peak.start, peak.bytes()), (PgTimestamp(60_000_000), 30));
        assert_eq!(TimeCurve::default().peak(1), None);
    }
}
