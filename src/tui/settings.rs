//! The user's colours and keys: `screen.toml`, of TOML only sections, strings and arrays of strings on one line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ratatui::style::Color;

use super::keymap::Keymap;
use super::look::{OwnColours, Role, Theme};

/// Longest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// Settings, without the lines that are wrong.
#[derive(Clone, Default)]
pub struct Settings {
    pub theme: Option<Theme>,
    pub colours: OwnColours,
    pub keys: Keymap,
    /// Wrong lines, each with its number.
    pub faults: Vec<String>,
}

impl Settings {
    /// Reads the settings of the user; a missing file sets nothing.
    pub fn of_user() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let config = config.or_else(|| Some(set("HOME")?.join(".config")));
        config.map_or_else(Self::default, |config| Self::read(&config.join("pgforensics/screen.toml")))
    }

    /// Reads a file. One that cannot be read is a fault.
    pub fn read(path: &Path) -> Self {
        let read = || {
            let mut text = String::new();
            // A pipe would never end.
            let metadata = std::fs::metadata(path)?;
            if !metadata.is_file() {
                return Err(std::io::Error::other("not a regular file"));
            }
            if metadata.len() > MAX_BYTES {
                return Err(std::io::Error::other(format!("longer than {MAX_BYTES} bytes")));
            }
            File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
            Ok(text)
        };
        match read() {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::default(),
            Err(error) => Self { faults: vec![format!("{}: {error}", path.display())], ..Self::default() },
        }
    }

    pub fn parse(text: &str) -> Self {
        let (mut settings, mut section) = (Self::default(), "");
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let done = match line.strip_prefix('[') {
                _ if line.is_empty() || line.starts_with('#') => Ok(()),
                Some(rest) => section_name(rest).map(|name| section = name),
                None => entry(line).and_then(|(key, values)| settings.set(section, key, &values)),
            };
            settings.faults.extend(done.err().map(|why| format!("screen.toml line {}: {why}", at + 1)));
        }
        settings
    }

    fn set(&mut self, section: &str, key: &str, values: &[&str]) -> Result<(), String> {
        match (section, values) {
            ("keys", keys) => keys.iter().try_for_each(|name| self.keys.add(key, name)),
            ("colors", [value]) => {
                let role: Role = key.parse().map_err(|_| format!("unknown role {key} (roles: {})", Role::names()))?;
                let colour: Color = value.parse().map_err(|_| format!("{value} is not a color"))?;
                self.colours.set(role, colour);
                Ok(())
            }
            ("", ["auto"]) if key == "theme" => Ok(()),
            ("", [value]) if key == "theme" => {
                self.theme = Some(value.parse().map_err(|_| format!("unknown theme {value} (dark, light, auto)"))?);
                Ok(())
            }
            ("colors", _) => Err(format!("{key} needs one color")),
            _ => Err(format!("unknown setting {key} (theme; in [colors] a role, in [keys] an action)")),
        }
    }
}

fn section_name(rest: &str) -> Result<&str, String> {
    let (name, end) = rest.split_once(']').unwrap_or((rest, "?"));
    match name.trim() {
        name @ ("colors" | "keys") if ends(end) => Ok(name),
        _ => Err(format!("unknown section [{rest} (colors, keys)")),
    }
}

/// Nothing but a comment.
fn ends(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

/// `key = "value"`, or `key = ["value", "value"]`.
fn entry(line: &str) -> Result<(&str, Vec<&str>), String> {
    let wrong = || format!("expected key = \"value\": {line}");
    let (key, rest) = line.split_once('=').ok_or_else(wrong)?;
    let (is_array, mut rest) = rest.trim_start().strip_prefix('[').map_or((false, rest), |rest| (true, rest));
    let mut values = Vec::new();
    loop {
        let (value, after) = string(rest.trim_start()).ok_or_else(wrong)?;
        values.push(value);
        let after = after.trim_start();
        let end = match after.strip_prefix([',', ']']).filter(|_| is_array) {
            Some(next) if after.starts_with(',') => {
                rest = next;
                continue;
            }
            Some(end) => Some(end),
            None => (!is_array).then_some(after),
        };
        return end.filter(|end| ends(end)).map(|_| (key.trim(), values)).ok_or_else(wrong);
    }
}

/// A string without escapes, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let (value, rest) = text.get(1..)?.split_once(quote)?;
    (quote == '\'' || !value.contains('\\')).then_some((value, rest))
}
