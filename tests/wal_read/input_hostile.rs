//! WAL input that is damaged, misnamed, foreign, endless or gone: said, and never mixed in silently.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common;
use crate::common::skipped;
use crate::common::wal_set::*;
use pgforensics::cluster::wal::{NoteKind, NoteLevel, WalReadError, WalSet, WalSetError, WalSetOptions};
use pgforensics::types::{Lsn, TimelineId};

const SEGMENT: usize = 1 << 20;

type Files = BTreeMap<String, Vec<u8>>;

/// The segments of 18, and six more: the last one over again, its pages moved on.
fn many() -> &'static Files {
    static MANY: OnceLock<Files> = OnceLock::new();
    MANY.get_or_init(|| {
        let mut files = originals(18);
        let (name, last) = files.last_key_value().map(|(name, bytes)| (name.clone(), bytes.clone())).unwrap();
        let number = u32::from_str_radix(&name[16..], 16).unwrap();
        for more in 1..=6 {
            let mut bytes = last.clone();
            for page in bytes.chunks_mut(8192) {
                let address = u64::from_le_bytes(page[8..16].try_into().unwrap());
                page[8..16].copy_from_slice(&(address + u64::from(more) * SEGMENT as u64).to_le_bytes());
            }
            files.insert(format!("{}{:08X}", &name[..16], number + more), bytes);
        }
        assert_eq!(files.len(), 10);
        files
    })
}

/// A directory with files made from these.
fn archive(change: impl FnOnce(&mut Files)) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("archive");
    let mut files = many().clone();
    change(&mut files);
    write_all(&place, &files);
    (temporary, place)
}

/// Name of the segment at this place.
fn nth(index: usize) -> String {
    many().keys().nth(index).unwrap().clone()
}

fn refused(path: &Path) -> String {
    match WalSet::open(&[path.to_owned()], WalSetOptions::new(&scratch)) {
        Ok(set) => panic!("{:?}", set.notes()),
        Err(error) => error.to_string(),
    }
}

fn patch(files: &mut Files, name: &str, at: usize, bytes: &[u8]) {
    files.get_mut(name).unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
}

fn shorter_by(name: &str) -> Files {
    let mut expected = many().clone();
    expected.remove(name);
    expected
}

#[test]
fn cut_archives_give_what_comes_before_the_cut() {
    for (program, args, _) in COMPRESSORS {
        let name = nth(2);
        let Some(packed) = through(program, args, &many()[&name]) else { continue };
        for keep in [packed.len() - 1, packed.len() - 4, packed.len() / 2] {
            let (_temporary, place) = archive(|files| {
                files.insert(name.clone(), packed[..keep].to_vec());
            });
            let set = open_in_place(&place);
            if ["bzip2", "lz4"].contains(&program) && has(&set, NoteKind::CannotUnpack, NoteLevel::Skipped) {
                // Nothing comes out before a whole block is there.
                let note = only(&set, NoteKind::CannotUnpack);
                assert!(note.offset == Some(keep as u64) && note.what.contains("cannot be unpacked"), "{note}");
                assert_same(&set, &shorter_by(&name));
                continue;
            }
            assert_eq!(set.runs(), vec![0..many().len()]);
            let (bytes, error) = read_index(&set, 2).unwrap_err();
            assert!(many()[&name].starts_with(&bytes), "{program}");
            assert!(error.contains(&format!("unpacking stops after {} bytes", bytes.len())), "{program}: {error}");
            assert!(error.contains(&format!("{keep} bytes into the file")), "{program}: {error}");
            if keep == packed.len() / 2 {
                assert!(!bytes.is_empty(), "{program}");
            }
        }
    }
}

#[test]
fn lz4_cut_between_blocks_is_no_clean_end() {
    let (_, whole) = many().clone().pop_first().unwrap();
    let Some(packed) = through("lz4", &["-q", "-B4", "--no-frame-crc"], &whole) else { return };
    // The end mark are the last four bytes.
    assert_eq!(packed[packed.len() - 4..], [0; 4]);
    let error = match open_stdin(&packed[..packed.len() - 4]) {
        Ok(set) => only(&set, NoteKind::Truncated).to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("without its end mark"), "{error}");
}

