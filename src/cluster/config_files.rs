//! Settings of recovery, as far as they decide what data is there after a start. Everything else in the configuration is the server's to
//! judge: it says so at its start and changes nothing.

use std::path::{Path, PathBuf};

use super::control_file::CONTROL_PATH;
use super::data_dir::DataDir;
use super::open::{AccessError, Links, read_small};
use super::server_settings::ServerSettings;
use super::settings::{CONF_LIMIT_BYTES, FILES, is_true};
use crate::parsers::control::{ControlFile, WAL_LEVEL_MINIMAL};

/// Settings of recovery that change what data is there after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFault {
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
