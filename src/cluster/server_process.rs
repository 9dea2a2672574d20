//! A server looked for among the processes of the machine, whatever `postmaster.pid` says: in a container a server has
//! another number, and its shared memory is not to be seen from outside; and the file may be gone.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::open::{Links, read_small};
use super::running::PID_FILE_LIMIT_BYTES;

/// Directories below the data directory whose files a server keeps open.
const SERVER_DIRECTORIES: [&str; 3] = ["base", "global", "pg_wal"];

/// Open files of one process that are examined, at most. A process of a server has a thousand, unless it is told
/// otherwise.
const MAX_OPEN_FILES: usize = 4096;

/// Signs of a server among the processes of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// None works in the directory.
    None,
    /// This one does.
    Server {
        /// Its number here.
        pid: i32,
        /// The program.
        command: String,
    },
    /// There may be one: not every process can be examined.
    Unclear {
        /// Why.
        why: String,
    },
}

/// Looks for a process that works in `data_dir`, as every process of a server does, and is a server: by its name, or by
/// files of the cluster that it has open for writing. A shell whose working directory it is does not count, nor does a
/// program that reads there.
///
/// A process that works in `data_dir` and of which the rest cannot be seen may be one; so may a process that looks like a
/// server and belongs to the owner of `data_dir`, when where it works cannot be seen.
///
/// `proc`: where the system lists its processes. Processes that end meanwhile are passed over.
pub fn find_server(data_dir: &Path, proc: &Path) -> Search {
    let own = match data_dir.metadata() {
        Ok(own) => own,
        Err(error) => {
            return Search::Unclear { why: format!("cannot check {}: {error}", data_dir.display()) };
        }
    };
    let cannot_list = |error: io::Error| Search::Unclear {
        why: format!("cannot list {}: {error}; a server in a container cannot be ruled out", proc.display()),
    };
    let entries = match fs::read_dir(proc) {
        Ok(entries) => entries,
        Err(error) => return cannot_list(error),
    };
    let mut unseen: Vec<String> = Vec::new();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return cannot_list(error),
        };
        let Some(pid) = number_of(&entry).filter(|pid| u32::try_from(*pid) != Ok(std::process::id())) else { continue };
        let process = Process::of(proc, pid);
        match process.works_in(&own) {
            Ok(true) => match process.role() {
                Ok(Role::Server) => return Search::Server { pid, command: process.command().unwrap_or_default() },
                Ok(Role::Other) => {}
                Err(error) if is_gone(&error) => {}
                // It works here: whatever its name, it is not ruled out.
                Err(error) => {
                    unseen.push(format!("what {} does in this directory cannot be seen: {error}", process.name()))
                }
            },
            Ok(false) => {}
            Err(error) if is_gone(&error) => {}
            // A server belongs to the owner of its directory, or to the superuser where the system hides its owner.
            Err(error) => {
                let owner = entry.metadata().map(|process| process.uid());
                let may_be = owner.as_ref().map_or(true, |owner| *owner == own.uid() || *owner == 0);
                // A process of the owner that shows not even its name may be anything.
                let is_nameless = || process.hides_its_name() && owner.as_ref().is_ok_and(|owner| *owner == own.uid());
                let is_suspect = process.looks_like_server() || is_nameless();
                if may_be && is_suspect && !process.serves_elsewhere(&own) {
                    unseen.push(format!("where {} works cannot be seen: {error}", process.name()));
                }
            }
        }
    }
    let user = rustix::process::geteuid();
    let advice = if user.is_root() {
        "to rule out a server, run this with the right to inspect processes (CAP_SYS_PTRACE), or stop that process"
    } else {
        "to rule out a server, run this as root or as the owner of the data directory"
    };
    let why = match unseen.as_slice() {
        [] if !user.is_root() && user.as_raw() != own.uid() && is_hidden(&proc.join("1")) => {
            "this system hides the processes of other users".to_owned()
        }
        [] => return Search::None,
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first}, nor that of {} more", rest.len()),
    };
    Search::Unclear { why: format!("{why}; {advice}") }
}

/// Role of a process that works in the data directory.
enum Role {
    Server,
    /// A shell that stands there, or a program that reads.
    Other,
}

/// One process, as the system shows it.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pid: i32,
    proc: PathBuf,
    path: PathBuf,
}

impl Process {
    /// The process with this number. `proc`: where the system lists its processes.
    pub(super) fn of(proc: &Path, pid: i32) -> Self {
        Self { pid, proc: proc.to_owned(), path: proc.join(pid.to_string()) }
    }

    /// Its name, as the system cuts it; `None` when that is not shown.
    pub(super) fn command(&self) -> Option<String> {
        Some(fs::read_to_string(self.path.join("comm")).ok()?.trim().to_owned())
    }

    /// Number, name, and how it was started if that says more.
    pub(super) fn name(&self) -> String {
        let command = self.command().unwrap_or_else(|| "unknown".to_owned());
        match self.data_dir_argument() {
            Some(path) => format!("process {} ({command}, started with -D {})", self.pid, path.display()),
            None => format!("process {} ({command})", self.pid),
        }
    }

    /// True when it works in this directory.
    pub(super) fn works_in(&self, own: &fs::Metadata) -> io::Result<bool> {
        let cwd = fs::metadata(self.path.join("cwd"))?;
        Ok((cwd.dev(), cwd.ino()) == (own.dev(), own.ino()))
    }

