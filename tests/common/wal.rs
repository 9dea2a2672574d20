//! Unpacks an archive of `fixtures/wal` and reads what pg_waldump said about it.
#![allow(dead_code, reason = "a benchmark uses a part")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pgforensics::parsers::wal::end::EndOfWal;
use pgforensics::parsers::wal::page::PageHeader;
use pgforensics::parsers::wal::payload::XlogPayload;
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::parsers::wal::record::Record;
use pgforensics::parsers::wal::timeline::WalSegment;
use pgforensics::types::{Geometry, Lsn};
use tempfile::TempDir;

/// A cluster's WAL and the expected output.
pub struct Fixture {
    /// Whole segments, in order: file name and bytes.
    pub segments: Vec<(String, Vec<u8>)>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Fixture {
    /// The fixture `pgNN`.
    pub fn load(major: u32) -> Self {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/wal/pg{major}.tar.zst"));
        let packed = std::fs::read(archive).unwrap();
        let mut decoder = zstd::stream::read::Decoder::new(packed.as_slice()).unwrap();
        decoder.window_log_max(27).unwrap();
        let mut tar = tar::Archive::new(decoder);
        let mut files = BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
            files.insert(path, bytes);
        }
        let is_segment = |name: &str| name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let segments = files
            .iter()
            .filter_map(|(path, bytes)| {
                let name = path.file_name()?.to_str()?;
                let inside = path.parent()?.ends_with("pg_wal");
                (inside && is_segment(name)).then(|| (name.to_owned(), bytes.clone()))
            })
            .collect();
        Self { segments, files }
    }

    /// The control file.
    pub fn control(&self) -> &[u8] {
        let is_control = |path: &Path| path.file_name().is_some_and(|name| name == "pg_control");
        self.files.iter().find(|(path, _)| is_control(path)).map(|(_, bytes)| bytes.as_slice()).unwrap()
    }

    /// One of pg_waldump's outputs.
    pub fn expected(&self, name: &str) -> String {
        String::from_utf8(self.files[&Path::new("expected").join(name)].clone()).unwrap()
    }
}

/// Sizes and first address, from the first segment.
pub fn geometry_of(fixture: &Fixture) -> (Geometry, Lsn) {
    let (name, bytes) = &fixture.segments[0];
    let long = PageHeader::decode(Lsn(0), bytes).unwrap().long.unwrap();
    let geometry = Geometry {
        block_size: 8192,
        rel_segment_blocks: 131_072,
        wal_block_size: long.block_size,
        wal_segment_size: long.segment_size,
    };
    let segment = WalSegment::from_file_name(name, long.segment_size).unwrap();
    assert_eq!(segment.file_name(long.segment_size).as_ref(), Some(name));
    (geometry, segment.start_lsn(long.segment_size).unwrap())
}

/// Reads all segments in order, in pieces of `chunk` bytes.
pub fn read_all(fixture: &Fixture, chunk: usize, mut each: impl FnMut(&Record<'_>)) -> EndOfWal {
    let (geometry, first) = geometry_of(fixture);
    let mut reader = WalReader::new(ReaderOptions::new(geometry), first).unwrap();
    for (_, bytes) in &fixture.segments {
        for mut piece in bytes.chunks(chunk) {
            while let Some(event) = reader.next(&mut piece) {
                match event {
                    Event::Record(record) => each(&record),
                    Event::End(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    reader.finish()
}

/// A checkpoint record and its redo point.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    pub lsn: Lsn,
    pub redo_lsn: Lsn,
}

/// All checkpoints of a fixture, in order.
pub fn checkpoints(fixture: &Fixture) -> Vec<Checkpoint> {
    let mut found = Vec::new();
    read_all(fixture, 1 << 20, |record| {
        if let Ok(Some(XlogPayload::CheckpointShutdown(point) | XlogPayload::CheckpointOnline(point))) =
            XlogPayload::of(record)
        {
            found.push(Checkpoint { lsn: record.start_lsn, redo_lsn: point.redo_lsn });
        }
    });
    found
}

/// Bytes of a record header, and where `xl_info` and `xl_crc` stand in it.
const HEADER: usize = 24;
const INFO: usize = 16;
const CRC: Range<usize> = 20..24;
/// `XLOG_NOOP`, `src/include/catalog/pg_control.h`.
const NOOP: u8 = 0x20;

/// The segments of a fixture in a directory, where the record of a checkpoint says nothing: it is a `NOOP`. `None`: the
/// record reaches over a page.
pub fn without(fixture: &Fixture, checkpoint: Lsn) -> Option<(TempDir, Vec<PathBuf>)> {
    let (geometry, first) = geometry_of(fixture);
    let size = geometry.wal_segment_size as usize;
    let mut all: Vec<u8> = fixture.segments.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let at = usize::try_from(checkpoint.0 - first.0).unwrap();
    let length = u32::from_le_bytes(all[at..at + 4].try_into().unwrap()) as usize;
    if at % 8192 + length > 8192 {
        return None;
    }
    let crc = |record: &[u8]| ::crc32c::crc32c_append(::crc32c::crc32c(&record[HEADER..]), &record[..CRC.start]);
    let record = &mut all[at..at + length];
    assert_eq!(crc(record).to_le_bytes(), record[CRC]);
    record[INFO] = NOOP;
    let crc = crc(record);
    record[CRC].copy_from_slice(&crc.to_le_bytes());
    let directory = tempfile::tempdir().unwrap();
    // The last one is recycled: its pages are those of another address (bytes 8 to 16 of the page header).
    let holds_own = |index: usize, bytes: &[u8]| {
        u64::from_le_bytes(bytes[8..16].try_into().unwrap()) == first.0 + (index * size) as u64
    };
    let mut paths = Vec::new();
    for (index, ((name, _), bytes)) in fixture.segments.iter().zip(all.chunks(size)).enumerate() {
        if holds_own(index, bytes) {
            paths.push(directory.path().join(name));
            std::fs::write(&paths[paths.len() - 1], bytes).unwrap();
        }
    }
    Some((directory, paths))
}

/// A record as pg_waldump printed it.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpectedRecord {
    pub rmgr: String,
    pub length_without_images: u32,
    pub tot_len: u32,
    pub xid: u32,
    pub start_lsn: Lsn,
    pub prev: Lsn,
    pub type_name: String,
    pub blocks: Vec<ExpectedBlock>,
}

/// A block reference as pg_waldump printed it.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpectedBlock {
    pub block_id: u8,
    pub rel: String,
    pub fork: String,
    pub block: u32,
    pub image: Option<ExpectedImage>,
}

/// An image as pg_waldump printed it.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpectedImage {
    pub applies: bool,
    pub hole_offset: u16,
    pub hole_length: u16,
    /// Bytes saved by compression.
    pub saved: Option<u32>,
    /// Method; printed from 15 on.
    pub method: Option<String>,
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest.trim_start())
}

fn field<'a>(text: &'a str, mark: &str) -> &'a str {
    let rest = after(text, mark).unwrap_or_else(|| panic!("{mark} in {text}"));
    rest.split([',', ';', ' ', '/', '\n']).next().unwrap()
}

