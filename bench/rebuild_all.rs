//! Builds every page of a stopped cluster from a donor and WAL, and compares each with the cluster's own.
//!
//! `cargo run --release --example rebuild_all -- CLUSTER DONOR ARCHIVE [BIN] [--no-donor] [--donor-only] [--alone-every=N] [--take=N]
//! [--begin=LSN] [--keep]`; says how many are equal,
//! how many differ and why pages were not built, and how long the parts took.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pgforensics::DataDir;
use pgforensics::analysis::pages::page_mask::{differences, sequence_values_differ};
use pgforensics::analysis::wal::stretch::Stretch;
use pgforensics::analysis::wal::walk::walk_run;
use pgforensics::cluster::relation_path::RelationPaths;
use pgforensics::cluster::relation_walk::relations_of;
use pgforensics::cluster::wal::{WalSet, WalSetOptions};
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::wal::block::Keep;
use pgforensics::rebuild::{
    BaseBytes, NotBuilt, Owner, ReplayRequest, SandboxOptions, WantedPage, find_server, replay,
};
use pgforensics::types::{ForkNumber, Lsn, PageId};

fn page_of(root: &Path, paths: &RelationPaths, page: PageId, size: usize) -> Option<Vec<u8>> {
    let (path, block) = paths.path_and_block(page);
    let mut bytes = vec![0; size];
    fs::File::open(root.join(path)).ok()?.read_exact_at(&mut bytes, u64::from(block) * size as u64).ok()?;
    Some(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (flags, args): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let [cluster, donor, archive, rest @ ..] = args.as_slice() else {
        return Err("CLUSTER DONOR ARCHIVE [BIN]".into());
    };
    let directory = DataDir::open(Path::new(cluster))?;
    let donor_dir = DataDir::open(Path::new(donor))?;
    let control = directory.control().trusted().ok_or("pg_control")?.clone();
    let scratch = || tempfile::tempfile();
    let paths = [PathBuf::from(archive), PathBuf::from(cluster)];
    let wal = WalSet::open(&paths, WalSetOptions::new(&scratch))?;
    let begin = match fs::read_to_string(Path::new(donor).join("backup_label")) {
        Ok(label) => {
            let line = label.lines().next().ok_or("label")?;
            line.split_whitespace().nth(3).ok_or("label")?.parse::<Lsn>()?
        }
        Err(_) => donor_dir.control().trusted().ok_or("donor")?.checkpoint.redo_lsn,
    };
    let given = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name));
    let begin = given("--begin=").map_or(Ok(begin), str::parse)?;
    let until = control.checkpoint.redo_lsn;
    let size = control.geometry.block_size as usize;
    // What WAL says of each page: the newest record that builds it, and whether any names it.
    let started = Instant::now();
    let mut builds: HashMap<PageId, Lsn> = HashMap::new();
    let mut touched: HashMap<PageId, Lsn> = HashMap::new();
    for run in wal.runs() {
        let stretch = Stretch { set: &wal, run, start_lsn: begin, end_lsn: until, keep: Keep::Heads };
        walk_run(&stretch, false, &mut |_| ControlFlow::Continue(()), |record| {
            for (_, head) in record.block_heads() {
                let Some(page) = head.page_id() else { continue };
                touched.insert(page, record.end_lsn);
                if head.will_init() || head.has_image_to_apply(record.major) {
                    builds.insert(page, record.start_lsn);
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    let scan = started.elapsed();
    let files =
        RelationPaths::new(directory.major(), control.prefix.catalog_version_no, control.geometry.rel_segment_blocks);
    let (mut wanted, mut truth, mut untouched) = (Vec::new(), HashMap::new(), 0_u64);
    for file in relations_of(&directory).files {
        if !matches!(file.name.fork, ForkNumber::Main | ForkNumber::Vm | ForkNumber::Init) {
            continue;
        }
        let bytes = fs::File::open(directory.root().join(&file.path))?;
        let first = u64::from(file.name.rel_segment) * u64::from(control.geometry.rel_segment_blocks);
        for number in 0..file.size_bytes / size as u64 {
            let page = PageId { rel: file.rel, fork: file.name.fork, block: u32::try_from(first + number)? };
            let base = page_of(donor_dir.root(), &files, page, size);
            let is_new = page.fork != ForkNumber::Vm || base.is_none();
            if !touched.contains_key(&page) && is_new {
                untouched += 1;
                continue;
            }
            let mut own = vec![0; size];
            bytes.read_exact_at(&mut own, number * size as u64)?;
            truth.insert(page, own);
            let by_wal = builds.get(&page).filter(|_| page.fork != ForkNumber::Vm);
            let (base, from) = match by_wal {
                Some(lsn) if !has("--donor-only") => (BaseBytes::Nothing, *lsn),
                _ if has("--no-donor") => continue,
                _ => (BaseBytes::Page(base.unwrap_or(vec![0; size])), begin),
            };
            wanted.push(WantedPage { page, base, from, until });
        }
    }
    let server = find_server(directory.major(), rest.first().map(Path::new), directory.root())?;
    let sandbox = SandboxOptions {
        parent: None,
        keep: has("--keep"),
        owner: Owner::of(directory.root()),
        protected: vec![directory.root().to_owned()],
    };
    let bytes = fs::read(directory.control_path())?;
    let mut out = std::io::stdout().lock();
    let started = Instant::now();
    let count = wanted.len();
    let jobs = std::thread::available_parallelism()?.get();
    if let Some(take) = given("--take=") {
        let step = wanted.len().div_ceil(take.parse()?).max(1);
        wanted = wanted.into_iter().step_by(step).collect();
    }
    // Each alone: shows that records of a page need no other page.
    if let Some(step) = given("--alone-every=") {
        wanted = wanted.into_iter().step_by(step.parse()?).collect();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for one in wanted {
            let page = one.page;
            let request = ReplayRequest {
                wal: &wal,
                control: &bytes,
                pages: vec![one],
                jobs,
                server: &server,
                sandbox: &sandbox,
            };
            let report = replay(request, &|_| ControlFlow::Continue(()))?;
            let (_, result) = report.pages.first().ok_or("no answer")?;
            let what = match result {
                Ok(built) if differences(page, &built.bytes, &truth[&page]).is_empty() => "equal".to_owned(),
                Ok(_) => "different".to_owned(),
                Err(why) => format!("not built: {}", why.code()),
            };
            if what != "equal" {
                writeln!(out, "{page:?}: {what} {:?}", result.as_ref().err().map(ToString::to_string))?;
            }
            *counts.entry(what).or_default() += 1;
        }
        writeln!(out, "alone: {counts:?} in {:?}", started.elapsed())?;
        return Ok(());
    }
    let started = Instant::now();
    let request = ReplayRequest { wal: &wal, control: &bytes, pages: wanted, jobs, server: &server, sandbox: &sandbox };
    let report = replay(request, &|_| ControlFlow::Continue(()))?;
    let all = started.elapsed();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut shown = 0;
    for (page, result) in &report.pages {
        let own = &truth[page];
        let what = match result {
            Ok(built) => {
                let lsn = |bytes: &[u8]| PageHeader::decode(0, bytes).map(|header| header.lsn);
                let same_lsn = lsn(&built.bytes) == lsn(own);
                let found = differences(*page, &built.bytes, own);
                let sequence = sequence_values_differ(*page, &built.bytes, own);
                match (built.bytes == *own, found.is_empty(), same_lsn, sequence) {
                    (true, ..) => "identical".to_owned(),
                    (_, true, true, false) => "equal outside the masks".to_owned(),
                    (_, true, true, true) => "equal but for the value of a sequence".to_owned(),
                    (_, true, false, _) => {
                        if shown < 10 {
                            shown += 1;
                            writeln!(out, "{page:?} LSN {:?} {:?}", lsn(&built.bytes), lsn(own))?;
                        }
                        "equal, older LSN".to_owned()
                    }
                    (_, false, ..) => {
                        if shown < 10 {
                            shown += 1;
                            writeln!(
                                out,
                                "{page:?} differs at {:?} LSN {:?} {:?} records {}",
                                &found[..found.len().min(6)],
                                lsn(&built.bytes),
                                lsn(own),
                                built.records
                            )?;
                        }
                        "different".to_owned()
                    }
                }
            }
            Err(why) => {
                if shown < 10 {
                    shown += 1;
                    writeln!(out, "{page:?}: {why}")?;
                }
                format!("not built: {}", NotBuilt::code(why))
            }
        };
        *counts.entry(what).or_default() += 1;
    }
    writeln!(
        out,
        "{} {}: {count} pages wanted, {untouched} not named in WAL, {counts:?}",
        report.server,
        server.path.display()
    )?;
    writeln!(out, "scan {scan:?}, replay {all:?}, {:?}", report.stats)?;
    if let Some(path) = report.sandbox {
        writeln!(out, "sandbox {}", path.display())?;
    }
    Ok(())
}
