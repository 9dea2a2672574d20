//! Any bytes as the files of a journal, its manifest signed: a page that it gives has the length and the CRC that its entry
//! names, whatever else is wrong.
#![no_main]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use libfuzzer_sys::fuzz_target;
use pgforensics::repair::journal::Journal;
use pgforensics::repair::plan::crc_text;

fuzz_target!(|data: &[u8]| {
    let [body, before, after, audit] = pgforensics_fuzz::parts(data);
    let mut manifest = body.to_vec();
    manifest.extend_from_slice(format!("\n{}\n", crc_text(body)).as_bytes());
    for (name, bytes) in
        [("journal.json", &manifest[..]), ("before.pages", before), ("after.pages", after), ("audit.ndjson", audit)]
    {
        let path = pgforensics_fuzz::file(name, bytes);
        fs::set_permissions(path, Permissions::from_mode(0o600)).expect("a file of this process");
    }
    let directory = pgforensics_fuzz::directory();
    let owner = fs::metadata(directory).expect("a directory of this process").uid();
    let Ok(journal) = Journal::open(directory, &[owner]) else { return };
    let manifest = journal.manifest();
    for (index, entry) in manifest.entries.iter().enumerate() {
        for (page, crc) in [(journal.before(index), &entry.before_crc), (journal.after(index), &entry.after_crc)] {
            let Ok(page) = page else { continue };
            assert_eq!((page.len(), &crc_text(&page)), (manifest.block_size, crc));
        }
    }
    let _ = journal.began().is_ok();
});
