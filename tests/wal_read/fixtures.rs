//! Real WAL of majors 10 to 19, compared with what pg_waldump of the same major says about it.

use std::collections::BTreeMap;

use crate::common::wal::{
    ExpectedBlock, ExpectedImage, ExpectedRecord, Fixture, Totals, expected_records, expected_totals, geometry_of,
    read_all,
};
use pgforensics::parsers::image::ImageDecoder;
use pgforensics::parsers::wal::block::BlockRef;
use pgforensics::parsers::wal::end::EndReason;
use pgforensics::parsers::wal::lifecycle::LifeCycle;
use pgforensics::parsers::wal::names::rmgr_name;
use pgforensics::parsers::wal::payload::XlogPayload;
use pgforensics::parsers::wal::reader::{Event, ReaderOptions};
use pgforensics::parsers::wal::record::Record;
use pgforensics::parsers::wal::scan::{Joiner, SegmentScan};
use pgforensics::types::Lsn;

fn shown_block(block: &BlockRef<'_>, prints_method: bool) -> ExpectedBlock {
    ExpectedBlock {
        block_id: block.block_id,
        rel: block.rel.to_string(),
        fork: block.fork().unwrap().to_string(),
        block: block.block,
        image: block.image.map(|image| ExpectedImage {
            applies: image.applies(),
            hole_offset: image.hole_offset,
            hole_length: image.hole_length,
            saved: image.compression().map(|_| 8192 - u32::from(image.hole_length) - image.bytes.len() as u32),
            method: image.compression().filter(|_| prints_method).map(|method| method.name().to_owned()),
        }),
    }
}

fn shown(record: &Record<'_>) -> ExpectedRecord {
    let prints_method = record.major.number() >= 15;
    ExpectedRecord {
        rmgr: rmgr_name(record.header.rmgr_id).to_string(),
        length_without_images: record.length_without_images(),
        tot_len: record.header.tot_len,
        xid: record.header.xid,
        start_lsn: record.start_lsn,
        prev: record.header.prev,
        type_name: record.type_name().to_string(),
        blocks: record.blocks().map(|block| shown_block(&block, prints_method)).collect(),
    }
}

fn add(totals: &mut BTreeMap<String, Totals>, name: String, record: &Record<'_>) {
    let row = totals.entry(name).or_default();
    row.0 += 1;
    row.1 += u64::from(record.length_without_images());
    row.2 += u64::from(record.fpi_length());
}

fn check_major(number: u32) {
    let fixture = Fixture::load(number);
    let (geometry, _) = geometry_of(&fixture);
    let expected = expected_records(&fixture.expected("records.txt"));
    let (mut by_rmgr, mut by_type) = (BTreeMap::new(), BTreeMap::new());
    let mut decoder = ImageDecoder::new();
    let mut page = vec![0; 8192];
    let (mut count, mut images, mut next_start) = (0, 0, None);
    let end = read_all(&fixture, 1 << 20, |record| {
        assert_eq!(record.major.number(), number);
        assert_eq!(Some(&shown(record)), expected.get(count), "record {count}");
        count += 1;
        if let Some(next_start) = next_start {
            assert_eq!(record.start_lsn, next_start);
        }
        next_start = Some(pgforensics::parsers::wal::scan::record_position(geometry, record.end_lsn));
        if !record.header.is_switch() {
            assert_eq!(record.end_lsn, geometry.wal_record_end(record.start_lsn, u64::from(record.header.tot_len)));
        }
        for name in ["Total".to_owned(), rmgr_name(record.header.rmgr_id).to_string()] {
            add(&mut by_rmgr, name, record);
        }
        let name = format!("{}/{}", rmgr_name(record.header.rmgr_id), record.type_name());
        add(&mut by_type, name, record);
        add(&mut by_type, "Total".to_owned(), record);
        for image in record.blocks().filter_map(|block| block.image) {
            decoder.restore(&image, &mut page).unwrap();
            images += 1;
        }
        XlogPayload::of(record).unwrap();
        LifeCycle::of(record).unwrap();
    });
    assert_eq!(count, expected.len());
    assert!(images > 100);
    let mut stats = expected_totals(&fixture.expected("stats.txt"));
    stats.retain(|_, totals| totals.0 > 0);
    assert_eq!(by_rmgr, stats);
    assert_eq!(by_type, expected_totals(&fixture.expected("stats-record.txt")));
    let said = fixture.expected("end-of-wal.txt");
    let place = |mark: &str| said.split_once(mark).unwrap().1.split(": ").next().unwrap().parse::<Lsn>().unwrap();
    assert_eq!(end.reason, EndReason::ZeroLength);
    assert_eq!(Some(end.at), Some(place("record length at ")));
    assert_eq!(end.last_record, Some(place("in WAL record at ")));
    assert_eq!(end.end_of_last, Some(end.at));
}

