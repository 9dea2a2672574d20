//! Every page of a directory of MariaDB tested, by the library and by `innochecksum` of the server, in one run.
//!
//! `cargo bench --bench innodb`. Compare the rows of one run with each other, not with another machine's.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use divan::Bencher;
use divan::counter::BytesCount;
use pgforensics::inspect::innodb::check::innodb_verify;
use pgforensics::inspect::innodb::source::InnodbRequest;
use pgforensics::parsers::crc::crc32c;
use tempfile::TempDir;

const PAGE: usize = 16384;

/// Pages of a file, and files besides the system tablespace.
const PAGES: u32 = 4096;
const FILES: u32 = 15;

static DIRECTORY: OnceLock<TempDir> = OnceLock::new();

fn main() {
    divan::main();
    // What is static is not dropped.
    if let Some(directory) = DIRECTORY.get() {
        std::fs::remove_dir_all(directory.path()).expect("remove");
    }
}

/// Turns a page with some content into this one, with `full_crc32`: numbers, LSN twice, checksum at the end.
fn number(page: &mut [u8], space_id: u32, page_no: u32) {
    let mut put = |at: usize, value: u32| page[at..at + 4].copy_from_slice(&value.to_be_bytes());
    put(4, page_no);
    put(16, 0);
    put(20, 1_000_000 + page_no);
    put(24, if page_no == 0 { 8 << 16 } else { 17855 << 16 });
    put(28, 0);
    put(34, space_id);
    put(PAGE - 8, 1_000_000 + page_no);
    if page_no == 0 {
        put(38, space_id);
        put(46, PAGES);
        put(54, 0x15);
    }
    let crc = crc32c(&page[..PAGE - 4]).to_be_bytes();
    page[PAGE - 4..].copy_from_slice(&crc);
}

/// A directory of 1 GiB.
fn directory() -> &'static Path {
    let made = || {
        let directory = tempfile::tempdir().expect("temporary directory");
        for space_id in 0..=FILES {
            let name = if space_id == 0 { "ibdata1".to_owned() } else { format!("t{space_id}.ibd") };
            let one: Vec<u8> = (0..PAGE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            let mut pages = one.repeat(PAGES as usize);
            pages.chunks_exact_mut(PAGE).zip(0..).for_each(|(page, page_no)| number(page, space_id, page_no));
            std::fs::write(directory.path().join(name), pages).expect("write");
        }
        directory
    };
    DIRECTORY.get_or_init(made).path()
}

fn bytes() -> BytesCount {
    BytesCount::new(PAGE as u64 * u64::from(PAGES) * u64::from(FILES + 1))
}

#[divan::bench(sample_count = 5)]
fn verify(bencher: Bencher<'_, '_>) {
    let request = InnodbRequest::of(directory());
    bencher.counter(bytes()).bench_local(|| {
        let report = innodb_verify(&request, &|_, _| ControlFlow::Continue(())).expect("verify");
        assert_eq!(report.scan.counts.damaged, 0);
        report.scan.counts.sound
    });
}

#[divan::bench(sample_count = 5)]
fn innochecksum(bencher: Bencher<'_, '_>) {
    let run = |arguments: &[&str]| {
        let mut command = Command::new("innochecksum");
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    if run(&["--version"]).is_err() {
        let text = b"SKIPPED: innochecksum is not installed here (mariadb-server-core)\n";
        return std::io::stderr().write_all(text).expect("write");
    }
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("list").path().display().to_string();
    let files: Vec<String> = std::fs::read_dir(directory()).expect("list").map(name).collect();
    bencher.counter(bytes()).bench_local(|| {
        for file in &files {
            assert!(run(&[file]).expect("run").success(), "{file}");
        }
    });
}
