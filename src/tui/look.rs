//! Styles, colours and characters. No colour carries a meaning alone.
//!
//! The colours follow Okabe and Ito: they differ for people who cannot distinguish red and green. Contrast and distance
//! of each pair are tested against the palettes of six terminals.

use std::borrow::Cow;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use strum::VariantNames as _;

use crate::analysis::verdict::facts::Tone;
use crate::analysis::verdict::judge::Verdict;
use crate::output::escape::printable;
use crate::output::figures::many;
use crate::output::text::wrapping;

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub colours: Colours,
    pub theme: Theme,
    pub ascii: bool,
    pub own: OwnColours,
}

impl Look {
    fn colour(self, role: Role) -> Option<Color> {
        self.own.get(role, self.colours).or_else(|| role.colour(self.theme, self.colours))
    }

    pub fn role(self, role: Role) -> Style {
        self.colour(role).map_or(Style::new(), |colour| Style::new().fg(colour))
    }

    pub fn verdict(self, verdict: Verdict) -> Style {
        self.tone(verdict.facts().tone)
    }

    pub fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Good => self.good(),
            Tone::Doubt => self.doubt(),
            Tone::Loss => self.loss(),
            Tone::Bad => self.bad(),
            Tone::Quiet => self.faint(),
        }
    }

    pub fn good(self) -> Style {
        self.role(Role::Good)
    }

    pub fn doubt(self) -> Style {
        self.role(Role::Doubt)
    }

    fn loss(self) -> Style {
        let style = self.role(Role::Loss).add_modifier(Modifier::BOLD);
        match (self.theme, self.colours) {
            // Doubt has the same of sixteen colours.
            (Theme::Light, Colours::Sixteen) => style.add_modifier(Modifier::UNDERLINED),
            _ => style,
        }
    }

    pub fn bad(self) -> Style {
        self.role(Role::Bad).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn faint(self) -> Style {
        match self.colours {
            // How dark a dimmed colour is only the terminal knows.
            Colours::None => Style::new().add_modifier(Modifier::DIM),
            _ => self.role(Role::Faint),
        }
    }

    pub fn heading(self) -> Style {
        self.role(Role::Heading).add_modifier(Modifier::BOLD)
    }

    /// The image or batch with this number: neighbours differ. Its letter says which it is.
    pub fn number(self, at: usize) -> Style {
        const ROLES: [Role; 5] = [Role::Heading, Role::Loss, Role::Doubt, Role::Bad, Role::Good];
        ROLES.get(at % ROLES.len()).map_or(Style::new(), |role| self.role(*role))
    }

    /// An open tab, or a cursor: reversed. Not for text with characters that are a share of their cell.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The answer in a word, before anything else.
    pub(crate) fn badge(self, label: &str, tone: Tone) -> Span<'static> {
        let style = self.tone(tone).add_modifier(Modifier::REVERSED | Modifier::BOLD);
        Span::styled(format!(" {label} "), style)
    }

    /// The selected line, under colours that stay as they are. Where the background is not sure to be readable, the pointer
    /// before the line and bold letters show it.
    pub(crate) fn selected_line(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        match (self.colours, self.colour(Role::Selected), self.colour(Role::Bar)) {
            (Colours::Indexed | Colours::Full, Some(fore), Some(back)) => style.fg(fore).bg(back),
            _ => style,
        }
    }

    /// A bar of `width` columns, filled by `share`; anything above zero is at least one column.
    pub fn bar(self, share: f64, width: usize) -> String {
        let full = ((share.clamp(0.0, 1.0) * width as f64).round() as usize).max(usize::from(share > 0.0)).min(width);
        let (on, off) = if self.ascii { ('#', '.') } else { ('█', '░') };
        std::iter::repeat_n(on, full).chain(std::iter::repeat_n(off, width - full)).collect()
    }

    /// A thin bar of `width` columns: its filled part, and the rest.
    pub(crate) fn meter(self, share: f64, width: usize) -> [String; 2] {
        let full = ((share.clamp(0.0, 1.0) * width as f64).round() as usize).max(usize::from(share > 0.0)).min(width);
        let (on, off) = if self.ascii { ("=", ".") } else { ("━", "─") };
        [on.repeat(full), off.repeat(width - full)]
    }

    pub fn level(self, share: Option<f64>) -> char {
        const FINE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let Some(share) = share else { return ' ' };
        let at = |count: usize| ((share.clamp(0.0, 1.0) * count as f64) as usize).min(count - 1);
        if self.ascii { char::from(b'0' + u8::try_from(at(10)).unwrap_or(9)) } else { FINE[at(8)] }
    }

    pub const fn pointer(self) -> &'static str {
        if self.ascii { ">" } else { "▶" }
    }

    /// Divider between a list and the detail next to it: three columns.
    pub(crate) const fn divider(self) -> &'static str {
        if self.ascii { " | " } else { " │ " }
    }

    /// A block of a strip with which nothing is wrong.
    pub(crate) const fn dot(self) -> char {
        if self.ascii { '.' } else { '·' }
    }

    /// A block of a map with which nothing is wrong.
    pub(crate) const fn sound(self) -> char {
        if self.ascii { '.' } else { '░' }
    }

    /// Mark of text that was cut off.
    pub(crate) const fn ellipsis(self) -> char {
        if self.ascii { '~' } else { '…' }
    }

    /// Marks lines of which others were cut off.
    pub(crate) fn mark_cut(self, lines: &mut [Line<'_>]) {
        if let Some(span) = lines.last_mut().and_then(|line| line.spans.last_mut()) {
            span.content = format!("{}{}", span.content, self.ellipsis()).into();
        }
    }

    /// Text that may come from disk, cut to `width` columns and harmless.
    pub fn cut(self, text: &str, width: usize) -> String {
        let text = self.plain(text);
        if columns(&text) <= width {
            return text;
        }
        let mut cut = String::new();
        let mut used = 0;
        for c in text.chars() {
            let wide = columns(c.encode_utf8(&mut [0; 4]));
            if used + wide + 1 > width {
                break;
            }
            cut.push(c);
            used += wide;
        }
        if width > 0 {
            cut.push(self.ellipsis());
        }
        cut
    }

    pub(crate) fn fit(self, text: &str, width: usize) -> String {
        let mut text = self.cut(text, width);
        text.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(&text))));
        text
    }

    pub(crate) fn fit_right(self, text: &str, width: usize) -> String {
        let text = self.cut(text, width);
        format!("{}{text}", " ".repeat(width.saturating_sub(columns(&text))))
    }

    /// Cells side by side: of so many columns, to the right where negative.
    pub(crate) fn cells(self, cells: &[(&str, isize)]) -> String {
        let cell = |(text, width): &(&str, isize)| match width {
            0.. => self.fit(text, width.unsigned_abs()),
            _ => self.fit_right(text, width.unsigned_abs()),
        };
        cells.iter().map(cell).collect()
    }

    /// The end of a text, filled with blanks: the end of a long name says more than its beginning.
    pub(crate) fn fit_end(self, text: &str, width: usize) -> String {
        let text = self.plain(text);
        if columns(&text) <= width {
            return self.fit(&text, width);
        }
        let mut skip = 1;
        while columns(&text.chars().skip(skip).collect::<String>()) + 1 > width && skip < text.len() {
            skip += 1;
        }
        self.fit(&format!("{}{}", self.ellipsis(), text.chars().skip(skip).collect::<String>()), width)
    }

    /// A name such as `database.schema.relation`, filled with blanks. Where it is too long its middle is left out: the
    /// database at its beginning and the end of the relation tell more.
    pub(crate) fn fit_name(self, name: &str, width: usize) -> String {
        let name = self.plain(name);
        if columns(&name) <= width {
            return self.fit(&name, width);
        }
        let database = name.find('.').map_or(0, |dot| columns(&name[..=dot]));
        let front = database.min(width * 2 / 5);
        let mut head = String::new();
        for c in name.chars() {
            if columns(&head) + columns(c.encode_utf8(&mut [0; 4])) > front {
                break;
            }
            head.push(c);
        }
        let rest: String = name.chars().skip(head.chars().count()).collect();
        let room = width.saturating_sub(columns(&head));
        format!("{head}{}", self.fit_end(&rest, room))
    }

    /// Harmless text; ASCII only where that is wanted.
    pub fn plain(self, text: &str) -> String {
        let text = printable(text);
        if !self.ascii || text.is_ascii() {
            return text;
        }
        text.chars().map(|c| if c.is_ascii() { c } else { ascii_for(c) }).collect()
    }

    /// Text broken into lines of at most `width` columns.
    pub(crate) fn wrap(self, text: &str, width: usize) -> Vec<String> {
        // A word longer than the line is broken: paths are.
        let text = self.plain(text);
        textwrap::wrap(&text, wrapping(width.max(8))).into_iter().map(Cow::into_owned).collect()
    }

    /// Wrapped text as lines in one style.
    pub(crate) fn lines(self, text: &str, width: usize, style: Style) -> Vec<Line<'static>> {
        self.wrap(text, width).into_iter().map(|words| Line::styled(words, style)).collect()
    }
}

