//! Text can be read on the backgrounds of known terminals, and no two answers look alike to people who see fewer colours.

use pgforensics::analysis::verdict::facts::Tone;
use pgforensics::tui::look::{Colours, Look, Role, Theme, rgb_of};
use ratatui::style::{Color, Modifier};

type Rgb = [u8; 3];

const fn rgb(hex: u32) -> Rgb {
    let [_, red, green, blue] = hex.to_be_bytes();
    [red, green, blue]
}

/// Backgrounds as these terminals are shipped.
const DARK: [(&str, u32); 6] = [
    ("VS Code", 0x1e_1e1e),
    ("xterm", 0x00_0000),
    ("GNOME", 0x30_0a24),
    ("Windows", 0x0c_0c0c),
    ("Linux console", 0x00_0000),
    ("Solarized dark", 0x00_2b36),
];

const LIGHT: [(&str, u32); 6] = [
    ("VS Code light", 0xff_ffff),
    ("xterm", 0xff_ffff),
    ("GNOME light", 0xff_ffff),
    ("Windows One Half light", 0xfa_fafa),
    ("Apple basic", 0xff_ffff),
    ("Solarized light", 0xfd_f6e3),
];

/// Sixteen colours of terminals that have no more: black to white, then the bright ones.
const SIXTEEN: [(&str, [u32; 16]); 3] = [
    (
        "xterm",
        [
            0x00_0000, 0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd, 0xe5_e5e5, 0x7f_7f7f,
            0xff_0000, 0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff, 0x00_ffff, 0xff_ffff,
        ],
    ),
    (
        "Linux console",
        [
            0x00_0000, 0xaa_0000, 0x00_aa00, 0xaa_5500, 0x00_00aa, 0xaa_00aa, 0x00_aaaa, 0xaa_aaaa, 0x55_5555,
            0xff_5555, 0x55_ff55, 0xff_ff55, 0x55_55ff, 0xff_55ff, 0x55_ffff, 0xff_ffff,
        ],
    ),
    (
        "VGA",
        [
            0x00_0000, 0x80_0000, 0x00_8000, 0x80_8000, 0x00_0080, 0x80_0080, 0x00_8080, 0xc0_c0c0, 0x80_8080,
            0xff_0000, 0x00_ff00, 0xff_ff00, 0x00_00ff, 0xff_00ff, 0x00_ffff, 0xff_ffff,
        ],
    ),
];

fn shown(colour: Color, sixteen: &[u32; 16]) -> Rgb {
    let at = match colour {
        Color::Rgb(red, green, blue) => return [red, green, blue],
        Color::Indexed(index) => return rgb_of(index),
        Color::Black => 0,
        Color::Red => 1,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Gray => 7,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
        other => panic!("{other:?} is not a colour of a role"),
    };
    rgb(sixteen[at])
}

/// Relative luminance of WCAG 2.1.
fn luminance(rgb: Rgb) -> f64 {
    let linear = rgb.map(|value| {
        let value = f64::from(value) / 255.0;
        if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    linear[0].mul_add(0.2126, linear[1].mul_add(0.7152, linear[2] * 0.0722))
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

#[test]
fn every_role_can_be_read_on_every_background() {
    for (theme, backgrounds) in [(Theme::Dark, DARK), (Theme::Light, LIGHT)] {
        for colours in [Colours::Indexed, Colours::Full] {
            let bar = shown(Role::Bar.colour(theme, colours).expect("a colour"), &SIXTEEN[0].1);
            for role in Role::TEXT {
                let text = shown(role.colour(theme, colours).expect("a colour"), &SIXTEEN[0].1);
                assert!(
                    contrast(text, bar) >= 4.5,
                    "{role:?} when selected, {theme:?} {colours:?}: {}",
                    contrast(text, bar)
                );
                for (name, background) in backgrounds.iter().filter(|_| role != Role::Selected) {
                    let is = contrast(text, rgb(*background));
                    assert!(is >= 4.5, "{role:?} on {name}, {theme:?} {colours:?}: {is}");
                }
            }
        }
        for (name, sixteen) in SIXTEEN {
            let background = if theme == Theme::Dark { 0x00_0000 } else { 0xff_ffff };
            for role in Role::TEXT {
                let text = shown(role.colour(theme, Colours::Sixteen).expect("a colour"), &sixteen);
                assert!(contrast(text, rgb(background)) >= 4.5, "{role:?} on {name} {theme:?}");
            }
        }
    }
}

/// Red, green and blue as somebody without the cones for red (protanopia) or green (deuteranopia) sees them: matrices of
/// Machado, Oliveira and Fernandes 2009, severity 1.
const FEWER: [(&str, [[f64; 3]; 3]); 2] = [
    ("protanopia", [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    ("deuteranopia", [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
];

#[test]
fn answers_differ_for_people_who_see_fewer_colours() {
    let answers = [Role::Good, Role::Doubt, Role::Loss, Role::Bad];
    for theme in [Theme::Dark, Theme::Light] {
        for (name, matrix) in FEWER {
            let seen = |role: Role| {
                let colour = shown(role.colour(theme, Colours::Full).expect("a colour"), &SIXTEEN[0].1);
                matrix.map(|row| row.iter().zip(colour).map(|(factor, value)| factor * f64::from(value)).sum::<f64>())
            };
            for (at, one) in answers.into_iter().enumerate() {
                for other in &answers[at + 1..] {
                    let far = seen(one)
                        .iter()
                        .zip(seen(*other))
                        .map(|(one, other)| (one - other).powi(2))
                        .sum::<f64>()
                        .sqrt();
                    assert!(far >= 40.0, "{one:?} and {other:?} on {theme:?} with {name}: {far}");
                }
            }
        }
    }
}

/// Bold letters alone are too little of a difference.
#[test]
fn answers_differ_by_more_than_bold_letters() {
    let tones = [Tone::Good, Tone::Doubt, Tone::Loss, Tone::Bad];
    for theme in [Theme::Dark, Theme::Light] {
        for colours in [Colours::Sixteen, Colours::Indexed, Colours::Full] {
            let look = Look { theme, colours, ..Look::default() };
            let styles = tones.map(|tone| look.tone(tone).remove_modifier(Modifier::BOLD));
            for (at, one) in styles.iter().enumerate() {
                let same = styles[at + 1..].iter().find(|other| {
                    (one.fg, one.add_modifier - Modifier::BOLD) == (other.fg, other.add_modifier - Modifier::BOLD)
                });
                assert_eq!(same, None, "{theme:?} {colours:?}");
            }
        }
    }
}
