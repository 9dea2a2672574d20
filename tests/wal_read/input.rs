//! Real WAL in every form a user may have it in: the set finds the segments, and delivers their bytes unchanged.

use std::collections::BTreeMap;
use std::fs;

use crate::common;
use crate::common::wal_set::*;
use pgforensics::cluster::wal::{NoteKind, NoteLevel, WalSet, WalSetError, WalSetOptions};
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::types::TimelineId;

#[test]
fn data_directory_gives_its_wal_and_uses_the_control_file() {
    for major in [10, 14, 18] {
        let set = open_in_place(&data(major));
        let control = set.control().expect("control file is trusted");
        assert_eq!(set.system_identifier(), Some(control.prefix.system_identifier));
        assert_eq!(set.major().map(|major| major.number()), Some(major));
        assert_eq!(set.geometry(), control.geometry);
        assert_same(&set, &originals(major));
        assert_eq!(set.runs(), vec![0..set.segments().len()]);
        assert_eq!(set.timeline(), TimelineId(1));
        assert!(kinds(&set).iter().all(|&found| found == (NoteKind::Leftover, NoteLevel::Note)), "{:?}", set.notes());
    }
}

#[test]
fn pg_wal_and_its_segments_may_be_links() {
    let temporary = tempfile::tempdir().unwrap();
    let moved = temporary.path().join("elsewhere");
    write_all(&moved, &originals(18));
    let root = temporary.path().join("data");
    common::copy_tree(&data(18), &root);
    fs::remove_dir_all(root.join("pg_wal")).unwrap();
    std::os::unix::fs::symlink(&moved, root.join("pg_wal")).unwrap();
    assert_same(&open_in_place(&root), &originals(18));
    let (first, _) = originals(18).pop_first().unwrap();
    fs::rename(moved.join(&first), temporary.path().join("aside")).unwrap();
    std::os::unix::fs::symlink(temporary.path().join("aside"), moved.join(&first)).unwrap();
    assert_same(&open_in_place(&root), &originals(18));
    // A link that leads nowhere is not a file that a server has taken away.
    fs::remove_file(temporary.path().join("aside")).unwrap();
    let set = open_in_place(&root);
    assert_eq!(set.segments().len(), originals(18).len() - 1);
    let note = set.notes().iter().find(|note| note.kind == NoteKind::Unreadable).unwrap();
    assert!(note.level == NoteLevel::Skipped && note.to_string().contains(&first), "{note}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn archive_of_any_codec_gives_the_same_bytes() {
    let expected = originals(18);
    let temporary = tempfile::tempdir().unwrap();
    for (index, (program, args, suffix)) in COMPRESSORS.into_iter().enumerate() {
        let place = temporary.path().join(index.to_string());
        let mut packed = BTreeMap::new();
        for (name, bytes) in &expected {
            let Some(out) = through(program, args, bytes) else { break };
            packed.insert(format!("{name}{suffix}"), out);
        }
        if packed.is_empty() {
            continue;
        }
        write_all(&place, &packed);
        let set = open_in_place(&place);
        assert_same(&set, &expected);
        assert_eq!(set.notes(), [], "{program}");
        assert!(set.segments().iter().all(|file| file.codecs.len() == 1 && file.size_bytes.is_none()));
        // Without the ending that names the codec.
        for name in expected.keys() {
            fs::rename(place.join(format!("{name}{suffix}")), place.join(name)).unwrap();
        }
        assert_same(&open_in_place(&place), &expected);
    }
}

#[test]
fn records_over_runs_are_those_of_the_plain_files() {
    for major in [13, 18] {
        let temporary = tempfile::tempdir().unwrap();
        let mut packed = BTreeMap::new();
        for (name, bytes) in originals(major) {
            packed.insert(format!("{name}.zst"), zstd::encode_all(bytes.as_slice(), 1).unwrap());
        }
        write_all(temporary.path(), &packed);
        let set = open_in_place(temporary.path());
        let first = set.segments()[0].start_lsn;
        let options = || ReaderOptions::new(set.geometry());
        let mut expected = Vec::new();
        let mut reader = WalReader::new(options(), first).unwrap();
        for bytes in originals(major).values() {
            let mut input = bytes.as_slice();
            while let Some(event) = reader.next(&mut input) {
                if let Event::Record(record) = event {
                    expected.push((record.start_lsn, record.header.crc));
                }
            }
        }
        let mut found = Vec::new();
        for run in set.runs() {
            let mut reader = WalReader::new(options(), set.segments()[run.start].start_lsn).unwrap();
            for index in run {
                let mut bytes = set.reader(index).unwrap();
                while let Some(mut piece) = bytes.next_piece().unwrap() {
                    while let Some(event) = reader.next(&mut piece) {
                        if let Event::Record(record) = event {
                            found.push((record.start_lsn, record.header.crc));
                        }
                    }
                }
            }
        }
        assert!(expected.len() > 1000);
        assert!(found == expected, "{major}: {} records, {} expected", found.len(), expected.len());
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn tar_in_any_order_plain_or_compressed_gives_the_same_bytes() {
    let expected = originals(18);
    let temporary = tempfile::tempdir().unwrap();
    let inside = temporary.path().join("in");
    let mut names = Vec::new();
    fs::create_dir_all(&inside).unwrap();
    for (index, (name, bytes)) in expected.iter().enumerate() {
        let (suffix, packed) = match index % 3 {
            0 => ("", bytes.clone()),
            1 => (".zst", zstd::encode_all(bytes.as_slice(), 1).unwrap()),
            _ => (".gz", gzip(bytes)),
        };
        let name = format!("{name}{suffix}");
        fs::write(inside.join(&name), packed).unwrap();
        names.insert(index * 7 % (names.len() + 1), name);
    }
    fs::write(inside.join("README"), "no WAL").unwrap();
    names.insert(2, "README".to_owned());
    for format in ["--format=gnu", "--format=pax", "--format=ustar", "--format=v7"] {
        let Some(plain) = tar_of(&inside, &names, format) else { return };
        let archive = temporary.path().join("archive.bin");
        fs::write(&archive, &plain).unwrap();
        let set = open_in_place(&archive);
        assert_same(&set, &expected);
        assert_eq!(kinds(&set), [(NoteKind::Unrecognized, NoteLevel::Note)], "{format}");
        assert!(set.segments()[0].label.contains("archive.bin:0000"));
        assert_same(&open_stdin(&plain).unwrap(), &expected);
        for (program, args, _) in COMPRESSORS {
            let Some(packed) = through(program, args, &plain) else { continue };
            fs::write(&archive, &packed).unwrap();
            assert_same(&open(&[&archive]), &expected);
            assert_same(&open_stdin(&packed).unwrap(), &expected);
            if format != "--format=gnu" {
                break;
            }
        }
    }
}

#[test]
fn standard_input_takes_segments_one_after_the_other() {
    let expected = originals(18);
    let joined: Vec<u8> = expected.values().flatten().copied().collect();
    let separately: Vec<u8> = expected.values().flat_map(|bytes| gzip(bytes)).collect();
    for input in [&joined, &separately, &gzip(&gzip(&joined))] {
        let set = open_stdin(input).unwrap();
        assert_same(&set, &expected);
        assert_eq!(set.notes(), []);
    }
    let set = open_stdin(&joined[..joined.len() - 5000]).unwrap();
    assert_eq!(kinds(&set), [(NoteKind::WrongSize, NoteLevel::Problem)]);
    let (bytes, error) = read_index(&set, set.segments().len() - 1).unwrap_err();
    assert!(bytes.len() == (1 << 20) - 5000 && error.contains("1043576 of 1048576"), "{error}");
    assert!(matches!(open_stdin(&gzip(&gzip(&gzip(&joined)))), Err(WalSetError::NoWal { .. })));
    assert!(matches!(open_stdin(&[]), Err(WalSetError::NoWal { .. })));
    assert!(matches!(WalSet::open(&["-".into()], WalSetOptions::new(&scratch)), Err(WalSetError::Stdin)));
}
