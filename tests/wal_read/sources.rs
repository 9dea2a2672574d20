//! Archives as archivers lay them out, copies of one segment, and that no segment that was given goes missing silently.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::common;
use crate::common::wal_set::*;
use crate::common::{Ran, arg, run, unpack};
use pgforensics::cluster::wal::{NoteKind, NoteLevel, SetNote, WalSet, WalSetError, WalSetOptions};
use pgforensics::inspect::WalRequest;
use pgforensics::inspect::error::InspectError;
use pgforensics::inspect::wal::source::WalSource;
use pgforensics::parsers::crc::crc32c_of_two;
use pgforensics::types::Lsn;
use proptest::prelude::*;

const SEGMENT: usize = 1 << 20;

/// A repository of pgBackRest 2.45 with every codec it has, over a promotion. Never changed.
fn repository() -> PathBuf {
    unpack::unpack("wal/pgbackrest").unwrap()
}

/// Records of that WAL by resource manager, as `pg_waldump` counts them, and how many there are in all.
fn expected_records() -> (BTreeMap<String, u64>, u64) {
    let mut counts = BTreeMap::new();
    let text = fs::read_to_string(repository().join("expected/records.txt")).unwrap();
    for line in text.lines() {
        let rmgr = line.strip_prefix("rmgr: ").unwrap().split_whitespace().next().unwrap();
        *counts.entry(rmgr.to_owned()).or_insert(0) += 1;
    }
    let total = counts.values().sum();
    (counts, total)
}

fn stats(paths: &[&Path], options: &[&str]) -> Ran {
    let mut args = vec!["stats", "--format", "ndjson"];
    args.extend(options);
    args.extend(paths.iter().map(|path| arg(path)));
    run("pg_walfpi", &args)
}

fn records(ran: &Ran) -> u64 {
    ran.of_type("summary")[0]["records"].as_u64().unwrap()
}

#[test]
fn repository_of_pgbackrest_is_read_from_any_of_its_directories() {
    let (by_rmgr, total) = expected_records();
    assert!(total > 1000);
    for below in ["", "archive", "archive/main", "archive/main/15-1"] {
        let ran = stats(&[&repository().join(below)], &["--by", "rmgr"]);
        assert_eq!((ran.status, records(&ran)), (0, total), "{below}: {}", ran.stdout);
        for group in ran.of_type("group") {
            let expected = by_rmgr.get(group["rmgr"].as_str().unwrap()).copied().unwrap_or_default();
            assert_eq!(group["records"].as_u64(), Some(expected), "{below}: {group}");
        }
    }
    // The segment at which the timeline was left is there in both timelines; that of the older one ends early.
    let set = open_in_place(&repository().join("archive/main/15-1/0000000100000000"));
    assert!(set.segments().last().unwrap().partial && set.segments().len() == 8);
}

#[test]
fn cluster_before_an_upgrade_is_not_mixed_with_that_after_it() {
    let temporary = tempfile::tempdir().unwrap();
    let stanza = temporary.path().join("main");
    common::copy_tree(&repository().join("archive/main"), &stanza);
    let older = stanza.join("14-1/0000000100000000");
    fs::rename(stanza.join("15-1"), stanza.join("15-2")).unwrap();
    write_all(&older, &originals(14));
    let ran = stats(&[&stanza], &[]);
    let skipped = ran.of_type("skipped");
    assert_eq!((ran.status, records(&ran), skipped.len()), (2, expected_records().1, 1), "{}", ran.stdout);
    assert!(skipped[0]["what"].as_str().unwrap().ends_with("14-1"), "{skipped:?}");
    assert_same(&open_in_place(&stanza.join("14-1")), &originals(14));
    // Two stanzas are two clusters: neither is chosen.
    fs::rename(&stanza, temporary.path().join("one")).unwrap();
    common::copy_tree(&repository().join("archive/main"), &temporary.path().join("two"));
    let ran = stats(&[temporary.path()], &[]);
    assert!(ran.status == 2 && ran.stderr.contains("has segments, such as"), "{}", ran.stderr);
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn lzma_of(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::LzmaOptions::with_preset(1);
    let mut writer = lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, None).unwrap();
    std::io::Write::write_all(&mut writer, bytes).unwrap();
    writer.finish().unwrap()
}

