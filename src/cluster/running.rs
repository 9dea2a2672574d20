//! Whether a server runs on a data directory. The control file cannot show it: a killed server leaves "in production".
//!
//! A server is also looked for among the processes of the machine, whatever `postmaster.pid` says: in a container a server has
//! another number, and its shared memory is not to be seen from outside; and the file may be gone.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::open::{AccessError, Links, read_small};

/// Longest `postmaster.pid` that is read, in bytes.
pub(super) const PID_FILE_LIMIT_BYTES: u64 = 8192;

/// Where the system lists its processes.
const PROCESSES: &str = "/proc";

/// Signs of a running server in `postmaster.pid` and the system.
#[derive(Debug)]
pub enum ServerSign {
    /// No `postmaster.pid`: shut down cleanly, or the file was removed.
    NoPidFile,
    /// A `postmaster.pid` that a crash left: the process is gone.
    ProcessGone {
        /// The process that wrote it.
        pid: i32,
    },
    /// A `postmaster.pid` whose number now belongs to a process that is not a server of this directory.
    OtherProcess {
        /// The number in the file.
        pid: i32,
        /// The program that runs under it.
        command: String,
        /// A server finds the number taken, and does not start.
        refuses_start: bool,
    },
    /// A `postmaster.pid` of a process that has ended, but that its parent has not collected: no server, yet the number is
    /// taken.
    Zombie {
        /// The number in the file.
        pid: i32,
        /// The program that it was.
        command: String,
        /// Number and name of its parent.
        parent: Option<(i32, String)>,
        /// A server finds the number taken, and does not start.
        refuses_start: bool,
    },
    /// A server runs on this directory.
    Running {
        /// The number in the file, or that of the process that was found.
        pid: i32,
        /// The evidence.
        why: String,
    },
    /// The process that `postmaster.pid` names, or one that is attached to its shared memory, may be a server of this
    /// directory: it cannot be examined.
    MayRun {
        /// The number in the file.
        pid: i32,
        /// Why that is not known.
        why: String,
    },
    /// `postmaster.pid` is there but cannot be understood.
    Unclear {
        /// Why.
        why: String,
    },
    /// There are processes that cannot be examined, and one of them may be a server of this directory.
    Hidden {
        /// Which, and why.
        why: String,
    },
    /// `postmaster.pid` is there but cannot be read.
    Unreadable(AccessError),
}

impl ServerSign {
    /// True when a server runs or that cannot be ruled out.
    pub(crate) const fn may_be_running(&self) -> bool {
        match self {
            Self::Running { .. }
            | Self::MayRun { .. }
            | Self::Unclear { .. }
            | Self::Hidden { .. }
            | Self::Unreadable(_) => true,
            Self::NoPidFile | Self::ProcessGone { .. } | Self::OtherProcess { .. } | Self::Zombie { .. } => false,
        }
    }

    /// The process that keeps a server from starting although it does not use this directory.
    ///
    /// Source: `CreateLockFile`, `src/backend/utils/init/miscinit.c`: any process that answers to signal 0 does, but for
    /// those of other users.
    pub(crate) const fn refuses_start(&self) -> Option<i32> {
        match self {
            Self::OtherProcess { pid, refuses_start: true, .. } | Self::Zombie { pid, refuses_start: true, .. } => {
                Some(*pid)
            }
            _ => None,
        }
    }
}

/// The lines of `postmaster.pid` that matter here.
///
/// Source: `LOCK_FILE_LINE_PID` and its neighbours, `src/include/utils/pidfile.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PidFile {
    /// Line 1; a standalone backend writes it negative.
    pid: i32,
    /// Line 7: key and id of the shared memory block.
    shared_memory: Option<(i64, i64)>,
}

impl PidFile {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid: i32 = lines.next()?.trim().parse().ok()?;
        let mut numbers = lines.nth(5).unwrap_or_default().split_whitespace().map(str::parse);
        let shared_memory = match (numbers.next(), numbers.next()) {
            (Some(Ok(key)), Some(Ok(id))) => Some((key, id)),
            _ => None,
        };
        Some(Self { pid: pid.checked_abs()?, shared_memory })
    }
}

/// Looks for a server on a data directory: by `postmaster.pid`, and among the processes of the machine.
pub(crate) fn look_for_server(data_dir: &Path) -> ServerSign {
    let sign = look_at_pid_file(data_dir);
    // The file says nothing of a server in another container, or of one whose file was removed.
    if sign.may_be_running() || !cfg!(target_os = "linux") {
        return sign;
    }
    match find_server(data_dir, Path::new(PROCESSES)) {
        Search::None => sign,
        Search::Server { pid, command } => {
            let why = format!("process {pid} ({command}) works in this directory");
            ServerSign::Running { pid, why }
        }
        Search::Unclear { why } => ServerSign::Hidden { why },
    }
}

/// Signs in `postmaster.pid` alone: less than `look_for_server`, and cheaper.
pub fn look_at_pid_file(data_dir: &Path) -> ServerSign {
    let path = data_dir.join("postmaster.pid");
    let text = match read_small(&path, Links::Refuse, PID_FILE_LIMIT_BYTES) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_not_found() => return ServerSign::NoPidFile,
        Err(error) => return ServerSign::Unreadable(error),
    };
    let Some(pid_file) = PidFile::parse(&text) else {
        let first = text.lines().next().unwrap_or_default();
        return ServerSign::Unclear {
            why: format!("postmaster.pid begins with {first:?}, which is not a process number"),
        };
    };
    let pid = pid_file.pid;
    let own = match data_dir.metadata() {
        Ok(own) => own,
        Err(error) => return ServerSign::Unreadable(AccessError::io("examine", data_dir, error)),
    };
    if let Some((key, id)) = pid_file.shared_memory
        && let Some(block) = shared_memory(key, id)
        && block.attached > 0
    {
        let words = format!("the shared memory that postmaster.pid names (key {key}, id {id})");
        let creator = Process::of(Path::new(PROCESSES), block.creator);
        match creator.works_in(&own) {
            Ok(true) => {
                let why = format!("{} works in this directory and made {words}", creator.name());
                return ServerSign::Running { pid: block.creator, why };
            }
            // The same numbers, given to the block of a server of another directory.
            Ok(false) => {}
            Err(_) => {
                let why = format!("{} processes are attached to {words}", block.attached);
                return ServerSign::MayRun { pid, why };
            }
        }
    }
    judge_process(pid, &own)
}

