//! Whether a server runs on a data directory. The control file cannot show it: a killed server leaves "in production".

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::open::{AccessError, Links, read_small};
use super::server_process::{Process, Search, find_server};

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
