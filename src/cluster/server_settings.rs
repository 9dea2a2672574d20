//! Settings that a start of the data directory would read, with the files that they include.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::config_files::{ConfigFault, ConfigFaults, Text, is_setting};
use super::open::{Links, list, read_small};
use super::settings::{CONF_LIMIT_BYTES, FILES, Settings, assignment};

/// Depth of files that include others, as servers have it.
///
/// Source: `CONF_FILE_MAX_DEPTH`, `src/include/utils/conffiles.h`.
const MAX_DEPTH: usize = 10;

/// Files that are read in all, and lines that include some.
const MAX_FILES: usize = 1000;

/// What the files set. Nothing is known of a setting unless all of them were read.
#[derive(Debug, Default)]
pub(super) struct ServerSettings {
    values: BTreeMap<String, String>,
    /// Words of the command line of the last start, which go before the files.
    command_line: Vec<String>,
    /// `postgresql.conf` is here.
    pub has_main: bool,
    /// `postgresql.conf` may be here or is kept elsewhere.
    pub may_have_main: bool,
    /// Something that the files include was not read.
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
                settings.has_main = root.join(name).symlink_metadata().is_ok();
                settings.is_partial = true;
                continue;
            }
            match found.read(&root.join(name)) {
                Text::Bytes(bytes) => {
                    settings.has_main |= is_main;
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
    pub fn of_recovery_conf(root: &Path, found: &mut ConfigFaults) -> Self {
        let mut settings = Self::default();
        let file = Path::new("recovery.conf");
        match found.read(&root.join(file)) {
            Text::Bytes(bytes) => settings.add(root, file, &bytes, 0, found),
            Text::Missing | Text::Unknown => settings.is_partial = true,
        }
        settings
    }

    /// True when the files alone say what a start would take for a setting.
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

    /// A whole number, `default` where nothing sets it; `None` where that is not known or cannot be understood.
    pub fn number(&self, name: &str, default: Option<u32>) -> Option<u32> {
        if !self.is_known(name) {
            return None;
        }
        let Some(text) = self.get(name) else { return default };
        let text = text.trim();
        // Servers take one that begins with a zero for octal or hexadecimal.
        text.parse().ok().filter(|_| text == "0" || text.starts_with(|c: char| matches!(c, '1'..='9')))
    }

    fn add(&mut self, root: &Path, file: &Path, bytes: &[u8], depth: usize, found: &mut ConfigFaults) {
        self.files = self.files.saturating_add(1);
        let mut is_wrong = false;
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let at = index.saturating_add(1);
            if !is_setting(line) && !std::mem::replace(&mut is_wrong, true) {
                found.add(file, ConfigFault::Setting { line: at });
            }
            let line = String::from_utf8_lossy(line);
            let Some((name, value)) = assignment(&line) else { continue };
            match name.as_str() {
                "include" | "include_if_exists" | "include_dir" => {
                    if !self.include(root, (file, &name, value), depth, found) {
                        found.add(file, ConfigFault::IncludeMissing { line: at });
                    }
                }
                _ => drop(self.values.insert(name, value.to_owned())),
            }
        }
    }

    /// False for a file or directory that is not there and must be.
    ///
    /// Source: `ParseConfigFile` and `ParseConfigDirectory`, `src/backend/utils/misc/guc-file.l`.
    fn include(
        &mut self,
        root: &Path,
        (from, how, value): (&Path, &str, &str),
        depth: usize,
        found: &mut ConfigFaults,
    ) -> bool {
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_plain = !value.is_empty() && !value.contains('\\') && Path::new(value).components().all(is_inside);
        let is_plain = is_plain && !value.contains(char::REPLACEMENT_CHARACTER);
        if !is_plain || depth >= MAX_DEPTH || self.files >= MAX_FILES {
            self.is_partial = true;
            return true;
        }
        self.files = self.files.saturating_add(1);
        let path = from.parent().unwrap_or(Path::new("")).join(value);
        let files = if how == "include_dir" {
            match list(&root.join(&path)) {
                Err(error) if error.is_not_found() => return false,
                Err(_) => {
                    self.is_partial = true;
                    return true;
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
                Text::Missing if how == "include" => return false,
                Text::Missing => {}
                Text::Unknown => self.is_partial = true,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (ServerSettings, Vec<(PathBuf, ConfigFault)>) {
        let (mut settings, mut found) = (ServerSettings::default(), ConfigFaults::default());
        settings.add(Path::new("/nowhere"), Path::new("a/x.conf"), text.as_bytes(), 0, &mut found);
        (settings, found.faults)
    }

    #[test]
    fn the_last_line_wins_and_what_is_not_understood_is_not_known() {
        let (settings, faults) =
            of("Max_Connections 5\nMAX_CONNECTIONS='8'\nport=010\nwork_mem = 4MB\nmax_wal_senders = ' 7 '\n");
        let number = |name| settings.number(name, Some(64));
        assert_eq!(faults, []);
        assert_eq!(
            (number("max_connections"), number("max_wal_senders"), number("max_files")),
            (Some(8), Some(7), Some(64))
        );
        assert_eq!((number("port"), number("work_mem")), (None, None));
    }

    #[test]
    fn what_is_elsewhere_or_on_the_command_line_leaves_all_open() {
        for text in ["include '/none'", "include '../none'", "INCLUDE_DIR ''", "include 'a\\b'"] {
            let (settings, faults) = of(text);
            assert_eq!((settings.number("port", Some(1)), faults), (None, Vec::new()), "{text}");
        }
        let (mut settings, _) = of("port = 5\nmax_connections = 3");
        settings.command_line = vec!["postgres".to_owned(), "-N".to_owned(), "--Port=6".to_owned()];
        assert_eq!((settings.number("port", None), settings.number("max_connections", Some(1))), (None, None));
        assert_eq!(settings.number("max_wal_senders", Some(1)), Some(1));
    }

    #[test]
    fn lines_that_include_something_are_counted() {
        let (settings, faults) = of(&"include 'none'\n".repeat(100_000));
        assert!(faults.len() < MAX_FILES && settings.number("port", Some(1)).is_none(), "{}", faults.len());
    }

    #[test]
    fn what_is_not_there_and_must_be_is_a_fault() {
        let (_, faults) = of("\nInclude 'none'\ninclude_if_exists none\ninclude_dir 'nowhere'\n");
        let at = |line| (PathBuf::from("a/x.conf"), ConfigFault::IncludeMissing { line });
        assert_eq!(faults, [at(2), at(4)]);
    }
}