/// `own`: the data directory.
fn judge_process(pid: i32, own: &Metadata) -> ServerSign {
    let Some(number) = Pid::from_raw(pid).filter(|_| pid > 0) else {
        return ServerSign::Unclear { why: format!("postmaster.pid names process {pid}, which cannot be one") };
    };
    let may_run = |what: &str| ServerSign::MayRun { pid, why: format!("postmaster.pid names process {pid}, {what}") };
    match test_kill_process(number) {
        Err(Errno::SRCH) => return ServerSign::ProcessGone { pid },
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return may_run(&format!("and whether that process exists is unknown: {error}")),
    }
    let process = Process::of(Path::new(PROCESSES), pid);
    // A server ignores numbers that belong to other users: they cannot be servers of its data directory.
    let refuses_start = process.users().is_none_or(|users| users.contains(&own.uid()));
    let command = process.command();
    if process.is_zombie() {
        let parent = process.parent().map(|parent| {
            let name = Process::of(Path::new(PROCESSES), parent).command().unwrap_or_else(|| "unknown".to_owned());
            (parent, name)
        });
        let command = command.unwrap_or_else(|| "unknown".to_owned());
        return ServerSign::Zombie { pid, command, parent, refuses_start };
    }
    // A server works in its data directory.
    match (process.works_in(own), command) {
        (Ok(true), _) => ServerSign::Running { pid, why: format!("process {pid} exists and works in this directory") },
        (Ok(false), Some(command)) => ServerSign::OtherProcess { pid, command, refuses_start },
        // It ended while it was examined.
        _ if test_kill_process(number) == Err(Errno::SRCH) => ServerSign::ProcessGone { pid },
        (Err(_), Some(command)) if !process.looks_like_server() || process.serves_elsewhere(own) => {
            ServerSign::OtherProcess { pid, command, refuses_start }
        }
        (Err(error), Some(command)) => {
            may_run(&format!("which exists (\"{command}\"), and its working directory cannot be read: {error}"))
        }
        (_, None) => may_run("which exists, and the system does not show what it is"),
    }
}

/// A System V shared memory block.
struct SharedMemory {
    attached: u64,
    creator: i32,
}

/// The block with this key and id, `None` when there is no such block or no way to ask.
fn shared_memory(key: i64, id: i64) -> Option<SharedMemory> {
    let table = fs::read_to_string("/proc/sysvipc/shm").ok()?;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| columns.get(at)?.parse::<i64>().ok();
        // The key is printed as a signed 32-bit number.
        let same_key = number(0)? as i32 == key as i32;
        let block = || {
            Some(SharedMemory { attached: u64::try_from(number(6)?).ok()?, creator: i32::try_from(number(4)?).ok()? })
        };
        (same_key && number(1)? == id).then(block)?
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_file_of_a_crashed_server() {
        let text = "13505\n/var/lib/pgsql/evict\n1795202960\n6003\n/var/lib/pgsql\n\n  1179657    131133\nready   \n";
        assert_eq!(PidFile::parse(text), Some(PidFile { pid: 13_505, shared_memory: Some((1_179_657, 131_133)) }));
    }

    #[test]
    fn short_or_odd_pid_files() {
        assert_eq!(PidFile::parse("-77\n/data\n"), Some(PidFile { pid: 77, shared_memory: None }));
        assert_eq!(PidFile::parse(""), None);
        assert_eq!(PidFile::parse("postgres\n"), None);
        assert_eq!(PidFile::parse("-2147483648\n"), None);
    }

    #[test]
    fn own_process_in_another_directory_is_no_server() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let root = Path::new("/").metadata().unwrap();
        let sign = judge_process(pid, &root);
        assert!(matches!(sign, ServerSign::OtherProcess { .. }));
        // Whether that stops a start depends on whose process it is, and whose directory.
        let same_user = root.uid() == rustix::process::geteuid().as_raw();
        assert_eq!(sign.refuses_start(), same_user.then_some(pid));
        let here = std::env::current_dir().unwrap();
        assert!(matches!(judge_process(pid, &here.metadata().unwrap()), ServerSign::Running { .. }));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn zombie_is_no_server_but_keeps_its_number() {
        let here = std::env::current_dir().unwrap();
        let mut child = std::process::Command::new("true").current_dir(&here).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let patience = std::time::Instant::now();
        while !Process::of(Path::new(PROCESSES), pid).is_zombie() && patience.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let own = here.metadata().unwrap();
        let sign = judge_process(pid, &own);
        child.wait().unwrap();
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(
            matches!(&sign, ServerSign::Zombie { command, parent: Some((parent, _)), .. } if command == "true" && *parent == this),
            "{sign:?}"
        );
        assert!(!sign.may_be_running());
        assert!(matches!(judge_process(pid, &own), ServerSign::ProcessGone { .. }));
    }

    #[test]
    fn numbers_that_are_no_process() {
        let own = Path::new("/").metadata().unwrap();
        assert!(judge_process(0, &own).may_be_running());
        assert!(matches!(judge_process(i32::MAX, &own), ServerSign::ProcessGone { .. }));
    }
}
