//! Axes: from which number to which, where the ticks stand, and what is written at them.

use crate::output::figures::size;

const TICKS: f64 = 5.0;

/// Unit of the numbers of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Plain numbers.
    Count,
    /// Bytes: ticks stand at round numbers of KB, MB, GB of 1024 each.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
    /// Shares, 0 to 1, written in percent.
    Share,
}

impl Unit {
    /// A number as it is written at a tick.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Count => plain(value),
            Self::Bytes => size(value.max(0.0).round() as u64).replace(".0", ""),
            Self::BytesPerSecond => format!("{}/s", Self::Bytes.text(value)),
            Self::Share => format!("{} %", plain(value * 100.0)),
        }
    }

    /// Base of round steps.
    fn base(self, most: f64) -> f64 {
        match self {
            Self::Count => 1.0,
            Self::Share => 0.01,
            Self::Bytes | Self::BytesPerSecond => {
                let mut base = 1.0;
                while most / base >= 999.5 {
                    base *= 1024.0;
                }
                base
            }
        }
    }
}

/// Large numbers in groups of three digits; small ones with a decimal where that matters.
fn plain(value: f64) -> String {
    if value.fract().abs() > 1e-9 && value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    grouped(value.abs().round() as u64)
}

/// A number with a thin space between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// An axis from zero to a round number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    unit: Unit,
    /// Where it ends.
    pub most: f64,
    /// Where the ticks stand, 0 among them.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis on which `most` has room.
    pub(super) fn up_to(most: f64, unit: Unit) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { unit.base(1.0) };
        let base = unit.base(most);
        let raw = most / base / TICKS;
        let power = 10.0_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= raw * 0.999).unwrap_or(10.0) * power;
        // Counts and bytes have no halves.
        let step = if base > 0.5 && unit == Unit::Count { step.max(1.0) } else { step } * base;
        let count = (most / step * 0.999_999).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|index| f64::from(index) * step).collect();
        Self { unit, most: count * step, ticks }
    }

    /// Where a value stands, 0 to 1.
    pub(super) fn at(&self, value: f64) -> f64 {
        (value / self.most).clamp(0.0, 1.0)
    }

    pub(super) fn text(&self, tick: f64) -> String {
        self.unit.text(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_over_the_largest_value() {
        let texts = |most, unit| {
            let axis = Axis::up_to(most, unit);
            assert!(axis.most >= most && axis.ticks.len() <= 8, "{axis:?}");
            axis.ticks.iter().map(|tick| axis.text(*tick)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(texts(1.0, Unit::Share), "0 % 20 % 40 % 60 % 80 % 100 %");
        assert_eq!(texts(0.034, Unit::Share), "0 % 1 % 2 % 3 % 4 %");
        assert_eq!(texts(7.0, Unit::Count), "0 2 4 6 8");
        assert_eq!(texts(9100.0, Unit::Count), "0 2\u{202f}000 4\u{202f}000 6\u{202f}000 8\u{202f}000 10\u{202f}000");
        assert_eq!(texts(1.0, Unit::Count), "0 1");
        assert_eq!(texts(190.0 * 1024.0 * 1024.0, Unit::Bytes), "0 50M 100M 150M 200M");
        assert_eq!(texts(3000.0, Unit::BytesPerSecond), "0/s 1K/s 2K/s 3K/s");
    }

    #[test]
    fn axis_of_nothing_is_an_axis_still() {
        for most in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Axis::up_to(most, Unit::Count).ticks, [0.0, 1.0]);
        }
    }
}
