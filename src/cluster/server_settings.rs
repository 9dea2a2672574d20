//! Settings that a start of the data directory would read, with the files that they include.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::config_files::{ConfigFaults, Text};
use super::open::{Links, list, read_small};
use super::settings::{CONF_LIMIT_BYTES, FILES, Settings, assignment};

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

#[cfg(test)]
mod tests {
    use super::*;

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
