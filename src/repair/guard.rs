//! Reasons not to write into a data directory, found before anything is written.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::AccessError;
use crate::cluster::running::ServerSign;
use crate::parsers::control::DbState;

/// A reason not to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Stable name.
    pub kind: &'static str,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub advice: &'static str,
    /// The flag that overrides it, if it may be overridden.
    pub flag: Option<&'static str>,
}

impl std::fmt::Display for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)?;
        match self.flag {
            Some(flag) => write!(f, " ({flag} overrides this)"),
            None => Ok(()),
        }
    }
}

/// What the user overrides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--allow-shut-down`: repair a cluster that was shut down cleanly.
    pub shut_down: bool,
    /// `--allow-standby`: repair although recovery will be that of a standby.
    pub standby: bool,
    /// `--allow-other-user`: repair as a user who does not own the data directory.
    pub other_user: bool,
}

/// Everything that forbids writing into `directory` and is not overridden.
#[must_use]
pub fn find_guards(directory: &DataDir, overrides: Overrides) -> Vec<Guard> {
    let mut guards = Vec::new();
    guard_server(&directory.server_sign(), &mut guards);
    guard_control(directory, overrides, &mut guards);
    guard_signs(&directory.recovery_signs(), overrides, &mut guards);
    guard_owner(directory.root(), overrides, &mut guards);
    guards
}

fn guard_server(sign: &ServerSign, guards: &mut Vec<Guard>) {
    let what = match sign {
        ServerSign::NoPidFile
        | ServerSign::ProcessGone { .. }
        | ServerSign::OtherProcess { .. }
        | ServerSign::Zombie { .. } => return,
        ServerSign::Running { why, .. }
        | ServerSign::MayRun { why, .. }
        | ServerSign::Unclear { why }
        | ServerSign::Hidden { why } => why.clone(),
        ServerSign::Unreadable(error) => error.to_string(),
    };
    let advice = match sign {
        ServerSign::Hidden { .. } | ServerSign::MayRun { .. } => {
            "stop the server, or let a user look who sees its processes"
        }
        _ => "stop the server; if there is none, look into postmaster.pid",
    };
    guards.push(Guard { kind: "server_running", what, advice, flag: None });
}

fn guard_control(directory: &DataDir, overrides: Overrides, guards: &mut Vec<Guard>) {
    let mut forbid = |kind, what: &str, advice, flag| guards.push(Guard { kind, what: what.to_owned(), advice, flag });
    let Some(control) = directory.control().trusted() else {
        let advice = "bring pg_control back from a backup; without it nothing can be proven";
        return forbid(
            "control",
            "pg_control cannot be trusted: missing, of an unknown version, or its CRC or sizes are wrong",
            advice,
            None,
        );
    };
    if directory.versions_disagree() != Some(false) {
        let advice = "the two do not belong together: find out which one is right";
        forbid("version", "PG_VERSION and pg_control are of different versions", advice, None);
    }
    if control.prefix.state == DbState::SHUT_DOWN && !overrides.shut_down {
        let advice = "no replay follows, so there is normally nothing to repair";
        forbid("shut_down", "the cluster was shut down cleanly", advice, Some("--allow-shut-down"));
    }
    if control.is_in_archive_recovery() && !overrides.standby {
        let advice = "a new copy of the primary is the safer way";
        forbid("standby", "the cluster is a standby or in archive recovery", advice, Some("--allow-standby"));
    }
}

fn guard_signs(signs: &RecoverySigns, overrides: Overrides, guards: &mut Vec<Guard>) {
    if signs.backup_label.is_some() {
        let what = "backup_label is there: this is a base backup that was not recovered yet".to_owned();
        let advice = "recover it, or restore the backup again";
        guards.push(Guard { kind: "backup_label", what, advice, flag: None });
    }
    if !signs.signals.is_empty() && !overrides.standby {
        let what = format!("{} is there: recovery will not be that after a crash", signs.signals.join(", "));
        let advice = "remove it if it is left over";
        guards.push(Guard { kind: "recovery_signal", what, advice, flag: Some("--allow-standby") });
    }
}

fn guard_owner(root: &Path, overrides: Overrides, guards: &mut Vec<Guard>) {
    let user = rustix::process::geteuid().as_raw();
    let owner = root.metadata().map(|metadata| metadata.uid());
    if !overrides.other_user && owner.as_ref().ok() != Some(&user) {
        let owner = owner.map_or_else(|error| error.to_string(), |owner| format!("user {owner}"));
        let what = format!("the data directory belongs to {owner}, this program runs as user {user}");
        let advice = "run it as the owner of the data directory";
        guards.push(Guard { kind: "other_user", what, advice, flag: Some("--allow-other-user") });
    }
}

/// Held while a data directory is repaired. Leaves no trace: the lock is on the directory itself and goes away with the
/// process.
#[derive(Debug)]
pub struct RepairLock {
    _directory: OwnedFd,
}

impl RepairLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Guard`] when another repair holds it, or the directory cannot be locked.
    pub fn take(root: &Path) -> Result<Self, Guard> {
        let forbid = |what: String, advice| Guard { kind: "locked", what, advice, flag: None };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|error| forbid(AccessError::io("open", root, error.into()).to_string(), "look at the path"))?;
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _directory: directory }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(forbid("another repair of this data directory is running".to_owned(), "wait until it has ended"))
            }
            Err(error) => Err(forbid(
                AccessError::io("lock", root, error.into()).to_string(),
                "two repairs at once cannot be ruled out on this file system",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_held_by_one() {
        let root = tempfile::tempdir().unwrap();
        let first = RepairLock::take(root.path()).unwrap();
        assert_eq!(RepairLock::take(root.path()).unwrap_err().kind, "locked");
        drop(first);
        RepairLock::take(root.path()).unwrap();
        assert_eq!(root.path().read_dir().unwrap().count(), 0);
    }
}