/// A prefix of WAL-G: `wal_005` beside `basebackups_005`, the name of the segment and the codec's ending.
#[test]
fn prefix_of_wal_g_is_read() {
    let temporary = tempfile::tempdir().unwrap();
    let mut files = BTreeMap::new();
    for (index, (name, bytes)) in originals(18).into_iter().enumerate() {
        let lz4 = || through("lz4", &["-q"], &bytes);
        let (suffix, packed) = match index % 3 {
            0 => ("lzma", lzma_of(&bytes)),
            1 => ("zst", zstd_of(&bytes)),
            _ => lz4().map_or_else(|| ("zst", zstd_of(&bytes)), |packed| ("lz4", packed)),
        };
        files.insert(format!("{name}.{suffix}"), packed);
    }
    assert!(files.len() > 3);
    write_all(&temporary.path().join("wal_005"), &files);
    let backups = temporary.path().join("basebackups_005");
    fs::create_dir_all(&backups).unwrap();
    fs::write(backups.join("base_000000010000000000000008_backup_stop_sentinel.json"), "{}").unwrap();
    for path in [temporary.path().to_owned(), temporary.path().join("wal_005")] {
        let set = open_in_place(&path);
        assert_same(&set, &originals(18));
        assert!(set.notes().iter().all(|note| note.level == NoteLevel::Note), "{:?}", set.notes());
    }
}

/// Directories of Barman: `wals` with a directory for each high part of the number and its list, compressed under plain
/// names, beside `incoming`, `streaming` and the backups.
#[test]
fn directory_of_barman_is_read() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let mut names = Vec::new();
    for (index, (name, bytes)) in originals(18).into_iter().enumerate() {
        let below = match index {
            0 | 1 => root.join("wals").join(&name[..16]),
            2 => root.join("incoming"),
            _ => root.join("streaming"),
        };
        let partial = if index > 2 { ".partial" } else { "" };
        let stored = if index == 1 { gzip(&bytes) } else { bytes };
        write_all(&below, &BTreeMap::from([(format!("{name}{partial}"), stored)]));
        names.push(name);
    }
    fs::write(root.join("wals/xlog.db"), format!("{}\t1048576\t1700000000.0\tgzip\n", names[0])).unwrap();
    fs::create_dir_all(root.join("base/20260101T000000")).unwrap();
    let set = open_in_place(root);
    assert_same(&set, &originals(18));
    assert!(set.notes().iter().all(|note| note.level == NoteLevel::Note), "{:?}", set.notes());
}

