//! `pg_dwbinspect verify` of base backups in tar format: the same answers as for the unpacked files, whatever the compression, and
//! archives that are damaged or made to do harm.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::common::wal_set;
use crate::common::wal_set::{COMPRESSORS, through};
use crate::common::{Ran, arg, cluster, dwbinspect, skipped};
use serde_json::{Value, json};

fn verify(path: &Path, more: &[&str]) -> Ran {
    dwbinspect(&[&["verify", "--format", "ndjson", arg(path)], more].concat())
}

/// Everything that an answer says of pages, apart from names of relations and databases, links between pages, and what only a directory has.
fn answer(ran: &Ran) -> Value {
    let mut pages = ran.of_type("damaged_page");
    for name in ["relation", "database"] {
        pages.iter_mut().for_each(|page| page[name] = Value::Null);
    }
    // `tablespace_map` is a file of archives.
    let of_directories =
        ["recovery_signal", "names", "stale_pid_file", "links_uncertain", "links_of_damaged_pages", "not_compared"];
    let findings: Vec<Value> = ran
        .of_type("finding")
        .into_iter()
        .filter(|finding| !of_directories.contains(&finding["kind"].as_str().unwrap()))
        .filter(|finding| !finding["kind"].as_str().unwrap().starts_with("link"))
        .collect();
    let mut summary = ran.of_type("summary").remove(0);
    for field in ["bytes", "holes_bytes", "problems", "exit_status"] {
        summary.as_object_mut().unwrap().remove(field);
    }
    json!({ "pages": pages, "findings": findings, "skipped": ran.of_type("skipped"), "summary": summary })
}

/// Packs a data directory as `pg_basebackup` does: the control file last, a tablespace into an archive of its own. `map`: what
/// `tablespace_map` says.
fn pack(data: &Path, into: &Path, map: &str) {
    let mut base = tar::Builder::new(File::create(into.join("base.tar")).unwrap());
    base.follow_symlinks(false);
    let mut header = tar::Header::new_gnu();
    header.set_size(map.len() as u64);
    base.append_data(&mut header, "tablespace_map", map.as_bytes()).unwrap();
    let control = Path::new("global/pg_control");
    let mut stack = vec![PathBuf::new()];
    while let Some(relative) = stack.pop() {
        let mut entries: Vec<_> = fs::read_dir(data.join(&relative)).unwrap().map(|entry| entry.unwrap()).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = relative.join(entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_symlink() && relative == Path::new("pg_tblspc") {
                let name = format!("{}.tar", entry.file_name().to_str().unwrap());
                let mut archive = tar::Builder::new(File::create(into.join(name)).unwrap());
                archive.append_dir_all("", fs::canonicalize(entry.path()).unwrap()).unwrap();
                archive.finish().unwrap();
            } else if kind.is_dir() {
                base.append_dir(&path, entry.path()).unwrap();
                stack.push(path);
            } else if kind.is_file() && path != control && path != Path::new("postmaster.pid") {
                base.append_path_with_name(entry.path(), &path).unwrap();
            }
        }
    }
    base.append_path_with_name(data.join(control), control).unwrap();
    base.finish().unwrap();
}

/// A data directory and its archives.
fn packed(case: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let archives = temporary.path().join("backup");
    fs::create_dir(&archives).unwrap();
    let data = cluster(case);
    pack(&data, &archives, "");
    (temporary, data, archives)
}

