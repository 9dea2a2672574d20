//! The server program: found, asked for its version, run once in a sandbox.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, geteuid, kill_process_group, waitid};
use strum::{IntoStaticStr, VariantNames};

use super::sandbox::Owner;
use super::{ServerEnd, ServerFailure};
use crate::cluster::open::{AccessError, Links, read_small};
use crate::parsers::wal::version::Major;

const PROGRAM: &str = "postgres";

/// Most bytes of `postmaster.opts` that are read.
const MAX_OPTS_BYTES: u64 = 64 * 1024;

/// Most bytes of what a server prints that are kept: the end of it.
const MAX_LOG_BYTES: u64 = 16 * 1024;

/// How long a program may take to name its version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// Time between two looks at a program that runs.
const PAUSE: Duration = Duration::from_millis(2);

/// Permissions with which others than the owner can change a file.
const OTHERS_WRITE: u32 = 0o022;

/// Permission bit of directories in which nobody can rename the files of others.
const STICKY: u32 = 0o1000;

/// A server program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerProgram {
    /// The program.
    pub path: PathBuf,
    /// Version that it reports.
    pub version: ServerVersion,
}

/// The version of a server program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// The major.
    pub major: Major,
    /// The version as the program prints it, such as `15.8`.
    pub number: String,
}

/// Why there is no server program to use.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NoServer {
    /// The directory that was named has none.
    NotThere {
        /// The program that was looked for.
        path: PathBuf,
    },
    /// The given program has another major version.
    OtherMajor {
        /// The program.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The major that is needed.
        expected: Major,
    },
    /// The program that was named does not say what it is.
    NoVersion {
        /// The program.
        path: PathBuf,
    },
    /// None was named, and none was found.
    NotFound {
        /// The major that is needed.
        expected: Major,
        /// The program that `postmaster.opts` names, which is not run: others than the owner can change it.
        not_trusted: Option<PathBuf>,
    },
}

