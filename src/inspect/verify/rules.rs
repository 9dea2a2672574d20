//! Rules of pages that are read, and of what is compared with them.

use crate::report::rules;

rules! {
    CHECKPOINT_MISSING: Cluster "checkpoint_missing",
        why: "WAL is missing, or pg_wal and pg_control are of different times or clusters: `check` says more",
        means: "`pg_wal` does not hold the checkpoint that `pg_control` names",
        action: "WAL is missing, or both are of different times or clusters: run `check`";
    REPLAY_CANNOT_BEGIN: Cluster "replay_cannot_begin",
        why: "without WAL from its start to its end the backup is of no use: give it with --wal, or an archive when the server \
            is started",
        means: "Replay of a base backup cannot be followed from its beginning",
        action: "Give the missing segments to `verify --wal`, or look for them";
    NOT_SHUT_DOWN: Cluster "not_shut_down",
        why: "pages that recovery restores from WAL or the double write buffer still count as damaged",
        means: "The cluster was not shut down cleanly",
        action: "Use `check`, which knows what replay repairs";
    NOT_COMPARED: Cluster "not_compared",
        why: "whether they are of the kind of their relation, agree with each other, and have all files beside them, is seen \
            once the backup is unpacked: use check there",
        means: "The archives of a base backup were read page by page: kinds of pages, what pages and rows say of each other, and \
            the files beside them were not compared",
        action: "Unpack the backup and use `check` there";
    DAMAGED_PAGES: Pages "damaged_pages",
        why: "see the verdict on each",
        means: "Damaged pages",
        action: "See the verdict on each";
    UNLOGGED: Pages "unlogged",
        why: "recovery after a crash empties these relations",
        means: "Damaged pages of unlogged relations",
        action: "Nothing: recovery empties them";
    PARTIAL_PAGE: Pages "partial_page",
        why: "the server ignores a partial page: the file was cut off, or its extension was interrupted",
        means: "A file ends inside a page",
        action: "The server ignores the rest";
    NAMES: Pages "names",
        why: "names of relations may be missing or outdated; verdicts on pages do not depend on them",
        means: "A gap in the names of relations",
        action: "Nothing: pages are judged without names";
    NAMES_INCOMPLETE: Pages "names_incomplete",
        why: "some relations are shown as numbers",
        means: "The same, all gaps together",
        action: "The same";
}
