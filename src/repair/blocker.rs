//! Reasons not to write into a data directory, found before anything is written.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FlockOperation;

use super::manifest::DirectoryMark;
use super::target::DataRoot;
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::control_file::ControlRead;
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::AccessError;
use crate::cluster::running::ServerSign;
use crate::cluster::server_files::{sudo_name, user_words};
use crate::parsers::control::{ControlFile, DbState};

/// A reason not to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Stable name.
    pub kind: &'static str,
    /// The obstacle.
    pub what: String,
    /// The remedy.
    pub advice: &'static str,
    /// The flag that overrides it, if it may be overridden.
    pub flag: Option<&'static str>,
    /// The user to run the command as instead, as `sudo -u` takes it.
    pub run_as: Option<String>,
}

impl std::fmt::Display for Blocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)?;
        match self.flag {
            Some(flag) => write!(f, " ({flag} overrides this)"),
            None => Ok(()),
        }
    }
}

/// Checks that the user overrides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--allow-shut-down`: repair a cluster that was shut down cleanly.
    pub shut_down: bool,
    /// `--allow-standby`: repair although recovery will be that of a standby.
    pub standby: bool,
    /// `--allow-other-user`: repair as a user who does not own the data directory.
    pub other_user: bool,
    /// `--moved`: run a journal that belongs to another directory.
    pub moved: bool,
}

impl Overrides {
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            shut_down: self.shut_down || other.shut_down,
            standby: self.standby || other.standby,
            other_user: self.other_user || other.other_user,
            moved: self.moved || other.moved,
        }
    }

    /// Adds the override of this flag.
    pub(crate) fn with_flag(self, flag: &str) -> Self {
        Self {
            shut_down: self.shut_down || flag == "--allow-shut-down",
            standby: self.standby || flag == "--allow-standby",
            other_user: self.other_user || flag == "--allow-other-user",
            moved: self.moved || flag == "--moved",
        }
    }

    /// The flags, as arguments of a command that meets the same blockers: ` --allow-shut-down`, or nothing.
    pub fn arguments(self) -> String {
        let given = [
            (self.shut_down, " --allow-shut-down"),
            (self.standby, " --allow-standby"),
            (self.other_user, " --allow-other-user"),
            (self.moved, " --moved"),
        ];
        given.iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| *flag).collect()
    }
}

/// Everything that forbids writing into `directory` and is not overridden.
pub(crate) fn find_blockers(directory: &DataDir, overrides: Overrides) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    guard_server(&directory.server_sign(), &mut blockers);
    guard_control(directory, overrides, &mut blockers);
    guard_signs(&directory.recovery_signs(), overrides, &mut blockers);
    guard_owner(directory.root(), overrides, &mut blockers);
    blockers
}

/// Evidence of a running server, in words; `None` without any.
pub(super) fn server_words(sign: &ServerSign) -> Option<String> {
    match sign {
        ServerSign::NoPidFile
        | ServerSign::ProcessGone { .. }
        | ServerSign::OtherProcess { .. }
        | ServerSign::Zombie { .. } => None,
        ServerSign::Running { why, .. }
        | ServerSign::MayRun { why, .. }
        | ServerSign::Unclear { why }
        | ServerSign::Hidden { why } => Some(why.clone()),
        ServerSign::Unreadable(error) => Some(error.to_string()),
    }
}

fn guard_server(sign: &ServerSign, blockers: &mut Vec<Blocker>) {
    let Some(what) = server_words(sign) else { return };
    let advice = match sign {
        ServerSign::Hidden { .. } | ServerSign::MayRun { .. } => {
            "stop the server, or run this as a user who can see its processes"
        }
        _ => "stop the server; if none runs, check postmaster.pid",
    };
    blockers.push(Blocker { kind: "server_running", what, advice, flag: None, run_as: None });
}

/// The cluster was shut down cleanly: only `--allow-shut-down` lets a repair write into it.
fn is_shut_down(control: &ControlFile) -> bool {
    control.prefix.state == DbState::SHUT_DOWN
}

fn guard_control(directory: &DataDir, overrides: Overrides, blockers: &mut Vec<Blocker>) {
    let mut forbid = |kind, what: &str, advice, flag| {
        blockers.push(Blocker { kind, what: what.to_owned(), advice, flag, run_as: None })
    };
    if let ControlRead::UnknownVersion { prefix, is_signed } = directory.control()
        && (*is_signed || prefix.is_newer())
    {
        let what = format!("pg_control has version {}, which this program does not know", prefix.pg_control_version);
        let advice = "use a newer release of this program, and leave the file as it is";
        return forbid("control", &what, advice, None);
    }
    let Some(control) = directory.control().trusted() else {
        let advice = "find an undamaged copy of pg_control; without it nothing can be proven";
        return forbid(
            "control",
            "pg_control cannot be used: missing, of an unknown version, or its CRC or sizes are wrong",
            advice,
            None,
        );
    };
    if directory.versions_disagree() != Some(false) {
        let advice = "find out which one is right; they do not belong together";
        forbid("version", "PG_VERSION and pg_control have different versions", advice, None);
    }
    if is_shut_down(control) && !overrides.shut_down {
        let advice = "no crash tore its pages; find out what damaged them";
        forbid("shut_down", "the cluster was shut down cleanly", advice, Some("--allow-shut-down"));
    }
    if control.is_in_archive_recovery() && !overrides.standby {
        let advice = "a new copy of its primary is safer";
        forbid(
            "standby",
            "the cluster is a standby, or archive recovery was interrupted",
            advice,
            Some("--allow-standby"),
        );
    }
}

