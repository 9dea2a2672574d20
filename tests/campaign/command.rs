//! Crashes servers, lets what they had not synced be torn, lost or old, and tests every answer against the same crash whose
//! data pages are whole.
//!
//! `cargo run --release --example campaign -- --minutes 60 --seed 1`. Needs a C compiler and a PostgreSQL server; more servers
//! are named in `PGFORENSICS_PG_BINS`, a list like `PATH`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "results are printed")]
#![allow(missing_docs, reason = "a program")]

#[path = "mod.rs"]
mod campaign;
#[path = "../common/dwb_format.rs"]
mod dwb_format;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../common/live.rs"]
mod live;
/// What the shared pieces expect of a test.
mod common {
    pub(crate) use super::{dwb_format, live};

    /// Says that nothing can be done here.
    pub fn skipped(why: &str) {
        eprintln!("campaign: {why}");
    }
}

use std::io::{BufWriter, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use campaign::judge::Inspector;
use campaign::settings::Programs;
use campaign::{Request, read_results, table};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// First argument with which this program is `pg_dwbinspect`.
const INSPECT: &str = "pg_dwbinspect";

/// Crashes PostgreSQL servers, damages what they had not synced, and tests every answer of pg_dwbinspect.
#[derive(Parser)]
struct Arguments {
    /// Longest time; a crash that was begun is ended
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Number that everything is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Variants, at most
    #[arg(long, default_value_t = 100_000)]
    variants: u64,
    /// This variant alone; its clusters are kept
    #[arg(long)]
    only: Option<u64>,
    /// Where clusters are made and results are written [default: a new directory for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Go on where a campaign in this directory ended
    #[arg(long, requires = "directory")]
    resume: bool,
    /// Wrong variants whose clusters are kept, at most
    #[arg(long, default_value_t = 6)]
    keep: usize,
    /// Crashes at a time, each with one server
    #[arg(short, long, default_value_t = 2)]
    jobs: usize,
    /// Test this pg_dwbinspect, not the one that is built in
    #[arg(long)]
    program: Option<PathBuf>,
    /// Only servers of these majors
    #[arg(long, value_delimiter = ',')]
    majors: Vec<u32>,
    /// Print the table of the results in the directory, and do nothing
    #[arg(long, requires = "directory")]
    table: bool,
}

fn main() -> ExitCode {
    let mut given = std::env::args_os();
    if given.nth(1).is_some_and(|first| first == INSPECT) {
        return inspect();
    }
    match work(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("campaign: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs as `pg_dwbinspect`, so that nothing else needs to be built.
fn inspect() -> ExitCode {
    use pgforensics::cli::dwbinspect::{Cli, run};
    let cli = Cli::parse_from(std::env::args_os().skip(1));
    run(cli, &mut BufWriter::new(stdout().lock()), &mut stderr()).into()
}

/// True when no answer was wrong.
fn work(arguments: Arguments) -> Result<bool, String> {
    let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
    let directory = arguments.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
    let fails = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(&directory).map_err(fails)?;
    let directory = std::fs::canonicalize(&directory).map_err(fails)?;
    if arguments.table {
        print!("{}", table::markdown(&read_results(&directory)));
        return Ok(true);
    }
    if !arguments.resume && arguments.only.is_none() && campaign::results(&directory).exists() {
        return Err(format!("{}: there are results already: go on with --resume", directory.display()));
    }
    let programs = find(&arguments.majors)?;
    let inspector = match &arguments.program {
        Some(program) => vec![program.display().to_string()],
        None => {
            let own = std::env::current_exe().map_err(|error| error.to_string())?;
            vec![own.display().to_string(), INSPECT.to_owned()]
        }
    };
    let bar = ProgressBar::new(arguments.minutes * 60);
    bar.set_style(ProgressStyle::with_template("{bar:30} {elapsed} {msg}").map_err(|error| error.to_string())?);
    let is_stopped = Arc::new(AtomicBool::new(false));
    watch_signals(&directory, &is_stopped).map_err(|error| error.to_string())?;
    let started = Instant::now();
    let request = Request {
        seed: arguments.seed,
        variants: arguments.only.map_or(arguments.variants, |only| only + 1),
        until: started + Duration::from_secs(arguments.minutes * 60),
        only: arguments.only,
        directory: directory.clone(),
        keep: arguments.keep,
        jobs: arguments.jobs,
        programs,
        inspector: Inspector(inspector),
        is_stopped: Arc::clone(&is_stopped),
    };
    campaign::run(&request, &|line: &Value| {
        bar.set_position(started.elapsed().as_secs());
        bar.set_message(format!("variant {}", line["variant"]));
        if let Some(why) = line["failed"].as_str() {
            bar.suspend(|| eprintln!("variant {} could not be made: {why}", line["variant"]));
        }
        for why in line["wrong"].as_array().into_iter().flatten() {
            bar.suspend(|| eprintln!("variant {} (major {}): {why}", line["variant"], line["major"]));
        }
    })?;
    bar.finish_and_clear();
    if is_stopped.load(Ordering::SeqCst) {
        return Err("stopped; --resume goes on".to_owned());
    }
    let lines = read_results(&directory);
    print!("{}", table::markdown(&lines));
    Ok(lines.iter().all(|line| line["wrong"].as_array().is_none_or(Vec::is_empty)))
}

/// Upon Ctrl-C ends the servers and all else that was started, so that the campaign ends soon and removes its clusters.
fn watch_signals(directory: &Path, is_stopped: &Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (directory, is_stopped) = (directory.to_owned(), Arc::clone(is_stopped));
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            is_stopped.store(true, Ordering::SeqCst);
            campaign::watch::end_processes(&directory);
        }
    });
    Ok(())
}

/// Servers of these majors, or all that are found.
fn find(majors: &[u32]) -> Result<Vec<Programs>, String> {
    let (bins, client) = live::all_programs().ok_or("no PostgreSQL server is installed here")?;
    let mut programs: Vec<Programs> = bins.into_iter().filter_map(|bin| Programs::of(bin, client.clone())).collect();
    programs.retain(|one| majors.is_empty() || majors.contains(&one.major));
    programs.sort_by_key(|one| one.major);
    let names: Vec<String> = programs.iter().map(Programs::name).collect();
    eprintln!("campaign: servers: {}", names.join(", "));
    if programs.is_empty() { Err("no server of these majors".to_owned()) } else { Ok(programs) }
}
