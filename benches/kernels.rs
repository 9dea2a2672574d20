//! The kernels by themselves: checksums by length, page checksums, and reading WAL by the fast and by the full path.
//!
//! `cargo bench --bench kernels`. Compare the rows of one run with each other, not with another machine's.

use std::ops::ControlFlow;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use pgforensics::parsers::checksum::{page_checksum, page_checksums};
use pgforensics::parsers::crc::{crc32c, crc32c_of_two};
use pgforensics::parsers::wal::block::Keep;
use pgforensics::parsers::wal::reader::{Event, ReadStep, ReaderOptions, WalReader};
use pgforensics::parsers::wal::record::Record;
use pgforensics::types::Lsn;

#[path = "../tests/common/wal.rs"]
mod common;

const PAGE: usize = 8192;

/// Lengths of records and of pieces of records.
const LENGTHS: [usize; 7] = [20, 64, 100, 200, 400, 1000, 8168];

fn main() {
    divan::main();
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[divan::bench(args = LENGTHS)]
fn crc_of_a_record(bencher: Bencher<'_, '_>, length: usize) {
    let (body, header) = (bytes(length), [7_u8; 20]);
    bencher.counter(BytesCount::new(length)).bench_local(|| crc32c_of_two(black_box(&body), black_box(&header)));
}

#[divan::bench(args = LENGTHS)]
fn crc_of_a_record_by_the_crate_alone(bencher: Bencher<'_, '_>, length: usize) {
    let (body, header) = (bytes(length), [7_u8; 20]);
    let crc = |body: &[u8], header: &[u8]| ::crc32c::crc32c_append(::crc32c::crc32c(body), header);
    bencher.counter(BytesCount::new(length)).bench_local(|| crc(black_box(&body), black_box(&header)));
}

#[divan::bench]
fn crc_of_a_slot(bencher: Bencher<'_, '_>) {
    let image = bytes(PAGE);
    bencher.counter(BytesCount::new(PAGE)).bench_local(|| crc32c(black_box(&image)));
}

#[divan::bench]
fn page_checksum_of_one_page_at_a_time(bencher: Bencher<'_, '_>) {
    let pages = bytes(32 * PAGE);
    bencher.counter(BytesCount::new(pages.len())).bench_local(|| {
        let pages = black_box(&pages).chunks_exact(PAGE).zip(0_u32..);
        pages.fold(0, |sum, (page, block)| sum ^ page_checksum(page, block))
    });
}

#[divan::bench]
fn page_checksum_of_pages_together(bencher: Bencher<'_, '_>) {
    let (pages, mut sums) = (bytes(32 * PAGE), Vec::new());
    bencher.counter(BytesCount::new(pages.len())).bench_local(|| {
        sums.clear();
        page_checksums(black_box(&pages), PAGE, 0, &mut sums);
        sums.iter().fold(0, |all, sum| all ^ sum)
    });
}

fn wal() -> (Vec<u8>, Lsn, ReaderOptions) {
    let fixture = common::Fixture::load(16);
    let (geometry, first) = common::geometry_of(&fixture);
    let bytes = fixture.segments.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    (bytes, first, ReaderOptions::new(geometry))
}

fn read(bytes: &[u8], first: Lsn, options: &ReaderOptions, fast: bool) -> u64 {
    let mut records = 0;
    let Ok(mut reader) = WalReader::new(options.clone(), first) else { return 0 };
    for mut piece in bytes.chunks(256 << 10) {
        let mut visit = |record: &Record<'_>| {
            black_box(record.layout);
            records += 1;
            ControlFlow::Continue(())
        };
        while fast && !matches!(reader.read(&mut piece, &mut visit), ReadStep::NeedMore) {}
        while let Some(event) = reader.next(&mut piece) {
            if let Event::Record(record) = event
                && visit(&record).is_break()
            {
                break;
            }
        }
    }
    records
}

#[divan::bench]
fn wal_by_the_full_path(bencher: Bencher<'_, '_>) {
    let (bytes, first, options) = wal();
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| read(black_box(&bytes), first, &options, false));
}

#[divan::bench]
fn wal_by_the_fast_path(bencher: Bencher<'_, '_>) {
    let (bytes, first, options) = wal();
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| read(black_box(&bytes), first, &options, true));
}

#[divan::bench]
fn wal_by_the_fast_path_with_heads_only(bencher: Bencher<'_, '_>) {
    let (bytes, first, options) = wal();
    let options = ReaderOptions { keep: Keep::Heads, ..options };
    bencher.counter(BytesCount::new(bytes.len())).bench_local(|| read(black_box(&bytes), first, &options, true));
}