impl NoServer {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// Finds the server program of a major: in the directory that the user named, else the one that ran last on the data
/// directory, else in the usual directories.
///
/// The program in `postmaster.opts` comes from untrusted data and may be anything. It is run only when it belongs to
/// root or to the user who runs this, and nobody else can change it or replace it.
///
/// # Errors
/// When none exists, or the given one has another major version.
pub fn find_server(major: Major, pg_bin: Option<&Path>, data_dir: &Path) -> Result<ServerProgram, NoServer> {
    let owner = Owner::of(data_dir);
    if let Some(directory) = pg_bin {
        let path = directory.join(PROGRAM);
        if !path.is_file() {
            return Err(NoServer::NotThere { path });
        }
        return match ask_version(&path, owner) {
            None => Err(NoServer::NoVersion { path }),
            Some(Ok(version)) if version.major == major => Ok(ServerProgram { path, version }),
            Some(Ok(ServerVersion { number, .. }) | Err(number)) => {
                Err(NoServer::OtherMajor { path, found: number, expected: major })
            }
        };
    }
    let named = named_by_cluster(data_dir);
    let trusted = named.as_ref().is_some_and(|path| is_trusted(path));
    let not_trusted = named.clone().filter(|path| !trusted && path.exists());
    let candidates = named.into_iter().filter(|_| trusted).chain(usual_places(major));
    candidates
        .filter(|path| path.is_file())
        .find_map(|path| match ask_version(&path, owner) {
            Some(Ok(version)) if version.major == major => Some(ServerProgram { path, version }),
            _ => None,
        })
        .ok_or(NoServer::NotFound { expected: major, not_trusted })
}

/// The program with which the server of a data directory was started last.
///
/// Source: `CreateOptsFile`, `src/backend/postmaster/postmaster.c`: the path, then options in quotation marks.
fn named_by_cluster(data_dir: &Path) -> Option<PathBuf> {
    let text = read_small(&data_dir.join("postmaster.opts"), Links::Refuse, MAX_OPTS_BYTES).ok()?;
    let text = String::from_utf8(text).ok()?;
    let line = text.lines().next()?;
    let path = PathBuf::from(line.split(" \"").next()?.trim_end());
    // Older servers were started by a link of another name.
    let path = if path.file_name()? == "postmaster" { path.with_file_name(PROGRAM) } else { path };
    (path.is_absolute() && path.file_name()? == PROGRAM).then_some(path)
}

/// True when nobody but root and the user who runs this can change what is at a path.
fn is_trusted(path: &Path) -> bool {
    let Ok(real) = std::fs::canonicalize(path) else { return false };
    let own = geteuid().as_raw();
    let is_safe = |path: &Path| {
        path.symlink_metadata().is_ok_and(|found| {
            let is_owner = [0, own].contains(&found.uid());
            let is_closed = found.mode() & OTHERS_WRITE == 0 || (found.is_dir() && found.mode() & STICKY != 0);
            is_owner && is_closed
        })
    };
    // The link itself may lie elsewhere; what it leads to now is what is run.
    real.ancestors().all(is_safe)
}

/// Where packages and builds put the programs of a major.
fn usual_places(major: Major) -> Vec<PathBuf> {
    let number = major.number();
    let mut directories: Vec<PathBuf> = [
        format!("/usr/lib/postgresql/{number}/bin"),
        format!("/usr/pgsql-{number}/bin"),
        format!("/usr/lib64/pgsql{number}/bin"),
        format!("/usr/lib/postgresql{number}/bin"),
        format!("/usr/libexec/postgresql{number}"),
        format!("/opt/homebrew/opt/postgresql@{number}/bin"),
        format!("/usr/local/opt/postgresql@{number}/bin"),
        format!("/Library/PostgreSQL/{number}/bin"),
        format!("/opt/postgresql/{number}/bin"),
        format!("/usr/local/pgsql-{number}/bin"),
        format!("/usr/local/pgsql{number}/bin"),
        "/usr/local/pgsql/bin".to_owned(),
        "/usr/local/bin".to_owned(),
        "/usr/bin".to_owned(),
    ]
    .into_iter()
    .map(PathBuf::from)
    .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    directories.extend(std::env::split_paths(&path).filter(|directory| directory.is_absolute()));
    directories.into_iter().map(|directory| directory.join(PROGRAM)).collect()
}

/// Version that a program reports; only the text if the major version is unknown, `None` if it reports nothing.
fn ask_version(path: &Path, owner: Owner) -> Option<Result<ServerVersion, String>> {
    let mut command = plain_command(path, owner);
    command.arg("--version").current_dir("/").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let ended = wait(&mut child, VERSION_LIMIT, &|| ControlFlow::Continue(())).ok()?;
    let mut text = String::new();
    child.stdout.take()?.take(MAX_LOG_BYTES).read_to_string(&mut text).ok()?;
    matches!(ended, Ended::Itself(status) if status.success()).then_some(())?;
    let number = text.strip_prefix("postgres (PostgreSQL) ")?.split_whitespace().next()?.to_owned();
    Some(match Major::from_program(&number) {
        Some(major) => Ok(ServerVersion { major, number }),
        None => Err(number),
    })
}

/// A command that inherits nothing: no setting of a client, no directory, no terminal. Run by root, it is another user's.
fn plain_command(path: &Path, owner: Owner) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("LC_ALL", "C").env("TZ", "UTC").stdin(Stdio::null()).process_group(0);
    // Where a program of another place finds its own libraries.
    for name in ["LD_LIBRARY_PATH", "PATH", "SystemRoot"] {
        let value: Option<OsString> = std::env::var_os(name);
        command.envs(value.map(|value| (name, value)));
    }
    if let Some((uid, gid)) = owner.to_become() {
        command.uid(uid).gid(gid);
    }
    command
}

enum Ended {
    Itself(ExitStatus),
    TimedOut,
    BrokenOff,
}

/// Waits for a program, and kills it when it takes too long or nobody wants it any more. However it ends, what it started
/// ends with it.
fn wait(child: &mut Child, limit: Duration, watch: &dyn Fn() -> ControlFlow<()>) -> std::io::Result<Ended> {
    let begin = Instant::now();
    let killed_for = loop {
        if has_ended(child)? {
            break None;
        }
        if watch().is_break() {
            break Some(Ended::BrokenOff);
        }
        if begin.elapsed() > limit {
            break Some(Ended::TimedOut);
        }
        std::thread::sleep(PAUSE);
    };
    // Until it is waited for, nobody else gets the number of its group.
    kill_group(child);
    let status = child.wait()?;
    Ok(killed_for.unwrap_or(Ended::Itself(status)))
}

