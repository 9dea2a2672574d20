//! Ends what a campaign has started, and removes what one that was killed has left.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde_json::Value;

/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends every process that works below the directory, and each that comes after it. Does not return.
pub fn end_processes(directory: &Path) -> ! {
    let mut told: HashMap<Pid, Instant> = HashMap::new();
    loop {
        for (pid, is_server) in processes(directory) {
            let since = told.get(&pid);
            let signal = match since {
                // It removes its shared memory.
                None if is_server => Signal::QUIT,
                None => Signal::TERM,
                Some(since) if since.elapsed() > PATIENCE => Signal::KILL,
                Some(_) => continue,
            };
            told.entry(pid).or_insert_with(Instant::now);
            // One that has ended meanwhile does not matter.
            kill_process(pid, signal).unwrap_or_default();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes whose working directory is below this one, and whether they are a server's.
pub fn processes(directory: &Path) -> Vec<(Pid, bool)> {
    let list = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let at = fs::read_link(entry.path().join("cwd")).ok()?;
        let is_below = at.starts_with(directory) && at != directory && pid != getpid();
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        is_below.then(|| (pid, name.trim_end() == "postgres"))
    });
    list.collect()
}

/// Removes clusters that no result names as kept.
pub fn remove_leftovers(directory: &Path, results: &[Value]) -> io::Result<()> {
    let kept: BTreeSet<&str> = results
        .iter()
        .filter_map(|line| line["kept"].as_array())
        .flatten()
        .filter_map(|path| Path::new(path.as_str()?).file_name()?.to_str())
        .collect();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(".tmp") && !kept.contains(name));
        if is_ours && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
