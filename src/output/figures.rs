//! Figures in few characters: sizes, shares, curves.

/// Bars of a sparkline, from nothing to all.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Units of sizes, each 1024 of the one before.
const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];

/// A size in at most 6 characters.
#[must_use]
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { bytes.to_string() } else { format!("{value:.1}{}", UNITS[unit]) }
}

/// A share, 0 to 1, in percent with one decimal.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Shares, 0 to 1, as a bar each.
#[must_use]
pub fn sparkline(shares: &[Option<f64>]) -> String {
    let bar = |share: &Option<f64>| match share {
        None => ' ',
        Some(share) => BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)],
    };
    shares.iter().map(bar).collect()
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
    fn sparkline_shows_nothing_as_a_blank() {
        assert_eq!(sparkline(&[Some(1.0), Some(0.5), Some(0.0), None]), "█▅▁ ");
    }
}