#[test]
fn compressed_segment_that_does_not_end_is_read_to_one_byte_more() {
    let name = nth(1);
    let (_temporary, place) = archive(|files| {
        let mut endless = files[&name].clone();
        endless.resize(100 << 20, 0);
        files.insert(name.clone(), gzip(&endless));
    });
    let set = open_in_place(&place);
    let started = std::time::Instant::now();
    let (bytes, error) = read_index(&set, 1).unwrap_err();
    assert!(bytes == many()[&name] && error.contains("continues after the 1048576 bytes"), "{error}");
    assert!(started.elapsed().as_millis() < 500);
    let mut reader = set.reader(1).unwrap();
    let error = loop {
        match reader.next_piece() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, WalReadError::Longer { .. }) && error.is_past_the_segment());
}

#[test]
fn sizes_other_than_a_segment_are_said() {
    let (long, short) = (nth(1), nth(3));
    let (_temporary, place) = archive(|files| {
        files.get_mut(&long).unwrap().extend_from_slice(b"more");
        files.get_mut(&short).unwrap().truncate(300_000);
        files.insert(nth(5), Vec::new());
        files.insert(nth(6), b"x".to_vec());
    });
    let set = open_in_place(&place);
    assert!(only(&set, NoteKind::TrailingData).file.as_ref().unwrap().ends_with(&long));
    assert!(only(&set, NoteKind::WrongSize).to_string().contains("300000 of the 1048576"));
    assert!(has(&set, NoteKind::Empty, NoteLevel::Problem) && has(&set, NoteKind::NotWal, NoteLevel::Problem));
    assert_eq!(only(&set, NoteKind::Gap).level, NoteLevel::Problem);
    assert_eq!(set.runs(), vec![0..5, 5..set.segments().len()]);
    assert_eq!(read_index(&set, 1).unwrap(), many()[&long]);
    let (bytes, error) = read_index(&set, 3).unwrap_err();
    assert!(bytes.len() == 300_000 && error.contains("ends after 300000"));
}

#[test]
fn things_that_are_no_files_are_never_opened() {
    let (_temporary, place) = archive(|files| {
        files.remove(&nth(0));
    });
    let fifo = place.join(nth(0));
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let set = open_in_place(&place);
    assert!(only(&set, NoteKind::Unreadable).to_string().ends_with("is a FIFO, not a regular file; not read"));
    assert_same(&set, &shorter_by(&nth(0)));
    assert!(refused(&fifo).contains("is a FIFO"));
    assert!(refused(Path::new("/dev/zero")).contains("is a device"));
    assert!(refused(&place.join("absent")).contains("cannot examine"));
    assert!(refused(&place.join("absent*")).contains("nothing matches"));
    assert!(refused(&place.join("a[")).contains("pattern"));
}

#[test]
fn files_that_vanish_shrink_or_are_forbidden_are_said() {
    let (_temporary, place) = archive(|_| {});
    let set = open_in_place(&place);
    fs::remove_file(place.join(nth(0))).unwrap();
    File::options().write(true).open(place.join(nth(1))).unwrap().set_len(5000).unwrap();
    let error = read_index(&set, 0).unwrap_err().1;
    assert!(error.contains("cannot examine") && error.contains(&nth(0)), "{error}");
    let (bytes, error) = read_index(&set, 1).unwrap_err();
    assert!(bytes.len() == 5000 && error.contains("ends after 5000"), "{error}");
    let forbidden = place.join(nth(2));
    fs::set_permissions(&forbidden, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
    if File::open(&forbidden).is_ok() {
        skipped("permissions do not bind this user");
    } else {
        assert!(has(&open_in_place(&place), NoteKind::Unreadable, NoteLevel::Skipped));
    }
}

/// Opens `pg_wal` while a server is between two renames or two new segments: `at_first` are the files of these names not
/// there, and a moment later `then` those. True when no gap was said in one of several times.
fn has_no_gap_while_changing(at_first: &[usize], then: impl Fn(&Path) + Sync) -> bool {
    (0..20).any(|_| {
        let (_temporary, place) = archive(|files| at_first.iter().for_each(|&index| drop(files.remove(&nth(index)))));
        let place_of_server = place.with_file_name("pg_wal");
        fs::rename(&place, &place_of_server).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(25));
                then(&place_of_server);
            });
            !has(&open_in_place(&place_of_server), NoteKind::Gap, NoteLevel::Problem)
        })
    })
}

