//! Words for what replay proves of pages without checksums.

use std::fmt;

use crate::analysis::verdict::proof::ProofReport;

impl fmt::Display for ProofReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_needless, whole, wrong, undecided, without_base, not_built, server, records } = self;
        if *is_needless {
            return f.write_str(
                "nothing: checksums show every torn page. A lost write leaves an older page intact: WAL before the \
                 redo point shows it (see --wal)",
            );
        }
        write!(f, "{whole} pages intact, {wrong} not")?;
        if let Some(server) = server {
            write!(f, "; server {server} replayed {records} records")?;
        }
        let not_built: u64 = not_built.values().sum();
        for (count, what) in [
            (*without_base, "in WAL have no older state to begin with"),
            (not_built, "could not be built"),
            (*undecided, "were built, which proves nothing about them"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        Ok(())
    }
}
