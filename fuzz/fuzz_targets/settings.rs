//! Any bytes as each of the small files that a server leaves beside its data: settings, the command line of the last start,
//! `postmaster.pid` and `backup_label`. A server that may run is never taken for one that does not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::cluster::backup_files::{BackupLabel, read_signs};
use pgforensics::cluster::running::{ServerSign, look_at_pid_file};
use pgforensics::cluster::settings::Settings;

fuzz_target!(|data: &[u8]| {
    for name in ["postgresql.conf", "postgresql.auto.conf", "postmaster.opts", "postmaster.pid", "backup_label"] {
        let _ = pgforensics_fuzz::file(name, data);
    }
    let directory = pgforensics_fuzz::directory();
    let settings = Settings::read(directory);
    let _ = (settings.get("wal_level").map(str::len), settings.double_write_buffer_size_mb());
    // The file is there: that there is none must not be said.
    assert!(!matches!(look_at_pid_file(directory), ServerSign::NoPidFile));
    let label = BackupLabel::parse(&String::from_utf8_lossy(data));
    let signs = read_signs(directory, None);
    if let Some(Ok(read)) = signs.backup_label {
        assert_eq!(read.redo_lsn, label.redo_lsn);
    } else {
        assert!(signs.backup_label.is_some(), "the file is there");
    }
});
