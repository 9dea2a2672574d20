//! Roles of colour: one row for each, with its colour on a dark and on a light background.
//!
//! The colours follow Okabe and Ito: they differ for people who cannot distinguish red and green. Contrast and distance
//! of each pair are tested against the palettes of six terminals.

use ratatui::style::Color;
use strum::VariantNames as _;

/// The background that colours are chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Theme {
    #[default]
    Dark,
    Light,
}

/// Colours that a terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    #[default]
    None,
    Sixteen,
    Indexed,
    /// 24 bits.
    Full,
}

/// Meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Role {
    Good,
    Doubt,
    Loss,
    Bad,
    Heading,
    Faint,
    Selected,
    Bar,
}

impl Role {
    /// Every role of a foreground.
    pub const TEXT: [Self; 7] =
        [Self::Good, Self::Doubt, Self::Loss, Self::Bad, Self::Heading, Self::Faint, Self::Selected];

    /// 24 bits and the nearest of sixteen colours, on dark and on light.
    const fn row(self) -> [(u32, Color); 2] {
        match self {
            Self::Good => [(0x4f_d6a4, Color::LightGreen), (0x00_5f43, Color::Blue)],
            Self::Doubt => [(0xf0_d84a, Color::LightYellow), (0x6e_5600, Color::Magenta)],
            Self::Loss => [(0xf0_9fd8, Color::LightMagenta), (0x87_2a72, Color::Magenta)],
            Self::Bad => [(0xff_8a6b, Color::LightRed), (0x9c_1c00, Color::Red)],
            Self::Heading => [(0x7a_c7f5, Color::LightCyan), (0x0a_4f94, Color::Blue)],
            Self::Faint => [(0xae_b4b9, Color::Gray), (0x4e_5357, Color::Black)],
            Self::Selected => [(0xff_ffff, Color::White), (0x00_0000, Color::Black)],
            Self::Bar => [(0x3a_3a3a, Color::Reset), (0xd7_d7d7, Color::Reset)],
        }
    }

    /// The colour; `None` where none is used.
    pub fn colour(self, theme: Theme, colours: Colours) -> Option<Color> {
        let [dark, light] = self.row();
        let (rgb, basic) = if theme == Theme::Dark { dark } else { light };
        let [_, red, green, blue] = rgb.to_be_bytes();
        match colours {
            Colours::None => None,
            Colours::Sixteen => Some(basic),
            Colours::Indexed => Some(Color::Indexed(nearest([red, green, blue]))),
            Colours::Full => Some(Color::Rgb(red, green, blue)),
        }
    }

    pub(crate) fn names() -> String {
        Self::VARIANTS.join(", ")
    }
}

/// Colours that the user has chosen for roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnColours([Option<Color>; Role::VARIANTS.len()]);

impl OwnColours {
    pub const NONE: Self = Self([None; Role::VARIANTS.len()]);

    pub(crate) fn set(&mut self, role: Role, colour: Color) {
        self.0[role as usize] = Some(colour);
    }

    /// The colour of a role, as far as the terminal has it.
    pub(crate) fn get(self, role: Role, colours: Colours) -> Option<Color> {
        match (self.0[role as usize]?, colours) {
            (_, Colours::None) | (Color::Rgb(..) | Color::Indexed(16..), Colours::Sixteen) => None,
            (Color::Rgb(red, green, blue), Colours::Indexed) => Some(Color::Indexed(nearest([red, green, blue]))),
            (colour, _) => Some(colour),
        }
    }
}

/// The nearest of the colours 16 to 255: a cube of 6 by 6 by 6, then greys.
fn nearest(rgb: [u8; 3]) -> u8 {
    (16..=255).min_by_key(|index| distance(rgb, rgb_of(*index))).unwrap_or(15)
}

fn distance(one: [u8; 3], other: [u8; 3]) -> u32 {
    one.iter().zip(other).map(|(one, other)| u32::from(one.abs_diff(other)).pow(2)).sum()
}

/// 24 bits of a colour from 16 on.
pub fn rgb_of(index: u8) -> [u8; 3] {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let level = |at: u8| LEVELS.get(usize::from(at % 6)).copied().unwrap_or(0);
    match index.saturating_sub(16) {
        grey @ 216.. => [8 + 10 * (grey - 216); 3],
        cube => [level(cube / 36), level(cube / 6), level(cube)],
    }
}
