//! Whether a server runs on a data directory. The control file cannot tell: a killed server leaves "in production".

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::open::{AccessError, Links, read_small};
use super::server_process::{Search, find_server, is_server_name};

/// Longest `postmaster.pid` that is read, in bytes.
const PID_FILE_LIMIT_BYTES: u64 = 8192;

/// Where the system lists its processes.
const PROCESSES: &str = "/proc";

/// What `postmaster.pid` and the system say about a running server.
#[derive(Debug)]
pub enum ServerSign {
    /// No `postmaster.pid`: stopped in order, or the file was removed.
    NoPidFile,
    /// A `postmaster.pid` that a crash left: the process is gone.
    ProcessGone {
        /// The process that wrote it.
        pid: i32,
    },
    /// A `postmaster.pid` whose number now belongs to a process that is no server of this directory.
    OtherProcess {
        /// The number in the file.
        pid: i32,
        /// What runs under it.
        command: String,
    },
    /// A server runs on this directory, or it cannot be ruled out.
    Running {
        /// The number in the file, or that of the process that was found.
        pid: i32,
        /// What makes us think so.
        why: String,
    },
    /// `postmaster.pid` is there but cannot be understood.
    Unclear {
        /// Why.
        why: String,
    },
    /// There are processes that cannot be looked at, and one of them may be a server of this directory.
    Hidden {
        /// Which, and why.
        why: String,
    },
    /// `postmaster.pid` is there but cannot be read.
    Unreadable(AccessError),
}

impl ServerSign {
    /// True when a server runs or that cannot be ruled out.
    #[must_use]
    pub const fn may_be_running(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Unclear { .. } | Self::Hidden { .. } | Self::Unreadable(_))
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
#[must_use]
pub fn look_for_server(data_dir: &Path) -> ServerSign {
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

/// What `postmaster.pid` alone says: less than [`look_for_server`], and cheaper.
#[must_use]
pub fn look_at_pid_file(data_dir: &Path) -> ServerSign {
    let path = data_dir.join("postmaster.pid");
    let text = match read_small(&path, Links::Refuse, PID_FILE_LIMIT_BYTES) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_not_found() => return ServerSign::NoPidFile,
        Err(error) => return ServerSign::Unreadable(error),
    };
    let Some(pid_file) = PidFile::parse(&text) else {
        let first = text.lines().next().unwrap_or_default();
        return ServerSign::Unclear { why: format!("postmaster.pid begins with {first:?}, no process number") };
    };
    let pid = pid_file.pid;
    if let Some((key, id)) = pid_file.shared_memory
        && let Some(processes) = attached_processes(key, id)
        && processes > 0
    {
        let why = format!("{processes} processes are attached to its shared memory (key {key}, id {id})");
        return ServerSign::Running { pid, why };
    }
    judge_process(pid, data_dir)
}

fn judge_process(pid: i32, data_dir: &Path) -> ServerSign {
    let Some(process) = Pid::from_raw(pid).filter(|_| pid > 0) else {
        return ServerSign::Unclear { why: format!("postmaster.pid names process {pid}, which cannot be one") };
    };
    match test_kill_process(process) {
        Err(Errno::SRCH) => return ServerSign::ProcessGone { pid },
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => {
            return ServerSign::Running { pid, why: format!("whether process {pid} lives cannot be told: {error}") };
        }
    }
    let proc = PathBuf::from(format!("/proc/{pid}"));
    // A process that has ended but was not yet collected by its parent: "pid (name) Z ...".
    let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
    if stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')) {
        return ServerSign::ProcessGone { pid };
    }
    let command = fs::read_to_string(proc.join("comm")).ok().map(|text| text.trim().to_owned());
    // A server works in its data directory.
    match (fs::metadata(proc.join("cwd")), data_dir.metadata(), command) {
        (Ok(cwd), Ok(own), _) if (cwd.dev(), cwd.ino()) == (own.dev(), own.ino()) => {
            ServerSign::Running { pid, why: format!("process {pid} lives and works in this directory") }
        }
        (Ok(_), Ok(_), Some(command)) => ServerSign::OtherProcess { pid, command },
        (_, _, Some(command)) if !is_server_name(&command) => ServerSign::OtherProcess { pid, command },
        (_, _, command) => {
            let name = command.unwrap_or_else(|| "unknown".to_owned());
            ServerSign::Running { pid, why: format!("process {pid} ({name}) lives and may be the server") }
        }
    }
}

/// Processes attached to a System V shared memory block, `None` when there is no such block or no way to ask.
fn attached_processes(key: i64, id: i64) -> Option<u64> {
    let table = fs::read_to_string("/proc/sysvipc/shm").ok()?;
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| columns.get(at)?.parse::<i64>().ok();
        // The key is printed as a signed 32-bit number.
        let same_key = number(0)? as i32 == key as i32;
        (same_key && number(1)? == id).then(|| number(6).and_then(|count| u64::try_from(count).ok()))?
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
        assert!(matches!(judge_process(pid, Path::new("/")), ServerSign::OtherProcess { .. }));
        let here = std::env::current_dir().unwrap();
        assert!(matches!(judge_process(pid, &here), ServerSign::Running { .. }));
    }

    #[test]
    fn numbers_that_are_no_process() {
        assert!(judge_process(0, Path::new("/")).may_be_running());
        assert!(matches!(judge_process(i32::MAX, Path::new("/")), ServerSign::ProcessGone { .. }));
    }
}
