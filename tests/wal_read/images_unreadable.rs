//! Images that no page can be made of, in records whose checksum is right.

use crate::common::Ran;
use crate::common::wal::{Fixture, expected_records};
use crate::common::wal_edit::{change, findings, record, walfpi, write};

/// Where in a record the header of its first image lies: after the headers of record and block.
const IMAGE_HEADER: usize = 24 + 4;

/// Where main data of a record with one block and a compressed image with a hole is announced, in two bytes.
const ONE_BLOCK: usize = IMAGE_HEADER + 7 + 16;

const RM_HEAP: u8 = 10;

/// Records in one page whose first block has an image: `(LSN, bytes)`.
fn with_image(fixture: &Fixture) -> Vec<(u64, Vec<u8>)> {
    let records = expected_records(&fixture.expected("records.txt")).into_iter();
    let bytes_of =
        |lsn: u64| record(fixture, lsn).filter(|bytes| bytes.len() > 60 && bytes[24] == 0 && bytes[25] & 0x10 != 0);
    records.filter_map(|found| Some((found.start_lsn.0, bytes_of(found.start_lsn.0)?.to_vec()))).collect()
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
#[ignore = "long: `cargo test-all` runs it"]
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
        for sample in ["all", "100000", "1"] {
            let ran = walfpi(&["whatif", "--section", "compression", "--sample", sample], directory.path());
            assert_eq!(findings(&ran, "image").len(), usize::from(sample != "1"), "{major} {sample}");
        }
    }
}

/// Names are read from rows of catalogs in WAL. An image of a catalog that cannot be unpacked may hold some: that is said
/// where names are asked for, also by commands that need no image otherwise.
#[test]
fn image_of_a_catalog_that_cannot_be_unpacked_is_a_finding_where_names_are_wanted() {
    /// After the headers of the record, of its only block and of the image, with the length of the hole: tablespace, database.
    const RELATION: usize = IMAGE_HEADER + 5 + 2 + 8;
    const PG_CLASS: u32 = 1259;
    for (major, compressed) in [(15, 0x08 | 0x10), (16, 0x04)] {
        let mut fixture = Fixture::load(major);
        let wanted = |bytes: &[u8]| {
            let (has_hole, is_compressed) =
                (bytes[IMAGE_HEADER + 4] & 1 != 0, bytes[IMAGE_HEADER + 4] & compressed != 0);
            has_hole && is_compressed && bytes[RELATION..RELATION + 4] == PG_CLASS.to_le_bytes()
        };
        let (lsn, _) = with_image(&fixture).into_iter().find(|(_, bytes)| wanted(bytes)).unwrap();
        // A hole that is a byte shorter: what is stored does not make up the rest of the page.
        change(&mut fixture, lsn, |record| record[IMAGE_HEADER + 5] -= 1);
        let directory = write(&fixture);
        for (command, expected) in [
            (&["stats", "--by", "relation", "--names", "wal"][..], 1),
            (&["stats", "--by", "rmgr", "--names", "wal", "--relation", "t_heap"], 1),
            (&["advise", "--no-compression", "--names", "wal"], 1),
            (&["stats", "--by", "relation"], 0),
        ] {
            let ran = walfpi(command, directory.path());
            let found = findings(&ran, "image");
            assert_eq!(found.len(), expected, "{major} {command:?}: {}", ran.stdout);
            for finding in found {
                let at = format!("at {:X}/{:08X}: ", lsn >> 32, lsn & 0xFFFF_FFFF);
                assert!(finding["what"].as_str().unwrap().contains(&at) && ran.status > 0, "{major}: {finding}");
            }
        }
    }
}
