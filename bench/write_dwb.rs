//! Gives a stopped cluster a double write buffer full of images of its own pages, for measurements.
//!
//! `cargo run --release --example write_dwb -- DATADIR MEGABYTES`. The images are those of the main forks of the default
//! tablespace, taken at even distances; nothing but `pg_dwbuf` is written. Only for clusters made for a measurement.

#[path = "../tests/common/dwb_format.rs"]
mod dwb_format;

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE: u64 = 8192;
const STRIDE: u64 = PAGE + dwb_format::HEADER_BYTES;
const MAX_FILES: u64 = 16;
/// Oid of the default tablespace.
const DEFAULT_TABLESPACE: u32 = 1663;

/// A segment file of a relation.
struct Segment {
    path: PathBuf,
    locator: [u8; 12],
    first_block: u32,
    blocks: u64,
}

fn segments(data: &Path) -> Result<Vec<Segment>, Box<dyn Error>> {
    let mut found = Vec::new();
    for database in fs::read_dir(data.join("base"))? {
        let database = database?;
        let Some(db_oid) = database.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        for file in fs::read_dir(database.path())? {
            let file = file?;
            let name = file.file_name().into_string().unwrap_or_default();
            let (rel, segment) = name.split_once('.').unwrap_or((&name, "0"));
            let (Ok(rel), Ok(segment)) = (rel.parse::<u32>(), segment.parse::<u32>()) else { continue };
            let mut locator = [0; 12];
            for (at, oid) in [DEFAULT_TABLESPACE, db_oid, rel].into_iter().enumerate() {
                locator[at * 4..at * 4 + 4].copy_from_slice(&oid.to_le_bytes());
            }
            let blocks = file.metadata()?.len() / PAGE;
            found.push(Segment { path: file.path(), locator, first_block: segment * 131_072, blocks });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: write_dwb DATADIR MEGABYTES";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, megabytes] = arguments.as_slice() else { return Err(USAGE.into()) };
    let (data, megabytes) = (Path::new(data), megabytes.parse::<u64>()?);
    let slots = (megabytes << 20) / STRIDE;
    let files = slots.div_ceil(4096).clamp(1, MAX_FILES);
    let slots_per_file = slots / files;
    let checkpoint_lsn = fs::read(data.join("global/pg_control"))?;
    let checkpoint_lsn = u64::from_le_bytes(checkpoint_lsn[40..48].try_into()?);
    let segments = segments(data)?;
    let all: u64 = segments.iter().map(|segment| segment.blocks).sum();
    let step = (all / (slots_per_file * files)).max(1);
    fs::create_dir_all(data.join("pg_dwbuf"))?;
    let mut places = segments.iter().flat_map(|segment| (0..segment.blocks).map(move |block| (segment, block)));
    let mut open: Option<(&Path, File)> = None;
    let mut image = vec![0; PAGE as usize];
    for number in 0..files {
        let mut out = BufWriter::new(File::create(data.join(format!("pg_dwbuf/dwbuf_{number:03}")))?);
        out.write_all(&dwb_format::file_header(u32::try_from(slots_per_file)?, 1, checkpoint_lsn))?;
        for slot in 0..slots_per_file {
            let Some((segment, block)) = places.next() else { break };
            places.by_ref().take(usize::try_from(step - 1)?).for_each(drop);
            if open.as_ref().is_none_or(|(path, _)| *path != segment.path) {
                open = Some((&segment.path, File::open(&segment.path)?));
            }
            let Some((_, file)) = &open else { continue };
            file.read_exact_at(&mut image, block * PAGE)?;
            let half = |at: usize| image[at..at + 4].try_into().map(u32::from_le_bytes);
            let lsn = u64::from(half(0)?) << 32 | u64::from(half(4)?);
            let block = segment.first_block + u32::try_from(block)?;
            let slot_id = u32::try_from(number * slots_per_file + slot)?;
            out.write_all(&dwb_format::slot(slot_id, segment.locator, 0, block, lsn, &image))?;
        }
        out.flush()?;
    }
    Ok(())
}
