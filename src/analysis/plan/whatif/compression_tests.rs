use super::*;

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut lowest = Lowest::new(3);
    for number in numbers {
        lowest.push(Numbered { number, item: () });
    }
    lowest.items.into_sorted_vec().iter().map(|item| item.number).collect()
}

#[test]
fn lowest_numbers_are_kept_in_whatever_order_they_come() {
    assert_eq!(numbered([5, 1, 9, 2, 8]), [1, 2, 5]);
    assert_eq!(numbered([9, 8, 5, 2, 1]), [1, 2, 5]);
    assert_eq!(numbered([7]), [7]);
    assert_eq!(Lowest::<()>::new(0).limit(), 0);
}

#[test]
fn images_of_one_record_have_different_numbers() {
    let numbers: std::collections::BTreeSet<u64> =
        (0..1000).flat_map(|record| (0..33).map(move |block| number_of(Lsn(record * 8), block))).collect();
    assert_eq!(numbers.len(), 33_000);
    // About half of them are in the lower half.
    let low = numbers.iter().filter(|number| **number < u64::MAX / 2).count();
    assert!((16_000..17_000).contains(&low), "{low}");
}

/// A sampler that was given images of these sizes, before and after compression by every method.
fn sampler<'a>(limits: &'a SampleLimits, all: u64, taken: &[(u64, u64)]) -> CompressionSampler<'a> {
    let mut sampler = CompressionSampler::new(limits);
    let raw: u64 = taken.iter().map(|(raw, _)| raw).sum::<u64>() * all / taken.len() as u64;
    let tally = Tally {
        records: 1,
        record_bytes: 1000,
        fpi_count: all,
        fpi_bytes: raw,
        fpi_raw_bytes: 8192 * all,
        span_bytes: 0,
    };
    sampler.found.written = Written { tally, raw, headers: 0 };
    for (number, (raw, stored)) in (0..).zip(taken) {
        let sizes = Sizes { images: 1, raw: *raw, stored: [*stored; METHODS], headers: [2; METHODS] };
        sampler.found.sample.push(Numbered { number, item: Sampled::Measured(Ok(sizes)) });
    }
    sampler
}

/// Worked out by hand: ratio (100 + 300) / (1000 + 1000) = 0.2, residuals -100 and 100, variance 20000, mean 1000;
/// the error of the ratio is sqrt(0.5 * 20000 / 2) / 1000, times 4000 bytes.
#[test]
fn sample_is_carried_over_by_bytes_with_its_standard_error() {
    let limits = SampleLimits::new(SampleSize::default(), 8192, 1);
    let rows = sampler(&limits, 4, &[(1000, 100), (1000, 300)]).finish(1).rows;
    let pglz = rows[2];
    assert_eq!(pglz.setting, Setting::On(Compression::Pglz));
    assert_eq!((pglz.bytes_before, pglz.bytes_after), (4000, 800));
    assert_eq!(pglz.standard_error, Some((f64::sqrt(0.5 * 20_000.0 / 2.0) * 4.0).round() as u64));
    assert_eq!(pglz.certainty, Certainty::Sample { taken: 2, of: 4 });
    // Headers of four images grow by 2 bytes each.
    assert_eq!(pglz.wal_bytes, 1000 + 800 + 8);
    let off = rows[1];
    assert_eq!(
        (off.setting, off.bytes_after, off.wal_bytes, off.certainty),
        (Setting::Off, 4000, 5000, Certainty::Exact)
    );
}

#[test]
fn all_images_are_exact_with_pglz_alone() {
    let limits = SampleLimits::new(SampleSize::default(), 8192, 1);
    let rows = sampler(&limits, 2, &[(1000, 100), (3000, 300)]).finish(1).rows;
    let sure: Vec<_> = rows.iter().map(|row| (row.setting.code(), row.certainty, row.standard_error)).collect();
    let expected = [
        ("as_written", Certainty::Exact),
        ("off", Certainty::Exact),
        ("pglz", Certainty::Exact),
        ("lz4", Certainty::Estimate),
        ("zstd", Certainty::Estimate),
    ];
    assert_eq!(sure, expected.map(|(code, certainty)| (code, certainty, None)));
    assert_eq!(rows[2].ratio(), Some(10.0));
}
