//! A server looked for among the processes of the machine, whatever `postmaster.pid` says: in a container a server has
//! another number, and its shared memory is not to be seen from outside; and the file may be gone.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Directories below the data directory whose files a server keeps open.
const SERVER_DIRECTORIES: [&str; 3] = ["base", "global", "pg_wal"];

/// Open files of one process that are looked at, at most.
const MOST_OPEN_FILES: usize = 4096;

/// What the processes of the machine tell of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// None works in the directory.
    None,
    /// This one does.
    Server {
        /// Its number here.
        pid: i32,
        /// What runs.
        command: String,
    },
    /// There may be one: not every process can be looked at.
    Unclear {
        /// Why.
        why: String,
    },
}

/// Looks for a process that works in `data_dir`, as every process of a server does, and is a server: by its name, or by
/// files of the cluster that it has open. A shell that merely stands in the directory is none.
///
/// `proc`: where the system lists its processes. Processes that end meanwhile are passed over.
#[must_use]
pub fn find_server(data_dir: &Path, proc: &Path) -> Search {
    let Ok(own) = data_dir.metadata() else { return Search::None };
    let processes = match fs::read_dir(proc) {
        Ok(processes) => processes,
        Err(error) => {
            let why = format!("cannot list {}: {error}; a server in a container cannot be ruled out", proc.display());
            return Search::Unclear { why };
        }
    };
    let mut hidden = None;
    for entry in processes.filter_map(Result::ok) {
        let Some(pid) = number_of(&entry).filter(|pid| u32::try_from(*pid) != Ok(std::process::id())) else { continue };
        let process = entry.path();
        match fs::metadata(process.join("cwd")) {
            Ok(cwd) if (cwd.dev(), cwd.ino()) == (own.dev(), own.ino()) => {
                if is_server(&process) {
                    return Search::Server { pid, command: command_of(&process).unwrap_or_default() };
                }
            }
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            // A server belongs to the owner of its directory, or to the superuser where the system hides its owner.
            Err(error) => {
                let owner = entry.metadata().map(|process| process.uid());
                let may_be = owner.is_ok_and(|owner| owner == own.uid() || owner == 0);
                if let Some(command) = command_of(&process).filter(|name| may_be && is_server_name(name)) {
                    let why = format!("where process {pid} ({command}) works cannot be seen: {error}");
                    hidden.get_or_insert(why);
                }
            }
        }
    }
    let user = rustix::process::geteuid();
    if hidden.is_none() && !user.is_root() && user.as_raw() != own.uid() && is_hidden(&proc.join("1")) {
        hidden = Some("this system hides the processes of other users".to_owned());
    }
    hidden.map_or(Search::None, |why| Search::Unclear {
        why: format!("{why}; run this as root, or as the owner of the data directory, to rule out a server"),
    })
}

/// True for the name of a program that is a server.
pub(super) fn is_server_name(command: &str) -> bool {
    ["postgres", "postmaster"].iter().any(|name| command.contains(name))
}

fn number_of(entry: &DirEntry) -> Option<i32> {
    entry.file_name().to_str()?.parse().ok()
}

/// The process ended, or is about to: then it has no directory any more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The first process is always there: when it is not listed, other users' processes are not either.
fn is_hidden(first: &Path) -> bool {
    first.metadata().is_err()
}

fn command_of(process: &Path) -> Option<String> {
    Some(fs::read_to_string(process.join("comm")).ok()?.trim().to_owned())
}

/// Told by the name of the process, by that of its program, or by files of the cluster that it has open.
fn is_server(process: &Path) -> bool {
    let program = fs::read_link(process.join("exe")).ok();
    let program = program.as_deref().and_then(Path::file_name).map(OsStr::to_string_lossy);
    command_of(process).is_some_and(|name| is_server_name(&name))
        || program.is_some_and(|name| is_server_name(&name))
        || has_cluster_open(process)
}

/// Both paths are as the process itself sees them, so they fit each other also when it has other mounts.
fn has_cluster_open(process: &Path) -> bool {
    let Ok(root) = fs::read_link(process.join("cwd")) else { return false };
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().filter_map(Result::ok);
    let mut paths = files.take(MOST_OPEN_FILES).filter_map(|file| fs::read_link(file.path()).ok());
    paths.any(|path| {
        let below = path.strip_prefix(&root).ok();
        let first = below.and_then(|below| below.components().next().map(|part| part.as_os_str().to_owned()));
        first.is_some_and(|first| SERVER_DIRECTORIES.iter().any(|directory| first == *directory))
    })
}
