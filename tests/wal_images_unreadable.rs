//! Images that no page can be made of, in records whose checksum is right.

mod common;
#[path = "common/wal.rs"]
mod wal;

use std::fs;
use std::path::Path;

use common::{Ran, arg, run};
use pgforensics::parsers::crc::crc32c_of_two;
use serde_json::Value;
use wal::{Fixture, expected_records};

/// Changes bytes of the record at `lsn`, which lies inside one page, and gives it a checksum that fits.
fn change(fixture: &mut Fixture, lsn: u64, edit: impl FnOnce(&mut [u8])) {
    let size = fixture.segments[0].1.len() as u64;
    let first = u64::from_str_radix(&fixture.segments[0].0[16..24], 16).unwrap();
    let bytes = &mut fixture.segments[(lsn / size - first) as usize].1;
    let at = (lsn % size) as usize;
    let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    assert!(at % 8192 + length <= 8192, "the record at {lsn:X} goes on in another page");
    edit(&mut bytes[at..at + length]);
    let crc = crc32c_of_two(&bytes[at + 24..at + length], bytes[at..].first_chunk::<20>().unwrap());
    bytes[at + 20..at + 24].copy_from_slice(&crc.to_le_bytes());
}

fn write(fixture: &Fixture) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in &fixture.segments {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

fn walfpi(command: &[&str], directory: &Path) -> Ran {
    run("pg_walfpi", &[command, &["--format", "ndjson", arg(directory)]].concat())
}

fn findings(ran: &Ran, kind: &str) -> Vec<Value> {
    ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == kind).collect()
}

/// Where in a record the header of its first image lies: after the headers of record and block.
const IMAGE_HEADER: usize = 24 + 4;

/// Where main data of a record with one block and a compressed image with a hole is announced, in two bytes.
const ONE_BLOCK: usize = IMAGE_HEADER + 7 + 16;

const RM_HEAP: u8 = 10;

/// Records in one page whose first block has an image: `(LSN, bytes)`.
fn with_image(fixture: &Fixture) -> Vec<(u64, Vec<u8>)> {
    let size = fixture.segments[0].1.len() as u64;
    let first = u64::from_str_radix(&fixture.segments[0].0[16..24], 16).unwrap();
    let records = expected_records(&fixture.expected("records.txt")).into_iter();
    let bytes_of = |lsn: u64| {
        let bytes = &fixture.segments.get((lsn / size).checked_sub(first)? as usize)?.1;
        let at = (lsn % size) as usize;
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let is_inside = at % 8192 + length <= 8192 && length > 40;
        (is_inside && bytes[at + 24] == 0 && bytes[at + 25] & 0x10 != 0).then(|| bytes[at..at + length].to_vec())
    };
    records.filter_map(|record| Some((record.start_lsn.0, bytes_of(record.start_lsn.0)?))).collect()
}

#[test]
fn hole_outside_the_page_is_damage_at_its_offset_in_every_command() {
    for major in [10, 15, 18] {
        let mut fixture = Fixture::load(major);
        let images = with_image(&fixture);
        let (lsn, _) = images[images.len() / 2];
        change(&mut fixture, lsn, |record| {
            record[IMAGE_HEADER + 2..IMAGE_HEADER + 4].copy_from_slice(&9000_u16.to_le_bytes())
        });
        let directory = write(&fixture);
        for command in [
            &["verify"][..],
            &["stats"],
            &["stats", "--by", "relation"],
            &["stats", "--by", "cause"],
            &["stats", "--by", "time"],
            &["list"],
            &["whatif", "--section", "spacing"],
            &["dwb-size"],
            &["advise", "--no-compression"],
        ] {
            let ran = walfpi(command, directory.path());
            let damage = findings(&ran, "damage");
            assert_eq!((ran.status, damage.len()), (2, 1), "{major} {command:?}: {}", ran.stdout);
            let what = damage[0]["what"].as_str().unwrap();
            let offset = format!("{:#X}", lsn + IMAGE_HEADER as u64).replace("0X", "0x");
            assert!(what.contains("hole ends inside the page") && what.contains(&offset), "{major} {lsn:X}: {what}");
        }
        // What comes after it is read all the same where that is asked for.
        let records = |ran: &Ran| ran.of_type("summary")[0]["records"].as_u64().unwrap();
        let (stops, goes_on) = (walfpi(&["stats"], directory.path()), walfpi(&["stats", "--resync"], directory.path()));
        assert!(records(&goes_on) > records(&stops), "{major}");
    }
}

#[test]
fn image_that_cannot_be_unpacked_is_a_finding_of_all_that_unpack_it() {
    for (major, compressed) in [(13, 0x02), (15, 0x04)] {
        let mut fixture = Fixture::load(major);
        let images = with_image(&fixture);
        // A change of the heap: its image is asked for the LSN that its page had.
        let wanted =
            |bytes: &[u8]| bytes[17] == RM_HEAP && bytes[IMAGE_HEADER + 4] & (compressed | 1) == compressed | 1;
        let (lsn, bytes) = images.into_iter().find(|(_, bytes)| wanted(bytes) && bytes[ONE_BLOCK] == 255).unwrap();
        let stored = usize::from(u16::from_le_bytes([bytes[IMAGE_HEADER], bytes[IMAGE_HEADER + 1]]));
        change(&mut fixture, lsn, |record| record[ONE_BLOCK + 2..ONE_BLOCK + 2 + stored].fill(0xFF));
        let directory = write(&fixture);
        for command in
            [&["verify"][..], &["verify", "--resync"], &["list"], &["list", "--resync"], &["stats", "--by", "cause"]]
        {
            let ran = walfpi(command, directory.path());
            let found = findings(&ran, "image");
            // Nothing but the image makes the status: some of the fixtures have a gap.
            let expected = if ran.of_type("skipped").is_empty() { 1 } else { 2 };
            assert_eq!((ran.status, found.len()), (expected, 1), "{major} {command:?}: {}", ran.stdout);
            let at = format!("at {:X}/{:08X}: ", lsn >> 32, lsn & 0xFFFF_FFFF);
            assert!(found[0]["what"].as_str().unwrap().contains(&at), "{major}: {}", found[0]);
        }
    }
}