macro_rules! majors {
    ($($name:ident: $number:literal,)*) => {$(
        #[test]
        fn $name() {
            check_major($number);
        }
    )*};
}

majors! {
    records_of_10_are_those_of_pg_waldump: 10,
    records_of_11_are_those_of_pg_waldump: 11,
    records_of_12_are_those_of_pg_waldump: 12,
    records_of_13_are_those_of_pg_waldump: 13,
    records_of_14_are_those_of_pg_waldump: 14,
    records_of_15_are_those_of_pg_waldump: 15,
    records_of_16_are_those_of_pg_waldump: 16,
    records_of_17_are_those_of_pg_waldump: 17,
    records_of_18_are_those_of_pg_waldump: 18,
    records_of_19_are_those_of_pg_waldump: 19,
}

/// All that identifies a record, and a checksum of its bytes.
type Identity = (Lsn, Lsn, Lsn, u32, u16, u32);

fn identity(record: &Record<'_>) -> Identity {
    let bytes = pgforensics::parsers::crc::crc32c(record.bytes);
    (record.start_lsn, record.end_lsn, record.data_end_lsn, record.header.crc, record.page_info, bytes)
}

#[test]
fn pieces_of_any_size_give_the_same_records() {
    for number in [10, 13, 19] {
        let mut fixture = Fixture::load(number);
        for (_, bytes) in &mut fixture.segments {
            assert!(bytes.len() >= 1 << 20);
        }
        let mut whole = Vec::new();
        let end = read_all(&fixture, usize::MAX, |record| whole.push(identity(record)));
        for chunk in [1, 7, 24, 41, 4096, 8191, 8192, 8193, 100_000] {
            let mut pieces = Vec::with_capacity(whole.len());
            assert_eq!(read_all(&fixture, chunk, |record| pieces.push(identity(record))), end, "{chunk}");
            assert!(pieces == whole, "{number}, pieces of {chunk}");
        }
    }
}

#[test]
fn segments_read_apart_add_up() {
    for number in 10..=19 {
        let fixture = Fixture::load(number);
        let (geometry, first) = geometry_of(&fixture);
        let mut in_order = Vec::new();
        let end = read_all(&fixture, 1 << 16, |record| in_order.push(identity(record)));
        let (mut apart, mut joiner) = (Vec::new(), Joiner::new());
        let size = u64::from(geometry.wal_segment_size);
        for index in 0..fixture.segments.len() {
            let start = first.advanced_by(size * index as u64);
            let mut scan = SegmentScan::new(ReaderOptions::new(geometry), start, start.advanced_by(size)).unwrap();
            let mut bytes_read = 0;
            'files: for (_, bytes) in &fixture.segments[index..] {
                for mut page in bytes.chunks(8192) {
                    if scan.is_finished() {
                        break 'files;
                    }
                    bytes_read += page.len();
                    while let Some(event) = scan.next(&mut page) {
                        match event {
                            Event::Record(record) => apart.push(identity(&record)),
                            Event::End(_) => {}
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
            assert!(bytes_read <= size as usize + 65536, "a scan reads little more than its segment");
            let summary = scan.finish();
            joiner.push(&summary).unwrap();
            if summary.end.reason != EndReason::Limit {
                assert_eq!((&summary.end.reason, summary.end.at), (&end.reason, end.at));
                break;
            }
        }
        assert!(apart == in_order, "{number}: {} and {} records", apart.len(), in_order.len());
    }
}
