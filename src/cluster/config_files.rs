//! Configuration of the data directory as far as a server refuses to start over it. Distributions keep these files elsewhere: that one
//! is not here need not be a fault.

use std::path::{Path, PathBuf};

use super::control_file::CONTROL_PATH;
use super::data_dir::DataDir;
use super::hba_file::hba_fault;
use super::open::{AccessError, Links, read_small};
use super::recovery_conf::recovery_conf_faults;
use super::server_settings::ServerSettings;
use super::settings::{CONF_LIMIT_BYTES, FILES, is_true};
use super::state_files::{kept_origins, kept_slots, prepared_xacts};
use crate::parsers::control::{ControlFile, WAL_LEVEL_MINIMAL};
use crate::parsers::wal::version::XlogFormat;

/// A server of this data directory does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFault {
    /// There is no `postgresql.conf`, and the last start did not name another: perhaps it is kept elsewhere.
    NoSettings,
    /// There is no `pg_hba.conf`, and the settings name no other.
    NoHba,
    /// `pg_hba.conf` is something other than a file. A link that leads nowhere is one, too.
    HbaUnreadable,
    /// A line is not a setting.
    Setting {
        /// The line, from 1.
        line: usize,
    },
    /// A line of `pg_hba.conf` is none that a server takes.
    HbaLine {
        /// The line, from 1.
        line: usize,
    },
    /// `pg_hba.conf` has no line.
    HbaEmpty,
    /// Servers from 12 on refuse to start over `recovery.conf`.
    RecoveryConf,
    /// A file or directory that it includes is not there.
    IncludeMissing {
        /// The line, from 1.
        line: usize,
    },
    /// There are more prepared transactions than the server takes.
    Prepared {
        /// `max_prepared_transactions`.
        allowed: u32,
        /// Sound files of `pg_twophase`.
        prepared: usize,
    },
    /// Before the crash the server took more prepared transactions, and WAL may have as many.
    FewerPrepared {
        /// `max_prepared_transactions`.
        allowed: u32,
        /// Its value in `pg_control`.
        before: u32,
    },
    /// There are more replication slots than the server takes.
    Slots {
        /// `max_replication_slots`.
        allowed: u32,
        /// Sound slots of `pg_replslot`.
        slots: usize,
    },
    /// A replication slot needs a higher `wal_level`.
    SlotLevel {
        /// The least that it takes.
        needed: &'static str,
    },
    /// A file or directory that a setting names is not there.
    PathMissing {
        /// The setting.
        setting: &'static str,
    },
    /// `wal_level` is minimal, and a setting asks for more.
    MinimalLevel {
        /// The setting.
        setting: &'static str,
    },
    /// Recovery ends where a setting says, not where WAL ends.
    RecoveryTarget {
        /// The setting.
        setting: &'static str,
    },
    /// More than one setting says where recovery ends.
    RecoveryTargets,
    /// Recovery that serves queries needs a higher setting.
    TooLow {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: u32,
        /// Its value in `pg_control`.
        needed: u32,
    },
    /// Recovery from an archive is asked for, and no setting says how to fetch from it.
    NoRestoreCommand,
    /// A line of `recovery.conf` sets what cannot be set there, or to what it cannot be.
    RecoverySetting {
        /// The line, from 1.
        line: usize,
    },
    /// Something other than a file stands in its place.
    NotAFile,
    /// Recovery beyond a crash is asked for, and WAL has less than that needs.
    MinimalWal,
    /// There are more replication origins than the server takes.
    Origins {
        /// The setting.
        setting: &'static str,
        /// Its value.
        allowed: u32,
        /// Origins of `pg_logical/replorigin_checkpoint`.
        origins: usize,
    },
}

/// Settings that say where recovery ends, of which servers from 12 on take one.
///
/// Source: `error_multiple_recovery_targets`, `src/backend/access/transam/xlogrecovery.c`.
const RECOVERY_TARGETS: [&str; 5] =
    ["recovery_target", "recovery_target_time", "recovery_target_xid", "recovery_target_name", "recovery_target_lsn"];

