//! Names of relations from catalogs that are damaged on purpose: always an answer, and always told what is missing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{copy_tree, unpack};
use pgforensics::cluster::data_dir::DataDir;
use pgforensics::cluster::names::{NameDoubt, RelationNames};
use pgforensics::parsers::control_layout::{ControlLayout, Field};
use pgforensics::parsers::crc::crc32c;

const BLOCK: usize = 8192;

/// A copy of a fixture and its number of names. Even majors were stopped without writing, so that most hint bits are
/// missing; odd ones were shut down.
fn copy(major: u32) -> (tempfile::TempDir, PathBuf) {
    let from = unpack::data_dir(&format!("names/pg{major}")).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("place");
    copy_tree(from.parent().unwrap(), &place);
    (temporary, place.join(format!("pg{major}")))
}

fn read(data: &Path) -> (RelationNames, Vec<String>) {
    let (names, gaps) = RelationNames::read(&DataDir::open(data).unwrap());
    (names, gaps.iter().map(ToString::to_string).collect())
}

/// The file of `pg_class` or another catalog of a database, found by what `names` says.
fn file_of(data: &Path, name: &str) -> PathBuf {
    let (names, _) = read(data);
    let (rel, _) = names.iter().find(|(_, held)| held.to_string() == name).unwrap_or_else(|| panic!("{name}"));
    match rel.db_oid {
        0 => data.join(format!("global/{}", rel.rel_number)),
        db_oid => data.join(format!("base/{db_oid}/{}", rel.rel_number)),
    }
}

fn names_of(names: &RelationNames, database: &str) -> usize {
    names.iter().filter(|(_, name)| name.database.as_deref() == Some(database)).count()
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Offset of `needle` in the file.
fn find(path: &Path, needle: &[u8]) -> usize {
    fs::read(path).unwrap().windows(needle.len()).position(|window| window == needle).unwrap()
}

#[test]
fn sane_page_with_a_wrong_checksum_gives_doubtful_names() {
    let (_keep, data) = copy(13);
    let pg_class = file_of(&data, "shop.pg_catalog.pg_class");
    let at = find(&pg_class, b"renamed_pkey\0");
    change(&pg_class, |bytes| bytes[at] = b'R');
    let (names, gaps) = read(&data);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].contains(&format!("{} block {}: checksum is", pg_class.display(), at / BLOCK)), "{gaps:?}");
    let (_, name) = names.iter().find(|(_, name)| &*name.relation == "Renamed_pkey").unwrap();
    assert_eq!(name.doubt, Some(NameDoubt::PageChecksum));
    let (_, sound) = names.iter().find(|(_, name)| name.to_string() == "archive.public.ledger").unwrap();
    assert_eq!(sound.doubt, None);
}

#[test]
fn broken_page_gives_no_names_and_is_reported_with_its_block() {
    type Damage = fn(&mut [u8]);
    let cases: [(&str, Damage, &str); 7] = [
        (
            "pd_lower",
            |page| page[12..14].copy_from_slice(&9000_u16.to_le_bytes()),
            "pd_lower 9000 is greater than pd_upper",
        ),
        ("version", |page| page[18] = 5, "another page size or layout version"),
        ("not new", |page| page[14..16].fill(0), "pd_upper is 0 but the page is not zero-filled"),
        ("index page", |page| page[16..18].copy_from_slice(&8176_u16.to_le_bytes()), "block 1: "),
        (
            "pointer",
            |page| page[24..28].copy_from_slice(&(8190_u32 | 1 << 15 | 64 << 17).to_le_bytes()),
            "line pointer 1",
        ),
        ("overlap", |page| page.copy_within(24..28, 28), "overlaps that of item"),
        (
            "t_hoff",
            |page| {
                let at = usize::from(u16::from_le_bytes([page[14], page[15]]));
                page[at + 22] = 8;
            },
            "t_hoff 8 is inside the tuple header",
        ),
    ];
    let (_keep, data) = copy(17);
    let pg_class = file_of(&data, "shop.pg_catalog.pg_class");
    let all = read(&data).0.len();
    let original = fs::read(&pg_class).unwrap();
    for (name, damage, words) in cases {
        let mut bytes = original.clone();
        damage(&mut bytes[BLOCK..2 * BLOCK]);
        fs::write(&pg_class, bytes).unwrap();
        let (names, gaps) = read(&data);
        let gap = gaps.iter().find(|gap| gap.contains(words)).unwrap_or_else(|| panic!("{name}: {gaps:?}"));
        assert!(gap.contains(&format!("{} block 1: ", pg_class.display())), "{name}: {gap}");
        assert!(names.len() < all && names.len() > all - 80, "{name}: {} of {all}", names.len());
    }
}

