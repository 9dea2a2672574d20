//! Rules of what is found in a data directory of MySQL or MariaDB.

use crate::report::rules;

pub(crate) const ZEROS_OF_CRASH: &str = "a crash leaves pages that were allocated and not yet written; MariaDB makes zeros of freed pages of \
    compressed tables";

pub(crate) const DOUBLEWRITE_ELSEWHERE: &str = "the server keeps images in files, which may be elsewhere \
    (innodb_doublewrite_dir, innodb_data_home_dir): pass --doublewrite-dir or --my-cnf";

rules! {
    DAMAGED_PAGES: Innodb "innodb_damaged_pages",
        why: "the redo log decides which version of a page is right, and it is not replayed here",
        means: "Pages that fail their checks",
        action: "See each page and its images; work on a copy";
    OLDER_IMAGES: Innodb "innodb_older_images",
        why: "MariaDB 10.11.10 and later write the older image over such a page at startup: start the server only on a copy",
        means: "Intact pages are newer than the end of the redo log, and the doublewrite buffer holds older images of \
            them: MariaDB 10.11.10 and later write these over the pages",
        action: "Start the server only on a copy";
    BAD_PAGES: Innodb "innodb_bad_pages",
        why: "innodb check compares them with the doublewrite buffer",
        means: "Pages that fail their checks, of `innodb verify`",
        action: "Use `innodb check`";
    ZERO_PAGES: Innodb "innodb_zero_pages",
        why: "the pages had content: compare them with a backup",
        means: "Zero-filled pages that have an image in the doublewrite buffer",
        action: "Nothing for a note: a crash leaves some. Otherwise see each page";
    DAMAGED_SLOTS: Innodb "innodb_damaged_slots",
        why: "a crash while the buffer is written leaves one; the page itself was not being written then",
        means: "Slots with a damaged image",
        action: "Nothing: their pages were not being written yet";
    DAMAGED_ENTRIES: Innodb "innodb_damaged_entries",
        why: "part of the list of pages that were being written is lost",
        means: "A block of the file without images has a wrong checksum",
        action: "Keep a copy";
    PARTIAL_PAGE: Innodb "innodb_partial_page",
        why: "the file was cut, or its extension was interrupted",
        means: "A file ends inside a page",
        action: "Find a complete copy";
    TWO_FILES: Innodb "innodb_two_files",
        why: "one of them was copied in from elsewhere; slots are compared with the first alone",
        means: "Two files claim one tablespace",
        action: "Find out which was copied in from elsewhere";
    EMPTY_FILE: Innodb "innodb_empty_file",
        why: "its table was being created, or the file was emptied",
        means: "A tablespace file has no page; a problem for MySQL, which writes page 0 when it creates a file",
        action: "Find a complete copy if it is a problem";
    PAGE_ZERO: Innodb "innodb_page_zero",
        why: "the server identifies the tablespace by page 0",
        means: "Page 0 of a tablespace is damaged",
        action: "See the page";
    NO_CHECKPOINT: Innodb "innodb_no_checkpoint",
        why: "the images that are older than the checkpoint are unknown",
        means: "The checkpoint of the redo log is unknown",
        action: "Find the redo log";
    DAMAGED_CHECKPOINT: Innodb "innodb_damaged_checkpoint",
        why: "the other block was used; a crash during a checkpoint leaves one",
        means: "One of two checkpoint blocks has a wrong checksum",
        action: "Nothing: the other was used";
    REDO_HEADER: Innodb "innodb_redo_header",
        why: "the server tests it before it replays anything",
        means: "The header of a file of the redo log is damaged or cut short",
        action: "Find a complete copy of the redo log";
    NOT_SHUT_DOWN: Innodb "innodb_not_shut_down",
        why: "startup replays the redo log, which is not done here; a running server looks the same",
        means: "The redo log continues after its checkpoint: the server was not shut down cleanly, or is running",
        action: "Make sure that no server is running; work on a copy";
    REDO_MISSING: Innodb "innodb_redo_missing",
        why: "changes after that are lost unless the file is found",
        means: "The redo log continues in a file that is missing or too short",
        action: "Find the file";
    REDO_BEHIND: Innodb "innodb_redo_behind",
        why: "servers write a page after its log: the end of the log is lost, or the pages are from a later time",
        means: "A page or an image is newer than the end of the redo log, which is written first: the end of the log \
            is lost, or pages and log are from different times",
        action: "Find a complete copy, all from the same time";
    NO_DOUBLEWRITE: Innodb "innodb_no_doublewrite",
        why: "no page can be compared with an image",
        means: "The doublewrite buffer was not found",
        action: "Pass `--doublewrite-dir` or `--my-cnf` if it is elsewhere";
    BUFFER_NOT_IN_USE: Innodb "innodb_buffer_not_in_use",
        why: "images may be elsewhere, or the server ran with innodb_doublewrite=OFF: a missing image proves nothing. \
            Pass --doublewrite-dir or --my-cnf",
        means: "Pages were written after the checkpoint, but the doublewrite buffer has nothing as new: images are \
            elsewhere, or the server wrote none",
        action: "Pass `--doublewrite-dir` or `--my-cnf` if it is elsewhere";
    DOUBLEWRITE_OFF: Innodb "innodb_doublewrite_off",
        why: "pages may have been written without an image",
        means: "The option file has `innodb_doublewrite=OFF`: pages may have been written without an image",
        action: "Nothing";
    BUFFER_INCOMPLETE: Innodb "innodb_buffer_incomplete",
        why: "images may be in the missing part: a missing image proves nothing",
        means: "Files or slots of the doublewrite buffer are missing",
        action: "Find a complete copy";
    CHECKPOINT_UNCERTAIN: Innodb "innodb_checkpoint_uncertain",
        why: "an image that counts as current may be older than the checkpoint",
        means: "A checkpoint block is damaged or missing, which may have held a newer checkpoint",
        action: "Find a complete copy of the redo log";
    UNKNOWN_RULES: Innodb "innodb_unknown_rules",
        why: "the image that the server uses is unknown",
        means: "The server is a MariaDB before 10.5, whose order of images is unknown",
        action: "Nothing";
    HEADER_COPY_USED: Innodb "innodb_header_copy_used",
        why: "page 5 of the system tablespace is damaged",
        means: "The first copy of the header in the system tablespace is damaged",
        action: "See page 5 of space 0";
    OTHER_PAGE_SIZE: Innodb "innodb_other_page_size",
        why: "the server does not read it",
        means: "A file of the doublewrite buffer has another page size",
        action: "Nothing: the server does not read it";
    TRAILING_BYTES: Innodb "innodb_trailing_bytes",
        why: "the file was cut, or belongs to another server",
        means: "Bytes after the last slot",
        action: "Find a complete copy";
    SERVER_RUNNING: Innodb "innodb_server_running",
        why: "files may change while they are read, and no answer is reliable: stop the server, or read a copy",
        means: "A process locks the system tablespace, as a running server does",
        action: "Stop the server, or read a copy";
    UNKNOWN_SERVER: Innodb "innodb_unknown_server",
        why: "the image that the server uses is unknown",
        means: "The server that wrote the directory is unknown",
        action: "Pass a directory with its redo log";
}
