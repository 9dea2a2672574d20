//! Rules of what is found in a data directory of MySQL or MariaDB.

use crate::report::rules;

pub(crate) const ZEROS_OF_CRASH: &str = "a crash leaves pages that were allocated and not yet written; MariaDB makes zeros of freed pages of \
    compressed tables";

pub(crate) const DOUBLEWRITE_ELSEWHERE: &str = "the server keeps images in files, which innodb_doublewrite_dir or innodb_data_home_dir may name elsewhere: \
    give --doublewrite-dir or --my-cnf";

rules! {
    DAMAGED_PAGES: Innodb "innodb_damaged_pages",
        why: "which version of a page is the right one depends on the redo log, which is not replayed here",
        means: "Pages that fail their checks",
        action: "See each page and its images; work on a copy";
    OLDER_IMAGES: Innodb "innodb_older_images",
        why: "MariaDB 10.11.10 and later write the older image over such a page at startup: start the server only on a copy",
        means: "Whole pages are newer than the end of the redo log, and the doublewrite buffer holds older images of them: \
            MariaDB 10.11.10 and later write these over the pages",
        action: "Start the server only on a copy";
    BAD_PAGES: Innodb "innodb_bad_pages",
        why: "innodb check compares them with the doublewrite buffer",
        means: "Pages that fail their checks, of `innodb verify`",
        action: "Use `innodb check`";
    ZERO_PAGES: Innodb "innodb_zero_pages",
        why: "the pages had content: compare them with a backup",
        means: "Pages of zeros that have an image in the doublewrite buffer",
        action: "Nothing for a note: a crash leaves some; else see each page";
    DAMAGED_SLOTS: Innodb "innodb_damaged_slots",
        why: "a crash in the middle of a write of the buffer leaves one; the page itself was not being written then",
        means: "Slots with a damaged image",
        action: "Nothing: their pages were not being written yet";
    DAMAGED_ENTRIES: Innodb "innodb_damaged_entries",
        why: "the list shows which pages were being written: part of it is lost",
        means: "A block of the file without images has a wrong checksum",
        action: "Keep a copy";
    PARTIAL_PAGE: Innodb "innodb_partial_page",
        why: "the file was cut off, or its extension was interrupted",
        means: "A file ends inside a page",
        action: "Look for a whole copy";
    TWO_FILES: Innodb "innodb_two_files",
        why: "one of them was copied in from elsewhere; slots are compared with the first alone",
        means: "Two files claim one tablespace",
        action: "Find out which was copied in from elsewhere";
    EMPTY_FILE: Innodb "innodb_empty_file",
        why: "its table was being made, or the file was emptied",
        means: "A file of a tablespace without a page; a problem for MySQL, which writes page 0 when it makes a file",
        action: "Look for a whole copy where it is a problem";
    PAGE_ZERO: Innodb "innodb_page_zero",
        why: "the server finds the tablespace by page 0",
        means: "Page 0 of a tablespace is damaged",
        action: "See the page";
    NO_CHECKPOINT: Innodb "innodb_no_checkpoint",
        why: "which images are older than the checkpoint is unknown",
        means: "The checkpoint of the redo log is unknown",
        action: "Look for the redo log";
    DAMAGED_CHECKPOINT: Innodb "innodb_damaged_checkpoint",
        why: "the other block was used; a crash in the middle of a checkpoint leaves one",
        means: "One of two checkpoint blocks has a wrong checksum",
        action: "Nothing: the other was used";
    REDO_HEADER: Innodb "innodb_redo_header",
        why: "the server tests it before it replays anything",
        means: "The header of a file of the redo log is damaged or cut short",
        action: "Look for a whole copy of the redo log";
    NOT_SHUT_DOWN: Innodb "innodb_not_shut_down",
        why: "recovery replays the redo log at startup, which is not done here; a server that runs shows the same",
        means: "The redo log has more after its checkpoint: the server was not shut down cleanly, or is running",
        action: "Make sure that no server runs; work on a copy";
    REDO_MISSING: Innodb "innodb_redo_missing",
        why: "changes after that are lost unless the file is found",
        means: "The redo log continues in a file that is missing or too short",
        action: "Look for the file";
    REDO_BEHIND: Innodb "innodb_redo_behind",
        why: "servers write a page after the log of its changes: the end of the log is lost, or the pages are from a later time",
        means: "A page or an image is newer than the end of the redo log, which servers write first: the end of the log is lost, \
            or pages and log are of different times",
        action: "Look for a whole copy, all of one time";
    NO_DOUBLEWRITE: Innodb "innodb_no_doublewrite",
        why: "no page can be compared with an image",
        means: "The doublewrite buffer was not found",
        action: "Give `--doublewrite-dir` or `--my-cnf` if it is elsewhere";
    BUFFER_NOT_IN_USE: Innodb "innodb_buffer_not_in_use",
        why: "images may lie elsewhere, or the server ran with innodb_doublewrite=OFF: what is missing here proves nothing. Give \
            --doublewrite-dir or --my-cnf",
        means: "Pages were written after the checkpoint, and nothing in the doublewrite buffer is as new: images lie elsewhere, \
            or the server wrote none",
        action: "The same";
    DOUBLEWRITE_OFF: Innodb "innodb_doublewrite_off",
        why: "pages may have been written without an image",
        means: "The option file has `innodb_doublewrite=OFF`: pages may have been written without an image",
        action: "Nothing";
    BUFFER_INCOMPLETE: Innodb "innodb_buffer_incomplete",
        why: "images may be in what is missing: what is not found proves nothing",
        means: "Files or slots of the doublewrite buffer are missing",
        action: "Look for a whole copy";
    CHECKPOINT_UNCERTAIN: Innodb "innodb_checkpoint_uncertain",
        why: "an image that counts as current may be older than the checkpoint",
        means: "A checkpoint block is damaged or missing that a newer checkpoint may have been in",
        action: "Look for a whole copy of the redo log";
    UNKNOWN_RULES: Innodb "innodb_unknown_rules",
        why: "which image the server takes is unknown",
        means: "The server is a MariaDB before 10.5, whose order of images is not known here",
        action: "Nothing";
    HEADER_COPY_USED: Innodb "innodb_header_copy_used",
        why: "page 5 of the system tablespace is damaged",
        means: "The first copy of the header in the system tablespace is damaged",
        action: "See page 5 of space 0";
    OTHER_PAGE_SIZE: Innodb "innodb_other_page_size",
        why: "the server does not read it",
        means: "A file of the doublewrite buffer is of another page size",
        action: "Nothing: the server does not read it";
    TRAILING_BYTES: Innodb "innodb_trailing_bytes",
        why: "the file was cut off, or is of another server",
        means: "Bytes after the last slot",
        action: "Look for a whole copy";
    SERVER_RUNNING: Innodb "innodb_server_running",
        why: "files change while they are read, and nothing here is certain: stop the server, or read a copy",
        means: "A process holds a lock on the system tablespace, as a running server does",
        action: "Stop the server, or read a copy";
    UNKNOWN_SERVER: Innodb "innodb_unknown_server",
        why: "which image the server takes is unknown",
        means: "Which server wrote the directory is unknown",
        action: "Give a directory with its redo log";
}
