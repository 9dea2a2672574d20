//! Figures in few characters: sizes, shares, curves.
//! Also here: settings with their values, as a configuration file has them.

use crate::analysis::plan::savings::Remedy;

/// Bars of a sparkline, from nothing to all.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Units of sizes, each 1024 of the one before.
const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];

/// A size in at most 6 characters.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { bytes.to_string() } else { format!("{value:.1}{}", UNITS[unit]) }
}

/// A size in a sentence, with the units of the server.
pub(crate) fn size_words(bytes: u64) -> String {
    let size = size(bytes);
    match size.strip_suffix(char::is_alphabetic) {
        Some(number) => format!("{number} {}B", size.replace(number, "").replace('K', "k")),
        None => format!("{size} bytes"),
    }
}

/// `1 page`, `2 pages`.
pub(crate) fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A size that may be less than nothing.
pub(crate) fn signed_size(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// Like [`signed_size`], with the units of the server.
pub(super) fn signed_size_words(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size_words(bytes.unsigned_abs()))
}

/// A share, 0 to 1, in percent with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// A length of time in at most 6 characters.
pub fn duration(seconds: f64) -> String {
    if seconds < 9.95 {
        return format!("{seconds:.1}s");
    }
    let whole = seconds.round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole}s"),
        (0, 0, minutes) => format!("{minutes}m{:02}s", whole % 60),
        (0, hours, minutes) => format!("{hours}h{minutes:02}m"),
        (days, hours, _) => format!("{days}d{hours:02}h"),
    }
}

/// A rate with as many decimals as it takes to see something.
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 99.95 => format!("{rate:.0}"),
        rate if rate >= 9.995 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

/// Bytes in MB, each 1,048,576 bytes as in the settings of servers.
pub fn megabytes(bytes: f64) -> f64 {
    bytes / 1_048_576.0
}

/// Shares, 0 to 1, as a bar each.
pub(crate) fn sparkline(shares: &[Option<f64>]) -> String {
    let bar = |share: &Option<f64>| match share {
        None => ' ',
        Some(share) => BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)],
    };
    shares.iter().map(bar).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_short() {
        for (bytes, text) in [(0, "0"), (999, "999"), (1000, "1.0K"), (1 << 20, "1.0M"), (26_907_443, "25.7M")] {
            assert_eq!(size(bytes), text);
        }
        assert!(size(u64::MAX).len() <= 11);
    }

    #[test]
    fn durations_and_rates_stay_short() {
        for (seconds, text) in [
            (0.04, "0.0s"),
            (9.94, "9.9s"),
            (9.96, "10s"),
            (59.0, "59s"),
            (61.0, "1m01s"),
            (3599.6, "1h00m"),
            (90_000.0, "1d01h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        for (per_second, text) in [(0.004, "0.00"), (1.0, "1.00"), (12.34, "12.3"), (9100.4, "9100")] {
            assert_eq!(rate(per_second), text);
        }
    }

    #[test]
    fn sparkline_shows_nothing_as_a_blank() {
        assert_eq!(sparkline(&[Some(1.0), Some(0.5), Some(0.0), None]), "█▅▁ ");
    }
}
