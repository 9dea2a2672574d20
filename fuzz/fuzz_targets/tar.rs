//! Any bytes as an archive, plain or packed: members are shown in order, none has more bytes than its header says, and the
//! second reading shows the same.
#![no_main]

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pgforensics::cluster::tar_backup::{is_archive, read_members};

/// Bytes of a member that are read: a short input can stand for very long members.
const MAX_READ: u64 = 1 << 16;

fn members(path: &Path) -> (Vec<(String, u64)>, bool) {
    let mut found = Vec::new();
    let ended = read_members(path, |member| {
        let mut bytes = Vec::new();
        let read = member.bytes.take(MAX_READ).read_to_end(&mut bytes)? as u64;
        assert!(read <= member.size_bytes);
        found.push((member.name.to_owned(), read));
        Ok(if found.len() < 64 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    });
    (found, ended.is_ok())
}

fuzz_target!(|data: &[u8]| {
    let path = pgforensics_fuzz::file("archive", data);
    let first = members(&path);
    assert!(first.0.is_empty() || is_archive(&path));
    assert_eq!(first, members(&path));
});
