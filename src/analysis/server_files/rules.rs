//! Rules of files that a server needs.

use crate::report::rules;

pub(super) const NO_CHECKPOINT: &str = "the server starts, but no checkpoint ends without this directory";
pub(super) const PREPARED_UNKNOWN: &str = "a start asks pg_xact how the transaction ended, and fails: bring back the file of pg_xact, or move this one \
    away if it is a left-over from long ago";
pub(super) const SLOT_DAMAGED: &str = "no server starts with it: a replication slot; without its directory the server starts and the slot is gone, \
    so that a standby or a subscriber may have to be made anew";
pub(super) const ORIGINS_DAMAGED: &str =
    "no server starts with it: how far changes from elsewhere came; without it a subscriber applies changes again";
pub(super) const ENDS_AT_TARGET: &str =
    "what WAL has after that is not replayed, and a server may refuse to start where WAL ends before it";
pub(super) const TABLESPACE_EMPTY: &str =
    "nothing can be put into it; the catalogs know of nothing there that must be there, unless WAL made it";
pub(super) const INIT_FORK_EMPTY: &str = "after a crash servers make an index without a page of it, and whoever uses its table fails: REINDEX makes \
    both anew";

rules! {
    SERVER_DIRECTORY: ServerFiles "server_directory",
        why: "the server does not start without this directory",
        means: "A directory is missing without which the server does not start, or ends no checkpoint",
        action: "Bring it back from a copy of the cluster";
    NOT_A_DIRECTORY: ServerFiles "not_a_directory",
        why: "a start that replays WAL lists whatever has the name of a database or lies in pg_tblspc, and fails: move it away",
        means: "Something else has the name of a directory that recovery lists, in `base` or `pg_tblspc`: no server starts that \
            replays WAL",
        action: "Move it away";
    HISTORY_FILE: ServerFiles "history_file",
        why: "every start reads it, and fails: bring it back from the archive, a standby or a backup",
        means: "The history of the timeline of `pg_control` (`pg_wal/00000002.history`) cannot be read, or is none: no server \
            starts. Where there is no such file a server takes the timeline for one without ancestors",
        action: "Bring the file back from the archive, a standby or a backup";
    FILENODE_MAP: ServerFiles "filenode_map",
        why: "the server starts, but fails to open its catalogs: no connection works, in global to any database",
        means: "A server refuses a `pg_filenode.map`: no connection works, for that in `global` to no database",
        action: "Bring the file back from a copy made after the last `VACUUM FULL` of a system catalog";
    XACT_FILE: ServerFiles "xact_file",
        why: "what these transactions committed is lost with it: the server takes them for undone, or does not start",
        means: "A file of `pg_xact` is missing, ends too soon or holds zeros where the ends of transactions stand: the server \
            takes what they committed for undone, or does not start. Zeros are also what one transaction with thousands of \
            subtransactions leaves that a crash cut off",
        action: "Bring the file back from a copy of the cluster; do not start before";
    MULTIXACT_FILE: ServerFiles "multixact_file",
        why: "rows that several transactions locked or changed cannot be read, or are read wrongly; without the files of offsets \
            no server starts",
        means: "A file of `pg_multixact` is missing, ends too soon or holds zeros: rows that several transactions locked or \
            changed cannot be read, and without the files of offsets no server starts.",
        action: "Bring the file back from a copy of the cluster";
    NOT_A_FILE: ServerFiles "not_a_file",
        why: "a server fails where it comes to write a file of this name, at its start or in a checkpoint: move away what stands \
            there",
        means: "A directory, a device or a link that leads nowhere has the name of a file that a server writes: of a WAL \
            segment, of `pg_xact`, `pg_multixact`, `pg_commit_ts`, `pg_subtrans`, `pg_notify` or `pg_serial`, \
            `pg_internal.init`, or one that a server makes and renames, at a checkpoint or at the end of recovery; or a link \
            that leads nowhere is called `pg_wal/archive_status` or `pg_wal/summaries`. A server fails where it comes to it, at \
            its start or later: `start` is `unknown`",
        action: "Move away what stands there; where the file held something, bring it back from a copy of the cluster";
    STATE_FILE: ServerFiles "state_file",
        why: "a prepared transaction, which is lost with all that it changed when the file goes: servers of 10 and 11 remove it \
            at the start, later ones refuse to start",
        means: "A server refuses to start over a file that it reads whole: a prepared transaction (`pg_twophase`), a replication \
            slot (`pg_replslot`), `pg_logical/replorigin_checkpoint`. Also a file in `pg_twophase` of a transaction for which \
            `pg_xact` has no file",
        action: "Bring the file back from a copy of the cluster. A slot can be given up: remove its directory. A prepared \
            transaction that is removed is lost; servers of 10 and 11 remove such a file themselves";
    DATABASE_VERSION: ServerFiles "database_version",
        why: "the server starts, but no connection to this database works",
        means: "`PG_VERSION` of a database is missing or of another major: no connection to it works",
        action: "Write the file anew, as in the other databases";
    DATABASE_MISSING: ServerFiles "database_missing",
        why: "the server starts without it, and no connection to this database works: all that is in it is lost, unless the \
            directory is brought back",
        means: "The directory of a database is missing: the server starts, and no connection to that database works",
        action: "Bring the directory back from a copy of the cluster";
    TABLESPACE_MISSING: ServerFiles "tablespace_missing",
        why: "a start does not notice; all relations in it fail when they are read: mount what is missing, or set the link anew",
        means: "What the server keeps in a tablespace is missing, or the link in `pg_tblspc` leads nowhere. A note where nothing \
            must be there: the tablespace may have been dropped just before the crash",
        action: "Mount what is missing, or set the link anew";
    RELATION_FILE_EMPTY: ServerFiles "relation_file_empty",
        why: "every index that a server reads and every sequence has a page: whoever uses it fails. REINDEX makes an index anew; \
            of a sequence the value is lost",
        means: "The first file of an index or of a sequence has no page. Nothing is said of indexes that `pg_index` has as not \
            ready (`indisready`), which no server reads: a `CREATE INDEX CONCURRENTLY` that was broken off leaves them. After a \
            crash `pg_index` is read as it is on disk: an index that WAL alone makes ready counts as not ready",
        action: "`REINDEX`; of a sequence the value is lost: `setval`";
    RELATION_FILE_MISSING: ServerFiles "relation_file_missing",
        why: "what it held is lost, unless the file is brought back: a start does not notice, only whoever reads it",
        means: "The first file of a relation is missing, which the catalog has and no replay makes",
        action: "Look for the file; else for the rows in a backup";
    INIT_FORK_MISSING: ServerFiles "init_fork_missing",
        why: "after a crash servers keep what is in its files, torn pages too, instead of emptying it: TRUNCATE or drop the \
            table",
        means: "The init fork of an unlogged relation is missing, or that of an unlogged index has no page. After a crash \
            servers make the relation anew of it: without it they keep what is in the files, torn pages too; of an empty one \
            they make an index that cannot be used",
        action: "`TRUNCATE` the table, or `REINDEX`";
    INIT_FORK_OF_PERMANENT: ServerFiles "init_fork_of_permanent",
        why: "recovery takes it for unlogged, and empties it: move the init fork out of the data directory before the start",
        means: "An init fork lies beside a relation that the catalog has as permanent. Recovery takes the relation for an \
            unlogged one and empties it: `start` is `not_usable`",
        action: "Move the init fork out of the data directory before the start";
    MORE_RELATION_FILES: ServerFiles "more_relation_files",
        why: "what it held is lost, unless the file is brought back: a start does not notice, only whoever reads it",
        means: "More such files than are named one by one",
        action: "The same";
    FIRST_PAGE_ZEROED: Cluster "first_page_zeroed",
        why: "every use of the relation fails, and over a catalog index every connection. Rebuild an index with REINDEX (of a \
            catalog: in single-user mode with ignore_system_indexes); the value of a sequence is lost: use setval",
        means: "The first page of an index or of a sequence is all zero, and replay does not build it",
        action: "`REINDEX` (of a catalog: in single-user mode with `ignore_system_indexes`); of a sequence the value is lost: \
            `setval`";
    MINIMUM_ELSEWHERE: Cluster "minimum_elsewhere",
        why: "no server starts with it (\"does not contain minimum recovery point\"): the file, or a history in pg_wal, is of \
            another moment",
        means: "`pg_control` has a least LSN that recovery must reach on a timeline that the history of its timeline does not \
            have there: no server starts with it",
        action: "Find the `pg_control`, or the history in `pg_wal`, of the same moment as the rest";
    CONFIGURATION: Cluster "configuration",
        why: "a start changes nothing, and the server says so: put it right first",
        means: "Settings of recovery change what data is there after a start. With a signal file: a target of recovery or a \
            `recovery_target_timeline` (a start is `unknown`, since recovery ends there and not where WAL ends), and a \
            `pg_control` whose `wal_level` was minimal. From 12 on also more than one target of recovery. Settings are read \
            where all files that set them were read: not where one lies outside the data directory, or where the last start \
            named the setting on its command line. No other setting is judged, nor `pg_hba.conf`: a server that refuses one says \
            so and changes nothing",
        action: "Put the setting right, or remove the signal file";
    NO_ROOM: Cluster "no_room",
        why: "make room outside of the data directory first, and remove nothing from pg_wal. A full volume can be why WAL ends \
            with its last segment: nothing is missing then",
        means: "The volume of the data directory or of `pg_wal` has less free space than a segment of WAL",
        action: "A start fails there and changes nothing: make room elsewhere first, and remove nothing from `pg_wal`";
    ODD_MODES: Cluster "odd_modes",
        why: "a server may not be able to open it: it runs as the owner of the data directory",
        means: "Owner or permissions of a file or directory of the server differ from those of most",
        action: "A server may not be able to open it: `chown`, `chmod` as the others";
    UNUSUAL_BUILD: Cluster "unusual_build",
        why: "no server starts that was built otherwise, and nothing else here shows that this one was built so",
        means: "`pg_control` has a segment size of relations or a number of index columns, or a way of passing float4 and \
            float8, that only servers built with options have, and no relation of several files shows such a segment size. \
            Servers that were built as usual refuse it",
        action: "Use the server program of this cluster; if that was built as usual, find a sound copy of `pg_control`";
}
