//! Ways to continue after an incomplete repair or undo.

use std::path::Path;

use super::shell::quoted;
use crate::repair::apply::{ApplyError, Stopped};
use crate::repair::blocker::Overrides;

/// Written pages, location of the old bytes, and the commands that finish or undo the work.
pub(crate) fn ways_on(stopped: &Stopped, data_dir: &Path, journal: &Path, overrides: Overrides) -> String {
    let (data, undo) = (quoted(&data_dir.display().to_string()), quoted(&journal.display().to_string()));
    let skip = match &stopped.error {
        ApplyError::Changed(_) => " --skip-changed",
        ApplyError::Journal(_) | ApplyError::Access(_) | ApplyError::CutOff => "",
        // A server that got as far as pg_control rules out both for good.
        ApplyError::ServerAppeared(_) => {
            return format!("{stopped}\nthe old bytes are in {undo}; stop the server before anything else");
        }
        // Neither is possible.
        _ => return stopped.to_string(),
    };
    let what = if skip.is_empty() { "" } else { "; pages that something else has changed stay as they are" };
    let allow = overrides.arguments();
    format!(
        "{stopped}\nthe old bytes are in {undo}{what}\nto finish:       pg_dwbinspect repair {data} --resume {undo}{skip}{allow}\n\
         to undo it:      pg_dwbinspect undo {data} {undo}{skip}{allow}"
    )
}
