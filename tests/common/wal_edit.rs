//! WAL of the fixtures in which records are changed, with checksums that fit.

use std::fs;
use std::path::Path;

use pgforensics::parsers::crc::crc32c_of_two;
use serde_json::Value;

use crate::common::wal::{Fixture, expected_records};
use crate::common::{Ran, arg, run};

/// Where a record lies: the segment's index, and the offset in it.
fn at(fixture: &Fixture, lsn: u64) -> Option<(usize, usize)> {
    let size = fixture.segments[0].1.len() as u64;
    let first = u64::from_str_radix(&fixture.segments[0].0[16..24], 16).unwrap();
    let index = (lsn / size).checked_sub(first)? as usize;
    (index < fixture.segments.len()).then_some((index, (lsn % size) as usize))
}

/// The bytes of a record that lies inside one page.
pub fn record(fixture: &Fixture, lsn: u64) -> Option<&[u8]> {
    let (index, at) = at(fixture, lsn)?;
    let bytes = fixture.segments[index].1.get(at..)?;
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    (at % 8192 + length <= 8192).then(|| &bytes[..length])
}

/// Changes bytes of a record that lies inside one page, and gives it a checksum that fits.
pub fn change(fixture: &mut Fixture, lsn: u64, edit: impl FnOnce(&mut [u8])) {
    let length = record(fixture, lsn).unwrap_or_else(|| panic!("the record at {lsn:X} goes on in another page")).len();
    let (index, at) = at(fixture, lsn).unwrap();
    let bytes = &mut fixture.segments[index].1[at..at + length];
    edit(bytes);
    let crc = crc32c_of_two(&bytes[24..], bytes.first_chunk::<20>().unwrap());
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
}

/// The records of a type that lie inside one page, by what pg_waldump calls them.
pub fn records_of(fixture: &Fixture, type_name: &str) -> Vec<u64> {
    let all = expected_records(&fixture.expected("records.txt")).into_iter();
    let wanted = all.filter(|expected| expected.type_name == type_name).map(|expected| expected.start_lsn.0);
    wanted.filter(|lsn| record(fixture, *lsn).is_some()).collect()
}

/// The segments as files of a directory.
pub fn write(fixture: &Fixture) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in &fixture.segments {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

/// Runs a command over a directory.
pub fn walfpi(command: &[&str], directory: &Path) -> Ran {
    run("pg_walfpi", &[command, &["--format", "ndjson", arg(directory)]].concat())
}

/// Findings of a kind.
pub fn findings(ran: &Ran, kind: &str) -> Vec<Value> {
    ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == kind).collect()
}
