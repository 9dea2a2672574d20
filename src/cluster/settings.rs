//! Settings of the data directory that say how its double write buffer was used: evidence, never proof, since a file
//! may have been changed after the server read it.
//! Also here: settings that the next startup would read, with the files that they include, as far as they decide what
//! data exists afterwards. Everything else in the configuration is the server's to judge: it says so at its start and
//! changes nothing.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::control_file::CONTROL_PATH;
use super::data_dir::DataDir;
use super::open::{AccessError, Links, list, read_small};
use crate::parsers::control::{ControlFile, WAL_LEVEL_MINIMAL};

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

/// Depth of files that include others, as servers have it.
///
/// Source: `CONF_FILE_MAX_DEPTH`, `src/include/utils/conffiles.h`.
const MAX_DEPTH: usize = 10;

/// Files that are read in all, and lines that include some.
const MAX_FILES: usize = 1000;

/// Settings in the files. A setting is unknown unless all of them were read.
#[derive(Debug, Default)]
pub(super) struct ServerSettings {
    values: BTreeMap<String, String>,
    /// Words of the command line of the last start, which go before the files.
    command_line: Vec<String>,
    /// `postgresql.conf` may be here or is kept elsewhere.
    pub may_have_main: bool,
    is_partial: bool,
    files: usize,
}

impl ServerSettings {
    /// Reads them, and adds what is wrong to `found`.
    pub fn read(root: &Path, found: &mut ConfigFaults) -> Self {
        let mut settings = Self::default();
        match read_small(&root.join("postmaster.opts"), Links::Refuse, CONF_LIMIT_BYTES) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let words = text.split_whitespace().map(|word| word.trim_matches('"').to_owned());
                settings.command_line = words.collect();
            }
            Err(error) => settings.is_partial = !error.is_not_found(),
        }
        settings.may_have_main = Settings::read(root).get("config_file").is_some();
        let is_elsewhere = settings.may_have_main;
        for name in FILES {
            let is_main = name == FILES[0];
            if is_main && is_elsewhere {
                settings.is_partial = true;
                continue;
            }
            match found.read(&root.join(name)) {
                Text::Bytes(bytes) => {
                    settings.add(root, Path::new(name), &bytes, 0, found);
                }
                Text::Missing => settings.is_partial |= is_main,
                Text::Unknown => {
                    settings.may_have_main |= is_main;
                    settings.is_partial = true;
                }
            }
        }
        settings
    }

    /// Reads the settings of recovery of servers before 12.
    pub(crate) fn of_recovery_conf(root: &Path, found: &mut ConfigFaults) -> Self {
        let mut settings = Self::default();
        let file = Path::new("recovery.conf");
        match found.read(&root.join(file)) {
            Text::Bytes(bytes) => settings.add(root, file, &bytes, 0, found),
            Text::Missing | Text::Unknown => settings.is_partial = true,
        }
        settings
    }

    /// True when the files alone determine a setting at startup.
    pub fn is_known(&self, name: &str) -> bool {
        let is_given = |word: &String| {
            let is_short = name == "max_connections" && word.starts_with("-N");
            is_short || word.to_ascii_lowercase().replace('-', "_").contains(name)
        };
        !self.is_partial && !self.command_line.iter().any(is_given)
    }

    /// Text of a setting, quotes removed; `None` too where it is not known.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).filter(|_| self.is_known(name)).map(String::as_str)
    }

    fn add(&mut self, root: &Path, file: &Path, bytes: &[u8], depth: usize, found: &mut ConfigFaults) {
        self.files = self.files.saturating_add(1);
        for line in bytes.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let Some((name, value)) = assignment(&line) else { continue };
            match name.as_str() {
                "include" | "include_if_exists" | "include_dir" => {
                    self.include(root, (file, &name, value), depth, found);
                }
                _ => drop(self.values.insert(name, value.to_owned())),
            }
        }
    }

    /// Reads what a line includes. A missing file sets nothing.
    ///
    /// Source: `ParseConfigFile` and `ParseConfigDirectory`, `src/backend/utils/misc/guc-file.l`.
    fn include(
        &mut self,
        root: &Path,
        (from, how, value): (&Path, &str, &str),
        depth: usize,
        found: &mut ConfigFaults,
    ) {
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_plain = !value.is_empty() && !value.contains('\\') && Path::new(value).components().all(is_inside);
        let is_plain = is_plain && !value.contains(char::REPLACEMENT_CHARACTER);
        if !is_plain || depth >= MAX_DEPTH || self.files >= MAX_FILES {
            self.is_partial = true;
            return;
        }
        self.files = self.files.saturating_add(1);
        let path = from.parent().unwrap_or(Path::new("")).join(value);
        let files = if how == "include_dir" {
            match list(&root.join(&path)) {
                Err(error) if error.is_not_found() => return,
                Err(_) => {
                    self.is_partial = true;
                    return;
                }
                Ok(entries) => {
                    let names = entries.into_iter().filter_map(|(name, _)| name.into_string().ok());
                    let settings = names.filter(|name| name.ends_with(".conf") && !name.starts_with('.'));
                    settings.map(|name| path.join(name)).collect::<Vec<PathBuf>>()
                }
            }
        } else {
            vec![path]
        };
        for file in files {
            if self.files >= MAX_FILES {
                self.is_partial = true;
                break;
            }
            match found.read(&root.join(&file)) {
                Text::Bytes(bytes) => self.add(root, &file, &bytes, depth.saturating_add(1), found),
                Text::Missing => {}
                Text::Unknown => self.is_partial = true,
            }
        }
    }
}

