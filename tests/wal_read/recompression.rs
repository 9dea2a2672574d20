//! Images of real servers, compressed again: what another setting of `wal_compression` would have stored.

use std::path::Path;

use crate::common::wal::{Fixture, expected_records, expected_totals, read_all};
use pgforensics::analysis::plan::whatif::compression::{CompressionRow, CompressionWhatIf, SampleSize, Setting};
use pgforensics::analysis::wal::tally::Certainty;
use pgforensics::inspect::wal::request::{WalRequest, unwatched};
use pgforensics::inspect::wal::source::WalSource;
use pgforensics::parsers::image::{Compression, ImageDecoder, ImageEncoder};
use pgforensics::parsers::pglz::PglzCompressor;
use pgforensics::report::Severity;

/// Every image that a server compressed with pglz, of ten majors, comes out with the same bytes. How many there are is what
/// pg_waldump says in `expected/records.txt`.
#[test]
fn pglz_images_of_all_majors_come_out_byte_for_byte() {
    let (mut decoder, mut compressor) = (ImageDecoder::new(), PglzCompressor::new());
    let (mut page, mut output) = (vec![0; 8192], Vec::new());
    for major in 10..=19 {
        let fixture = Fixture::load(major);
        let mut images = 0;
        read_all(&fixture, 1 << 20, |record| {
            for image in record.blocks().filter_map(|block| block.image) {
                if image.compression() != Some(Compression::Pglz) {
                    continue;
                }
                decoder.restore(&image, &mut page).unwrap();
                let hole = usize::from(image.hole_offset);
                let raw = [&page[..hole], &page[hole + usize::from(image.hole_length)..]].concat();
                assert!(compressor.compress(&raw, &mut output), "{major} {}", record.start_lsn);
                assert_eq!(output, image.bytes, "{major} {}", record.start_lsn);
                images += 1;
            }
        });
        let said = fixture.expected("records.txt");
        // Up to 14 there is one method, which has no name.
        let mark = if major < 15 { "compression saved: " } else { "method: pglz" };
        assert_eq!(images, said.matches(mark).count(), "{major}");
        assert!(images >= 40, "{major}");
    }
}

/// LZ4 and zstd images come out with nearly as many bytes. They were made by other implementations: LZ4 by the C library,
/// zstd by older versions of the same library.
#[test]
fn lz4_and_zstd_images_come_out_with_nearly_the_same_size() {
    let (mut decoder, mut encoder) = (ImageDecoder::new(), ImageEncoder::new());
    let mut page = vec![0; 8192];
    for major in [15, 19] {
        let fixture = Fixture::load(major);
        let mut sums = [(0_usize, 0_usize); 2];
        read_all(&fixture, 1 << 20, |record| {
            for image in record.blocks().filter_map(|block| block.image) {
                let method = image.compression();
                let index = match method {
                    Some(Compression::Lz4) => 0,
                    Some(Compression::Zstd) => 1,
                    _ => continue,
                };
                let length = decoder.unpack(&image, &mut page).unwrap();
                let again = encoder.compress(method.unwrap(), &page[..length], image.hole_length > 0);
                sums[index].0 += image.bytes.len();
                sums[index].1 += again.map_or(length, <[u8]>::len);
            }
        });
        for ((stored, again), most_percent) in sums.into_iter().zip([1.0, 0.1]) {
            let difference = (again as f64 / stored as f64 - 1.0).abs() * 100.0;
            assert!(stored > 40_000 && difference < most_percent, "{major}: {stored} {again}");
        }
    }
}

fn recompress(major: u32, size: SampleSize, jobs: usize) -> CompressionWhatIf {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/wal/pg{major}.tar.zst"));
    let request = WalRequest { jobs, ..WalRequest::of_paths(vec![archive]) };
    let mut source = WalSource::open(&request).unwrap();
    let what_if = source.recompress(size, jobs, &unwatched);
    assert!(source.findings.iter().all(|finding| finding.severity == Severity::Note), "{major}");
    assert!(source.coverage.skipped.is_empty(), "{major}");
    what_if
}

fn bytes_of(what_if: &CompressionWhatIf, setting: Setting) -> (u64, u64) {
    let row = what_if.rows.iter().find(|row| row.setting == setting).unwrap();
    (row.bytes_after, row.wal_bytes)
}

/// What a server without compression writes follows from what pg_waldump prints: a page less its hole for each image, and
/// no length of the hole in the header, which only compressed images have.
#[test]
fn sizes_without_compression_are_those_that_follow_from_pg_waldump() {
    for major in 10..=19 {
        let fixture = Fixture::load(major);
        let (mut raw, mut headers, mut images) = (0_u64, 0_u64, 0_u64);
        for block in expected_records(&fixture.expected("records.txt")).iter().flat_map(|record| &record.blocks) {
            let Some(image) = &block.image else { continue };
            images += 1;
            raw += 8192 - u64::from(image.hole_length);
            headers += if image.saved.is_some() && image.hole_length > 0 { 2 } else { 0 };
        }
        let total = expected_totals(&fixture.expected("stats.txt"))["Total"];
        let what_if = recompress(major, SampleSize::UpTo(0), 2);
        let tally = what_if.written;
        assert_eq!((tally.fpi_count, tally.record_bytes, tally.fpi_bytes), (images, total.1, total.2), "{major}");
        assert_eq!(bytes_of(&what_if, Setting::AsWritten), (total.2, total.1 + total.2), "{major}");
        assert_eq!(bytes_of(&what_if, Setting::Off), (raw, total.1 - headers + raw), "{major}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn sample_is_the_same_with_any_number_of_threads_and_near_the_truth() {
    for major in [13, 19] {
        let all = recompress(major, SampleSize::All, 3);
        assert!(all.rows.iter().all(|row| row.standard_error.is_none()));
        let as_many = recompress(major, SampleSize::UpTo(100_000), 2);
        assert_eq!(sure_part(&all), sure_part(&as_many));
        let sample = recompress(major, SampleSize::UpTo(100), 1);
        assert_eq!(sure_part(&sample), sure_part(&recompress(major, SampleSize::UpTo(100), 4)), "{major}");
        for (row, truth) in sample.rows.iter().zip(&all.rows).skip(2) {
            assert_eq!(row.certainty, Certainty::Sample { taken: 100, of: all.written.fpi_count });
            let error = row.standard_error.unwrap() as f64;
            // As usual for a standard error: seldom off by more than two of them.
            let off_by = row.bytes_after.abs_diff(truth.bytes_after) as f64;
            assert!(error > 0.0 && error < 0.2 * row.bytes_after as f64, "{major} {row:?}");
            assert!(off_by < 2.5 * error, "{major} {:?}: {off_by} {error}", row.setting);
        }
    }
}

/// All but the time, which is measured.
fn sure_part(what_if: &CompressionWhatIf) -> Vec<CompressionRow> {
    what_if.rows.iter().map(|row| CompressionRow { seconds_per_gb: None, ..*row }).collect()
}

#[test]
fn every_method_has_a_cost() {
    let what_if = recompress(18, SampleSize::UpTo(50), 2);
    for row in &what_if.rows {
        let compresses = matches!(row.setting, Setting::On(_));
        assert_eq!(row.seconds_per_gb.is_some_and(|seconds| seconds > 0.0), compresses, "{row:?}");
    }
}
