//! Configuration of the data directory as far as a server refuses to start over it. Distributions keep these files elsewhere: that one
//! is not here need not be a fault.

use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{AccessError, Links, read_small};
use super::settings::{CONF_LIMIT_BYTES, FILES, Settings};

/// A server of this data directory does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFault {
    /// There is no `postgresql.conf`, and the last start did not name another: perhaps it is kept elsewhere.
    NoSettings,
    /// There is no `pg_hba.conf`, and the settings name no other.
    NoHba,
    /// A line is not a setting.
    Setting {
        /// The line, from 1.
        line: usize,
    },
    /// A line of `pg_hba.conf` begins with no kind of connection.
    HbaLine {
        /// The line, from 1.
        line: usize,
    },
    /// `pg_hba.conf` has no line.
    HbaEmpty,
    /// Servers from 12 on refuse to start over `recovery.conf`.
    RecoveryConf,
    /// Recovery from an archive is asked for, and no setting says how to fetch from it.
    NoRestoreCommand,
}

/// First words of the lines of `pg_hba.conf`.
const HBA_KINDS: [&str; 9] = [
    "local",
    "host",
    "hostssl",
    "hostnossl",
    "hostgssenc",
    "hostnogssenc",
    "include",
    "include_if_exists",
    "include_dir",
];

/// What is wrong, with the file, and files that cannot be read.
#[derive(Debug, Default)]
pub struct ConfigFaults {
    /// What is wrong.
    pub faults: Vec<(PathBuf, ConfigFault)>,
    /// Files that cannot be read.
    pub skipped: Vec<AccessError>,
}

/// Looks for what keeps a server from starting. `signals`: files that change what recovery does.
#[must_use]
pub fn config_faults(directory: &DataDir, signals: &[&str]) -> ConfigFaults {
    let mut found = ConfigFaults::default();
    let root = directory.root();
    let settings = Settings::read(root);
    let is_elsewhere = settings.get("config_file").is_some();
    let (mut has_settings, mut may_have_settings) = (false, false);
    for name in FILES {
        let is_main = name == FILES[0];
        let bytes = match found.read(&root.join(name)) {
            Text::Bytes(bytes) => bytes,
            Text::Missing => continue,
            Text::Unknown => {
                may_have_settings |= is_main;
                continue;
            }
        };
        has_settings |= is_main;
        if !(is_main && is_elsewhere)
            && let Some(line) = bytes.split(|byte| *byte == b'\n').position(|line| !is_setting(line))
        {
            found.add(name, ConfigFault::Setting { line: line.saturating_add(1) });
        }
    }
    // What is elsewhere may say anything.
    let is_known = has_settings && !is_elsewhere && settings.includes == 0;
    if !has_settings && !may_have_settings && !is_elsewhere {
        found.add(FILES[0], ConfigFault::NoSettings);
    }
    if is_known && settings.get("hba_file").is_none() {
        match found.read(&root.join("pg_hba.conf")) {
            Text::Bytes(bytes) => hba_fault(&bytes).into_iter().for_each(|fault| found.add("pg_hba.conf", fault)),
            Text::Missing => found.add("pg_hba.conf", ConfigFault::NoHba),
            Text::Unknown => {}
        }
    }
    if directory.major().facts().refuses_recovery_conf {
        if signals.contains(&"recovery.conf") {
            found.add("recovery.conf", ConfigFault::RecoveryConf);
        }
        let from_archive = signals.contains(&"recovery.signal") && !signals.contains(&"standby.signal");
        if from_archive && is_known && settings.get("restore_command").is_none_or(str::is_empty) {
            found.add("recovery.signal", ConfigFault::NoRestoreCommand);
        }
    }
    found
}

impl ConfigFaults {
    fn add(&mut self, file: &str, fault: ConfigFault) {
        self.faults.push((PathBuf::from(file), fault));
    }

    fn read(&mut self, path: &Path) -> Text {
        match read_small(path, Links::Refuse, CONF_LIMIT_BYTES) {
            Ok(bytes) => Text::Bytes(bytes),
            Err(error) if error.is_not_found() => Text::Missing,
            Err(error) => {
                self.skipped.extend(Some(error).filter(AccessError::is_denied));
                Text::Unknown
            }
        }
    }
}

