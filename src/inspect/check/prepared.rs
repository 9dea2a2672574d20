//! Prepared transactions whose file is gone, which no start notices: WAL shows that they were not ended.

use crate::analysis::prepared_xacts::PreparedXacts;
use crate::cluster::data_dir::DataDir;
use crate::cluster::server_files::is_missing;
use crate::cluster::state_files::prepared_file;
use crate::parsers::control::ControlFile;
use crate::report::{Finding, rules};
use crate::types::Lsn;

/// Those whose file a checkpoint had written before the redo point, and that is not there.
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
                        "missing, though the record at {} prepared its transaction, and nothing in the WAL \
                    at hand ended it",
                        record.start
                    ))
                    .in_file(&file),
            )
        })
        .collect()
}

rules! {
    PREPARED_MISSING: ServerFiles "prepared_missing",
        why: "a start loses the transaction without a word: whoever prepared it can neither commit nor roll it back",
        means: "The file of a prepared transaction (`pg_twophase`) is gone: WAL at hand shows that it was prepared before the \
            redo point and not ended. A start loses it without a word",
        action: "Bring the file back from a copy of the cluster before the start. There is no other place for its changes: what \
            it had done counts as rolled back";
}