#[test]
fn segment_that_a_listing_missed_is_no_gap() {
    // The second was given a new name before the first.
    assert!(has_no_gap_while_changing(&[1], |place| fs::remove_file(place.join(nth(0))).unwrap()));
    // A new one was made after its place was listed, and the next one before.
    assert!(has_no_gap_while_changing(&[8], |place| fs::write(place.join(nth(8)), &many()[&nth(8)]).unwrap()));
    // What is missing stays missing.
    assert!(!has_no_gap_while_changing(&[4], |_| {}));
}

#[test]
fn names_that_contradict_the_content_are_said() {
    let (_temporary, place) = archive(|files| {
        let bytes = files.remove(&nth(2)).unwrap();
        files.insert("000000010000000000000099".to_owned(), bytes);
    });
    let set = open_in_place(&place);
    assert_same(&set, many());
    let note = set.notes().iter().find(|note| note.level == NoteLevel::Problem).unwrap();
    assert!(note.kind == NoteKind::WrongName && note.what.contains("is used as such"), "{note}");
    // In pg_wal the same is normal: the file waits to be written again.
    let place_of_server = place.with_file_name("pg_wal");
    fs::rename(&place, &place_of_server).unwrap();
    let set = open_in_place(&place_of_server);
    assert_same(&set, &shorter_by(&nth(2)));
    let note = only(&set, NoteKind::Leftover);
    assert!(note.level == NoteLevel::Note && note.what.contains("still holds WAL from"), "{note}");
    // The other way round is not.
    fs::rename(place_of_server.join(nth(5)), place_of_server.join("000000010000000000000000")).unwrap();
    let set = open_in_place(&place_of_server);
    assert_same(&set, &shorter_by(&nth(2)));
    assert!(has(&set, NoteKind::WrongName, NoteLevel::Problem));
}

#[test]
fn lower_case_and_hashed_names_are_read() {
    let (_temporary, place) = archive(|files| {
        let first = files.pop_first().unwrap().1;
        files.insert(format!("{}-0123456789012345678901234567890123456789.gz", nth(0)), gzip(&first));
        let named = many().clone().into_iter().find(|(name, _)| name.contains(['A', 'B', 'C', 'D', 'E', 'F']));
        if let Some((name, bytes)) = named {
            files.remove(&name);
            files.insert(name.to_lowercase(), bytes);
        }
        files.insert("000000010000000000000002.00000028.backup".to_owned(), b"START WAL".to_vec());
    });
    let below = place.join("0000000100000000");
    fs::create_dir_all(&below).unwrap();
    fs::create_dir_all(place.join("archive_status")).unwrap();
    fs::rename(place.join(nth(1)), below.join(nth(1))).unwrap();
    let set = open_in_place(&place);
    assert_same(&set, many());
    assert!(kinds(&set).iter().all(|&found| found == (NoteKind::WrongName, NoteLevel::Note)), "{:?}", set.notes());
}