#[test]
fn without_the_history_file_older_timelines_are_not_examined() {
    let temporary = tempfile::tempdir().unwrap();
    let archive = temporary.path().join("15-1");
    common::copy_tree(&repository().join("archive/main/15-1"), &archive);
    let history = archive.join("00000002.history");
    let text = fs::read(&history).unwrap();
    let in_all = expected_records().1;
    // Files of history may be packed.
    for (suffix, packed) in [(".gz", gzip(&text)), (".zst", zstd_of(&text))] {
        fs::remove_file(&history).unwrap_or_default();
        let other = archive.join(format!("00000002.history{suffix}"));
        fs::write(&other, packed).unwrap();
        let ran = stats(&[&archive], &[]);
        assert_eq!((ran.status, records(&ran)), (0, in_all), "{suffix}");
        fs::remove_file(other).unwrap();
    }
    let ran = stats(&[&archive], &[]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    let skipped = ran.of_type("skipped");
    assert!(skipped.len() == 1 && skipped[0]["cause"] == "wal_other_timeline", "{skipped:?}");
    let reason = skipped[0]["reason"].as_str().unwrap();
    let named = "7 segments (000000010000000000000008 to 00000001000000000000000E) not checked";
    assert!(reason.contains(named) && reason.contains("00000002.history"), "{reason}");
    // The timeline began in segment 0F: from there on nothing of it can be missing.
    let text = fs::read_to_string(repository().join("expected/records.txt")).unwrap();
    let is_later = |line: &&str| line.split("lsn: 0/").nth(1).is_some_and(|lsn| lsn >= "00F00000");
    let ran = stats(&[&archive], &["--start", "0/F00000"]);
    assert_eq!((ran.status, records(&ran)), (0, text.lines().filter(is_later).count() as u64), "{}", ran.stdout);
    // The older timeline itself needs no history.
    assert_eq!(stats(&[&archive], &["--timeline", "1"]).of_type("skipped").len(), 0);
}

#[test]
fn segment_of_an_ancestor_in_place_of_a_missing_one_is_not_examined() {
    let temporary = tempfile::tempdir().unwrap();
    let archive = temporary.path().join("15-1");
    common::copy_tree(&repository().join("archive/main/15-1"), &archive);
    for entry in fs::read_dir(archive.join("0000000200000000")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("00000002000000000000000F") {
            fs::remove_file(path).unwrap();
        }
    }
    let ran = stats(&[&archive], &[]);
    let reasons: Vec<String> =
        ran.of_type("skipped").iter().map(|skipped| skipped["reason"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(reasons.iter().any(|reason| reason.contains("1 segment (00000001000000000000000F)")), "{reasons:?}");
}

/// Two directories, the second of which has the same segments but for what `change` does to them.
fn two_places(change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let (one, two) = (temporary.path().join("one"), temporary.path().join("two"));
    let mut files = originals(18);
    write_all(&one, &files);
    change(&mut files);
    write_all(&two, &files);
    (temporary, one, two)
}

/// Where records of the fixture start, and how long they are, in order.
fn record_starts() -> Vec<(u64, u64)> {
    let text = fs::read_to_string(unpack::unpack("wal/pg18").unwrap().join("expected/records.txt")).unwrap();
    let number = |text: &str| -> Option<u64> { text.split(['/', ',']).next()?.trim().parse().ok() };
    let record = |line: &str| {
        let lsn: Lsn = line.split("lsn: ").nth(1)?.split(',').next()?.parse().ok()?;
        let length = line.split("len (rec/tot):").nth(1)?.split('/').nth(1)?;
        Some((lsn.0, number(length)?))
    };
    text.lines().filter(|line| line.starts_with("rmgr")).filter_map(record).collect()
}

fn name_at(lsn: u64) -> String {
    format!("{:08X}{:08X}{:08X}", 1, lsn >> 32, (lsn & 0xFFFF_FFFF) >> 20)
}

fn differences(set: &WalSet) -> Vec<&SetNote> {
    set.notes().iter().filter(|note| note.kind == NoteKind::CopiesDiffer).collect()
}

#[test]
fn equal_copies_in_any_form_are_silent() {
    let (temporary, one, two) = two_places(|files| {
        let names: Vec<String> = files.keys().cloned().collect();
        let packed = gzip(&files.remove(&names[0]).unwrap());
        files.insert(format!("{}.gz", names[0]), packed);
        let whole = files.remove(&names[1]).unwrap();
        files.insert(format!("{}.partial", names[1]), whole);
    });
    let linked = temporary.path().join("linked");
    fs::create_dir(&linked).unwrap();
    for name in originals(18).keys() {
        symlink(one.join(name), linked.join(name)).unwrap();
    }
    for paths in [[&one, &two], [&two, &one], [&one, &linked], [&one, &one]] {
        let set = open(&[paths[0], paths[1]]);
        assert_same(&set, &originals(18));
        assert_eq!(set.notes(), [], "{paths:?}");
    }
}

#[test]
fn sound_copy_wins_and_the_first_difference_is_named() {
    let starts = record_starts();
    let size = SEGMENT as u64;
    let crossing = |(lsn, length): &&(u64, u64)| lsn / size != (lsn + length) / size;
    let mut hit: Vec<u64> = starts.iter().step_by(starts.len() / 9).map(|(lsn, _)| lsn + 17).collect();
    // The part of a record that lies in the next segment, after the long header of its first page.
    let over: Vec<u64> = starts.iter().filter(crossing).map(|(lsn, _)| (lsn / size + 1) * size + 40).collect();
    assert!(!over.is_empty());
    hit.extend(over);
    hit.extend(starts.iter().filter(crossing).map(|(lsn, _)| lsn + 20));
    let originals = originals(18);
    for lsn in hit.into_iter().filter(|lsn| originals.contains_key(&name_at(*lsn))) {
        let name = name_at(lsn);
        let at = (lsn % size) as usize;
        let (_kept, one, two) = two_places(|files| files.get_mut(&name).unwrap()[at] ^= 4);
        for paths in [[&one, &two], [&two, &one]] {
            let set = open(&[paths[0], paths[1]]);
            assert_same(&set, &originals);
            let found = differences(&set);
            let last = starts.last().unwrap().0;
            if found.is_empty() && lsn / 8192 == last / 8192 {
                // In the last page a damaged copy can look like one from before.
                let note = only(&set, NoteKind::Duplicate);
                assert!(note.file.as_ref().unwrap().starts_with(arg(&two)), "{note}");
                continue;
            }
            assert_eq!(found.len(), 1, "{lsn:X} {:?}", set.notes());
            assert!(found[0].level == NoteLevel::Problem && found[0].offset == Some(at as u64), "{}", found[0]);
            assert!(found[0].what.contains(&Lsn(lsn).to_string()), "{lsn:X} {}", found[0]);
            assert!(found[0].file.as_ref().unwrap().starts_with(arg(&two)), "{}", found[0]);
        }
    }
}

#[test]
fn comparing_copies_is_told_to_its_end_and_can_be_broken_off_at_any_time() {
    let names: Vec<String> = originals(18).keys().cloned().collect();
    // One differs early and its rest is not read, one is another form of the same bytes.
    let (temporary, one, two) = two_places(|files| {
        files.get_mut(&names[0]).unwrap()[9000] ^= 4;
        let packed = gzip(&files.remove(&names[1]).unwrap());
        files.insert(format!("{}.gz", names[1]), packed);
    });
    let linked = temporary.path().join("linked");
    fs::create_dir(&linked).unwrap();
    symlink(one.join(&names[0]), linked.join(&names[0])).unwrap();
    let total = 2 * (SEGMENT * (names.len() + 1)) as u64;
    let paths = [one, two, linked];
    let open_until = |last_call: usize| {
        let told = Mutex::new(Vec::new());
        let watch = |done, total| {
            let mut told = told.lock().unwrap();
            told.push((done, total));
            if told.len() > last_call { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let scratch = || panic!("nothing here is unpacked first");
        let set = WalSet::open(&paths, WalSetOptions { watch: &watch, ..WalSetOptions::new(&scratch) });
        (set, told.into_inner().unwrap())
    };
    let (set, told) = open_until(usize::MAX);
    assert_same(&set.unwrap(), &originals(18));
    assert!(told.iter().all(|(done, all)| *all == total && *done <= total), "{told:?}");
    assert!(told.iter().any(|(done, _)| *done == total) && told.iter().any(|(done, _)| *done < total / 2), "{told:?}");
    for last_call in [0, 1, told.len() / 2, told.len() - 1] {
        let (set, told) = open_until(last_call);
        assert!(matches!(set, Err(WalSetError::Interrupted)), "{last_call}: {set:?}");
        // Once it is broken off nobody is asked again, but for threads that were about to.
        assert!(told.len() <= last_call + 9, "{last_call}: {}", told.len());
    }
    let request = WalRequest::of_paths(paths.to_vec());
    let at_once = |_, _| ControlFlow::Break(());
    let opened = WalSource::open_watched(&request, &at_once).err();
    assert!(matches!(opened, Some(InspectError::Wal(WalSetError::Interrupted))), "{opened:?}");
    // Alone it is opened without being told anything.
    assert!(WalSource::open_watched(&WalRequest::of_paths(paths[..1].to_vec()), &at_once).is_ok());
}

#[test]
fn records_of_both_that_differ_are_said() {
    let starts = record_starts();
    // A record inside one page, its last byte another one and its CRC right.
    let (lsn, length) =
        *starts.iter().skip(500).find(|(lsn, length)| *length > 60 && lsn / 8192 == (lsn + length) / 8192).unwrap();
    let (from, to) = ((lsn % SEGMENT as u64) as usize, ((lsn + length) % SEGMENT as u64) as usize);
    let (_kept, one, two) = two_places(|files| {
        let bytes = files.get_mut(&name_at(lsn)).unwrap();
        bytes[to - 1] ^= 1;
        let crc = crc32c_of_two(&bytes[from + 24..to], bytes[from..].first_chunk::<20>().unwrap());
        bytes[from + 20..from + 24].copy_from_slice(&crc.to_le_bytes());
    });
    let set = open(&[&one, &two]);
    assert_same(&set, &originals(18));
    let found = differences(&set);
    assert!(found.len() == 1 && found[0].what.contains("records of both hold"), "{:?}", set.notes());
    assert!(found[0].what.contains(&Lsn(lsn + 20).to_string()), "{}", found[0]);
    let ran = stats(&[&one, &two], &[]);
    assert!(ran.status == 1 && ran.of_type("finding").iter().any(|found| found["kind"] == "wal_copies_differ"));
}

#[test]
fn copy_from_before_and_other_bytes_after_the_end_are_no_difference() {
    let starts = record_starts();
    let (last_lsn, last_length) = *starts.last().unwrap();
    let originals = originals(18);
    let (last_name, _) = originals.last_key_value().unwrap();
    let end = ((last_lsn + last_length).next_multiple_of(8) % SEGMENT as u64) as usize;
    assert_eq!(*last_name, name_at(last_lsn));
    // After the end of WAL a server leaves what it likes.
    let (_kept, one, two) = two_places(|files| files.get_mut(last_name).unwrap()[end + 8192..].fill(0x5A));
    let set = open(&[&one, &two]);
    assert_same(&set, &originals);
    assert_eq!(set.notes(), []);
    // A state from before: zeros, or an older segment, from a record on.
    let (lsn, _) = starts[starts.len() / 3];
    let (name, cut) = (name_at(lsn), (lsn % SEGMENT as u64) as usize);
    let older = originals.first_key_value().unwrap().1.clone();
    for recycled in [false, true] {
        let (_kept, one, two) = two_places(|files| {
            let bytes = files.get_mut(&name).unwrap();
            let page = cut.next_multiple_of(8192);
            bytes[cut..page].fill(0);
            if recycled && originals.keys().next() != Some(&name) {
                bytes[page..].copy_from_slice(&older[page..]);
            } else {
                bytes[page..].fill(0);
            }
        });
        for paths in [[&one, &two], [&two, &one]] {
            let set = open(&[paths[0], paths[1]]);
            assert_same(&set, &originals);
            assert_eq!(kinds(&set), [(NoteKind::Duplicate, NoteLevel::Note)], "{:?}", set.notes());
            let note = only(&set, NoteKind::Duplicate);
            assert!(note.file.as_ref().unwrap().starts_with(arg(&two)), "{note}");
        }
        assert_eq!(stats(&[&two, &one], &[]).status, 0);
    }
}

#[test]
fn whole_copy_is_used_where_the_other_cannot_be_unpacked() {
    let (first, bytes) = originals(18).pop_first().unwrap();
    let packed = zstd_of(&bytes);
    let (_kept, one, two) = two_places(|files| {
        files.remove(&first);
        files.insert(format!("{first}.zst"), packed[..packed.len() / 2].to_vec());
    });
    for paths in [[&one, &two], [&two, &one]] {
        let set = open(&[paths[0], paths[1]]);
        assert_same(&set, &originals(18));
        let found = differences(&set);
        assert!(found.len() == 1 && found[0].what.contains("unpacking stops after"), "{:?}", set.notes());
    }
}

/// How a segment is given.
#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Gzip,
    Hashed,
    Partial,
    Deep,
    Link,
    Elsewhere,
    Packed,
    Zeros,
    Foreign,
    LowerCase,
    Brotli,
}

const FORMS: [Form; 12] = [
    Form::Plain,
    Form::Gzip,
    Form::Hashed,
    Form::Partial,
    Form::Deep,
    Form::Link,
    Form::Elsewhere,
    Form::Packed,
    Form::Zeros,
    Form::Foreign,
    Form::LowerCase,
    Form::Brotli,
];

fn give(root: &Path, name: &str, bytes: &[u8], form: Form) -> PathBuf {
    let hash = "0123456789abcdef0123456789abcdef01234567";
    let (below, file, bytes) = match form {
        Form::Plain | Form::Link => (root.to_owned(), name.to_owned(), bytes.to_vec()),
        Form::Gzip => (root.to_owned(), format!("{name}.gz"), gzip(bytes)),
        Form::Hashed => (root.to_owned(), format!("{name}-{hash}"), bytes.to_vec()),
        Form::Partial => (root.to_owned(), format!("{name}.partial"), bytes.to_vec()),
        Form::Deep => (root.join(&name[..16]), name.to_owned(), bytes.to_vec()),
        Form::Elsewhere => (root.join("old"), name.to_owned(), bytes.to_vec()),
        Form::Packed => (root.join("wal_005"), format!("{name}.zst"), zstd_of(bytes)),
        Form::Zeros => (root.to_owned(), name.to_owned(), vec![0; SEGMENT]),
        Form::Foreign => (root.to_owned(), name.to_owned(), [&bytes[..24], &[7; 8], &bytes[32..]].concat()),
        Form::LowerCase => (root.to_owned(), name.to_lowercase(), bytes.to_vec()),
        // Brotli cannot be known by its content.
        Form::Brotli => (root.to_owned(), format!("{name}.br"), vec![0x8B; 4000]),
    };
    fs::create_dir_all(&below).unwrap();
    let path = below.join(&file);
    if matches!(form, Form::Link) {
        let target = root.with_file_name("targets");
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join(&file), bytes).unwrap();
        fs::remove_file(&path).unwrap_or_default();
        symlink(target.join(&file), &path).unwrap();
    } else {
        // Not through a link that is there already.
        fs::remove_file(&path).unwrap_or_default();
        fs::write(&path, bytes).unwrap();
    }
    path
}

/// Segments of a note such as `3 segments (A to B)`.
fn segments_of(note: &SetNote) -> Option<(u64, String, String)> {
    let (count, rest) = note.what.split_once(" segment")?;
    let inside = rest.split_once('(')?.1.split_once(')')?.0;
    let (first, last) = inside.split_once(" to ").unwrap_or((inside, inside));
    Some((count.parse().ok()?, first.to_owned(), last.to_owned()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every segment file that is given is read, is the same as one that is read, or is named with what became of it.
    #[test]
    fn no_segment_is_left_out_silently(
        given in proptest::collection::vec((0_usize..4, 1_u8..4, 0_usize..FORMS.len()), 1..9),
        histories in 0_u8..4,
    ) {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("archive");
        fs::create_dir_all(&root).unwrap();
        let originals: Vec<(String, Vec<u8>)> = originals(18).into_iter().collect();
        let switch = Lsn(u64::from_str_radix(&originals[2].0[16..], 16).unwrap() * SEGMENT as u64 + 0x8000);
        if histories & 1 == 1 {
            fs::write(root.join("00000002.history"), format!("1\t{switch}\tx\n")).unwrap();
        }
        if histories & 2 == 2 {
            fs::write(root.join("00000003.history"), format!("2\t{switch}\tx\n")).unwrap();
        }
        let mut paths = BTreeSet::new();
        for (index, tli, form) in given {
            let (name, bytes) = &originals[index % originals.len()];
            let name = format!("{tli:08X}{}", &name[8..]);
            paths.insert(give(&root, &name, bytes, FORMS[form]));
        }
        let (segments, notes) = match WalSet::open(std::slice::from_ref(&root), WalSetOptions::new(&scratch)) {
            Ok(set) => (set.segments().to_vec(), set.notes().to_vec()),
            Err(WalSetError::NoWal { notes, .. }) => (Vec::new(), notes),
            Err(error) => panic!("{error}"),
        };
        let mut other_timelines = 0;
        for path in &paths {
            let label = path.display().to_string();
            let digits = path.file_name().unwrap().to_str().unwrap()[..24].to_uppercase();
            let is_read = segments.iter().any(|file| file.label == label);
            let is_named = notes.iter().any(|note| {
                let own = note.file.as_ref().is_some_and(|file| *file == label);
                let directory = note.file.as_ref().is_some_and(|file| label.starts_with(&format!("{file}/")));
                own || (directory && note.level == NoteLevel::Skipped)
            });
            // Another form of the same bytes.
            let same_is_read = segments.iter().any(|file| file.label.to_uppercase().contains(&digits));
            let is_of_another = notes.iter().filter_map(segments_of).any(|(_, first, last)| {
                first <= digits && digits <= last && first[..8] == digits[..8]
            });
            other_timelines += u64::from(!is_read && !is_named && is_of_another);
            prop_assert!(is_read || is_named || same_is_read || is_of_another, "{label}: {segments:?} {notes:?}");
        }
        let counted: u64 = notes.iter().filter_map(segments_of).map(|(count, ..)| count).sum();
        prop_assert!(other_timelines <= counted, "{other_timelines} of {counted}: {notes:?}");
    }
}

/// A directory of segments with damage in several of them.
fn damaged(major: u32, every: usize) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("archive");
    let mut files = originals(major);
    let last = files.len() - 1;
    for (index, bytes) in files.values_mut().enumerate() {
        if index % every == 0 && index < last {
            let at = bytes.len() / 3 + 8192 * index + 300;
            bytes[at] ^= 1;
            bytes[at + 40_000] ^= 1;
        }
    }
    write_all(&place, &files);
    (temporary, place)
}

const GROUPINGS: [&str; 5] = ["checkpoint", "rmgr", "relation", "segment", "cause"];

#[test]
fn stats_go_on_after_damage_and_count_what_verify_reads() {
    for major in [10, 13, 15, 18] {
        let (_kept, place) = damaged(major, 2);
        let verified = run("pg_walfpi", &["verify", "--resync", "--format", "ndjson", arg(&place)]);
        let records_of_verify: u64 = verified.of_type("run").iter().map(|run| run["records"].as_u64().unwrap()).sum();
        let damage = verified.of_type("damage");
        assert!(damage.len() >= 2, "{}", verified.stdout);
        let lost: u64 = damage.iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
        for by in GROUPINGS {
            let ran = stats(&[&place], &["--resync", "--by", by]);
            assert_eq!((ran.status, records(&ran)), (2, records_of_verify), "{major} {by}: {}", ran.stdout);
            assert_eq!(ran.of_type("summary")[0]["damaged_bytes"].as_u64(), Some(lost), "{major} {by}");
            let found = ran.of_type("finding").iter().filter(|found| found["kind"] == "damage").count();
            assert_eq!(found, damage.len(), "{major} {by}");
            if by == "checkpoint" {
                let rows: u64 = ran.of_type("interval").iter().map(|row| row["records"].as_u64().unwrap()).sum();
                assert_eq!(rows, records_of_verify, "{major}");
            }
        }
        let stopped = stats(&[&place], &[]);
        assert!(records(&stopped) < records_of_verify && stopped.status == 2);
    }
}

#[test]
fn sound_wal_counts_the_same_with_and_without_resync() {
    for major in [12, 17, 18] {
        for by in GROUPINGS {
            let place = data(major);
            let (plain, resync) = (stats(&[&place], &["--by", by]), stats(&[&place], &["--by", by, "--resync"]));
            let text = resync.stdout.replace(",\"damaged_bytes\":0", "");
            assert_eq!((plain.status, &plain.stdout), (resync.status, &text), "{major} {by}");
        }
    }
}

#[test]
fn gap_does_not_stop_counting() {
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("archive");
    let mut files = originals(18);
    let second = files.keys().nth(1).unwrap().clone();
    files.remove(&second);
    write_all(&place, &files);
    let plain = stats(&[&place], &[]);
    let resync = stats(&[&place], &["--resync"]);
    assert!(records(&plain) > 0 && plain.status == 2, "{}", plain.stdout);
    assert_eq!((records(&plain), plain.status), (records(&resync), resync.status));
    assert!(plain.of_type("interval").iter().any(|row| row["start_lsn"].as_str() > Some("0/00A")));
}

/// Runs a shell script in which `$1` is the program and `$2` a path.
fn shell(script: &str, path: &Path) -> std::process::Output {
    let program = assert_cmd::cargo::cargo_bin("pg_walfpi");
    std::process::Command::new("bash").args(["-c", script, "bash"]).arg(program).arg(path).output().unwrap()
}

#[test]
fn fifo_that_is_named_is_read_once() {
    let temporary = tempfile::tempdir().unwrap();
    let segments = temporary.path().join("segments");
    write_all(&segments, &originals(18));
    let expected = stats(&[&segments], &[]);
    for script in [
        "\"$1\" stats --format ndjson <(cat \"$2\"/0*)",
        "\"$1\" stats --format ndjson <(tar c -C \"$2\" .)",
        "\"$1\" stats --format ndjson <(gzip -c \"$2\"/0*)",
        "mkfifo \"$2\"/../pipe; cat \"$2\"/0* > \"$2\"/../pipe & \"$1\" stats --format ndjson \"$2\"/../pipe",
    ] {
        let output = shell(script, &segments);
        let text = String::from_utf8(output.stdout).unwrap();
        let ran = Ran { status: output.status.code().unwrap(), stdout: text, stderr: String::new() };
        assert_eq!((ran.status, records(&ran)), (expected.status, records(&expected)), "{script}: {}", ran.stdout);
    }
}

#[test]
fn full_device_and_no_rows_are_not_taken_for_success() {
    let place = data(18);
    for arguments in ["stats", "verify", "list", "--help"] {
        let path = if arguments == "--help" { "" } else { "\"$2\"" };
        let script = format!("\"$1\" {arguments} {path} > /dev/full");
        let output = shell(&script, &place);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the output"), "{arguments}");
    }
    let ran = run("pg_walfpi", &["stats", "--format", "json", "--start", "0/B3C000", arg(&data(15))]);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["intervals"], serde_json::json!([]), "{}", ran.stdout);
}

/// A name must not drive a terminal, nor begin a line that looks like one of ours.
#[test]
fn hostile_names_are_escaped_wherever_they_are_printed() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("a\nFAKE \u{1b}[31m");
    common::copy_tree(&data(18), &root);
    fs::write(root.join("pg_wal/x\nFAKE \u{1b}[2J"), "no WAL").unwrap();
    fs::write(root.join("pg_wal/000000010000000000000099"), "no WAL").unwrap();
    let (root, wal, absent) = (arg(&root).to_owned(), root.join("pg_wal"), root.join("absent"));
    let (wal, absent) = (arg(&wal).to_owned(), arg(&absent).to_owned());
    let option = format!("--names={absent}");
    let wal_commands: [&[&str]; 10] = [
        &["stats", &root],
        &["stats", &wal],
        &["stats", &absent],
        &["stats", "-p", &wal, "b\nFAKE"],
        &["stats", "--by", "b\nFAKE", &wal],
        &["stats", "--start", "b\nFAKE", &wal],
        &["stats", &option, &wal],
        &["verify", &wal],
        &["list", &absent],
        &["extract", &wal, &wal],
    ];
    let dwb_commands: [&[&str]; 9] = [
        &["check", &root],
        &["check", &absent],
        &["check", "--wal", &absent, &root],
        &["info", &root],
        &["dump", &root],
        &["verify", &root],
        &["page", &root, "b\nFAKE", "0"],
        &["repair", &root, "--journal", &root],
        &["undo", &absent],
    ];
    let all = wal_commands
        .iter()
        .map(|args| ("pg_walfpi", args))
        .chain(dwb_commands.iter().map(|args| ("pg_dwbinspect", args)));
    let mut seen = 0;
    for (program, args) in all {
        let ran = run(program, args);
        for text in [&ran.stdout, &ran.stderr] {
            seen += text.matches("\\nFAKE").count();
            assert!(!text.contains('\u{1b}'), "{program} {args:?}: {text}");
            assert!(!text.lines().any(|line| line.starts_with("FAKE")), "{program} {args:?}: {text}");
        }
    }
    assert!(seen > 10, "{seen}");
}

/// The server has given the last file of this directory a new name, and not written it since. Whatever the directory is called
/// by, and whether a segment is missing or not, that file is no older WAL.
#[test]
fn renamed_segment_is_left_out_however_pg_wal_is_named() {
    let data = unpack::data_dir("wal/pg11").unwrap();
    for missing in [None, Some("00000001000000000000000A"), Some("000000010000000000000009")] {
        let root = tempfile::tempdir().unwrap();
        let (directory, link) = (root.path().join("pg_wal"), root.path().join("link"));
        fs::create_dir(&directory).unwrap();
        for entry in fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            if name.len() == 24 && Some(name.as_str()) != missing {
                fs::copy(entry.path(), directory.join(name)).unwrap();
            }
        }
        symlink(&directory, &link).unwrap();
        let answer = |at: &Path, path: &str| {
            let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("pg_walfpi"));
            let ran = command.current_dir(at).args(["verify", "--format", "ndjson", path]).output().unwrap();
            let lines = String::from_utf8(ran.stdout).unwrap();
            let rows = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let said: Vec<String> = rows
                .filter(|row| row["type"] != "begin")
                .map(|row| format!("{} {} {} {}", row["type"], row["kind"], row["first_segment"], row["records"]))
                .collect();
            (ran.status.code(), said)
        };
        let expected = answer(root.path(), "pg_wal");
        assert!(expected.1.iter().any(|said| said.contains("wal_leftover")), "{missing:?}: {expected:?}");
        assert!(!expected.1.iter().any(|said| said.contains("000000010000000000000007")), "{missing:?}: {expected:?}");
        for (at, path) in [(&*directory, "."), (root.path(), "link"), (&*link, "."), (root.path(), "pg_wal/")] {
            assert_eq!(answer(at, path), expected, "{missing:?} {path}");
        }
    }
}
