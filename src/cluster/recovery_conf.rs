//! `recovery.conf`, by which servers before 12 recover, as far as they refuse to start over it.

use std::path::Path;

use super::config_files::{ConfigFault, ConfigFaults, Text};
use super::settings::assignment;

/// Its file, relative to the data directory.
pub(super) const FILE: &str = "recovery.conf";

/// What may be set in it.
///
/// Source: `readRecoveryCommandFile`, `src/backend/access/transam/xlog.c` of these majors.
const NAMES: [&str; 16] = [
    "archive_cleanup_command",
    "primary_conninfo",
    "primary_slot_name",
    "recovery_end_command",
    "recovery_min_apply_delay",
    "recovery_target",
    "recovery_target_action",
    "recovery_target_inclusive",
    "recovery_target_lsn",
    "recovery_target_name",
    "recovery_target_time",
    "recovery_target_timeline",
    "recovery_target_xid",
    "restore_command",
    "standby_mode",
    "trigger_file",
];

/// Adds what is wrong with it to `found`.
pub(super) fn recovery_conf_faults(root: &Path, found: &mut ConfigFaults) {
    let file = Path::new(FILE);
    let bytes = match found.read(&root.join(file)) {
        Text::Bytes(bytes) => bytes,
        Text::Missing => return,
        Text::Unknown => {
            if root.join(file).metadata().is_ok_and(|found| !found.is_file()) {
                found.add(file, ConfigFault::NotAFile);
            }
            return;
        }
    };
    let (mut follows, mut restores) = (false, false);
    for (index, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let Some((name, value)) = assignment(line) else { continue };
        let at = index.saturating_add(1);
        let is_wrong = match name.as_str() {
            "include" | "include_if_exists" | "include_dir" => return,
            "standby_mode" => match boolean(value) {
                Some(is_on) => {
                    follows = is_on;
                    false
                }
                None => true,
            },
            "restore_command" => {
                restores = true;
                false
            }
            name => !NAMES.contains(&name),
        };
        // Names have one case here.
        let is_wrong = is_wrong || !line.trim_start().starts_with(&name);
        if is_wrong {
            return found.add(file, ConfigFault::RecoverySetting { line: at });
        }
    }
    if !follows && !restores {
        found.add(file, ConfigFault::NoRestoreCommand);
    }
}

/// What a server takes a text for that is "on" or "off", abbreviations included.
///
/// Source: `parse_bool_with_len`, `src/backend/utils/adt/bool.c`.
fn boolean(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let is_part_of = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        _ if is_part_of("true") || is_part_of("yes") => Some(true),
        _ if is_part_of("false") || is_part_of("no") => Some(false),
        _ => None,
    }
}