#[test]
fn full_plain_files_are_preferred() {
    let (_temporary, place) = archive(|files| {
        let bytes = files[&nth(0)].clone();
        files.insert(format!("{}.partial", nth(0)), vec![0xAA; SEGMENT]);
        files.insert(format!("{}.gz", nth(0)), gzip(&bytes));
        let mut half = files[&nth(1)].clone();
        half.truncate(SEGMENT / 2);
        files.insert(format!("{}.partial", nth(1)), half);
        let last = files.remove(&nth(2)).unwrap();
        files.insert(format!("{}.gz.partial", nth(2)), gzip(&last));
        files.insert(format!("{}.partial", nth(3)), vec![0; SEGMENT]);
        files.insert("README.txt".to_owned(), Vec::new());
    });
    let set = open_in_place(&place);
    assert_same(&set, many());
    let file = set.segments()[0].label.clone();
    assert!(file.ends_with(&nth(0)), "{file}");
    assert!(set.segments()[2].partial);
    let count = |kind: NoteKind| set.notes().iter().filter(|note| note.kind == kind).count();
    // The half file holds the beginning of the whole one; the same bytes packed are not worth a word.
    assert_eq!(count(NoteKind::Duplicate), 1, "{:?}", set.notes());
    assert!(only(&set, NoteKind::Duplicate).file.as_ref().unwrap().ends_with(&format!("{}.partial", nth(1))));
    assert!(has(&set, NoteKind::PartialUsed, NoteLevel::Note) && has(&set, NoteKind::Unwritten, NoteLevel::Note));
    assert!(only(&set, NoteKind::Unrecognized).what.contains("README.txt"));
}

#[test]
fn foreign_wal_is_left_out() {
    let (_temporary, place) = archive(|files| {
        patch(files, &nth(1), 24, &77_u64.to_le_bytes());
        patch(files, &nth(2), 0, &0xD110_u16.to_le_bytes());
        patch(files, &nth(3), 32, &(2_u32 << 20).to_le_bytes());
        patch(files, &nth(3), 8, &0x20_0000_u64.to_le_bytes());
        patch(files, &nth(4), 0, &0xD093_u16.to_le_bytes());
        for page in files.get_mut(&nth(4)).unwrap().chunks_mut(8192) {
            page[0..2].copy_from_slice(&0xD093_u16.to_le_bytes());
        }
        files.insert("0000000100000000000000F0".to_owned(), vec![0; SEGMENT]);
        files.insert("0000000100000000000000F1".to_owned(), vec![b'x'; SEGMENT]);
    });
    let set = open_in_place(&place);
    assert_eq!(set.segments().len(), many().len() - 4);
    assert!(only(&set, NoteKind::ForeignSystem).what.contains("system identifier 77, expected"));
    assert!(has(&set, NoteKind::ForeignVersion, NoteLevel::Problem));
    let version = set.notes().iter().find(|note| note.level == NoteLevel::Skipped).unwrap();
    assert!(version.kind == NoteKind::ForeignVersion && version.what.contains("9.6, which is not supported"));
    assert!(only(&set, NoteKind::ForeignSize).what.contains("segment size 2097152"));
    assert_eq!(only(&set, NoteKind::Unwritten).level, NoteLevel::Problem);
    assert!(only(&set, NoteKind::NotWal).what.contains("not a WAL page of any known version"));
    // The user knows better which cluster is meant.
    let options = WalSetOptions { system_identifier: Some(77), ..WalSetOptions::new(&scratch) };
    let set = WalSet::open(&[place], options).unwrap();
    assert_eq!((set.segments().len(), set.system_identifier()), (1, Some(77)));
}

#[test]
fn control_file_decides_which_cluster_is_meant() {
    let set = open(&[&data(17).join("pg_wal"), &data(18)]);
    assert_same(&set, &originals(18));
    assert!(has(&set, NoteKind::ForeignSystem, NoteLevel::Problem));
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("data");
    common::copy_tree(&data(18), &root);
    let path = root.join("global/pg_control");
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let set = open_in_place(&root);
    assert!(set.control().is_none() && only(&set, NoteKind::Control).what.contains("checksum is wrong"));
    assert_same(&set, &originals(18));
}