/// A configuration file.
enum Text {
    Bytes(Vec<u8>),
    Missing,
    /// It cannot be read, or is a link to a place outside.
    Unknown,
}

/// True for a line that is empty, a comment, or a name and a value. More forms are taken than a server takes.
///
/// Source: `src/backend/utils/misc/guc-file.l`.
fn is_setting(line: &[u8]) -> bool {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let after = |bytes: &'_ [u8], is_in: &dyn Fn(&u8) -> bool| bytes.iter().take_while(|byte| is_in(byte)).count();
    let is_end = |rest: &[u8]| rest.iter().find(|byte| !blank(byte)).is_none_or(|byte| *byte == b'#');
    let line = line.trim_ascii_start();
    if is_end(line) {
        return true;
    }
    let name = after(line, &|byte| in_word(byte) || *byte == b'.');
    if name == 0 || line.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.') {
        return false;
    }
    let rest = line.get(name..).unwrap_or_default().trim_ascii_start();
    let rest = rest.strip_prefix(b"=").unwrap_or(rest).trim_ascii_start();
    let Some(quoted) = rest.strip_prefix(b"'") else {
        let value = after(rest, &|byte| in_word(byte) || matches!(byte, b'.' | b'-' | b'+' | b':' | b'/'));
        return value > 0 && !rest.starts_with(b"/") && is_end(rest.get(value..).unwrap_or_default());
    };
    let mut bytes = quoted;
    loop {
        bytes = match bytes {
            [b'\'', b'\'', rest @ ..] | [b'\\', _, rest @ ..] => rest,
            [b'\'', rest @ ..] => return is_end(rest),
            [_, rest @ ..] => rest,
            [] => return false,
        };
    }
}

/// What a server refuses `pg_hba.conf` for, by the first words of its lines.
///
/// Source: `load_hba` and `parse_hba_line`, `src/backend/libpq/hba.c`.
fn hba_fault(bytes: &[u8]) -> Option<ConfigFault> {
    let (mut entries, mut continues) = (0_usize, false);
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let is_first = !std::mem::replace(&mut continues, line.trim_ascii_end().ends_with(b"\\"));
        let line = line.trim_ascii();
        if !is_first || line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let word = line.split(|byte| byte.is_ascii_whitespace() || *byte == b',').next().unwrap_or_default();
        let word = word.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\"")).unwrap_or(word);
        if !HBA_KINDS.iter().any(|kind| kind.as_bytes() == word) {
            return Some(ConfigFault::HbaLine { line: index.saturating_add(1) });
        }
        entries = entries.saturating_add(1);
    }
    (entries == 0).then_some(ConfigFault::HbaEmpty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_server_takes_are_settings() {
        for line in [
            "",
            "  # x",
            "port = 5432",
            "port 5432 # x",
            "work_mem = 64MB",
            "a.b.c = 'it''s \\' so'\r",
            "x='#'",
            "f = -1.5e-3",
            "t=on",
            "include 'x.conf'",
            "datestyle = 'iso, mdy'",
            "n = 0x1F",
        ] {
            assert!(is_setting(line.as_bytes()), "{line}");
        }
        for line in [
            "this is = = wrong",
            "x = = 3",
            "port",
            "= 3",
            "'x' = 3",
            "x = 'open",
            "x = /tmp",
            "1x = 3",
            "x = 3 4",
            "<<<<<<< HEAD",
            "\0\0",
        ] {
            assert!(!is_setting(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn first_words_of_hba_lines() {
        assert_eq!(hba_fault(b"# x\nlocal all all trust\n\"host\" all all \\\n 1.2.3.4/32 md5\n"), None);
        assert_eq!(hba_fault(b"local all all trust\n\ngarbage\n"), Some(ConfigFault::HbaLine { line: 3 }));
        assert_eq!(hba_fault(b"# nothing\n"), Some(ConfigFault::HbaEmpty));
    }
}
