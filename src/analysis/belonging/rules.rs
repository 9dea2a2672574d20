//! Rules of files that do not belong together, and of rows that say so.

use crate::report::rules;

rules! {
    LABEL_GONE: Cluster "label_gone",
        why: "do not start the server: rows committed before the end of the backup would be missing. Create \
            backup_label again with these lines, with all WAL after that point, or restore the backup again. \
            `pg_waldump --rmgr=XLOG` shows checkpoint records with their redo points",
        means: "A base backup according to its `backup_manifest`, whose `backup_label` is missing, and no server has \
            run in it since: no `postmaster.opts`, and no `backup_label.old` with the same start, unless `pg_control` \
            is still the one of the backup",
        action: "Create `backup_label` again, with all WAL after the address in the finding, or restore the backup \
            again. Do not start the server: rows would be missing";
    PAGE_AFTER_SHUTDOWN: Cluster "page_after_shutdown",
        why: "do not start the server: it would show wrong rows. No WAL is missing; base/ and pg_control are from \
            different times, or another server (as after pg_upgrade --link) changed the files. Use files from one \
            backup",
        means: "A page is newer than the checkpoint of the shutdown, after which the server wrote nothing",
        action: "Use files from the same time. After `pg_upgrade --link` the files belong to the new cluster. No WAL \
            is missing";
    XIDS_AHEAD: Cluster "xids_ahead",
        why: "do not start the server: these rows would be invisible, and their transaction IDs would be used again. \
            pg_control is from another time or cluster, or pg_resetwal guessed it: find the right one, or on a copy \
            run pg_resetwal with -x above the newest number, -o above the highest OID, then dump",
        means: "Rows of several relations have transaction IDs that, according to `pg_control`, were never assigned",
        action: "Find the `pg_control` from the same time; or, on a copy, `pg_resetwal -x` and `-o` above the highest \
            numbers in the files, then dump";
    MULTIXACTS_AHEAD: Cluster "multixacts_ahead",
        why: "do not start the server: pg_control and the tables are from different times. Use files from one backup, \
            or on a copy run pg_resetwal with -m above the newest number, then dump",
        means: "Rows of several relations have multixact IDs that, according to `pg_control`, were never assigned",
        action: "As for `xids_ahead`, with `pg_resetwal -m`";
    DATABASE_UNKNOWN: Cluster "database_unknown",
        why: "no server shows this database: base/ and global/ may be from different clusters, or CREATE DATABASE was \
            interrupted. Only global/, pg_control, pg_wal and pg_xact from the same cluster and time restore it",
        means: "A directory in `base/` has relations, but `pg_database` has no such database",
        action: "Find `global/`, `pg_control`, `pg_wal` and `pg_xact` from the same cluster and time. After an \
            interrupted `CREATE DATABASE` the directory is left over";
    PAGE_OF_NO_RECORD: Cluster "page_of_no_record",
        why: "pages and WAL have different histories: some files are from another cluster or time, or WAL from a clone",
        means: "An intact page has an LSN inside the available WAL, but no record ends there",
        action: "Pages and WAL have different histories; nothing is proven";
    XACT_OLDER: Cluster "xact_older",
        why: "do not start the server: pg_xact is from another time or cluster, and committed rows would disappear. \
            Restore the pg_xact from this time; an older one does not fit",
        means: "Rows of several relations mark transactions as committed that `pg_xact` does not",
        action: "`pg_xact` is from another time: restore the one from this time";
    WAL_DIVERGED: Cluster "wal_diverged",
        why: "that WAL is not used, and proves nothing: another copy of the cluster wrote it, or pg_xact is from \
            another time. Pass the archive that this cluster itself wrote",
        means: "WAL from another place has a different history: its transactions, commits or checkpoints do not match \
            the cluster",
        action: "Pass the archive that this cluster itself wrote; until then nothing is proven";
    TIMELINE_FORKED: Cluster "timeline_forked",
        why: "the server does not start (\"requested timeline is not a child of this server's history\"): run \
            pg_rewind or take a new base backup. Rows written here after the fork exist nowhere else",
        means: "Recovery follows a timeline that was left before the last checkpoint: the server does not start",
        action: "Run `pg_rewind`, or take a new base backup";
    ROW_XID: Cluster "row_xid",
        why: "the server does not see the row, or VACUUM fails because of it: the row is damaged",
        means: "Rows of one relation have transaction IDs that were never assigned",
        action: "The row is damaged: see the page with `page`";
    ROW_MULTIXACT: Cluster "row_multixact",
        why: "VACUUM and updates of the row fail (\"has not been created yet\"): the row is damaged",
        means: "Rows of one relation have multixact IDs that were never assigned",
        action: "The row is damaged: see the page with `page`";
    ROW_FAULT: Cluster "row_fault",
        why: "the row is damaged: reading that column fails or ends the server process; dump the table without this ctid",
        means: "Rows of a table are damaged on an intact page: older than its `relfrozenxid` or `relminmxid`, or \
            shorter than their columns",
        action: "The row is damaged: dump the table without that ctid; until then `VACUUM` fails because of it";
}
