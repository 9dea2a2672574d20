//! New files go outside of the data that is being examined. This module alone decides so: journals, plans and exported
//! images all ask here, and what cannot be found out is a refusal.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::held::{HeldDir, is_same, split};
use crate::cluster::open::AccessError;

/// Deepest directory that is examined, counted from the root of the file system.
const MAX_DEPTH: usize = 4096;

/// Why nothing new is made under a path.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Something of that name exists, and nothing is overwritten.
    #[error("{} exists: pass another name, or remove it first (File exists)", .0.display())]
    Exists(PathBuf),
    /// The path belongs to the data.
    #[error("{} is inside {}. Choose a directory outside the data directory", path.display(), protected.display())]
    Inside {
        /// Path of the new file or directory.
        path: PathBuf,
        /// Directory that it is inside of.
        protected: PathBuf,
    },
    /// Whether it does cannot be found out.
    #[error("it is unknown whether {} is inside a data directory, so nothing is written there: {why}", path.display())]
    Unclear {
        /// Path of the new file or directory.
        path: PathBuf,
        /// The failed access.
        why: AccessError,
    },
}

/// A directory that nothing is written into.
#[derive(Debug)]
enum Protected {
    Directory(PathBuf, Box<Stat>),
    /// It is missing now, like a tablespace whose disk is not mounted. The path is free of links as far as it exists.
    Absent(PathBuf),
}

/// Opens the directory that something new is made in, if it lies outside of `protected` and of every data directory.
pub(super) fn open_outside(directory: &Path, protected: &[PathBuf]) -> Result<HeldDir, OutsideError> {
    let held = HeldDir::open(directory)?;
    check(&held, None, protected)?;
    Ok(held)
}

/// Makes sure that a directory in which something new is made lies outside of `protected` and of every data directory.
pub(crate) fn check_outside(directory: &Path, protected: &[PathBuf]) -> Result<(), OutsideError> {
    open_outside(directory, protected).map(drop)
}

/// Checks that a held directory is outside, and the entry `new` to create in it.
pub(super) fn check(held: &HeldDir, new: Option<&Path>, protected: &[PathBuf]) -> Result<(), OutsideError> {
    let path = new.map_or_else(|| held.path().to_owned(), |name| held.path().join(name));
    let unclear = |why| OutsideError::Unclear { path: path.clone(), why };
    let inside = |protected: &Path| OutsideError::Inside { path: path.clone(), protected: protected.to_owned() };
    let protected = protected.iter().map(|path| look_at(path)).collect::<Result<Vec<_>, _>>().map_err(unclear)?;
    let real = fs::canonicalize(held.path()).map_err(|source| unclear(AccessError::io("find", held.path(), source)))?;
    let real = new.map_or_else(|| real.clone(), |name| real.join(name));
    for absent in protected.iter().filter_map(|one| match one {
        Protected::Absent(path) => Some(path),
        Protected::Directory(..) => None,
    }) {
        if real.starts_with(absent) {
            return Err(inside(absent));
        }
    }
    // Upwards by what the directories are, not by what they are called: a bind mount is another name for the same one.
    let mut above = PathBuf::new();
    let mut below = None::<Stat>;
    for _ in 0..MAX_DEPTH {
        let at = |name: &str| {
            let path = above.join(name);
            rustix::fs::statat(held.handle(), &path, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| (path, error))
        };
        let failed = |(path, error): (PathBuf, Errno)| {
            unclear(AccessError::io("examine", &held.path().join(path), error.into()))
        };
        let here = at(".").map_err(failed)?;
        if below.as_ref().is_some_and(|below| is_same(below, &here)) {
            return Ok(());
        }
        for one in &protected {
            if let Protected::Directory(path, stat) = one
                && is_same(stat, &here)
            {
                return Err(inside(path));
            }
        }
        let data = || fs::canonicalize(held.path().join(&above)).unwrap_or_else(|_| real.clone());
        match at("PG_VERSION") {
            Ok(_) => return Err(inside(&data())),
            Err((_, Errno::NOENT)) => {}
            Err(failure) => return Err(failed(failure)),
        }
        match held.has_name(if above.as_os_str().is_empty() { Path::new(".") } else { &above }, is_of_tablespace) {
            Ok(false) => {}
            Ok(true) => return Err(inside(&data())),
            // A server makes the directory of a tablespace accessible to its owner alone: whoever may pass it may list it.
            Err(error) if error.is_denied() => {}
            Err(error) => return Err(unclear(error)),
        }
        below = Some(here);
        above.push("..");
    }
    Err(unclear(AccessError::io("find the top of", held.path(), Errno::LOOP.into())))
}