/// Where the data of a member starts in an archive.
fn data_of(archive: &Path, member: &str) -> usize {
    let mut reader = tar::Archive::new(File::open(archive).unwrap());
    let mut found = reader.entries().unwrap().map(|entry| entry.unwrap());
    let entry = found.find(|entry| entry.path().unwrap() == Path::new(member)).unwrap_or_else(|| panic!("{member}"));
    usize::try_from(entry.raw_file_position()).unwrap()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn archives_give_the_answer_of_the_unpacked_files() {
    for case in ["evict", "tablespace", "nochecksums", "clean", "reva"] {
        let (_kept, data, archives) = packed(case);
        for more in [&[][..], &["--replay"], &["--jobs", "1"], &["--fork", "fsm,vm"], &["--path", "base/5"]] {
            let (unpacked, packed) = (verify(&data, more), verify(&archives, more));
            let (mut expected, mut found) = (answer(&unpacked), answer(&packed));
            // The order of WAL, which comes from the archive here, has notes of its own.
            expected["skipped"].as_array_mut().unwrap().clear();
            assert_eq!(found["skipped"], json!([]), "{case} {more:?}");
            found["skipped"].as_array_mut().unwrap().clear();
            assert_eq!(found, expected, "{case} {more:?}");
            assert_eq!(packed.of_type("summary")[0]["bytes"], unpacked.of_type("summary")[0]["bytes"]);
        }
        let single = verify(&archives.join("base.tar"), &[]);
        assert_eq!(answer(&single), answer(&verify(&archives, &[])), "{case}: the base named by itself");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn compression_changes_nothing() {
    let (kept, _, archives) = packed("tablespace");
    let expected = answer(&verify(&archives, &["--replay"]));
    for (number, (program, options, ending)) in COMPRESSORS.into_iter().enumerate() {
        if !["gz", "lz4", "zst"].contains(&ending.trim_start_matches('.')) {
            continue;
        }
        let directory = kept.path().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        let mut is_there = true;
        for entry in fs::read_dir(&archives).unwrap().map(|entry| entry.unwrap()) {
            let Some(bytes) = through(program, options, &fs::read(entry.path()).unwrap()) else {
                is_there = false;
                break;
            };
            let name = format!("{}.{}", entry.file_name().to_str().unwrap(), ending.trim_start_matches('.'));
            fs::write(directory.join(name), bytes).unwrap();
        }
        if !is_there {
            skipped(&format!("{program} is not installed here"));
            continue;
        }
        assert_eq!(answer(&verify(&directory, &["--replay"])), expected, "{program}");
    }
}

/// A compressed stream that breaks, or ends early, leaves the rest unexamined: never a clean answer.
#[test]
fn archive_that_is_cut_or_broken_is_not_examined_to_its_end() {
    let (kept, _, archives) = packed("clean");
    assert_eq!(verify(&archives, &[]).status, 0);
    let plain = fs::read(archives.join("base.tar")).unwrap();
    let directory = kept.path().join("broken");
    fs::create_dir(&directory).unwrap();
    let cuts: Vec<usize> = [3, 5, 8].iter().map(|eighths| plain.len() / 8 * eighths).collect();
    for cut in cuts.iter().map(|cut| cut - 4096) {
        fs::write(directory.join("base.tar"), &plain[..cut]).unwrap();
        let ran = verify(&directory, &[]);
        assert_eq!(ran.status, 2, "{cut}");
        assert!(!ran.of_type("skipped").is_empty() || !ran.stderr.is_empty(), "{cut}");
    }
    fs::remove_file(directory.join("base.tar")).unwrap();
    let mut packed = wal_set::gzip(&plain);
    let middle = packed.len() / 2;
    for (what, change) in [("broken", true), ("cut", false)] {
        if change {
            packed[middle..middle + 64].fill(0x5A);
        } else {
            packed.truncate(middle);
        }
        fs::write(directory.join("base.tar.gz"), &packed).unwrap();
        let ran = verify(&directory, &[]);
        assert_eq!(ran.status, 2, "{what}");
    }
}

/// Members that are made to do harm: names that lead out, links in the place of files, sizes that cannot be.
#[test]
fn hostile_members_are_told_and_do_no_harm() {
    let (kept, data, _) = packed("clean");
    let directory = kept.path().join("hostile");
    fs::create_dir(&directory).unwrap();
    let header = |size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o600);
        header
    };
    let mut archive = tar::Builder::new(File::create(directory.join("base.tar")).unwrap());
    for name in ["PG_VERSION", "global/pg_control"] {
        archive.append_path_with_name(data.join(name), name).unwrap();
    }
    let raw = |header: &mut tar::Header, name: &str| {
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
    };
    let mut up = header(5);
    raw(&mut up, "base/5/../../../16384");
    archive.append(&up, &b"12345"[..]).unwrap();
    let mut link = header(0);
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_link_name("/etc/passwd").unwrap();
    raw(&mut link, "base/5/16385");
    archive.append(&link, &b""[..]).unwrap();
    let page = fs::read(data.join("base/5/1259")).unwrap();
    for _ in 0..2 {
        let mut twice = header(8192);
        raw(&mut twice, "base/5/1259");
        archive.append(&twice, &page[..8192]).unwrap();
    }
    let mut file = archive.into_inner().unwrap();
    let mut huge = header(1 << 59);
    raw(&mut huge, "base/5/16386");
    std::io::Write::write_all(&mut file, huge.as_bytes()).unwrap();
    std::io::Write::write_all(&mut file, &page[..8192]).unwrap();
    drop(file);
    let ran = verify(&directory, &[]);
    assert_eq!(ran.status, 2);
    let said: BTreeSet<String> =
        ran.of_type("skipped").iter().map(|row| row["what"].as_str().unwrap().to_owned()).collect();
    for part in ["base/5/16385", "base/5/1259", "base/5/16386"] {
        assert!(said.iter().any(|what| what.contains(part)), "{part}: {said:?}");
    }
    assert!(said.iter().any(|what| what.ends_with("base.tar")), "{said:?}");
    assert_eq!(ran.of_type("summary")[0]["pages"], 3);
}

#[test]
fn archive_of_a_tablespace_that_is_missing_is_told() {
    let (kept, data, _) = packed("tablespace");
    let archives = kept.path().join("again");
    fs::create_dir(&archives).unwrap();
    pack(&data, &archives, "16384 /somewhere\n");
    assert_eq!(verify(&archives, &[]).of_type("skipped"), Vec::<Value>::new());
    fs::remove_file(archives.join("16384.tar")).unwrap();
    let ran = verify(&archives, &[]);
    assert_eq!((ran.of_type("skipped").len(), ran.status), (1, 2));
    assert!(ran.of_type("skipped")[0]["what"].as_str().unwrap().ends_with("16384.tar"));
}

/// The control file comes last and may disagree with what the first pages seemed to say.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn control_file_decides_whatever_the_first_pages_say() {
    let (_kept, _, archives) = packed("nochecksums");
    let path = archives.join("base.tar");
    let plain = verify(&archives, &[]);
    let gz = archives.join("base.tar.gz");
    fs::write(&gz, wal_set::gzip(&fs::read(&path).unwrap())).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(answer(&verify(&archives, &[])), answer(&plain));
    // The same archive with a control file that says that checksums are on.
    let control = data_of_bytes(&bytes, "global/pg_control");
    bytes[control + 264] = 1;
    let crc = pgforensics::parsers::crc::crc32c(&bytes[control..control + 304]);
    bytes[control + 304..control + 308].copy_from_slice(&crc.to_le_bytes());
    fs::write(&gz, wal_set::gzip(&bytes)).unwrap();
    let on = verify(&archives, &[]);
    let summary = on.of_type("summary").remove(0);
    assert!(summary["checksum_failures"].as_u64().unwrap() > 1000, "{summary}");
}

fn data_of_bytes(bytes: &[u8], member: &str) -> usize {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    data_of(file.path(), member)
}
