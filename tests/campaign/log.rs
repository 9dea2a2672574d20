//! The log of writes and syncs that `record.c` makes: which writes no sync has followed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A write that no sync has followed.
#[derive(Clone)]
pub struct Write {
    pub offset: u64,
    /// What was there; shorter than `after` where the file ended.
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

/// Writes that may not be on disk, by the path below the data directory, in their order.
#[derive(Default)]
pub struct Unsynced(pub BTreeMap<PathBuf, Vec<Write>>);

/// Bytes of the head of an entry.
const HEAD: usize = 24;

impl Unsynced {
    /// Reads a log of the server in `data`.
    pub fn read(log: &Path, data: &Path) -> io::Result<Self> {
        let data = fs::canonicalize(data)?;
        let bytes = fs::read(log)?;
        let mut found = Self::default();
        let mut rest = bytes.as_slice();
        // The crash may have cut the last entry, of a write that was made; with it cut off the write counts as synced.
        while rest.len() >= HEAD {
            let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("4 bytes")) as usize;
            let (kind, path, before, after) = (number(0), number(4), number(16), number(20));
            let offset = u64::from_le_bytes(rest[8..16].try_into().expect("8 bytes"));
            if rest.len() < HEAD + path + before + after {
                break;
            }
            let (texts, next) = rest[HEAD..].split_at(path + before + after);
            let path_of = |bytes: &[u8]| {
                let path = PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
                path.strip_prefix(&data).map(Path::to_owned).unwrap_or(path)
            };
            let name = path_of(&texts[..path]);
            let (old, new) = texts[path..].split_at(before);
            found.add(kind, name, offset, old, new, path_of);
            rest = next;
        }
        Ok(found)
    }

    fn add(
        &mut self,
        kind: usize,
        path: PathBuf,
        offset: u64,
        old: &[u8],
        new: &[u8],
        path_of: impl Fn(&[u8]) -> PathBuf,
    ) {
        match kind {
            1 => {
                let write = Write { offset, before: old.to_vec(), after: new.to_vec() };
                self.0.entry(path).or_default().push(write);
            }
            // A truncation of the file: what was written past its end is gone.
            3 => {
                if let Some(writes) = self.0.get_mut(&path) {
                    for write in writes.iter_mut() {
                        let left = usize::try_from(offset.saturating_sub(write.offset)).unwrap_or(usize::MAX);
                        write.after.truncate(left);
                        write.before.truncate(left);
                    }
                    writes.retain(|write| !write.after.is_empty());
                }
            }
            4 => {
                if let Some(writes) = self.0.remove(&path) {
                    self.0.insert(path_of(new), writes);
                }
            }
            // A sync, or the end of the file.
            _ => drop(self.0.remove(&path)),
        }
    }
}
