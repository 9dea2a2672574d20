//! Settings of the data directory that say how its double write buffer was used: evidence, never proof, since a file
//! may have been changed after the server read it.

use std::collections::BTreeMap;
use std::path::Path;

use super::open::{AccessError, Links, read_small};

/// Longest configuration file that is read, in bytes.
pub(super) const CONF_LIMIT_BYTES: u64 = 4 << 20;

/// Files in the order in which the server applies them; a later one wins.
pub(super) const FILES: [&str; 2] = ["postgresql.conf", "postgresql.auto.conf"];

/// Settings that were found.
#[derive(Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// Lines `include…` that were seen and not followed.
    pub includes: usize,
    /// Files that are there but could not be read.
    pub skipped: Vec<AccessError>,
    /// `postgresql.conf` was read.
    has_main: bool,
}

impl Settings {
    /// Reads the configuration files and the command line of the last start.
    pub fn read(data_dir: &Path) -> Self {
        let mut settings = Self::default();
        for name in FILES {
            if let Some(text) = settings.text_of(&data_dir.join(name)) {
                settings.add_file(&text);
                settings.has_main |= name == FILES[0];
            }
        }
        if let Some(text) = settings.text_of(&data_dir.join("postmaster.opts")) {
            settings.add_command_line(&text);
        }
        settings
    }

    /// Text of a setting, quotes removed.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// True when no other file can hold a setting.
    pub(crate) const fn is_complete(&self) -> bool {
        self.has_main && self.includes == 0 && self.skipped.is_empty()
    }

    /// `double_write_buffer_size` in MB.
    pub fn double_write_buffer_size_mb(&self) -> Option<u32> {
        let text = self.get("double_write_buffer_size")?;
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: u32 = number.parse().ok()?;
        match unit.trim() {
            "" | "MB" => Some(number),
            "GB" => number.checked_mul(1024),
            "kB" => Some(number / 1024),
            _ => None,
        }
    }

    fn text_of(&mut self, path: &Path) -> Option<String> {
        match read_small(path, Links::Refuse, CONF_LIMIT_BYTES) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.is_not_found() => None,
            Err(error) => {
                self.skipped.push(error);
                None
            }
        }
    }

    fn add_file(&mut self, text: &str) {
        for (name, value) in text.lines().filter_map(assignment) {
            if name.starts_with("include") {
                self.includes = self.includes.saturating_add(1);
            } else {
                self.values.insert(name, value.to_owned());
            }
        }
    }

    fn add_command_line(&mut self, text: &str) {
        for word in text.split_whitespace() {
            let word = word.trim_matches('"');
            let word = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).unwrap_or(word);
            if let Some((name, value)) = word.split_once('=') {
                self.values.insert(name.to_ascii_lowercase().replace('-', "_"), value.to_owned());
            }
        }
    }
}

/// True for what servers take for "on", abbreviations apart.
pub(crate) fn is_true(value: &str) -> bool {
    ["on", "true", "yes", "1"].iter().any(|name| value.trim().eq_ignore_ascii_case(name))
}

/// Name in lower case and value, quotes removed, of a line that has a name.
pub(super) fn assignment(line: &str) -> Option<(String, &str)> {
    let line = line.trim_start();
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() {
        return None;
    }
    let rest = rest.trim_start();
    let value = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let value = match value.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next().unwrap_or_default(),
        None => value.split(|c: char| c == '#' || c.is_whitespace()).next().unwrap_or_default(),
    };
    Some((name.to_ascii_lowercase(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_lines_and_the_command_line_win() {
        let mut settings = Settings::default();
        settings.add_file("#double_write_buffer = off\ndouble_write_buffer_size = 64\t# MB\nDouble_Write_Buffer on\n");
        settings.add_file("include_dir 'conf.d'\ndouble_write_buffer_size = '1GB'\n");
        assert_eq!(settings.double_write_buffer_size_mb(), Some(1024));
        assert_eq!((settings.get("double_write_buffer"), settings.includes), (Some("on"), 1));
        settings.add_command_line("/usr/bin/postgres \"-D\" \"/data\" \"-c\" \"double_write_buffer_size=8\"\n");
        assert_eq!(settings.double_write_buffer_size_mb(), Some(8));
    }
}
