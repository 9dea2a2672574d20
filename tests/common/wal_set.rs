//! Opens WAL sets and compares what they deliver.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pgforensics::cluster::wal::{NoteKind, NoteLevel, SetNote, WalSegmentFile, WalSet, WalSetError, WalSetOptions};
use pgforensics::parsers::wal::page::PageHeader;
use pgforensics::parsers::wal::timeline::WalSegment;
use pgforensics::types::Lsn;

use crate::common::{skipped, unpack};

pub fn scratch() -> io::Result<File> {
    tempfile::tempfile()
}

pub fn no_scratch() -> io::Result<File> {
    panic!("nothing here needs a temporary file")
}

pub fn open(paths: &[&Path]) -> WalSet {
    let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
    WalSet::open(&paths, WalSetOptions::new(&scratch)).unwrap()
}

pub fn open_in_place(path: &Path) -> WalSet {
    WalSet::open(&[path.to_owned()], WalSetOptions::new(&no_scratch)).unwrap()
}

pub fn open_stdin(bytes: &[u8]) -> Result<WalSet, WalSetError> {
    let mut input = bytes;
    WalSet::open(&["-".into()], WalSetOptions { stdin: Some(&mut input), ..WalSetOptions::new(&scratch) })
}

/// Data directory of a fixture: never changed.
pub fn data(major: u32) -> PathBuf {
    unpack::data_dir(&format!("wal/pg{major}")).unwrap()
}

/// Segments of a fixture that hold the WAL their name says: name and bytes, in order.
pub fn originals(major: u32) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(data(major).join("pg_wal")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.len() == 24 {
            let bytes = fs::read(entry.path()).unwrap();
            let header = PageHeader::decode(Lsn(0), &bytes).unwrap();
            let size = header.long.unwrap().segment_size;
            if WalSegment::from_file_name(&name, size).unwrap().start_lsn(size) == Some(header.page_addr) {
                found.insert(name, bytes);
            }
        }
    }
    found
}

pub fn write_all(directory: &Path, files: &BTreeMap<String, Vec<u8>>) {
    fs::create_dir_all(directory).unwrap();
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

pub fn read_index(set: &WalSet, index: usize) -> Result<Vec<u8>, (Vec<u8>, String)> {
    let mut bytes = Vec::new();
    let mut reader = set.reader(index).map_err(|error| (Vec::new(), error.to_string()))?;
    loop {
        match reader.next_piece() {
            Ok(Some(piece)) => {
                assert!(!piece.is_empty() && piece.len() <= 256 * 1024);
                bytes.extend_from_slice(piece);
            }
            Ok(None) => return Ok(bytes),
            Err(error) => {
                assert!(matches!(reader.next_piece(), Ok(None)), "an error ends reading");
                return Err((bytes, error.to_string()));
            }
        }
    }
}

pub fn name_of(set: &WalSet, file: &WalSegmentFile) -> String {
    file.segment.file_name(set.geometry().wal_segment_size).unwrap()
}

/// All segments by name, as delivered.
pub fn delivered(set: &WalSet) -> BTreeMap<String, Vec<u8>> {
    let indexed = set.segments().iter().enumerate();
    indexed.map(|(index, file)| (name_of(set, file), read_index(set, index).unwrap())).collect()
}

pub fn assert_same(set: &WalSet, expected: &BTreeMap<String, Vec<u8>>) {
    let found = delivered(set);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in expected {
        assert!(found[name] == *bytes, "bytes of {name} differ");
    }
}

pub fn kinds(set: &WalSet) -> Vec<(NoteKind, NoteLevel)> {
    set.notes().iter().map(|note| (note.kind, note.level)).collect()
}

pub fn has(set: &WalSet, kind: NoteKind, level: NoteLevel) -> bool {
    kinds(set).contains(&(kind, level))
}

/// Gives bytes to a command and takes what it writes; `None` when the command is not installed.
pub fn through(program: &str, args: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
    let spawned = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            skipped(&format!("{program} is not installed"));
            return None;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let mut input = child.stdin.take().unwrap();
    let copy = bytes.to_owned();
    let writer = std::thread::spawn(move || input.write_all(&copy));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{program}");
    Some(output.stdout)
}

/// Commands that compress, and the ending of their files.
pub const COMPRESSORS: [(&str, &[&str], &str); 6] = [
    ("gzip", &["-1"], ".gz"),
    ("bzip2", &["-1"], ".bz2"),
    ("xz", &["-1"], ".xz"),
    ("zstd", &["-q"], ".zst"),
    ("lz4", &["-q"], ".lz4"),
    ("lz4", &["-q", "-BD", "-B4", "--no-frame-crc"], ".lz4"),
];

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A tar file made by the `tar` command, members in this order.
pub fn tar_of(directory: &Path, names: &[String], format: &str) -> Option<Vec<u8>> {
    let directory = directory.to_str().unwrap();
    let mut args = vec!["-c", "-f", "-", format, "-C", directory];
    args.extend(names.iter().map(String::as_str));
    through("tar", &args, &[])
}

/// The only note of a kind.
pub fn only(set: &WalSet, kind: NoteKind) -> &SetNote {
    let found: Vec<_> = set.notes().iter().filter(|note| note.kind == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?} in {:?}", set.notes());
    found[0]
}
