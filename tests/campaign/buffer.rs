//! Puts a double write buffer into a data directory whose server has none, from the same page writes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::draw::Draw;
use super::faults::{PAGE, Place, Versions};
use crate::common::dwb_format;

/// Each page goes into the buffer before it is written, so every version that a page may have on disk is in it.
pub fn put_in(data: &Path, pages: &BTreeMap<Place, Versions>, major: u32, draw: &mut Draw) -> io::Result<usize> {
    let mut slots = Vec::new();
    for ((path, block), versions) in pages {
        let Some((numbers, fork)) = locator(path) else { continue };
        let mut locator = [0; 12];
        for (at, number) in numbers.into_iter().enumerate() {
            locator[at * 4..at * 4 + 4].copy_from_slice(&number.to_le_bytes());
        }
        for page in &versions.all[1..] {
            // Pages of zeros are written when a file grows, past the buffer.
            if page.iter().any(|byte| *byte != 0) {
                slots.push((locator, fork, u32::try_from(*block).unwrap_or(u32::MAX), page));
            }
        }
    }
    // The order of the writes; a page's own versions stay in theirs.
    let lsn_of = |page: &[u8]| {
        let half = |at: usize| u64::from(u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes")));
        half(0) << 32 | half(4)
    };
    slots.sort_by_key(|slot| lsn_of(slot.3));
    let control = fs::read(data.join("global/pg_control"))?;
    // Offset of the redo point; 10 has one more checkpoint before it.
    let at = if major == 10 { 48 } else { 40 };
    let redo = u64::from_le_bytes(control[at..at + 8].try_into().expect("8 bytes"));
    let room = slots.len() + draw.between(0, 200);
    let mut file = dwb_format::file_header(u32::try_from(room.max(16)).unwrap_or(u32::MAX), 1, redo);
    for (number, (locator, fork, block, page)) in slots.iter().enumerate() {
        file.extend(dwb_format::slot(number as u32, *locator, *fork, *block, lsn_of(page), page));
    }
    let stride = PAGE + dwb_format::HEADER_BYTES as usize;
    file.resize(dwb_format::HEADER_BYTES as usize + room.max(16) * stride, 0);
    fs::create_dir_all(data.join("pg_dwbuf"))?;
    fs::write(data.join("pg_dwbuf/dwbuf_000"), file)?;
    Ok(slots.len())
}

/// Tablespace, database and relation of a file, and the number of its fork.
pub fn locator(path: &Path) -> Option<([u32; 3], u8)> {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let (spc, db, name) = match parts.as_slice() {
        [global, name] if global == "global" => (1664, 0, name.as_str()),
        [base, db, name] if base == "base" => (1663, db.parse().ok()?, name.as_str()),
        [_, spc, _, db, name] => (spc.parse().ok()?, db.parse().ok()?, name.as_str()),
        _ => return None,
    };
    let (rel, fork) = name.split_once('_').unwrap_or((name, ""));
    let fork = ["", "fsm", "vm", "init"].iter().position(|known| *known == fork)?;
    Some(([spc, db, rel.parse().ok()?], u8::try_from(fork).ok()?))
}