/// True for the name of the directory that a server makes in a tablespace: `PG_15_202209061`, by its major and the version of its
/// catalogs.
///
/// Source: `TABLESPACE_VERSION_DIRECTORY`, `src/include/common/relpath.h`.
fn is_of_tablespace(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"PG_") else { return false };
    let mut parts = rest.splitn(2, |byte| *byte == b'_');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
    };
    is_number(parts.next()) && is_number(parts.next())
}

fn look_at(path: &Path) -> Result<Protected, AccessError> {
    match rustix::fs::stat(path) {
        Ok(stat) => Ok(Protected::Directory(path.to_owned(), Box::new(stat))),
        Err(Errno::NOENT) => absent(path).map(Protected::Absent),
        Err(error) => Err(AccessError::io("examine", path, error.into())),
    }
}

/// Where a path that does not exist would be: the part that exists, without links, and the rest.
fn absent(path: &Path) -> Result<PathBuf, AccessError> {
    let path = std::path::absolute(path).map_err(|source| AccessError::io("find", path, source))?;
    let mut rest: Vec<&OsStr> = Vec::new();
    let mut existing = path.as_path();
    loop {
        match existing.symlink_metadata() {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(AccessError::io("examine", existing, source)),
        }
        // What does not exist has no parent but the one that its name says; `..` after it has no target.
        match (existing.components().next_back(), existing.parent()) {
            (Some(Component::Normal(name)), Some(parent)) => {
                rest.push(name);
                existing = parent;
            }
            _ => return Err(AccessError::io("find", &path, Errno::NOENT.into())),
        }
    }
    // A dangling symlink fails here: its target is unknown.
    let real = fs::canonicalize(existing).map_err(|source| AccessError::io("find", existing, source))?;
    Ok(rest.iter().rev().fold(real, |path, name| path.join(name)))
}

/// Opens the directory that a new file or directory is made in, and gives its name there.
pub(super) fn open_parent<'a>(path: &'a Path, protected: &[PathBuf]) -> Result<(HeldDir, &'a Path), OutsideError> {
    let (parent, name) = split(path).ok_or_else(|| AccessError::io("create", path, Errno::INVAL.into()))?;
    let held = HeldDir::open(parent)?;
    check(&held, Some(name), protected)?;
    Ok((held, name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refused(directory: &Path, protected: &[PathBuf]) -> Option<bool> {
        match open_outside(directory, protected) {
            Ok(_) => None,
            Err(OutsideError::Inside { .. }) => Some(true),
            Err(_) => Some(false),
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests make what they examine")]
    fn what_belongs_to_the_data_is_refused_by_whatever_name() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        for name in
            ["data/base", "next_to", "other/pg_wal", "mount", "space/PG_15_202209061/5", "space/mine", "PG_notes"]
        {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("other/PG_VERSION"), "15\n").unwrap();
        symlink(path("data/base"), path("link")).unwrap();
        let protected = [path("data"), path("mount/disk/space")];
        assert_eq!(refused(&path("next_to"), &protected), None);
        let inside = ["data", "data/base", "link", "other", "other/pg_wal", "next_to/../data"];
        // A tablespace of any cluster is told by what a server makes in it.
        for inside in
            inside.into_iter().chain(["space", "space/mine", "space/PG_15_202209061", "space/PG_15_202209061/5"])
        {
            assert_eq!(refused(&path(inside), &protected), Some(true), "{inside}");
        }
        // A tablespace whose disk is not mounted: its path is refused, and what is made below it, but nothing else.
        fs::create_dir_all(path("mount/disk/spacer")).unwrap();
        assert_eq!(refused(&path("mount"), &protected), None);
        assert_eq!(refused(&path("mount/disk/spacer"), &protected), None);
        let space = path("mount/disk/space");
        assert!(matches!(open_parent(&space, &protected), Err(OutsideError::Inside { .. })));
        assert!(open_parent(&path("mount/disk/spaced"), &protected).is_ok());
        fs::create_dir_all(path("mount/disk/space/new")).unwrap();
        assert_eq!(refused(&path("mount/disk/space/new"), &protected), Some(true));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests make what they examine")]
    fn what_cannot_be_found_out_is_a_refusal() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        fs::create_dir_all(path("next_to")).unwrap();
        symlink(path("loop"), path("loop")).unwrap();
        symlink(path("nowhere"), path("dangling")).unwrap();
        fs::write(path("file"), "").unwrap();
        for unclear in ["loop", "loop/x", "dangling/x", "dangling", "file/x", "gone/../x"] {
            assert_eq!(refused(&path("next_to"), &[path(unclear)]), Some(false), "{unclear}");
        }
        assert_eq!(refused(&path("nowhere"), &[]), Some(false));
    }
}