#[test]
fn page_of_zeros_and_empty_file_are_no_faults() {
    let (_keep, data) = copy(17);
    let pg_class = file_of(&data, "shop.pg_catalog.pg_class");
    change(&pg_class, |bytes| bytes.resize(bytes.len() + 3 * BLOCK, 0));
    let (_, gaps) = read(&data);
    assert!(gaps.is_empty(), "{gaps:?}");
    let base = pg_class.parent().unwrap();
    let (schemas, number) =
        (file_of(&data, "shop.pg_catalog.pg_namespace"), base.file_name().unwrap().to_str().unwrap());
    fs::write(schemas, "").unwrap();
    let (names, gaps) = read(&data);
    assert!(
        gaps.iter().any(|gap| gap.starts_with(&format!("database {number}: ")) && gap.contains("pg_namespace")),
        "{gaps:?}"
    );
    let texts: Vec<_> = names.iter().map(|(_, name)| name.to_string()).collect();
    assert!(texts.contains(&"shop.?.orders".to_owned()), "the name without its schema");
    assert!(texts.contains(&"shop.pg_catalog.pg_proc".to_owned()), "this schema is the same everywhere");
}

#[test]
fn missing_transaction_log_makes_names_doubtful() {
    let (_keep, data) = copy(16);
    fs::remove_file(data.join("pg_xact/0000")).unwrap();
    let (names, gaps) = read(&data);
    assert_eq!(gaps.len(), 1, "told once: {gaps:?}");
    assert!(gaps[0].contains("pg_xact/0000"), "{gaps:?}");
    let doubt = |wanted: &str| names.iter().find(|(_, name)| name.to_string() == wanted).map(|(_, name)| name.doubt);
    assert_eq!(doubt("shop.sales.kept"), Some(Some(NameDoubt::InsertionUnknown)), "a row without hints");
    assert_eq!(doubt("shop.sales.gone_table"), Some(Some(NameDoubt::PerhapsDeleted)));
    assert_eq!(doubt("shop.sales.orders"), Some(None), "a row that VACUUM FULL froze");
    let renamed = doubt("draft.pg_catalog.pg_class");
    assert_eq!(renamed, Some(Some(NameDoubt::PerhapsDeleted)), "the doubt of the database's own row");
    assert!(names.iter().all(|(_, name)| name.doubt.is_some() || !name.relation.contains("ghost")));
    fs::write(data.join("pg_xact/0000"), [0x55; 100]).unwrap();
    let (_, gaps) = read(&data);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].contains("0000 ends before transaction"), "{gaps:?}");
}

#[test]
fn unfinished_transactions_count_only_after_a_crash() {
    for (major, expected) in [(16, true), (17, false)] {
        let (_keep, data) = copy(major);
        let pg_class = file_of(&data, "shop.pg_catalog.pg_class");
        // Every transaction is unfinished, and no row says otherwise.
        change(&data.join("pg_xact/0000"), |bytes| bytes.fill(0));
        let at = find(&pg_class, b"kept_in_savepoint\0");
        // The header of 18 columns with a null bitmap takes 32 bytes, the OID 4.
        change(&pg_class, |bytes| bytes[at - 36 + 21] &= !0x03);
        let (names, _) = read(&data);
        let found = names.iter().find(|(_, name)| &*name.relation == "kept_in_savepoint");
        assert_eq!(found.map(|(_, name)| name.doubt), expected.then_some(Some(NameDoubt::InsertionOpen)), "{major}");
    }
}

#[test]
fn damaged_map_is_replaced_by_a_guess() {
    for length in [0, 100, 511, 512, 5000] {
        let (_keep, data) = copy(14);
        let map = data.join("base/1/pg_filenode.map");
        change(&map, |bytes| {
            bytes.resize(length, 0);
            bytes.iter_mut().skip(504).for_each(|byte| *byte ^= 0x20);
        });
        let (names, gaps) = read(&data);
        assert_eq!(gaps.len(), 1, "{length}: {gaps:?}");
        assert!(gaps[0].contains("base/1/pg_filenode.map"), "{gaps:?}");
        // The catalogs of this database were never rewritten, so the guess is right; it stays a guess.
        let (_, class) = names.iter().find(|(_, name)| name.to_string() == "template1.pg_catalog.pg_class").unwrap();
        let (_, namespace) =
            names.iter().find(|(_, name)| name.to_string() == "template1.pg_catalog.pg_namespace").unwrap();
        assert_eq!((class.doubt, namespace.doubt), (Some(NameDoubt::GuessedNumber), None));
    }
}

