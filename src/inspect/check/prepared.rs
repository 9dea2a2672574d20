//! Prepared transactions whose file is gone, which no start notices: WAL shows that they were not ended.

use crate::analysis::prepared_xacts::PreparedXacts;
use crate::cluster::data_dir::DataDir;
use crate::cluster::server_files::is_missing;
use crate::cluster::state_files::prepared_file;
use crate::parsers::control::ControlFile;
use crate::report::{Finding, rules};
use crate::types::Lsn;

/// Those whose file a checkpoint had written before the redo point, and that is missing.
///
/// Source: `CheckPointTwoPhase`, `src/backend/access/transam/twophase.c`.
pub(super) fn missing_prepared(
    directory: &DataDir,
    control: &ControlFile,
    redo_lsn: Lsn,
    prepared: &PreparedXacts,
) -> Vec<Finding> {
    let is_gone = |xid| Some(prepared_file(directory, control, xid)).filter(|file| is_missing(directory, file));
    prepared
        .open()
        .filter(|(_, record)| record.end <= redo_lsn)
        .filter_map(|(xid, record)| {
            let file = is_gone(xid)?.display().to_string();
            Some(
                PREPARED_MISSING
                    .problem(format!(
                        "missing, though the record at {} prepared its transaction, and nothing in the available WAL \
                    ended it",
                        record.start
                    ))
                    .in_file(&file),
            )
        })
        .collect()
}

rules! {
    PREPARED_MISSING: ServerFiles "prepared_missing",
        why: "startup silently loses the prepared transaction; it can no longer be committed or rolled back",
        means: "The file of a prepared transaction (`pg_twophase`) is missing: available WAL shows that it was \
            prepared before the redo point and not ended. Startup silently loses it",
        action: "Restore the file from a copy of the cluster before startup. No other file has its changes: without \
            it they count as rolled back";
}
