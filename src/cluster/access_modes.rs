//! Owners and modes of files and directories that a server keeps: those that differ from the rest, which a server may not be able to
//! open.
//! Also here: accounts of this machine: `/etc/passwd`; free space of the volumes that a start writes to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{Links, list, read_small};
use super::relation_walk::RelationFile;
use crate::parsers::control::ControlFile;

/// Directories of a server, whose files are looked at, too.
const DIRECTORIES: [&str; 8] = [
    "global",
    "pg_commit_ts",
    "pg_multixact/members",
    "pg_multixact/offsets",
    "pg_subtrans",
    "pg_twophase",
    "pg_wal",
    "pg_xact",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OddModes {
    /// The first such path, relative to the data directory.
    pub first: PathBuf,
    pub found: (u32, u32),
    pub usual: (u32, u32),
    pub count: usize,
}

/// Compares owners and permissions of files with each other, and those of directories.
pub(crate) fn odd_modes(directory: &DataDir, relations: &[RelationFile]) -> Option<OddModes> {
    let root = directory.root();
    let mut seen: [BTreeMap<(u32, u32), (usize, PathBuf)>; 2] = Default::default();
    let mut look = |path: &Path| {
        let Ok(found) = fs::metadata(root.join(path)) else { return };
        let [files, directories] = &mut seen;
        let of_kind = if found.is_dir() { directories } else { files };
        let (count, _) = of_kind.entry((found.uid(), found.mode() & 0o7777)).or_insert((0, path.to_owned()));
        *count = count.saturating_add(1);
    };
    look(Path::new(""));
    for name in DIRECTORIES {
        look(Path::new(name));
        let listed = list(&root.join(name)).unwrap_or_default();
        listed.iter().filter(|(_, kind)| kind.is_file()).for_each(|(file, _)| look(&Path::new(name).join(file)));
    }
    for file in relations {
        look(&file.path);
    }
    seen.into_iter().find_map(odd_of)
}

fn odd_of(seen: BTreeMap<(u32, u32), (usize, PathBuf)>) -> Option<OddModes> {
    let (usual, _) = seen.iter().max_by_key(|(_, (count, _))| *count).map(|(of, found)| (*of, found))?;
    let odd = seen.into_iter().filter(|(of, _)| *of != usual);
    let odd: Vec<((u32, u32), (usize, PathBuf))> = odd.collect();
    let count = odd.iter().map(|(_, (count, _))| count).sum();
    let (found, (_, first)) = odd.into_iter().next()?;
    Some(OddModes { first, found, usual, count })
}

/// The file, and the most bytes of it that are read.
const PASSWD: (&str, u64) = ("/etc/passwd", 4 << 20);

fn passwd() -> String {
    let text = read_small(Path::new(PASSWD.0), Links::Follow, PASSWD.1).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The first of these accounts that exists and is not root: user and group.
pub(crate) fn first_of(accounts: &[&str]) -> Option<(u32, u32)> {
    let text = passwd();
    accounts.iter().find_map(|account| account_of(&text, account))
}

/// A user as `sudo -u` takes it in a shell: the name, or `'#101'` if the number has none.
pub(crate) fn sudo_name(uid: u32) -> String {
    name_of(&passwd(), uid).unwrap_or_else(|| format!("'#{uid}'"))
}

/// A user in a sentence: `postgres (uid 101)`, or `uid 101`.
pub(crate) fn user_words(uid: u32) -> String {
    name_of(&passwd(), uid).map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

fn account_of(text: &str, account: &str) -> Option<(u32, u32)> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        let found = *fields.first()? == account;
        found.then(|| Some((number(2)?, number(3)?)))?.filter(|(uid, _)| *uid != 0)
    })
}

fn name_of(text: &str, uid: u32) -> Option<String> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let found = fields.get(2)?.parse::<u32>().ok()? == uid;
        fields.first().filter(|name| found && !name.is_empty()).map(|name| (*name).to_owned())
    })
}

/// Directories of a data directory whose volumes have no room for one more segment of WAL, each with its free bytes and the bytes that a start
/// needs at least.
///
/// Source: `XLogFileInitInternal`, `src/backend/access/transam/xlog.c`.
pub(crate) fn lacking_room(root: &Path, control: &ControlFile) -> Vec<(&'static str, u64, u64)> {
    let needed_bytes = u64::from(control.geometry.wal_segment_size);
    let free = |name: &'static str| {
        let room = rustix::fs::statvfs(root.join(name)).ok()?;
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        (free_bytes < needed_bytes).then_some((name, free_bytes, needed_bytes))
    };
    let volume = |name: &str| root.join(name).metadata().map(|found| found.dev()).ok();
    let is_one_volume = volume("pg_wal") == volume(".");
    let names = if is_one_volume { &["pg_wal"][..] } else { &["pg_wal", "."] };
    names.iter().copied().filter_map(free).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "root:x:0:0:root:/root:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:105:110:,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn account_is_found_by_its_whole_name_and_is_never_root() {
        assert_eq!(account_of(TEXT, "postgres"), Some((105, 110)));
        assert_eq!(account_of(TEXT, "root"), None);
        assert_eq!(account_of("nobody:x:0:0::/:\n", "nobody"), None);
        assert_eq!(account_of("nobody:x\npostgres\n:::\n", "postgres"), None);
        assert_eq!(account_of("", "postgres"), None);
    }

    #[test]
    fn user_without_a_name_goes_by_the_number() {
        assert_eq!((name_of(TEXT, 105).as_deref(), name_of(TEXT, 0).as_deref()), (Some("postgres"), Some("root")));
        assert_eq!((name_of(TEXT, 10), name_of(":x:9:9:\nshort", 9)), (None, None));
        assert_eq!(
            (sudo_name(u32::MAX - 7), user_words(u32::MAX - 7)),
            ("'#4294967288'".to_owned(), "uid 4294967288".to_owned())
        );
    }
}