/// `max_replication_slots` and `max_wal_senders` where nothing sets them.
///
/// Source: `src/backend/utils/misc/guc_parameters.dat`, the same in all majors.
const DEFAULT_SLOTS: u32 = 10;
const DEFAULT_SENDERS: u32 = 10;

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
    let settings = ServerSettings::read(root, &mut found);
    if !settings.has_main && !settings.may_have_main {
        found.add(Path::new(FILES[0]), ConfigFault::NoSettings);
    }
    if settings.is_known("hba_file") && settings.get("hba_file").is_none() {
        let file = Path::new("pg_hba.conf");
        match found.read(&root.join(file)) {
            Text::Bytes(bytes) => {
                hba_fault(&bytes, root, directory.major()).into_iter().for_each(|fault| found.add(file, fault))
            }
            Text::Missing => found.add(file, ConfigFault::NoHba),
            // A link to another file is for the server to follow.
            Text::Unknown if !leads_to_a_file(&root.join(file)) => found.add(file, ConfigFault::HbaUnreadable),
            Text::Unknown => {}
        }
    }
    let prepared = prepared_xacts(directory, directory.control().trusted());
    let before = directory.control().trusted().and_then(|control| u32::try_from(control.max_prepared_xacts).ok());
    if let Some(allowed) = settings.number("max_prepared_transactions", Some(0)) {
        if usize::try_from(allowed).is_ok_and(|allowed| allowed < prepared) {
            found.add(Path::new(FILES[0]), ConfigFault::Prepared { allowed, prepared });
        } else if let Some(before) = before.filter(|before| *before > allowed) {
            found.add(Path::new(FILES[0]), ConfigFault::FewerPrepared { allowed, before });
        }
    }
    found.replication(&settings, directory);
    found.named_paths(&settings, root);
    let asks = |names: &[&str]| signals.iter().any(|signal| names.contains(signal));
    let has_conf = !directory.major().facts().refuses_recovery_conf;
    let is_asked = asks(if has_conf { &["recovery.conf"] } else { &["recovery.signal", "standby.signal"] });
    let mut own = None;
    if has_conf && is_asked {
        recovery_conf_faults(root, &mut found);
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
        found.too_low(&settings, directory, control);
    }
    if directory.major().facts().refuses_recovery_conf {
        if signals.contains(&"recovery.conf") {
            found.add(Path::new("recovery.conf"), ConfigFault::RecoveryConf);
        }
        let from_archive = signals.contains(&"recovery.signal") && !signals.contains(&"standby.signal");
        let command = "restore_command";
        if from_archive && settings.is_known(command) && settings.get(command).is_none_or(str::is_empty) {
            found.add(Path::new("recovery.signal"), ConfigFault::NoRestoreCommand);
        }
    }
    found
}