#[test]
fn damaged_first_page_does_not_hide_the_segment() {
    let (_temporary, place) = archive(|files| {
        patch(files, &nth(1), 0, &[0; 64]);
        patch(files, &nth(2), 0, &[0; 64]);
        let moved = files.remove(&nth(2)).unwrap();
        files.insert("0000000100000000000000F0".to_owned(), moved);
    });
    let set = open_in_place(&place);
    assert!(name_of(&set, &set.segments()[1]) == nth(1) && read_index(&set, 1).unwrap().len() == SEGMENT);
    assert!(has(&set, NoteKind::FirstPageDamaged, NoteLevel::Problem));
    assert!(only(&set, NoteKind::WrongName).what.contains("left out"));
    assert_eq!(set.segments().len(), many().len() - 1);
}

/// The originals with the segments from `switch` on also on timeline 2, from the page after the switch.
fn with_second_timeline(files: &mut Files, switch: usize, history: bool) -> Lsn {
    let names: Vec<String> = files.keys().cloned().collect();
    let mut switch_lsn = Lsn(0);
    for (index, name) in names.iter().enumerate().skip(switch) {
        let mut bytes = files[name].clone();
        let from = if index == switch { 1 } else { 0 };
        switch_lsn =
            if from == 1 { Lsn(u64::from_le_bytes(bytes[8..16].try_into().unwrap()) + 5000) } else { switch_lsn };
        for page in bytes.chunks_mut(8192).skip(from) {
            page[4] = 2;
        }
        files.insert(name.replacen("00000001", "00000002", 1), bytes);
    }
    if history {
        let text = format!("1\t{switch_lsn}\tno recovery target specified\n");
        files.insert("00000002.history.gz".to_owned(), gzip(text.as_bytes()));
    }
    switch_lsn
}

#[test]
fn history_decides_which_timeline_a_segment_is_read_from() {
    let temporary = tempfile::tempdir().unwrap();
    for as_tar in [false, true] {
        let (_kept, place) = archive(|files| {
            with_second_timeline(files, 4, true);
            files.insert("000000030000000000000001".to_owned(), vec![0; SEGMENT]);
        });
        let mut path = place.clone();
        if as_tar {
            let names: Vec<String> =
                fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            let Some(bytes) = tar_of(&place, &names, "--format=gnu") else { return };
            path = temporary.path().join("wal.tar.gz");
            fs::write(&path, gzip(&bytes)).unwrap();
        }
        let set = open(&[&path]);
        let timelines: Vec<u32> = set.segments().iter().map(|file| file.segment.tli.0).collect();
        let expected: Vec<u32> = (0..many().len()).map(|index| if index < 4 { 1 } else { 2 }).collect();
        assert_eq!((timelines, set.timeline(), set.runs().len()), (expected, TimelineId(2), 1));
        assert_eq!(set.history().unwrap().ancestors.len(), 1);
        let note = only(&set, NoteKind::OtherTimeline);
        assert!(note.what.contains("left timeline 1 before their end"), "{note}");
        // The older timeline can be asked for.
        let options = WalSetOptions { timeline: Some(TimelineId(1)), ..WalSetOptions::new(&scratch) };
        let set = WalSet::open(&[path], options).unwrap();
        assert_same(&set, many());
        assert!(only(&set, NoteKind::OtherTimeline).what.contains("timeline 2 is not in the history"));
    }
}

#[test]
fn without_history_only_the_timeline_itself_is_read() {
    let (_temporary, place) = archive(|files| {
        with_second_timeline(files, 4, false);
    });
    let set = open_in_place(&place);
    assert!(set.segments().iter().all(|file| file.segment.tli == TimelineId(2)) && set.history().is_none());
    assert_eq!(only(&set, NoteKind::MissingHistory).level, NoteLevel::Note);
    let others: Vec<_> = set.notes().iter().filter(|note| note.kind == NoteKind::OtherTimeline).collect();
    let [covered, unknown] = others[..] else { panic!("{others:?}") };
    assert!(covered.level == NoteLevel::Note && covered.what.starts_with("6 segments"), "{covered}");
    assert!(unknown.level == NoteLevel::Skipped && unknown.what.starts_with("4 segments"), "{unknown}");
    assert!(unknown.what.contains(&format!("({} to {})", nth(0), nth(3))), "{unknown}");
    fs::write(place.join("00000002.history"), "1 nonsense").unwrap();
    assert!(only(&open_in_place(&place), NoteKind::BadHistory).what.contains("is not a valid LSN"));
    let options = WalSetOptions { timeline: Some(TimelineId(9)), ..WalSetOptions::new(&scratch) };
    assert!(matches!(WalSet::open(&[place], options), Err(WalSetError::NoWal { .. })));
}

