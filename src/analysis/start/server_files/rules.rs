//! Rules of files that a server needs.

use crate::report::rules;

pub(crate) const NO_CHECKPOINT: &str = "the server starts, but cannot complete a checkpoint without this directory";
pub(crate) const PREPARED_UNKNOWN: &str = "startup asks pg_xact how the transaction ended, and fails: restore the \
    file of pg_xact, or move this file away if it is a remnant from long ago";
pub(crate) const SLOT_DAMAGED: &str = "the server does not start with this replication slot; without its directory \
    the server starts and the slot is lost, so a standby or subscriber may need to be recreated";
pub(crate) const ORIGINS_DAMAGED: &str =
    "the server does not start with it: replication progress; without it a subscriber applies changes again";
pub(crate) const ENDS_AT_TARGET: &str =
    "later WAL is not replayed, and the server may refuse to start if WAL ends before the target";
pub(crate) const TABLESPACE_EMPTY: &str =
    "nothing can be stored in it; the catalogs need no file there, unless WAL creates one";
pub(crate) const INIT_FORK_EMPTY: &str = "after a crash the server creates an index without a page from it, and \
    queries on its table fail: REINDEX recreates both";

rules! {
    SERVER_DIRECTORY: ServerFiles "server_directory",
        why: "the server does not start without this directory",
        means: "A directory is missing without which the server does not start, or cannot complete a checkpoint",
        action: "Restore it from a copy of the cluster";
    NOT_A_DIRECTORY: ServerFiles "not_a_directory",
        why: "recovery lists every entry with the name of a database or in pg_tblspc, and fails at this one: move it \
            away",
        means: "A file has the name of a directory that recovery lists, in `base` or `pg_tblspc`: the server does not \
            start if it must replay WAL",
        action: "Move it away";
    HISTORY_FILE: ServerFiles "history_file",
        why: "startup reads it and fails: restore it from the archive, a standby or a backup",
        means: "The history of the timeline of `pg_control` (`pg_wal/00000002.history`) is missing or invalid: the \
            server does not start. Without such a file the server treats the timeline as one without ancestors",
        action: "Restore the file from the archive, a standby or a backup";
    FILENODE_MAP: ServerFiles "filenode_map",
        why: "the server starts, but cannot open its catalogs: no connection works (for the file in global: to no \
            database)",
        means: "The server refuses a `pg_filenode.map`: no connection works (for the file in `global`: to no database)",
        action: "Restore the file from a copy made after the last `VACUUM FULL` of a system catalog";
    XACT_FILE: ServerFiles "xact_file",
        why: "committed changes of these transactions are lost: the server treats them as aborted, or does not start",
        means: "A file of `pg_xact` is missing, ends too early, or is zeroed where outcomes of transactions should \
            be: the server treats committed transactions as aborted, or does not start. A transaction with thousands \
            of subtransactions that a crash interrupted also leaves zeros",
        action: "Restore the file from a copy of the cluster; do not start the server before";
    MULTIXACT_FILE: ServerFiles "multixact_file",
        why: "rows that several transactions locked or changed cannot be read, or are read incorrectly; without the \
            offsets files the server does not start",
        means: "A file of `pg_multixact` is missing, ends too early or is zeroed: rows that several transactions \
            locked or changed cannot be read, and without the offsets files the server does not start.",
        action: "Restore the file from a copy of the cluster";
    NOT_A_FILE: ServerFiles "not_a_file",
        why: "the server fails when it writes this file, at startup or in a checkpoint: move the entry away",
        means: "A directory, device or dangling symlink has the name of a file that the server writes. These are WAL \
            segments, `pg_internal.init`, and files of `pg_xact`, `pg_multixact`, `pg_commit_ts`, `pg_subtrans`, \
            `pg_notify` or `pg_serial`; also files that a checkpoint or the end of recovery creates and renames. Or \
            `pg_wal/archive_status` or `pg_wal/summaries` is a dangling symlink. The server fails when it reaches the \
            entry, at startup or later: `start` is `unknown`",
        action: "Move the entry away; if the file had contents, restore it from a copy of the cluster";
    STATE_FILE: ServerFiles "state_file",
        why: "a prepared transaction: without the file all its changes are lost. Servers of 10 and 11 remove the file \
            at startup, later ones refuse to start",
        means: "A file that the server reads as a whole is damaged, and the server refuses to start: a prepared \
            transaction (`pg_twophase`), a replication slot (`pg_replslot`), `pg_logical/replorigin_checkpoint`. Or \
            `pg_xact` has no file for the transaction of a file in `pg_twophase`",
        action: "Restore the file from a copy of the cluster. To drop a slot, remove its directory. A prepared \
            transaction whose file is removed is lost; servers of 10 and 11 remove such a file themselves";
    DATABASE_VERSION: ServerFiles "database_version",
        why: "the server starts, but no connection to this database works",
        means: "`PG_VERSION` of a database is missing or from another major version: no connection to it works",
        action: "Create the file again, as in the other databases";
    DATABASE_MISSING: ServerFiles "database_missing",
        why: "the server starts, but no connection to this database works. Its data is lost unless you restore the \
            directory",
        means: "The directory of a database is missing: the server starts, but no connection to that database works",
        action: "Restore the directory from a copy of the cluster";
    TABLESPACE_MISSING: ServerFiles "tablespace_missing",
        why: "startup does not notice; queries on its relations fail: mount what is missing, or recreate the link",
        means: "The directory of a tablespace is missing or incomplete, or the link in `pg_tblspc` is dangling. A \
            note if no file must exist there: the tablespace may have been dropped just before the crash",
        action: "Mount what is missing, or recreate the link";
    RELATION_FILE_EMPTY: ServerFiles "relation_file_empty",
        why: "every sequence and every index in use has a page: queries that use it fail. REINDEX recreates an \
            index; the value of a sequence is lost",
        means: "The first file of an index or sequence has no page. Indexes that are not ready (`indisready` in \
            `pg_index`) are not reported: an interrupted `CREATE INDEX CONCURRENTLY` leaves them, and the server \
            does not read them. After a crash `pg_index` is read as it is on disk: an index that only WAL makes \
            ready counts as not ready",
        action: "`REINDEX`; for a sequence, whose value is lost, `setval`";
    RELATION_FILE_MISSING: ServerFiles "relation_file_missing",
        why: "its data is lost unless you restore the file. Startup does not notice; queries on it fail",
        means: "The first file of a relation is missing; the catalog has the relation, and recovery does not create \
            the file",
        action: "Find the file, or the rows in a backup";
    INIT_FORK_MISSING: ServerFiles "init_fork_missing",
        why: "after a crash the server keeps the contents of its files, torn pages included, instead of emptying it: \
            TRUNCATE or drop the table",
        means: "The init fork of an unlogged relation is missing, or the init fork of an unlogged index has no page. \
            After a crash the server recreates the relation from it: without it the files stay as they are, torn \
            pages included; from an empty one an unusable index is created",
        action: "`TRUNCATE` the table, or `REINDEX`";
    INIT_FORK_OF_PERMANENT: ServerFiles "init_fork_of_permanent",
        why: "recovery will treat this table as unlogged and empty it: move the init fork out of the data directory \
            before startup",
        means: "An init fork exists for a relation that is permanent in the catalog. Recovery treats the relation as \
            unlogged and empties it: `start` is `not_usable`",
        action: "Move the init fork out of the data directory before startup";
    MORE_RELATION_FILES: ServerFiles "more_relation_files",
        why: "its data is lost unless you restore the file. Startup does not notice; queries on it fail",
        means: "More such files than are listed individually",
        action: "Find the files, or the rows in a backup";
    FIRST_PAGE_ZEROED: Cluster "first_page_zeroed",
        why: "every use of the relation fails; if it is a catalog index, every connection fails. Rebuild an index \
            with REINDEX (of a catalog: in single-user mode with ignore_system_indexes); the value of a sequence is \
            lost: use setval",
        means: "The first page of an index or sequence is zeroed, and recovery does not rebuild it",
        action: "`REINDEX` (of a catalog: in single-user mode with `ignore_system_indexes`); for a sequence, whose \
            value is lost, `setval`";
    MINIMUM_ELSEWHERE: Cluster "minimum_elsewhere",
        why: "the server does not start with it (\"does not contain minimum recovery point\"): the file, or a history \
            in pg_wal, is from another point in time",
        means: "`pg_control` has a minimum recovery point that the history of its timeline does not contain: the \
            server does not start with it",
        action: "Find the `pg_control`, or the history in `pg_wal`, from the same point in time as the rest";
    CONFIGURATION: Cluster "configuration",
        why: "the server refuses to start and changes nothing: fix the setting first",
        means: "Settings of recovery change which data the server has after startup. With a signal file: a recovery \
            target or a `recovery_target_timeline`, where recovery ends before the end of WAL (startup is `unknown`). Also \
            a `pg_control` whose `wal_level` was minimal. In 12 and later also more than one \
            recovery target. Settings are checked only if all files that set them were read: not if one is outside \
            the data directory, or if the last startup set it on the command line. Other settings and `pg_hba.conf` \
            are not checked: a server that refuses one reports it and changes nothing",
        action: "Fix the setting, or remove the signal file";
    NO_ROOM: Cluster "no_room",
        why: "free space outside the data directory first, and remove nothing from pg_wal. A full volume can be the \
            reason why WAL ends with its last segment: then nothing is missing",
        means: "The volume of the data directory or of `pg_wal` has less free space than one WAL segment",
        action: "Startup fails there and changes nothing: free space elsewhere first, and remove nothing from \
            `pg_wal`";
    ODD_MODES: Cluster "odd_modes",
        why: "the server may be unable to open it: it runs as the owner of the data directory",
        means: "Owner or permissions of a file or directory of the server differ from those of most",
        action: "Fix it with `chown` and `chmod`: the server may be unable to open it";
    UNUSUAL_BUILD: Cluster "unusual_build",
        why: "only a server built with the same options starts, and nothing else shows that this one was built so",
        means: "`pg_control` has values that only servers built with options have: a relation segment size, a number of \
            index columns, or a way of passing float4 and float8. No relation with several files confirms the segment size. Servers built as usual refuse it",
        action: "Use the server binary of this cluster; if that was built as usual, find an undamaged copy of \
            `pg_control`";
}