/// Settings of recovery that change what data is there after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigFault {
    /// Recovery ends where a setting says, not where WAL ends.
    RecoveryTarget { setting: &'static str },
    /// More than one setting says where recovery ends.
    RecoveryTargets,
    /// Recovery beyond a crash is asked for, and WAL has less than that needs.
    MinimalWal,
}

/// Settings that say where recovery ends, of which servers from 12 on take one.
///
/// Source: `error_multiple_recovery_targets`, `src/backend/access/transam/xlogrecovery.c`.
const RECOVERY_TARGETS: [&str; 5] =
    ["recovery_target", "recovery_target_time", "recovery_target_xid", "recovery_target_name", "recovery_target_lsn"];

/// Problems with their files, and files that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct ConfigFaults {
    pub faults: Vec<(PathBuf, ConfigFault)>,
    pub skipped: Vec<AccessError>,
}

/// Looks for what keeps a server from starting. `signals`: files that change what recovery does.
pub(crate) fn config_faults(directory: &DataDir, signals: &[&str]) -> ConfigFaults {
    let mut found = ConfigFaults::default();
    let root = directory.root();
    let settings = ServerSettings::read(root, &mut found);
    let asks = |names: &[&str]| signals.iter().any(|signal| names.contains(signal));
    let has_conf = !directory.major().facts().refuses_recovery_conf;
    let is_asked = asks(if has_conf { &["recovery.conf"] } else { &["recovery.signal", "standby.signal"] });
    let mut own = None;
    if has_conf && is_asked {
        own = Some(ServerSettings::of_recovery_conf(root, &mut found));
    }
    let (targets, file) = match &own {
        Some(own) => (own, Path::new("recovery.conf")),
        None => (&settings, Path::new(FILES[0])),
    };
    let set = RECOVERY_TARGETS.into_iter().filter(|name| targets.get(name).is_some_and(|value| !value.is_empty()));
    let set: Vec<&'static str> = set.collect();
    // Whether recovery is asked for or not.
    if set.len() > 1 && !has_conf {
        found.add(file, ConfigFault::RecoveryTargets);
    }
    let timeline = "recovery_target_timeline";
    let is_usual = |value: &str| ["", "latest", "current"].contains(&value);
    let other = targets.get(timeline).is_some_and(|value| !is_usual(value)).then_some(timeline);
    if let Some(setting) = set.first().copied().or(other).filter(|_| is_asked) {
        found.add(file, ConfigFault::RecoveryTarget { setting });
    }
    if let Some(control) = directory.control().trusted().filter(|_| is_asked) {
        found.minimal_wal(&settings, directory, control);
    }
    found
}

impl ConfigFaults {
    /// Each once, however often a file is included.
    pub(super) fn add(&mut self, file: &Path, fault: ConfigFault) {
        let found = (file.to_owned(), fault);
        if !self.faults.contains(&found) {
            self.faults.push(found);
        }
    }

    /// Sources: `CheckRequiredParameterValues`, `src/backend/access/transam/xlogrecovery.c`; servers of 12 and 18 that were started so.
    fn minimal_wal(&mut self, settings: &ServerSettings, directory: &DataDir, control: &ControlFile) {
        let serves = settings.is_known("hot_standby") && settings.get("hot_standby").is_none_or(is_true);
        let is_refused = directory.major().facts().refuses_minimal_wal || serves;
        if control.wal_level == WAL_LEVEL_MINIMAL && is_refused {
            self.add(Path::new(CONTROL_PATH), ConfigFault::MinimalWal);
        }
    }

    pub(super) fn read(&mut self, path: &Path) -> Text {
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

pub(super) enum Text {
    Bytes(Vec<u8>),
    Missing,
    /// It cannot be read, or is a link to a place outside.
    Unknown,
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

    fn of(text: &str) -> ServerSettings {
        let mut settings = ServerSettings::default();
        settings.add(Path::new("/nowhere"), Path::new("a/x.conf"), text.as_bytes(), 0, &mut ConfigFaults::default());
        settings
    }

    #[test]
    fn the_last_line_wins() {
        let settings = of("Recovery_Target_Xid 5\nRECOVERY_TARGET_XID='8'\nx = = 3\n");
        assert_eq!((settings.get("recovery_target_xid"), settings.get("port")), (Some("8"), None));
        assert!(settings.is_known("port"));
    }

    #[test]
    fn what_is_elsewhere_or_on_the_command_line_leaves_all_open() {
        for text in ["include '/none'", "include '../none'", "INCLUDE_DIR ''", "include 'a\\b'"] {
            assert!(!of(text).is_known("port"), "{text}");
        }
        let mut settings = of("port = 5\nmax_connections = 3");
        settings.command_line = vec!["postgres".to_owned(), "-N".to_owned(), "--Port=6".to_owned()];
        assert_eq!((settings.get("port"), settings.get("max_connections")), (None, None));
        assert!(settings.is_known("max_wal_senders"));
    }

    #[test]
    fn lines_that_include_something_are_counted() {
        assert!(!of(&"include 'none'\n".repeat(100_000)).is_known("port"));
    }
}
