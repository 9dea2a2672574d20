//! Rules of files that do not belong together, and of rows that say so.

use crate::report::rules;

rules! {
    LABEL_GONE: Cluster "label_gone",
        why: "do not start: rows committed before the end of the backup would be missing. Put backup_label back with these \
            lines, and all WAL from there, or restore the backup again. `pg_waldump --rmgr=XLOG` shows checkpoint records with \
            their redo points",
        means: "A base backup by its `backup_manifest`, whose `backup_label` is gone, and no server has run in it since: no \
            `postmaster.opts`, and no `backup_label.old` with the same begin, unless `pg_control` is still that of the backup",
        action: "Put `backup_label` back, with all WAL from the address that the finding names, or restore the backup again. Do \
            not start: rows would be missing";
    PAGE_AFTER_SHUTDOWN: Cluster "page_after_shutdown",
        why: "do not start: a server would show wrong rows. No WAL is missing; base/ and pg_control are of different times, or \
            another server (as after pg_upgrade --link) has changed the files. Use files of one time, from a backup",
        means: "A page is newer than the checkpoint of the shutdown, after which the server wrote nothing",
        action: "Use files of one time. After `pg_upgrade --link` the files belong to the new cluster. No WAL is missing";
    XIDS_AHEAD: Cluster "xids_ahead",
        why: "do not start: these rows count as not there, and their numbers would be handed out again. pg_control is of another \
            time or cluster, or pg_resetwal guessed it: find the right one, or on a copy run pg_resetwal with -x above the \
            newest number, -o above the highest OID, then dump",
        means: "Rows of several relations name transactions that `pg_control` says were never handed out",
        action: "Find the `pg_control` of the same time; or, on a copy, `pg_resetwal -x` and `-o` above what the files hold, \
            then dump";
    MULTIXACTS_AHEAD: Cluster "multixacts_ahead",
        why: "do not start: pg_control and the tables are of different times. Use files of one time, or on a copy run \
            pg_resetwal with -m above the newest number, then dump",
        means: "The same of multixacts",
        action: "The same, with `pg_resetwal -m`";
    DATABASE_UNKNOWN: Cluster "database_unknown",
        why: "no server shows this database: base/ and global/ may be of different clusters, or CREATE DATABASE was cut off. \
            Only global/, pg_control, pg_wal and pg_xact of the same cluster and time bring it back",
        means: "A directory in `base/` holds relations, and `pg_database` does not name it",
        action: "Find `global/`, `pg_control`, `pg_wal` and `pg_xact` of the same cluster and time. After a `CREATE DATABASE` \
            that was cut off the directory is left over";
    PAGE_OF_NO_RECORD: Cluster "page_of_no_record",
        why: "pages and WAL are of different histories: files of another cluster or time are among these, or WAL of a clone",
        means: "A whole page has an LSN from the midst of WAL at hand, and no record ends there",
        action: "Pages and WAL are of different histories; nothing is proven";
    XACT_OLDER: Cluster "xact_older",
        why: "do not start: pg_xact is of another time or cluster, and committed rows would vanish. Bring back the pg_xact of \
            this time; an older one does not fit",
        means: "Rows of several relations name transactions as committed that `pg_xact` does not have as such",
        action: "`pg_xact` is of another time: bring back that of this one";
    WAL_DIVERGED: Cluster "wal_diverged",
        why: "that WAL is not used, and proves nothing: another copy of the cluster wrote it, or pg_xact is of another time. \
            Name the archive that this cluster itself wrote",
        means: "WAL from elsewhere is of another history: its transactions, commits or checkpoints do not fit those of the \
            cluster",
        action: "Name the archive that this cluster itself wrote; nothing is proven meanwhile";
    TIMELINE_FORKED: Cluster "timeline_forked",
        why: "no server starts (\"requested timeline is not a child of this server's history\"): run pg_rewind or take a new \
            base backup. Rows written here after the fork are nowhere else",
        means: "Recovery follows a timeline that was left before the last checkpoint: no server starts",
        action: "`pg_rewind`, or a new base backup";
    ROW_XID: Cluster "row_xid",
        why: "the server takes the row for one that is not there yet, or VACUUM fails over it: the row is damaged",
        means: "Rows of one relation name transactions that were never handed out",
        action: "The row is damaged: see the page with `page`";
    ROW_MULTIXACT: Cluster "row_multixact",
        why: "VACUUM and updates of the row fail (\"has not been created yet\"): the row is damaged",
        means: "Rows of one relation name multixacts that were never made",
        action: "The same";
    ROW_FAULT: Cluster "row_fault",
        why: "the row is damaged: reading that column fails or ends the server process; dump the table without this ctid",
        means: "Rows of a table are wrong by themselves: older than its `relfrozenxid` or `relminmxid`, or shorter than their \
            columns",
        action: "The row is damaged: dump the table without that ctid, or `VACUUM` fails over it";
}
