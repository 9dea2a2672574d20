//! What reading costs alone: reads all files below the given paths with N threads into buffers and looks at nothing.
//!
//! `cargo run --release --example read_files -- THREADS PATH…`; prints the bytes read. A path may be a directory.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the programs read at once.
const PIECE_BYTES: usize = 256 * 1024;

fn files_below(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        files_below(&entry?.path(), files)?;
    }
    Ok(())
}

/// What a thread takes of a file at once, so that all are busy to the end.
const SHARE_BYTES: u64 = 16 << 20;

fn read(path: &Path, from: u64, buffer: &mut [u8]) -> std::io::Result<u64> {
    let file = File::open(path)?;
    let mut offset = from;
    while offset < from + SHARE_BYTES {
        match file.read_at(buffer, offset)? {
            0 => break,
            count => offset += count as u64,
        }
    }
    Ok(offset - from)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let threads: usize = arguments.next().ok_or("usage: read_files THREADS PATH…")?.parse()?;
    let mut files = Vec::new();
    for path in arguments {
        files_below(Path::new(&path), &mut files)?;
    }
    files.sort();
    let mut shares = Vec::new();
    for path in &files {
        let size = path.metadata()?.len();
        shares.extend((0..size.div_ceil(SHARE_BYTES)).map(|share| (path, share * SHARE_BYTES)));
    }
    let next = AtomicUsize::new(0);
    let work = || -> std::io::Result<u64> {
        let mut buffer = vec![0; PIECE_BYTES];
        let mut bytes = 0;
        while let Some((path, from)) = shares.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += read(path, *from, &mut buffer)?;
        }
        Ok(bytes)
    };
    let bytes = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread panicked")?.map_err(|e| e.into())).sum()
    });
    let bytes: Result<u64, Box<dyn Error>> = bytes;
    let mut out = std::io::stdout();
    std::io::Write::write_all(&mut out, format!("{} bytes\n", bytes?).as_bytes())?;
    Ok(())
}