/// True when the program has ended; it is still to be waited for.
fn has_ended(child: &Child) -> std::io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
}

/// Kills a program and all that it started.
fn kill_group(child: &mut Child) {
    if kill_process_group(Pid::from_child(child), Signal::KILL).is_err() {
        // It has no group of its own yet, or has ended.
        child.kill().unwrap_or_default();
    }
}

/// How a run of a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRun {
    /// By itself, or because it took too long.
    Ended(ServerFailure),
    /// It was killed because nobody wanted it any more.
    BrokenOff,
}

impl ServerProgram {
    /// Starts the server on a sandbox without network and waits for its end. What it prints goes into `log`, a new file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(
        &self,
        data: &Path,
        log: &Path,
        owner: Owner,
        limit: Duration,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<ServerRun, AccessError> {
        let mut command = plain_command(&self.path, owner);
        command.args(["--single", "-D"]).arg(data).arg("postgres").current_dir(data);
        run_command(command, &self.path, log, limit, watch)
    }

    /// Makes a new cluster with `initdb` of the same server. `settings`: further arguments.
    pub(crate) fn init(
        &self,
        data: &Path,
        settings: &[&str],
        (log, owner, limit): (&Path, Owner, Duration),
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<ServerRun, AccessError> {
        let path = self.path.with_file_name("initdb");
        let mut command = plain_command(&path, owner);
        command.args(["-U", "postgres", "-A", "trust", "--no-sync", "--locale=C", "-D"]).arg(data);
        command.args(settings).current_dir("/");
        run_command(command, &path, log, limit, watch)
    }

    /// Runs statements on a cluster of `init`, one session without network. Statements end with a semicolon and two line ends.
    pub(crate) fn session(
        &self,
        (data, database): (&Path, &str),
        script: &Path,
        (log, owner, limit): (&Path, Owner, Duration),
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<ServerRun, AccessError> {
        let input = File::open(script).map_err(|source| AccessError::io("open", script, source))?;
        let mut command = plain_command(&self.path, owner);
        command.args(["--single", "-j", "-P", "-D"]).arg(data);
        for (name, value) in SESSION_SETTINGS {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.arg(database).current_dir(data).stdin(input);
        run_command(command, &self.path, log, limit, watch)
    }
}

/// Settings of a session that prints rows: nothing is loaded or loaded late, values are printed as a client gets them.
const SESSION_SETTINGS: [(&str, &str); 17] = [
    ("fsync", "off"),
    ("autovacuum", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "off"),
    ("logging_collector", "off"),
    ("log_destination", "stderr"),
    ("shared_buffers", "32MB"),
    ("shared_preload_libraries", ""),
    ("session_preload_libraries", ""),
    ("local_preload_libraries", ""),
    ("zero_damaged_pages", "off"),
    ("timezone", "UTC"),
    ("datestyle", "ISO,MDY"),
    ("extra_float_digits", "3"),
    ("synchronize_seqscans", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("allow_system_table_mods", "on"),
];

/// Runs a program and waits for its end. What it prints goes into `log`, a new file.
fn run_command(
    mut command: Command,
    path: &Path,
    log: &Path,
    limit: Duration,
    watch: &dyn Fn() -> ControlFlow<()>,
) -> Result<ServerRun, AccessError> {
    let output = create_log(log)?;
    let errors = output.try_clone().map_err(|source| AccessError::io("open", log, source))?;
    command.stdout(output).stderr(errors);
    let failed = |source| AccessError::io("run", path, source);
    let mut child = command.spawn().map_err(failed)?;
    let end = match wait(&mut child, limit, watch).map_err(failed)? {
        Ended::BrokenOff => return Ok(ServerRun::BrokenOff),
        Ended::TimedOut => ServerEnd::TimedOut(limit.as_secs()),
        Ended::Itself(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ServerEnd::Exit(code),
            (None, signal) => ServerEnd::Signal(signal.unwrap_or_default()),
        },
    };
    Ok(ServerRun::Ended(ServerFailure { end, log: end_of_log(log) }))
}

#[allow(clippy::disallowed_methods, reason = "writes into its own sandbox")]
fn create_log(path: &Path) -> Result<File, AccessError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|source| AccessError::io("create", path, source))
}

/// The end of what a server printed; what cannot be read is nothing.
fn end_of_log(path: &Path) -> String {
    let Ok(file) = crate::cluster::open::ReadFile::open(path, Links::Refuse) else { return String::new() };
    let from = file.size_bytes().saturating_sub(MAX_LOG_BYTES);
    let mut bytes = vec![0; usize::try_from(file.size_bytes().saturating_sub(from)).unwrap_or_default()];
    let read = file.read_at(&mut bytes, from).unwrap_or_default();
    bytes.truncate(read);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests make what they examine")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::{getegid, test_kill_process_group};
    use tempfile::TempDir;

    use super::*;

    fn own() -> Owner {
        Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A directory that everybody may enter, with a program that is a script.
    fn program(script: &str) -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        set_mode(directory.path(), 0o755);
        let path = directory.path().join(PROGRAM);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        set_mode(&path, 0o755);
        (directory, path)
    }

    fn says(version: &str) -> (TempDir, PathBuf) {
        program(&format!("echo 'postgres (PostgreSQL) {version}'"))
    }

    fn version_of(text: &str) -> Option<Result<(u32, String), String>> {
        let (_directory, path) = says(text);
        ask_version(&path, own()).map(|found| found.map(|version| (version.major.number(), version.number)))
    }

    #[test]
    fn versions_as_servers_print_them() {
        let known = |number: u32, text: &str| Some(Ok((number, text.to_owned())));
        assert_eq!(version_of("15.18 (Debian 15.18-1.pgdg13+1)"), known(15, "15.18"));
        assert_eq!(version_of("10.23"), known(10, "10.23"));
        assert_eq!(version_of("19devel"), known(19, "19devel"));
        assert_eq!(version_of("18beta1"), known(18, "18beta1"));
        assert_eq!(version_of("9.6.24"), Some(Err("9.6.24".to_owned())));
        assert_eq!(version_of("99devel"), Some(Err("99devel".to_owned())));
        for silent in ["exit 0", "echo 15.2", "echo 'postgres (PostgreSQL) 15.2'; exit 1"] {
            let (_directory, path) = program(silent);
            assert_eq!(ask_version(&path, own()), None, "{silent}");
        }
    }

    #[test]
    fn directory_that_the_user_named_is_the_only_one_that_is_searched() {
        let data = tempfile::tempdir().unwrap();
        let find = |directory: &Path| find_server(Major::OLDEST, Some(directory), data.path());
        let (directory, path) = says("10.1");
        assert_eq!(find(directory.path()).unwrap().path, path);
        let (directory, path) = says("15.2");
        let other = NoServer::OtherMajor { path, found: "15.2".to_owned(), expected: Major::OLDEST };
        assert_eq!(find(directory.path()), Err(other));
        let (directory, path) = program("exit 0");
        assert_eq!(find(directory.path()), Err(NoServer::NoVersion { path }));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(find(empty.path()), Err(NoServer::NotThere { path: empty.path().join(PROGRAM) }));
    }

    #[test]
    fn program_that_the_cluster_names_is_run_only_when_nobody_else_can_change_it() {
        // Root runs it as another user.
        let marks = tempfile::tempdir().unwrap();
        set_mode(marks.path(), 0o777);
        let mark = marks.path().join("was_run");
        let (directory, path) = program(&format!("touch {}; echo 'postgres (PostgreSQL) 10.1'", mark.display()));
        let data = tempfile::tempdir().unwrap();
        let opts = |text: &str| fs::write(data.path().join("postmaster.opts"), text).unwrap();
        let find = || find_server(Major::OLDEST, None, data.path());
        opts(&format!("{} \"-D\" \"/somewhere\"\n", path.display()));
        assert_eq!(find().unwrap().path, path);
        assert!(mark.exists());
        for (changed, mode, usual) in
            [(path.as_path(), 0o757, 0o755), (&path, 0o775, 0o755), (directory.path(), 0o777, 0o755)]
        {
            set_mode(changed, mode);
            fs::remove_file(&mark).unwrap_or_default();
            match find() {
                Err(NoServer::NotFound { not_trusted, .. }) => assert_eq!(not_trusted.as_ref(), Some(&path)),
                Ok(found) => assert_ne!(found.path, path, "one of the usual places"),
                Err(other) => panic!("{other:?}"),
            }
            assert!(!mark.exists(), "{} with mode {mode:o}", changed.display());
            set_mode(changed, usual);
        }
        // A link with another name, a path that depends on the directory, something else.
        for text in ["", "postgres \"-D\"", "./postgres", "/bin/sh \"-D\"", "/nowhere/postgres", "\0\u{fffd}"] {
            opts(text);
            assert!(find().map_or(true, |found| found.path != path), "{text:?}");
        }
        fs::rename(&path, directory.path().join("other")).unwrap();
        opts(&format!("{}/postmaster -D /somewhere\n", directory.path().display()));
        assert!(find().map_or(true, |found| found.path.parent() != Some(directory.path())));
    }

    /// A server that is a script: how it ends, and whether anything of its group is left.
    fn run(script: &str, limit: Duration, watch: &dyn Fn() -> ControlFlow<()>) -> (ServerRun, bool) {
        let (directory, path) = program(&format!("echo $$ >&2\n{script}"));
        let version = ServerVersion { major: Major::NEWEST, number: "19".to_owned() };
        let log = directory.path().join("log");
        let ended = ServerProgram { path, version }.run(Path::new("/"), &log, own(), limit, watch).unwrap();
        let group = fs::read_to_string(&log).unwrap().lines().next().and_then(|line| line.parse().ok());
        let group = group.and_then(Pid::from_raw).expect("the script says its number");
        // Killed processes go away when somebody has waited for them.
        let begin = Instant::now();
        while test_kill_process_group(group).is_ok() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(PAUSE);
        }
        (ended, test_kill_process_group(group).is_ok())
    }

    const PATIENT: Duration = Duration::from_secs(60);

    fn go_on() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn end_of_a_server_is_told_with_what_it_said() {
        let (ServerRun::Ended(failure), _) = run("echo out; echo err >&2; exit 3", PATIENT, &go_on) else { panic!() };
        assert_eq!(failure.end, ServerEnd::Exit(3));
        assert_eq!(failure.log.lines().skip(1).collect::<Vec<_>>(), ["out", "err"]);
        let (ServerRun::Ended(failure), _) = run("kill -9 $$", PATIENT, &go_on) else { panic!() };
        assert_eq!(failure.end, ServerEnd::Signal(9));
        let (ServerRun::Ended(failure), _) = run("yes 0123456 | head -c 100000", PATIENT, &go_on) else { panic!() };
        assert_eq!(failure.log.len() as u64, MAX_LOG_BYTES);
    }

    #[test]
    fn server_that_hangs_is_killed_with_all_that_it_started() {
        let begin = Instant::now();
        let (ended, is_left) = run("sleep 50 & sleep 50", Duration::from_secs(1), &go_on);
        let ServerRun::Ended(failure) = ended else { panic!() };
        assert_eq!(failure.end, ServerEnd::TimedOut(1));
        assert!(!is_left && begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn server_that_nobody_wants_any_more_is_killed() {
        let begin = Instant::now();
        let watch = || if begin.elapsed() > Duration::from_millis(300) { ControlFlow::Break(()) } else { go_on() };
        let (ended, is_left) = run("sleep 50 & sleep 50", PATIENT, &watch);
        assert_eq!((ended, is_left), (ServerRun::BrokenOff, false));
    }

    #[test]
    fn server_inherits_nothing_of_a_client() {
        let (ServerRun::Ended(failure), _) = run("env; pwd; cat; exit 1", PATIENT, &go_on) else { panic!() };
        let names: Vec<&str> =
            failure.log.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
        // The shell adds its own.
        let known = ["LC_ALL", "TZ", "PATH", "LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL", "_"];
        assert!(names.contains(&"LC_ALL") && names.iter().all(|name| known.contains(name)), "{names:?}");
    }
}