fn ascii_for(c: char) -> char {
    match c {
        '█' => '#',
        '░' => '.',
        '…' => '~',
        '·' => '.',
        '▁'..='▇' => '=',
        _ => '?',
    }
}

/// `1 page`, `2 pages`.
pub fn pages(count: usize) -> String {
    many(count as u64, "page")
}

pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Look = Look { colours: Colours::Sixteen, theme: Theme::Dark, ascii: false, own: OwnColours::NONE };
    const PLAIN: Look = Look { colours: Colours::None, ascii: true, ..FINE };

    #[test]
    fn text_is_cut_by_columns_and_disarmed() {
        assert_eq!(FINE.fit("abc", 5), "abc  ");
        assert_eq!(FINE.cut("abcdef", 4), "abc…");
        assert_eq!(PLAIN.cut("abcdef", 4), "abc~");
        assert_eq!(FINE.fit_end("abcdef", 4), "…def");
        assert_eq!(FINE.fit_end("abc", 4), "abc ");
        assert_eq!(FINE.fit_name("db.public.orders_by_customer", 14), "db.…y_customer");
        assert_eq!(FINE.fit_name("a_long_database.public.orders", 15), "a_long…c.orders");
        assert_eq!(FINE.fit_name("db.public.t", 12), "db.public.t ");
        assert_eq!(columns(&FINE.fit_name("データ.日本語の表", 9)), 9);
        assert_eq!(columns(&FINE.fit_end("日本語の表", 4)), 4);
        assert_eq!(columns(&FINE.fit("日本語の表", 7)), 7);
        assert_eq!(FINE.cut("a\u{1b}[2J", 20), "a\\u{1b}[2J");
        assert_eq!(PLAIN.cut("日本", 4), "??");
    }

    #[test]
    fn lines_never_exceed_the_width() {
        let text = "one two /a/very/long/path/that/does/not/fit three";
        for width in 8..40 {
            let lines = FINE.wrap(text, width);
            assert!(lines.iter().all(|line| columns(line) <= width), "{width}: {lines:?}");
            assert_eq!(lines.join("").replace(' ', ""), text.replace(' ', ""));
        }
    }

    #[test]
    fn bars_show_that_little_is_not_nothing() {
        assert_eq!(PLAIN.bar(0.0, 4), "....");
        assert_eq!(PLAIN.bar(0.001, 4), "#...");
        assert_eq!(PLAIN.bar(1.0, 4), "####");
    }
}
