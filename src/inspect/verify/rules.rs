//! Rules of pages that are read, and of what is compared with them.

use crate::report::rules;

rules! {
    CHECKPOINT_MISSING: Cluster "checkpoint_missing",
        why: "WAL is missing, or pg_wal and pg_control are from different times or clusters: run check",
        means: "`pg_wal` does not contain the checkpoint that `pg_control` refers to",
        action: "WAL is missing, or both are from different times or clusters: run `check`";
    REPLAY_CANNOT_BEGIN: Cluster "replay_cannot_begin",
        why: "without all of its WAL the backup is useless: pass it with --wal, or give the server an archive at \
            startup",
        means: "The WAL of a base backup cannot be followed from its beginning",
        action: "Pass the missing segments to `verify --wal`, or find them";
    NOT_SHUT_DOWN: Cluster "not_shut_down",
        why: "pages that recovery restores from WAL or the double write buffer still count as damaged",
        means: "The cluster was not shut down cleanly",
        action: "Use `check`, which knows what recovery repairs";
    NOT_COMPARED: Cluster "not_compared",
        why: "whether pages have the kind of their relation, agree with each other, and have all their files is \
            checked only in the unpacked backup: use check there",
        means: "The archives of a base backup were checked page by page. Kinds of pages, references between pages and \
            rows, and missing files were not",
        action: "Unpack the backup and use `check` there";
    DAMAGED_PAGES: Pages "damaged_pages",
        why: "listed page by page",
        means: "Damaged pages",
        action: "See the verdict on each page";
    UNLOGGED: Pages "unlogged",
        why: "recovery after a crash empties these relations",
        means: "Damaged pages of unlogged relations",
        action: "Nothing: recovery empties them";
    PARTIAL_PAGE: Pages "partial_page",
        why: "the server ignores a partial page: the file was cut, or its extension was interrupted",
        means: "A file ends inside a page",
        action: "The server ignores the rest";
    NAMES: Pages "names",
        why: "names of relations may be wrong or missing; verdicts do not depend on names",
        means: "A gap in the names of relations",
        action: "Nothing: pages are judged without names";
    NAMES_INCOMPLETE: Pages "names_incomplete",
        why: "some relations are shown as numbers",
        means: "All gaps in the names together",
        action: "Nothing: pages are judged without names";
}