#[test]
fn pattern_and_single_files_are_read_and_their_gaps_are_said() {
    let (_temporary, place) = archive(|files| {
        files.insert("README".to_owned(), b"no WAL".to_vec());
    });
    let set = open(&[&place.join("0000*")]);
    assert_same(&set, many());
    assert_eq!(set.notes(), []);
    let set = open(&[&place.join("*")]);
    assert_eq!(only(&set, NoteKind::NotWal).level, NoteLevel::Skipped);
    let set = open(&[&place.join(nth(3)), &place.join(nth(0))]);
    assert_eq!((set.runs(), only(&set, NoteKind::Gap).level), (vec![0..1, 1..2], NoteLevel::Problem));
    assert!(refused(&place.join("README")).contains("not WAL: 6 bytes"));
}

fn tar_with(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn tar_of_originals() -> Vec<u8> {
    let files = many();
    tar_with(&files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect::<Vec<_>>())
}

#[test]
fn cut_tar_gives_the_members_before_the_cut() {
    let whole = tar_of_originals();
    let cut = 3 * (SEGMENT + 512) + 100_000;
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("wal.tar");
    fs::write(&path, &whole[..cut]).unwrap();
    let packed = gzip(&whole);
    let half = packed.len() / 2;
    for (set, members) in [
        (open_in_place(&path), Some(4)),
        (open_stdin(&whole[..cut]).unwrap(), Some(4)),
        (open_stdin(&packed[..half]).unwrap(), None),
    ] {
        assert!(has(&set, NoteKind::Truncated, NoteLevel::Problem), "{:?}", set.notes());
        assert!(has(&set, NoteKind::WrongSize, NoteLevel::Problem), "{:?}", set.notes());
        let truncated = set.notes().iter().filter(|note| note.kind == NoteKind::Truncated);
        assert!(truncated.clone().all(|note| note.offset.is_some()));
        let last = set.segments().len() - 1;
        assert!(members.is_none_or(|members| members == last + 1));
        for index in 0..last {
            assert_eq!(read_index(&set, index).unwrap(), many()[&nth(index)]);
        }
        let (bytes, _) = read_index(&set, last).unwrap_err();
        assert!(!bytes.is_empty() && many()[&nth(last)].starts_with(&bytes));
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn archive_larger_than_the_limit_is_read_to_the_limit() {
    let packed = gzip(&tar_of_originals());
    let mut input = packed.as_slice();
    let limit = 2 * SEGMENT as u64 + 1000;
    let options = WalSetOptions { stdin: Some(&mut input), spill_bytes: limit, ..WalSetOptions::new(&scratch) };
    let set = WalSet::open(&["-".into()], options).unwrap();
    assert_eq!(set.segments().len(), 3);
    assert_eq!(only(&set, NoteKind::Limit).level, NoteLevel::Skipped);
    assert_eq!(set.segments()[2].size_bytes, Some(1000));
    let mut endless = std::io::repeat(7);
    let endless_options = WalSetOptions { stdin: Some(&mut endless), ..WalSetOptions::new(&scratch) };
    assert!(matches!(WalSet::open(&["-".into()], endless_options), Err(WalSetError::NoWal { .. })));
    let mut endless = std::io::Cursor::new(many()[&nth(0)].clone()).chain(std::io::repeat(7)).take(1 << 40);
    let mut options = WalSetOptions { spill_bytes: limit, ..WalSetOptions::new(&scratch) };
    options.stdin = Some(&mut endless);
    let set = WalSet::open(&["-".into()], options).unwrap();
    assert_eq!(set.segments().len(), 1);
}

#[test]
fn strange_members_are_counted_and_told_apart() {
    let first = many()[&nth(0)].clone();
    let junk: Vec<String> = (0..20_000).map(|index| format!("base/1/{index}")).collect();
    let mut members: Vec<(&str, &[u8])> = junk.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let inner = tar_with(&[(&nth(1), &many()[&nth(1)])]);
    let (second, third) = (nth(1), nth(2));
    let deep = gzip(&gzip(&gzip(&many()[&third])));
    members.push((&second, &inner));
    members.push((&third, &deep));
    let name = format!("pg_wal/{}", nth(0));
    members.push((&name, &first));
    let bytes = tar_with(&members);
    let set = open_stdin(&bytes).unwrap();
    assert_eq!(set.segments().len(), 1);
    assert!(only(&set, NoteKind::Unrecognized).what.contains("20000 members"));
    assert!(only(&set, NoteKind::NotWal).what.contains("archive inside an archive"));
    assert!(only(&set, NoteKind::CannotUnpack).what.contains("compressed more than 2 times"));
}

#[test]
fn tar_header_cannot_ask_for_memory_or_contradict_itself() {
    let mut bytes = tar_of_originals();
    bytes.truncate(2 * (SEGMENT + 512));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(4 << 30);
    header.set_cksum();
    let mut long = bytes.clone();
    long.extend_from_slice(header.as_bytes());
    long.extend_from_slice(&[b'a'; 2048]);
    let set = open_stdin(&long).unwrap();
    assert!(set.segments().len() == 2 && only(&set, NoteKind::Limit).what.contains("4294967296 bytes"));
    let mut broken = bytes.clone();
    broken.extend_from_slice(&[b'a'; 2048]);
    let set = open_stdin(&broken).unwrap();
    let note = only(&set, NoteKind::CannotUnpack);
    assert_eq!((set.segments().len(), note.offset), (2, Some(bytes.len() as u64)));
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_path(nth(3)).unwrap();
    link.set_size(0);
    link.set_cksum();
    let mut linked = bytes;
    linked.extend_from_slice(link.as_bytes());
    linked.extend_from_slice(&[0; 1024]);
    let set = open_stdin(&linked).unwrap();
    assert!(only(&set, NoteKind::Unreadable).what.contains("is a symbolic link; not read"));
}

#[test]
fn large_windows_are_read_unless_less_is_allowed() {
    let name = nth(0);
    for (program, args) in [("xz", &["-9"][..]), ("zstd", &["-q", "--ultra", "-22", "--long=27"])] {
        let Some(packed) = through(program, args, &many()[&name]) else { continue };
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join(&name);
        File::create(&path).unwrap().write_all(&packed).unwrap();
        let set = WalSet::open(std::slice::from_ref(&path), WalSetOptions::new(&scratch)).unwrap();
        assert_eq!(read_index(&set, 0).unwrap(), many()[&name], "{program}");
        let options = WalSetOptions { window_bytes: 8 << 20, ..WalSetOptions::new(&scratch) };
        let refused = WalSet::open(&[path], options).unwrap_err().to_string();
        assert!(refused.contains("cannot be unpacked"), "{program}: {refused}");
    }
}

#[test]
fn segments_are_read_in_several_threads_at_once() {
    let set = open_stdin(&gzip(&tar_of_originals())).unwrap();
    let expected = many();
    std::thread::scope(|scope| {
        for start in 0..4 {
            let set = &set;
            scope.spawn(move || {
                for turn in 0..expected.len() {
                    let index = (turn + start * 3) % expected.len();
                    assert!(read_index(set, index).unwrap() == expected[&nth(index)]);
                }
            });
        }
        let reader = set.reader(0).unwrap();
        scope.spawn(move || drop(reader));
    });
}
