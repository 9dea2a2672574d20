//! A server that tears its own page writes and crashes, and the list of what it tore.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pgforensics::parsers::checksum::page_checksum;
use tempfile::TempDir;

use super::live::Server;
use crate::common::skipped;

/// Bytes of a page of the servers that are installed.
pub const BLOCK_SIZE: usize = 8192;

/// Blocks in a segment file of a relation.
const SEGMENT_BLOCKS: u32 = 131_072;

/// Which writes are torn, and how many before the crash.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Number that the choices are drawn from.
    pub seed: u64,
    /// The server crashes after so many torn pages, or before a checkpoint with torn pages is complete.
    pub tears: u32,
}

/// A server that runs with `tests/tear/tear.c`.
pub struct TearingServer {
    /// The server.
    pub server: Server,
    directory: TempDir,
}

/// The last write of a page that was torn at least once.
pub struct Tear {
    /// File, from the data directory on; absolute for a tablespace that lies elsewhere.
    pub path: PathBuf,
    /// Fork: `main`, `fsm`, `vm` or `init`.
    pub fork: &'static str,
    /// Block within the fork.
    pub block: u32,
    /// Bytes of the page that were written: all of them when a later write of the page was whole.
    pub reached: Range<usize>,
    /// The page that the server meant to write.
    pub intended: Vec<u8>,
}

impl TearingServer {
    /// Makes a cluster and starts it. `None`, said loudly, when there is no server or no C compiler.
    pub fn start(settings: &str, plan: Plan) -> Option<Self> {
        let directory = tempfile::tempdir().expect("temporary directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let library = compile(directory.path())?;
        // Left by a crash, shared memory of other types stays in the machine.
        let server = Server::create(&format!("dynamic_shared_memory_type = mmap\n{settings}"))?;
        let tearing = Self { server, directory };
        let environment = [
            ("LD_PRELOAD", library.into_os_string()),
            ("TEAR_ARM", tearing.file("arm").into_os_string()),
            ("TEAR_LOG", tearing.file("tears").into_os_string()),
            ("TEAR_PAGES", tearing.file("pages").into_os_string()),
            ("TEAR_SEED", OsString::from(plan.seed.to_string())),
            ("TEAR_MAX", OsString::from(plan.tears.to_string())),
        ];
        for name in ["tears", "pages"] {
            // The server may run as another user.
            fs::write(tearing.file(name), "").expect("log");
            fs::set_permissions(tearing.file(name), fs::Permissions::from_mode(0o666)).expect("chmod");
        }
        assert!(tearing.server.launch(&environment), "the server does not start: {}", tearing.server.log());
        Some(tearing)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// From now on pages are torn.
    pub fn arm(&self) {
        fs::write(self.file("arm"), "").expect("arm");
    }

    /// Waits until no process of the server is left.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn wait_for_crash(&self, timeout: Duration) {
        let start = Instant::now();
        while !self.server.processes().is_empty() {
            let log = self.server.log();
            assert!(start.elapsed() < timeout, "no crash within {timeout:?}: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The last write of each page that was torn, in the order of files and blocks. Only after the crash.
    pub fn tears(&self) -> Vec<Tear> {
        let data = fs::canonicalize(self.server.data()).expect("data directory");
        let log = fs::read_to_string(self.file("tears")).expect("log");
        let pages = File::open(self.file("pages")).expect("pages");
        let mut last = BTreeMap::new();
        for (line, text) in log.lines().enumerate() {
            let mut words = text.rsplitn(4, ' ');
            let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).expect("a number");
            let (to, from, block) = (number(), number(), number());
            let path = Path::new(words.next().expect("a path"));
            let path = path.strip_prefix(&data).unwrap_or(path).to_owned();
            if from == to {
                last.remove(&(path, block)); // the file was cut off before this page
            } else {
                last.insert((path, block), (from as usize..to as usize, line as u64));
            }
        }
        let tear = |((path, block), (reached, line)): ((PathBuf, u32), (Range<usize>, u64))| {
            let mut intended = vec![0; BLOCK_SIZE];
            pages.read_exact_at(&mut intended, line * BLOCK_SIZE as u64).expect("page of a line");
            Tear { fork: fork_of(&path), path, block, reached, intended }
        };
        last.into_iter().map(tear).collect()
    }
}

impl Tear {
    /// The page as it is on disk; `None` when the file is gone or too short.
    pub fn on_disk(&self, data_dir: &Path) -> Option<Vec<u8>> {
        let mut page = vec![0; BLOCK_SIZE];
        let at = u64::from(self.block % SEGMENT_BLOCKS) * BLOCK_SIZE as u64;
        File::open(data_dir.join(&self.path)).ok()?.read_exact_at(&mut page, at).ok()?;
        Some(page)
    }

    /// Whether the page on disk is not what was meant to be written, the checksum apart.
    pub fn is_visible(&self, data_dir: &Path) -> bool {
        self.on_disk(data_dir).is_some_and(|page| page[..8] != self.intended[..8] || page[10..] != self.intended[10..])
    }

    /// Whether the checksum of the page on disk is wrong. A visible tear need not be: where all changes were in the part
    /// that was not written, the page is the whole one of before. And a page without a header, which has no checksum,
    /// may hold data: the server refuses it, pg_checksums does not.
    pub fn fails_checksum(&self, data_dir: &Path) -> bool {
        self.on_disk(data_dir).is_some_and(|page| {
            let is_new = page[14..16] == [0, 0];
            !is_new && page_checksum(&page, self.block) != u16::from_le_bytes([page[8], page[9]])
        })
    }
}

fn fork_of(path: &Path) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str()).expect("file name");
    let stem = name.split('.').next().expect("a part");
    match stem.split_once('_').map(|(_, fork)| fork) {
        None => "main",
        Some("fsm") => "fsm",
        Some("vm") => "vm",
        Some("init") => "init",
        Some(other) => panic!("fork {other} of {}", path.display()),
    }
}

/// Builds the library. `None`, said loudly, when there is no compiler.
fn compile(directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tear/tear.c");
    let library = directory.join("tear.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(source).arg("-ldl");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            skipped(&format!("no C compiler is installed here: cc: {error}"));
            return None;
        }
    };
    assert!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).expect("chmod");
    Some(library)
}
