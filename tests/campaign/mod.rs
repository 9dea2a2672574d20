//! A campaign: crashes of servers, many variants of each, and what this program's answers were worth.

pub mod buffer;
pub mod crash;
pub mod draw;
pub mod faults;
pub mod judge;
pub mod log;
pub mod settings;
pub mod state;
pub mod table;
pub mod watch;
pub mod workload;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use crash::Crash;
use draw::Draw;
use judge::{Inspector, Reference, judge};
use settings::{Programs, Settings};

/// Variants of one crash.
pub const VARIANTS_OF_A_CRASH: u64 = 8;

/// What is to be done.
pub struct Request {
    pub seed: u64,
    pub variants: u64,
    pub until: Instant,
    /// One variant alone, of which the clusters are kept.
    pub only: Option<u64>,
    /// Where the results go and clusters are made.
    pub directory: PathBuf,
    /// Clusters that gave a wrong answer and are kept, at most.
    pub keep: usize,
    pub jobs: usize,
    pub programs: Vec<Programs>,
    pub inspector: Inspector,
    /// Set from outside: nothing more is begun, and no result is written.
    pub is_stopped: Arc<AtomicBool>,
}

/// The file with one line for each variant.
pub fn results(directory: &Path) -> PathBuf {
    directory.join("variants.ndjson")
}

/// The lines that are there.
pub fn read_results(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(results(directory)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Runs variants that have no result yet, until all have or time is up; `tell` gets each result.
///
/// # Errors
/// When nothing can be done at all.
pub fn run(request: &Request, tell: &(dyn Fn(&Value) + Sync)) -> Result<(), String> {
    let fails = |error: std::io::Error| format!("{}: {error}", request.directory.display());
    fs::create_dir_all(&request.directory).map_err(fails)?;
    // The server may run as another user.
    fs::set_permissions(&request.directory, fs::Permissions::from_mode(0o755)).map_err(fails)?;
    let library = crash::compile(&request.directory)?;
    watch::remove_leftovers(&request.directory, &read_results(&request.directory)).map_err(fails)?;
    let done: BTreeSet<u64> =
        read_results(&request.directory).iter().filter_map(|line| line["variant"].as_u64()).collect();
    let out = OpenOptions::new().create(true).append(true).open(results(&request.directory)).map_err(fails)?;
    let work = Work { request, library, done, out: Mutex::new(out), next: AtomicU64::new(0), tell };
    std::thread::scope(|scope| {
        for _ in 0..request.jobs {
            scope.spawn(|| work.go_on());
        }
    });
    Ok(())
}

struct Work<'a> {
    request: &'a Request,
    library: PathBuf,
    done: BTreeSet<u64>,
    out: Mutex<File>,
    /// Number of the next crash.
    next: AtomicU64,
    tell: &'a (dyn Fn(&Value) + Sync),
}

impl Work<'_> {
    fn go_on(&self) {
        while self.may_begin() {
            let run = self.next.fetch_add(1, Ordering::SeqCst);
            let numbers = run * VARIANTS_OF_A_CRASH..(run + 1) * VARIANTS_OF_A_CRASH;
            if numbers.start >= self.request.variants {
                break;
            }
            let wanted: Vec<u64> = numbers
                .filter(|number| {
                    *number < self.request.variants && self.request.only.is_none_or(|only| only == *number)
                })
                .filter(|number| !self.done.contains(number) || self.request.only.is_some())
                .collect();
            if !wanted.is_empty() {
                self.crash(run, &wanted);
            }
        }
    }

    fn may_begin(&self) -> bool {
        Instant::now() < self.request.until && !self.request.is_stopped.load(Ordering::SeqCst)
    }

    /// Makes a crash and the variants of it.
    fn crash(&self, run: u64, wanted: &[u64]) {
        let request = self.request;
        let settings = Settings::draw(request.seed, run, &request.programs);
        let common = json!({
            "seed": request.seed, "run": run, "major": settings.programs.major, "own_buffer": settings.own_buffer,
            "put_buffer": settings.put_buffer, "checksums": settings.checksums, "full_page_writes": settings.full_page_writes,
            "family": settings.family.name(), "wal_tail": settings.wal_tail.name(), "donor": settings.donor,
            "backup": settings.backup,
            "rebuild": settings.rebuild, "crash": format!("{} {}", settings.crash_kind, settings.crash_count),
            "configuration": settings.configuration,
        });
        let started = Instant::now();
        let made = guarded(|| {
            let crash = Crash::make(settings, [request.seed, run], &request.directory, &self.library)?;
            let reference = Reference::of(&crash, &request.inspector).map_err(|why| self.kept(&crash, &why))?;
            Ok((crash, reference))
        });
        let seconds = started.elapsed().as_secs_f64() / wanted.len() as f64;
        for (index, number) in wanted.iter().enumerate() {
            if index > 0 && !self.may_begin() {
                return;
            }
            let started = Instant::now();
            let result = match &made {
                Ok((crash, reference)) => guarded(|| {
                    let mut draw = Draw::of(&[request.seed, *number, 3]);
                    let mut result = judge(crash, reference, &request.inspector, &mut draw, request.only.is_some())?;
                    result["whole"] = json!(reference.predicted);
                    result["unsynced"] = json!(reference.pages.len());
                    Ok(result)
                }),
                Err(why) => Err(why.clone()),
            };
            let result = result.unwrap_or_else(|why| json!({ "failed": why }));
            self.write(*number, &common, result, seconds + started.elapsed().as_secs_f64());
            if made.is_err() {
                return;
            }
        }
    }

    /// Why a crash cannot be used, with where it is kept.
    fn kept(&self, crash: &Crash, why: &str) -> String {
        let to = self.request.directory.join(format!(
            "unusable_{}",
            crash.image.host().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        ));
        let copied = std::process::Command::new("cp").arg("-a").arg(crash.image.host()).arg(&to).status();
        format!("{why} ({}: {copied:?})", to.display())
    }

    fn write(&self, number: u64, common: &Value, result: Value, seconds: f64) {
        // What was ended from outside says nothing.
        if self.request.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let mut line = common.clone();
        line["variant"] = json!(number);
        line["seconds"] = json!((seconds * 10.0).round() / 10.0);
        if let (Some(line), Value::Object(result)) = (line.as_object_mut(), result) {
            line.extend(result);
        }
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(out, "{line}") {
            panic!("{}: {error}", results(&self.request.directory).display());
        }
        self.bound(&line);
        (self.tell)(&line);
    }

    /// Removes what was kept when there is more of it than asked for.
    fn bound(&self, line: &Value) {
        let lines = read_results(&self.request.directory);
        let with_files = lines.iter().filter(|line| line["kept"].is_array()).count();
        if self.request.only.is_none() && with_files > self.request.keep {
            for path in line["kept"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                drop(fs::remove_dir_all(path));
            }
        }
    }
}

/// Turns a panic of a helper, such as a program of the server that fails, into an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}