fn lsn(text: &str, mark: &str) -> Lsn {
    after(text, mark).and_then(|rest| rest.split([',', ' ']).next()).unwrap().parse().unwrap()
}

/// Reads `records.txt`.
pub fn expected_records(text: &str) -> Vec<ExpectedRecord> {
    let mut records: Vec<ExpectedRecord> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(rest) = line.strip_prefix("\tblkref #") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            assert_eq!((words[1], words[3], words[5]), ("rel", "fork", "blk"), "{line}");
            let image = line.contains("(FPW").then(|| ExpectedImage {
                applies: !line.contains("for WAL verification"),
                hole_offset: field(line, "offset: ").parse().unwrap(),
                hole_length: field(line, ", length: ").parse().unwrap(),
                saved: line.contains("saved: ").then(|| field(line, "saved: ").parse().unwrap()),
                method: line.contains("method: ").then(|| field(line, "method: ").to_owned()),
            });
            records.last_mut().unwrap().blocks.push(ExpectedBlock {
                block_id: words[0].trim_end_matches(':').parse().unwrap(),
                rel: words[2].to_owned(),
                fork: words[4].to_owned(),
                block: words[6].parse().unwrap(),
                image,
            });
            continue;
        }
        let lengths = after(line, "len (rec/tot):").unwrap();
        records.push(ExpectedRecord {
            rmgr: field(line, "rmgr: ").to_owned(),
            length_without_images: lengths.split('/').next().unwrap().trim().parse().unwrap(),
            tot_len: field(lengths, "/").parse().unwrap(),
            xid: field(line, "tx: ").parse().unwrap(),
            start_lsn: lsn(line, "lsn: "),
            prev: lsn(line, "prev "),
            type_name: after(line, "desc: ").unwrap().split(' ').next().unwrap().to_owned(),
            blocks: Vec::new(),
        });
    }
    records
}

/// Count, record bytes and image bytes of a row of `stats.txt` or `stats-record.txt`.
pub type Totals = (u64, u64, u64);

/// Reads a statistics file: totals by the name in the first column.
pub fn expected_totals(text: &str) -> BTreeMap<String, Totals> {
    let mut totals = BTreeMap::new();
    for line in text.lines() {
        let plain: String = line.chars().map(|c| if "()[]%".contains(c) { ' ' } else { c }).collect();
        let words: Vec<&str> = plain.split_whitespace().collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
        if words.first() == Some(&"Total") {
            totals.insert("Total".to_owned(), (number(1).unwrap(), number(2).unwrap(), number(4).unwrap()));
        } else if let [name, _, _, _, _, _, _, _, _] = words[..]
            && let (Some(count), Some(record), Some(image)) = (number(1), number(3), number(5))
        {
            // Early minors of 10 to 13 print a transaction type twice, with and without its flag.
            let row: &mut Totals = totals.entry(name.to_owned()).or_default();
            *row = (row.0 + count, row.1 + record, row.2 + image);
        }
    }
    totals
}
