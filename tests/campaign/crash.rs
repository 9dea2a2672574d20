//! One crash of one server: its files as the server wrote them, and the writes that no sync has followed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::draw::Draw;
use super::faults;
use super::log::Unsynced;
use super::settings::{Family, Settings};
use super::workload;
use crate::common::live::Server;

/// Longest time that a server may take to end after its crash.
const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds that statements may take in all: a server in an endless loop does not see that their own time is up.
const LONGEST_SCRIPT: u32 = 240;

/// What a crash left. All data pages are whole; WAL is as this crash has it.
pub struct Crash {
    pub settings: Settings,
    pub image: Server,
    pub unsynced: Unsynced,
    /// The cluster as it was before the load: stopped, or a base backup.
    pub donor: Option<Server>,
    /// Where a standby takes its WAL from.
    pub primary: Option<Server>,
}

/// Builds the library that servers run with.
pub fn compile(directory: &Path) -> Result<PathBuf, String> {
    let library = directory.join("record.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/campaign/record.c");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(source).arg("-ldl");
    let output = command.output().map_err(|error| format!("no C compiler is installed here: cc: {error}"))?;
    if !output.status.success() {
        return Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    Ok(library)
}

/// Runs statements in the database `postgres`; errors are left to the log of the server.
pub fn psql(server: &Server, script: &str) -> Result<(), String> {
    let file = server.host().join("load.sql");
    fs::write(&file, script).map_err(|error| error.to_string())?;
    let (host, file) = (text(server.host()), text(&file));
    server.run_within(
        LONGEST_SCRIPT,
        "psql",
        &["-XAtq", "-h", host, "-U", "postgres", "-d", "postgres", "-o", "/dev/null", "-f", file],
    );
    Ok(())
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}

/// Where the log goes and what the library waits for.
struct Recorder {
    directory: TempDir,
    library: PathBuf,
}

impl Recorder {
    fn new(parent: &Path, library: &Path) -> Result<Self, String> {
        let fails = |error: std::io::Error| error.to_string();
        let directory = tempfile::tempdir_in(parent).map_err(fails)?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).map_err(fails)?;
        let log = directory.path().join("log");
        fs::write(&log, "").map_err(fails)?;
        // The server may run as another user.
        fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).map_err(fails)?;
        Ok(Self { directory, library: library.to_owned() })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn environment(&self, kind: &str, count: usize) -> [(&'static str, OsString); 6] {
        [
            ("LD_PRELOAD", self.library.clone().into_os_string()),
            ("RECORD_ARM", self.file("arm").into_os_string()),
            ("RECORD_NOW", self.file("now").into_os_string()),
            ("RECORD_LOG", self.file("log").into_os_string()),
            ("RECORD_KIND", kind.into()),
            ("RECORD_COUNT", count.to_string().into()),
        ]
    }

    fn arm(&self) -> Result<(), String> {
        fs::write(self.file("arm"), "").map_err(|error| error.to_string())
    }

    /// Lets the server crash at what it writes next, or stops it without a checkpoint where it writes nothing.
    fn crash_now(&self, server: &Server) -> Result<(), String> {
        fs::write(self.file("now"), "").map_err(|error| error.to_string())?;
        psql(server, "checkpoint;")?;
        if !wait_for_end(server, Duration::from_secs(2)) {
            server.run("pg_ctl", &["stop", "-m", "immediate", "-D", text(&server.data())]);
        }
        fs::remove_file(self.file("now")).map_err(|error| error.to_string())
    }
}

fn wait_for_end(server: &Server, patience: Duration) -> bool {
    let start = Instant::now();
    while !server.processes().is_empty() {
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

impl Crash {
    /// Makes the crash that a campaign has under this number.
    pub fn make(settings: Settings, numbers: [u64; 2], parent: &Path, library: &Path) -> Result<Self, String> {
        let [seed, run] = numbers;
        let mut draw = Draw::of(&[seed, run, 2]);
        let recorder = Recorder::new(parent, library)?;
        let initdb = settings.initdb();
        let initdb: Vec<&str> = initdb.iter().map(String::as_str).collect();
        let programs = settings.programs.clone();
        let mut image = Server::create_in(parent, programs.bin, programs.client, &initdb, &settings.configuration);
        let is_standby = settings.family == Family::Standby;
        let count = if is_standby { usize::MAX } else { settings.crash_count };
        let start = |server: &Server, count: usize| {
            let environment = recorder.environment(settings.crash_kind, count);
            if server.launch(&environment) {
                Ok(())
            } else {
                Err(format!("the server does not start: {}", server.log()))
            }
        };
        start(&image, count)?;
        psql(&image, &workload::setup())?;
        let mut donor = None;
        if settings.backup {
            donor = Some(image.base_backup(&["-X", "none", "--no-sync"]));
        } else if settings.donor {
            image.stop("fast");
            donor = Some(image.copy());
            start(&image, count)?;
        }
        let mut primary = None;
        if !is_standby {
            recorder.arm()?;
        }
        let statements = if is_standby { workload::STATEMENTS_OF_A_PRIMARY } else { workload::STATEMENTS };
        psql(&image, &workload::load(statements, &mut draw))?;
        let crashed = wait_for_end(&image, Duration::from_millis(500));
        if is_standby {
            image.stop("fast");
            let standby = donor.as_ref().ok_or("no copy")?.copy();
            make_standby(&standby, &image.data(), settings.programs.major)?;
            primary = Some(std::mem::replace(&mut image, standby));
            recorder.arm()?;
            let environment = recorder.environment(settings.crash_kind, settings.crash_count);
            let mut goes_on = image.launch(&environment);
            for _ in 0..40 {
                if !goes_on || image.processes().is_empty() {
                    break;
                }
                psql(&image, "checkpoint; select pg_sleep(0.05);")?;
                goes_on = !image.processes().is_empty();
            }
            if !wait_for_end(&image, Duration::from_millis(500)) {
                recorder.crash_now(&image)?;
            }
        } else if !crashed {
            recorder.crash_now(&image)?;
        }
        if settings.family == Family::Recovery {
            let (kind, count) = (draw.one_of(&["page", "page", "sync", "wal"]), draw.between(1, 400));
            if image.launch(&recorder.environment(kind, count)) {
                recorder.crash_now(&image)?;
            }
        }
        if !wait_for_end(&image, PATIENCE) {
            return Err("the server does not end".to_owned());
        }
        let unsynced = Unsynced::read(&recorder.file("log"), &image.data()).map_err(|error| error.to_string())?;
        faults::cut_wal(&image.data(), &unsynced, settings.wal_tail, &mut draw).map_err(|error| error.to_string())?;
        Ok(Self { settings, image, unsynced, donor, primary })
    }
}

/// Makes a standby of a copy, which takes its WAL from a stopped server.
fn make_standby(copy: &Server, primary: &Path, major: u32) -> Result<(), String> {
    let fails = |error: std::io::Error| error.to_string();
    let restore = format!("restore_command = 'cp {}/pg_wal/%f %p'\n", text(primary));
    if major >= 12 {
        copy.configure(&restore);
        write_beside(copy, "standby.signal", "").map_err(fails)
    } else {
        write_beside(copy, "recovery.conf", &format!("standby_mode = on\n{restore}")).map_err(fails)
    }
}

/// Writes a file into the data directory, for its owner.
fn write_beside(server: &Server, name: &str, content: &str) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    let path = server.data().join(name);
    fs::write(&path, content)?;
    let owner = fs::metadata(server.data())?;
    chown(path, Some(owner.uid()), Some(owner.gid()))
}