    /// It has ended, but its parent has not collected it.
    pub(super) fn is_zombie(&self) -> bool {
        self.stat().is_some_and(|stat| stat.starts_with('Z'))
    }

    pub(super) fn parent(&self) -> Option<i32> {
        self.stat()?.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
    }

    /// Text after the name, which may contain anything: "pid (name) state parent …".
    fn stat(&self) -> Option<String> {
        let stat = fs::read_to_string(self.path.join("stat")).ok()?;
        Some(stat.rsplit(')').next()?.trim_start().to_owned())
    }

    /// Users whose signals reach it: its real and its saved one.
    pub(super) fn users(&self) -> Option<[u32; 2]> {
        let status = fs::read_to_string(self.path.join("status")).ok()?;
        let mut numbers = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace();
        Some([numbers.next()?.parse().ok()?, numbers.nth(1)?.parse().ok()?])
    }

    /// True when its name, or the title it gave itself, is that of a server. Both are shown to every user.
    pub(super) fn looks_like_server(&self) -> bool {
        let title = || {
            let line = fs::read(self.path.join("cmdline")).ok()?;
            // After the colon stands what it does, or for whom: "postgres: walwriter", "sshd: postgres@pts/0".
            let title = line.split(|byte| matches!(*byte, 0 | b':')).next()?;
            let name = title.rsplit(|byte| *byte == b'/').next()?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        self.command().is_some_and(|name| is_server_name(&name)) || title().is_some_and(|title| is_server_name(&title))
    }

    /// The system shows its number, and not even its name.
    fn hides_its_name(&self) -> bool {
        fs::read(self.path.join("comm")).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Role of a process that works in the data directory: shown by its name, by that of its program, or by files
    /// of the cluster that it has open.
    fn role(&self) -> io::Result<Role> {
        if self.looks_like_server() {
            return Ok(Role::Server);
        }
        let program = match fs::read_link(self.path.join("exe")) {
            Ok(program) => Ok(Some(program)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        };
        let name = |program: &PathBuf| program.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Ok(Some(program)) = &program
            && name(program).is_some_and(|name| is_server_name(&name))
        {
            return Ok(Role::Server);
        }
        match self.has_cluster_open()? {
            true => Ok(Role::Server),
            false => program.map(|_| Role::Other),
        }
    }

    /// Has files of the cluster open for writing, as servers open all of theirs. Both paths are as the process itself sees
    /// them, so they fit each other also when it has other mounts.
    fn has_cluster_open(&self) -> io::Result<bool> {
        let root = fs::read_link(self.path.join("cwd"))?;
        let mut unseen = None;
        for (count, file) in fs::read_dir(self.path.join("fd"))?.enumerate() {
            if count == MAX_OPEN_FILES {
                unseen = Some(io::Error::other(format!("it has more than {MAX_OPEN_FILES} open files")));
                break;
            }
            match file.and_then(|file| is_written_below(&file, &root)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // Closed meanwhile.
                Err(error) if is_gone(&error) => {}
                Err(error) => unseen = Some(error),
            }
        }
        unseen.map_or(Ok(false), Err)
    }

    /// The directory that a server was told to work on, if it was told so on its command line.
    fn data_dir_argument(&self) -> Option<PathBuf> {
        let line = fs::read(self.path.join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0).skip(1);
        let path = words.find_map(|word| match word.strip_prefix(b"-D") {
            Some([]) => Some(None),
            Some(rest) => Some(Some(rest)),
            None => None,
        })?;
        let path = path.or_else(|| words.next())?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    }

    /// True when the process, or its parent, was started on another directory, whose own `postmaster.pid` names it.
    pub(super) fn serves_elsewhere(&self, own: &fs::Metadata) -> bool {
        let parent = self.parent().map(|pid| Self::of(&self.proc, pid));
        [Some(self.clone()), parent].into_iter().flatten().any(|process| {
            let Some(path) = process.data_dir_argument().filter(|path| path.is_absolute()) else { return false };
            let is_other = path.metadata().is_ok_and(|other| (other.dev(), other.ino()) != (own.dev(), own.ino()));
            let named = || {
                let file = read_small(&path.join("postmaster.pid"), Links::Refuse, PID_FILE_LIMIT_BYTES).ok()?;
                String::from_utf8_lossy(&file).lines().next()?.trim().parse::<i32>().ok()
            };
            is_other && named() == Some(process.pid)
        })
    }
}

/// True when an open file is one of the cluster in `root` and open for writing, which the link's own permissions say.
fn is_written_below(file: &DirEntry, root: &Path) -> io::Result<bool> {
    if file.metadata()?.mode() & 0o200 == 0 {
        return Ok(false);
    }
    let path = fs::read_link(file.path())?;
    let first = path.strip_prefix(root).ok().and_then(|below| below.components().next());
    Ok(first.is_some_and(|first| SERVER_DIRECTORIES.iter().any(|directory| first.as_os_str() == *directory)))
}

/// True for the name of a program that is a server.
fn is_server_name(command: &str) -> bool {
    ["postgres", "postmaster"].iter().any(|name| command.contains(name))
}

fn number_of(entry: &DirEntry) -> Option<i32> {
    entry.file_name().to_str()?.parse().ok()
}

/// The process ended, or is about to: then it has no directory any more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The first process is always there: when it is not listed, or does not show its name, other users' processes are not
/// shown either.
fn is_hidden(first: &Path) -> bool {
    let hides_its_name = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    first.metadata().is_err() || fs::read(first.join("comm")).is_err_and(hides_its_name)
}