#[test]
fn databases_without_a_row_are_read_by_their_directories() {
    let (_keep, data) = copy(18);
    let whole = read(&data).0.len();
    fs::remove_file(file_of(&data, "global.pg_catalog.pg_database")).unwrap();
    let (names, gaps) = read(&data);
    assert_eq!(gaps.len(), 1 + 6, "the file and six databases: {gaps:#?}");
    assert_eq!((names.len(), names.database(1)), (whole, None));
    assert!(
        names
            .iter()
            .any(|(rel, name)| rel.spc_oid != 1663 && name.to_string() == format!("{}.public.ledger", rel.db_oid))
    );
}

#[test]
fn things_in_place_of_catalogs() {
    type Place = fn(&Path);
    let things: [(Place, &str); 4] = [
        (|path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()), "FIFO"),
        (|path| symlink("/dev/zero", path).unwrap(), "symbolic link"),
        (|path| fs::create_dir(path).unwrap(), "directory"),
        (|_| {}, "No such file"),
    ];
    for (place, words) in things {
        let (_keep, data) = copy(15);
        let others = names_of(&read(&data).0, "postgres");
        for name in ["shop.pg_catalog.pg_class", "global.pg_catalog.pg_tablespace"] {
            let path = file_of(&data, name);
            fs::remove_file(&path).unwrap();
            place(&path);
            let (names, gaps) = read(&data);
            let told = gaps.iter().any(|gap| gap.contains(words) && gap.contains(path.to_str().unwrap()));
            assert!(told, "{name} {words}: {gaps:?}");
            assert_eq!(names_of(&names, "postgres"), others, "{words}");
            assert_eq!(names_of(&names, "shop"), 0, "{words}");
        }
        fs::remove_dir_all(data.join("pg_xact")).unwrap();
        fs::remove_dir_all(data.join("base/1")).unwrap();
        symlink("4", data.join("base/1")).unwrap();
        let (_, gaps) = read(&data);
        assert!(gaps.iter().any(|gap| gap.contains("base/1 is a symbolic link")), "{gaps:?}");
    }
}