fn guard_signs(signs: &RecoverySigns, overrides: Overrides, blockers: &mut Vec<Blocker>) {
    if signs.backup_label.is_some() {
        let what = "backup_label exists: this is a base backup that was not recovered yet".to_owned();
        let advice = "recover it, or restore the backup again";
        blockers.push(Blocker { kind: "backup_label", what, advice, flag: None, run_as: None });
    }
    if !signs.signals.is_empty() && !overrides.standby {
        let what = format!("{} exists, so this is a standby or a recovery from an archive", signs.signals.join(", "));
        let advice = "leave the file in place: without it the server starts as a separate primary";
        blockers.push(Blocker { kind: "recovery_signal", what, advice, flag: Some("--allow-standby"), run_as: None });
    }
}

fn guard_owner(root: &Path, overrides: Overrides, blockers: &mut Vec<Blocker>) {
    let user = rustix::process::geteuid().as_raw();
    let owner = root.metadata().map(|metadata| metadata.uid());
    if !overrides.other_user && owner.as_ref().ok() != Some(&user) {
        let words = owner.as_ref().map_or_else(ToString::to_string, |uid| user_words(*uid));
        let sudo = owner.map_or_else(|_| "OWNER".to_owned(), sudo_name);
        let user = user_words(user);
        let what =
            format!("the data directory is owned by {words}; you are {user}; put sudo -u {sudo} before the command");
        let advice = "files written by another user may be unreadable for the server";
        let flag = Some("--allow-other-user");
        blockers.push(Blocker { kind: "other_user", what, advice, flag, run_as: Some(sudo) });
    }
}

/// The journal may not belong to the directory that is locked: another copy of the cluster has the same number and the
/// same control file, and pages that were never torn.
pub(crate) fn guard_directory(
    repaired: &DirectoryMark,
    lock: &RepairLock,
    overrides: Overrides,
) -> Result<Option<Blocker>, AccessError> {
    let here = DirectoryMark::of(lock.root())?;
    if overrides.moved || repaired.is_of(&here) {
        return Ok(None);
    }
    let what = match repaired.path == here.path {
        true => format!("the journal belongs to the directory that was at {} before", here.path),
        false => format!("the journal belongs to {}, but this is {}", repaired.path, here.path),
    };
    let advice = "pass the directory that was repaired: another copy of the cluster has different pages. If it is \
                  that directory, moved or mounted again, or a copy from after the repair, confirm that";
    Ok(Some(Blocker { kind: "other_directory", what, advice, flag: Some("--moved"), run_as: None }))
}

/// A reason that comes before all others: what could not even be opened.
pub(crate) fn unopened(what: &dyn std::fmt::Display) -> Blocker {
    let advice = "nothing is written into a data directory that cannot be checked";
    Blocker { kind: "unreadable", what: what.to_string(), advice, flag: None, run_as: None }
}

/// Held while a data directory is repaired. Leaves no trace: the lock is on the directory itself and goes away with the
/// process.
#[derive(Debug)]
pub struct RepairLock {
    root: DataRoot,
}

impl RepairLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Blocker`] when another repair holds it, or the directory cannot be locked.
    pub fn take(root: &Path) -> Result<Self, Blocker> {
        let forbid = |what: String, advice| Blocker { kind: "locked", what, advice, flag: None, run_as: None };
        let root = DataRoot::open(root).map_err(|error| forbid(error.to_string(), "check the path"))?;
        match rustix::fs::flock(root.held().handle(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { root }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(forbid("another repair of this data directory is running".to_owned(), "wait until it has ended"))
            }
            Err(error) => Err(forbid(
                AccessError::io("lock", root.path(), error.into()).to_string(),
                "without a lock two repairs could run at once, so nothing is written",
            )),
        }
    }

    /// The directory that is locked.
    pub const fn root(&self) -> &DataRoot {
        &self.root
    }

    /// Users whose journals are believed: the one who runs this program, and the owner of the data where the user says
    /// that this may be another one.
    pub(crate) fn journal_owners(&self, overrides: Overrides) -> Result<Vec<u32>, AccessError> {
        let mut owners = vec![rustix::process::geteuid().as_raw()];
        if overrides.other_user {
            owners.push(self.root.held().stat()?.st_uid);
        }
        Ok(owners)
    }
}

/// The lock belongs to the opened directory, which a process that was started meanwhile has too, at least until it runs its
/// own program: to close it here would not free it.
impl Drop for RepairLock {
    fn drop(&mut self) {
        // Where this fails the lock ends with the last handle.
        rustix::fs::flock(self.root.held().handle(), FlockOperation::Unlock).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_free_although_a_child_process_still_has_the_handle() {
        let root = tempfile::tempdir().unwrap();
        let lock = RepairLock::take(root.path()).unwrap();
        let inherited = rustix::io::dup(lock.root().held().handle()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(inherited).spawn().unwrap();
        assert_eq!(RepairLock::take(root.path()).unwrap_err().kind, "locked");
        drop(lock);
        let second = RepairLock::take(root.path());
        child.kill().unwrap();
        child.wait().unwrap();
        second.unwrap();
    }

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