/// False of a directory or a device, and of a link that leads nowhere; what cannot be examined may be a file.
fn leads_to_a_file(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.is_file(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

impl ConfigFaults {
    /// Each once, however often a file is included.
    pub(super) fn add(&mut self, file: &Path, fault: ConfigFault) {
        let found = (file.to_owned(), fault);
        if !self.faults.contains(&found) {
            self.faults.push(found);
        }
    }

    /// Files without which no server starts whose settings name them. Relative names are those of the data directory.
    ///
    /// Sources: `SelectConfigFiles`, `src/backend/utils/misc/guc.c`; `be_tls_init`, `src/backend/libpq/be-secure-openssl.c`.
    fn named_paths(&mut self, settings: &ServerSettings, root: &Path) {
        let is_on = |name| settings.get(name).is_some_and(is_true);
        let of_tls = [("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")];
        let of_tls = of_tls.into_iter().filter(|_| is_on("ssl")).map(|(setting, usual)| (setting, Some(usual)));
        for (setting, usual) in [("data_directory", None), ("hba_file", None)].into_iter().chain(of_tls) {
            let named = settings.get(setting).or(usual.filter(|_| settings.is_known(setting)));
            if let Some(path) = named.filter(|path| !path.is_empty() && !path.contains(char::REPLACEMENT_CHARACTER))
                && root.join(path).metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            {
                self.add(Path::new(FILES[0]), ConfigFault::PathMissing { setting });
            }
        }
    }

    /// Settings that a server refuses for its replication slots, or for each other.
    ///
    /// Sources: `RestoreSlotFromDisk`, `src/backend/replication/slot.c`; `PostmasterMain`, `src/backend/postmaster/postmaster.c`.
    fn replication(&mut self, settings: &ServerSettings, directory: &DataDir) {
        let slots = kept_slots(directory.root());
        if let Some(allowed) = settings.number("max_replication_slots", Some(DEFAULT_SLOTS))
            && usize::try_from(allowed).is_ok_and(|allowed| allowed < slots.len())
        {
            self.add(Path::new(FILES[0]), ConfigFault::Slots { allowed, slots: slots.len() });
        }
        let facts = directory.major().facts();
        let setting = if facts.has_origin_setting { "max_active_replication_origins" } else { "max_replication_slots" };
        let origins = kept_origins(directory.root());
        if let Some(allowed) = settings.number(setting, Some(DEFAULT_SLOTS))
            // With none it does not read them.
            && usize::try_from(allowed).is_ok_and(|allowed| (1..origins).contains(&allowed))
        {
            self.add(Path::new(FILES[0]), ConfigFault::Origins { setting, allowed, origins });
        }
        if !settings.is_known("wal_level") {
            return;
        }
        let level = settings.get("wal_level").unwrap_or("replica").to_ascii_lowercase();
        let (is_minimal, is_logical) = (level == "minimal", level == "logical");
        // 19 decodes at this level too.
        let decodes = is_logical || facts.xlog == XlogFormat::Since19;
        if is_minimal && !slots.is_empty() {
            self.add(Path::new(FILES[0]), ConfigFault::SlotLevel { needed: "replica" });
        } else if slots.contains(&true) && !decodes {
            self.add(Path::new(FILES[0]), ConfigFault::SlotLevel { needed: "logical" });
        }
        let senders = settings.number("max_wal_senders", Some(DEFAULT_SENDERS)).unwrap_or_default();
        let archives = settings.get("archive_mode");
        let archives = archives.is_some_and(|value| is_true(value) || value.eq_ignore_ascii_case("always"));
        // Majors before 17 do not know it, and refuse it for that.
        let summarizes = settings.get("summarize_wal").is_some_and(is_true);
        for (setting, is_set) in
            [("max_wal_senders", senders > 0), ("archive_mode", archives), ("summarize_wal", summarizes)]
        {
            if is_minimal && is_set {
                self.add(Path::new(FILES[0]), ConfigFault::MinimalLevel { setting });
            }
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

    /// Settings that are lower than `pg_control` has them, where recovery is to serve queries.
    ///
    /// Source: `CheckRequiredParameterValues`, `src/backend/access/transam/xlogrecovery.c`.
    fn too_low(&mut self, settings: &ServerSettings, directory: &DataDir, control: &ControlFile) {
        if !settings.get("hot_standby").is_none_or(is_true) || !settings.is_known("hot_standby") {
            return;
        }
        // What later majors take where nothing sets it was not seen.
        let locks = Some(64).filter(|_| directory.major().number() <= 18);
        for (setting, default, needed) in [
            ("max_connections", Some(100), Some(control.max_connections)),
            ("max_worker_processes", Some(8), Some(control.max_worker_processes)),
            ("max_wal_senders", Some(10), control.max_wal_senders),
            ("max_prepared_transactions", Some(0), Some(control.max_prepared_xacts)),
            ("max_locks_per_transaction", locks, Some(control.max_locks_per_xact)),
        ] {
            let needed = needed.and_then(|needed| u32::try_from(needed).ok());
            if let (Some(value), Some(needed)) = (settings.number(setting, default), needed)
                && value < needed
            {
                self.add(Path::new(FILES[0]), ConfigFault::TooLow { setting, value, needed });
            }
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

/// A configuration file.
pub(super) enum Text {
    Bytes(Vec<u8>),
    Missing,
    /// It cannot be read, or is a link to a place outside.
    Unknown,
}

/// True for a line that is empty, a comment, or a name and a value. More forms are taken than a server takes.
///
/// Source: `src/backend/utils/misc/guc-file.l`.
pub(super) fn is_setting(line: &[u8]) -> bool {
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
}
