//! Settings with their values, as a configuration file has them.

use crate::analysis::plan::savings::Remedy;

/// The setting that a remedy changes, with its value.
pub(crate) fn remedy_words(remedy: &Remedy) -> String {
    match remedy {
        Remedy::FewerCheckpoints { max_wal_size, timeout, .. } if allows_defaults(*max_wal_size, *timeout) => {
            "fewer checkpoints (default settings suffice)".to_owned()
        }
        Remedy::FewerCheckpoints { max_wal_size, timeout, .. } => {
            format!("max_wal_size = {}, checkpoint_timeout = {}", setting_size(*max_wal_size), setting_time(*timeout))
        }
        Remedy::Compression { best, .. } => format!("wal_compression = {}", best.setting.code()),
        Remedy::DoubleWrite { .. } => "double write buffer (patched server)".to_owned(),
        Remedy::NoHints { .. } => "wal_log_hints = off, no data checksums".to_owned(),
        Remedy::ArchiveTimeout { seconds, .. } => format!("archive_timeout = {}", setting_time(*seconds)),
        Remedy::ReplicaIdentity { .. } => "REPLICA IDENTITY DEFAULT or USING INDEX".to_owned(),
    }
}

/// The settings of a server that nobody changed suffice.
pub(super) const fn allows_defaults(max_wal_size: u64, timeout_s: u32) -> bool {
    max_wal_size <= 1 << 30 && timeout_s <= 300
}

/// A number of bytes as a setting is written: in the largest unit that leaves no fraction.
pub(super) fn setting_size(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TB"), (30, "GB"), (20, "MB"), (10, "kB")];
    let unit = UNITS.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| format!("{bytes}B"), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// A number of seconds as a setting is written.
pub(super) fn setting_time(seconds: u32) -> String {
    match seconds {
        hours if hours > 0 && hours.is_multiple_of(3600) => format!("{}h", hours / 3600),
        minutes if minutes > 0 && minutes.is_multiple_of(60) => format!("{}min", minutes / 60),
        seconds => format!("{seconds}s"),
    }
}