#[test]
fn other_majors_and_control_files() {
    let (_keep, data) = copy(15);
    let whole = read(&data).0;
    change(&data.join("global/pg_control"), |bytes| bytes[40] ^= 1);
    let (names, gaps) = read(&data);
    assert!(gaps[0].contains("blocks of 8192 bytes are assumed"), "{gaps:?}");
    assert_eq!(names_of(&names, "shop"), names_of(&whole, "shop"));
    assert_eq!(names_of(&names, "archive"), 0, "its tablespace cannot be found");
    assert!(gaps.iter().any(|gap| gap.contains("pg_tblspc")), "{gaps:?}");
    for major in ["9.6", "20"] {
        fs::write(data.join("PG_VERSION"), major).unwrap();
        let error = DataDir::open(&data).unwrap_err().to_string();
        assert!(error.ends_with(&format!("says {major}, which is not supported (supported: 10 to 19)")), "{error}");
    }
    // Rows of 15 taken for those of 11 have no OID in their header.
    fs::write(data.join("PG_VERSION"), "11").unwrap();
    let (names, gaps) = read(&data);
    assert!(names.is_empty() && gaps.iter().any(|gap| gap.contains("t_infomask")), "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap.contains("more pages or rows with faults")), "counted beyond a bound: {gaps:?}");
}

/// Writes another number of blocks in a segment file into the control file.
fn set_segment_blocks(data: &Path, blocks: u32) {
    change(&data.join("global/pg_control"), |bytes| {
        let usual = [8192_u32.to_le_bytes(), 131_072_u32.to_le_bytes()].concat();
        let at = bytes.windows(8).position(|window| window == usual).unwrap();
        bytes[at + 4..at + 8].copy_from_slice(&blocks.to_le_bytes());
        let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
        let end = ControlLayout::of_version(version).unwrap().offset(Field::Crc).unwrap();
        let crc = crc32c(&bytes[..end]);
        bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    });
}

#[test]
fn catalogs_in_several_segment_files() {
    let (_keep, data) = copy(12);
    let whole = read(&data).0.len();
    set_segment_blocks(&data, 4);
    for entry in fs::read_dir(data.join("base")).unwrap().chain(fs::read_dir(data.join("../fast/")).unwrap()) {
        let mut directories = vec![entry.unwrap().path()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else if !path.ends_with("pg_filenode.map") {
                    let bytes = fs::read(&path).unwrap();
                    for (number, part) in bytes.chunks(4 * BLOCK).enumerate() {
                        let suffix = if number == 0 { String::new() } else { format!(".{number}") };
                        fs::write(format!("{}{suffix}", path.display()), part).unwrap();
                    }
                }
            }
        }
    }
    let (names, gaps) = read(&data);
    assert!(gaps.is_empty(), "block numbers go on across segments, checksums are right: {gaps:?}");
    assert_eq!(names.len(), whole);
    let pg_class = data.join("base/1/1259");
    change(&pg_class, |bytes| bytes.truncate(BLOCK + 100));
    let (names, gaps) = read(&data);
    assert!(gaps.iter().any(|gap| gap.contains("block 1: only 100 bytes")), "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap.contains("1259 has 8292 bytes, expected 32768")), "{gaps:?}");
    assert!(names.len() > whole - 150 && names.len() < whole);
}

#[test]
fn endless_file_ends() {
    let (_keep, data) = copy(19);
    let whole = read(&data).0.len();
    let pg_class = file_of(&data, "shop.pg_catalog.pg_class");
    fs::File::options().write(true).open(&pg_class).unwrap().set_len(1 << 43).unwrap();
    let start = Instant::now();
    let (names, gaps) = read(&data);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(names.len(), whole);
    assert!(gaps[0].contains("expected 1073741824"), "{gaps:?}");
}

#[test]
fn every_length_of_a_catalog() {
    let (_keep, data) = copy(11);
    let pg_class = file_of(&data, "shop.pg_catalog.pg_class");
    let original = fs::read(&pg_class).unwrap();
    let others = names_of(&read(&data).0, "postgres");
    for length in (0..original.len()).step_by(1531) {
        fs::write(&pg_class, &original[..length]).unwrap();
        let (names, gaps) = read(&data);
        let told = gaps.iter().any(|gap| gap.contains(&format!("only {} bytes", length % BLOCK)));
        assert_eq!(told, length % BLOCK > 0, "{length}: {gaps:?}");
        assert_eq!(names_of(&names, "postgres"), others, "{length}");
    }
}

/// Bytes changed at many places of everything that is read: never a panic, and nothing lost without a word.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn random_damage_never_breaks_the_reading() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for major in [10, 15, 16, 18] {
        let (_keep, data) = copy(major);
        let whole = read(&data).0.len();
        let mut files: Vec<PathBuf> =
            ["global/pg_control", "global/pg_filenode.map", "base/1/pg_filenode.map", "pg_xact/0000"]
                .map(|name| data.join(name))
                .into();
        for name in [
            "global.pg_catalog.pg_database",
            "global.pg_catalog.pg_tablespace",
            "shop.pg_catalog.pg_class",
            "shop.pg_catalog.pg_namespace",
        ] {
            files.push(file_of(&data, name));
        }
        for round in 0..120 {
            let path = &files[random(files.len())];
            let original = fs::read(path).unwrap();
            let mut bytes = original.clone();
            for _ in 0..=random(20) {
                // Headers and line pointers more often than the rest.
                let at = if random(2) == 0 {
                    random(bytes.len()) / BLOCK * BLOCK + random(200)
                } else {
                    random(bytes.len())
                };
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random(8);
                }
            }
            if random(4) == 0 {
                bytes.truncate(random(bytes.len()));
            }
            fs::write(path, &bytes).unwrap();
            let (names, gaps) = read(&data);
            let place = format!("major {major} round {round} {}", path.display());
            // The transaction log has no checksum: what it says is believed.
            let silent = path.ends_with("pg_xact/0000") || bytes == original;
            assert!(silent || names.len() >= whole || !gaps.is_empty(), "{place}: {} of {whole}", names.len());
            assert!(gaps.len() < 100, "{place}: {gaps:#?}");
            fs::write(path, &original).unwrap();
        }
    }
}
