/*
 * A library for LD_PRELOAD that keeps a log of what a PostgreSQL server writes and syncs, and crashes it.
 *
 * What a server wrote and did not sync may be on disk after a crash of the machine, or not, or in part. The log holds each
 * write with the bytes from before and after it, so that every such disk can be made of one crash. Syncs are logged and
 * not done: the machine stays up.
 *
 *   RECORD_ARM    nothing is logged before this file exists: all that was written until then counts as synced
 *   RECORD_LOG    the log, entries as below, one after the other
 *   RECORD_KIND   what is counted: `page` (writes of pages of relations), `wal`, `buffer` (writes into a double write
 *                 buffer), `sync` (syncs of files of relations)
 *   RECORD_COUNT  the server crashes after so many, of syncs before the last one
 *   RECORD_NOW    once this file exists, the next write or sync crashes it
 *
 * Logged are files of relations, segments of WAL and the double write buffer. Segments of WAL that are being made have
 * another name. pg_control and SLRUs are always on disk as they were written, and so are names and lengths of files.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../tear/crash.h"

#define LONGEST_WRITE (64 << 20)

enum kind { WRITE = 1, SYNC, TRUNCATE, RENAME, UNLINK };
enum what { NOTHING, PAGE, WAL, BUFFER, SYNCS };

/* Head of an entry; then follow the path, the bytes from before and those from after (of RENAME: the new path). */
struct entry {
    uint32_t kind, path_length;
    uint64_t offset;
    uint32_t before_length, after_length;
};

/* Shared by all processes of the server: made before the first fork, changed under a lock. */
struct state {
    volatile int armed;
    uint64_t counts[SYNCS + 1];
};

static struct state *state;
static const char *arm_path, *now_path;
static enum what counted;
static uint64_t most;
static int log_fd;

static __typeof__(write) *real_write;
static __typeof__(pread) *real_pread;
static __typeof__(pwrite) *real_pwrite;
static __typeof__(pwritev) *real_pwritev;
static __typeof__(fsync) *real_fsync;
static __typeof__(ftruncate) *real_ftruncate;
static __typeof__(truncate) *real_truncate;
static __typeof__(rename) *real_rename;
static __typeof__(unlink) *real_unlink;

__attribute__((constructor)) static void start(void)
{
    static const char *names[] = { "", "page", "wal", "buffer", "sync" };
    if (real_write)
        return;
#define RESOLVE(name) real_##name = dlsym(RTLD_NEXT, #name)
    RESOLVE(pread), RESOLVE(pwrite), RESOLVE(pwritev), RESOLVE(fsync), RESOLVE(ftruncate), RESOLVE(truncate);
    RESOLVE(rename), RESOLVE(unlink), RESOLVE(write);

    const char *log = getenv("RECORD_LOG"), *kind = getenv("RECORD_KIND"), *count = getenv("RECORD_COUNT");
    if (!log || !kind || !count || !getenv("RECORD_ARM") || !getenv("RECORD_NOW"))
        return;
    /* The server writes its process titles over the environment. */
    arm_path = strdup(getenv("RECORD_ARM"));
    now_path = strdup(getenv("RECORD_NOW"));
    for (int i = PAGE; i <= SYNCS; i++)
        if (strcmp(kind, names[i]) == 0)
            counted = i;
    most = strtoull(count, NULL, 10);
    log_fd = open(log, O_WRONLY | O_APPEND | O_CLOEXEC);
    void *shared = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (log_fd < 0 || shared == MAP_FAILED || counted == NOTHING) {
        fprintf(stderr, "record: cannot start, RECORD_LOG=%s RECORD_KIND=%s\n", log, kind);
        abort();
    }
    state = shared;
}

static int armed(void)
{
    int before = errno;
    start();
    if (state && !state->armed && access(arm_path, F_OK) == 0)
        state->armed = 1;
    errno = before;
    return state && state->armed;
}

/* A record lock: the kernel drops it when its holder dies. */
static void lock_all(short type)
{
    struct flock whole = { .l_type = type, .l_whence = SEEK_SET };
    while (fcntl(log_fd, F_SETLKW, &whole) != 0 && errno == EINTR)
        ;
}

/* The path of an open file; 0 for pipes, sockets, and files without a name. */
static int path_of(int fd, char path[PATH_MAX])
{
    char link[40];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    errno = before;
    path[length > 0 ? length : 0] = 0;
    return path[0] == '/' && !strstr(path, " (deleted)");
}

/* What a file holds. */
static enum what what_is(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strstr(path, "pg_wal/") || strstr(path, "pg_xlog/"))
        return strlen(name) == 24 && strspn(name, "0123456789ABCDEF") == 24 ? WAL : NOTHING;
    if (strstr(path, "pg_dwb"))
        return BUFFER;
    if (name[0] < '0' || name[0] > '9')
        return NOTHING;
    return strstr(path, "base/") || strstr(path, "global/") || strstr(path, "pg_tblspc/") ? PAGE : NOTHING;
}

/* Adds an entry to the log; a log that is not complete is worse than a crash. */
static void record(enum kind kind, const char *path, uint64_t offset, const struct iovec *before, const struct iovec *after)
{
    struct entry entry = { kind, strlen(path), offset, before ? before->iov_len : 0, after ? after->iov_len : 0 };
    struct iovec parts[4] = { { &entry, sizeof entry }, { (void *)path, entry.path_length } };
    size_t all = sizeof entry + entry.path_length + entry.before_length + entry.after_length;
    parts[2] = before ? *before : (struct iovec){ NULL, 0 };
    parts[3] = after ? *after : (struct iovec){ NULL, 0 };
    if (writev(log_fd, parts, 4) != (ssize_t)all)
        abort();
}

/* Counts an event, and crashes the server when it is the last one. */
static void count(enum what what)
{
    state->counts[what]++;
    if ((what == counted && state->counts[what] >= most) || access(now_path, F_OK) == 0)
        crash();
}

/* Writes, logs what was written, counts. */
static ssize_t write_logged(const char *path, enum what what, int fd, const struct iovec *parts, int number, off_t at)
{
    size_t length = 0;
    for (int i = 0; i < number; i++)
        length += parts[i].iov_len;
    char *bytes = length <= LONGEST_WRITE ? malloc(2 * length + 1) : NULL;
    if (!bytes)
        abort();
    lock_all(F_WRLCK);
    ssize_t old = real_pread(fd, bytes, length, at), done = 0;
    int failure = 0;
    for (int i = 0; i < number; i++) {
        ssize_t now = real_pwrite(fd, parts[i].iov_base, parts[i].iov_len, at + done);
        if (now < 0 && done == 0) {
            failure = errno;
            done = -1;
        }
        if (now <= 0)
            break;
        memcpy(bytes + length + done, parts[i].iov_base, now);
        done += now;
        if ((size_t)now < parts[i].iov_len)
            break;
    }
    if (done > 0) {
        /* A file that was opened for writing alone cannot be read: then its bytes from before are not known. */
        struct iovec before = { bytes, old > 0 ? (old < done ? old : done) : 0 }, after = { bytes + length, done };
        record(WRITE, path, at, &before, &after);
        count(what);
    }
    lock_all(F_UNLCK);
    free(bytes);
    errno = failure;
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
{
    char path[PATH_MAX];
    enum what what;
    struct iovec part = { (void *)bytes, length };
    if (armed() && path_of(fd, path) && (what = what_is(path)))
        return write_logged(path, what, fd, &part, 1, at);
    return real_pwrite(fd, bytes, length, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int number, off_t at)
{
    char path[PATH_MAX];
    enum what what;
    if (armed() && path_of(fd, path) && (what = what_is(path)))
        return write_logged(path, what, fd, parts, number, at);
    return real_pwritev(fd, parts, number, at);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    char path[PATH_MAX];
    enum what what;
    off_t at;
    struct iovec part = { (void *)bytes, length };
    if (armed() && path_of(fd, path) && (what = what_is(path)) && (at = lseek(fd, 0, SEEK_CUR)) >= 0) {
        ssize_t done = write_logged(path, what, fd, &part, 1, at);
        return done > 0 && lseek(fd, at + done, SEEK_SET) < 0 ? -1 : done;
    }
    return real_write(fd, bytes, length);
}

int fsync(int fd)
{
    char path[PATH_MAX];
    enum what what;
    start();
    if (!state)
        return real_fsync(fd);
    if (armed() && path_of(fd, path) && (what = what_is(path))) {
        lock_all(F_WRLCK);
        if (what == PAGE)
            count(SYNCS);
        record(SYNC, path, 0, NULL, NULL);
        lock_all(F_UNLCK);
    }
    return 0;
}

int fdatasync(int fd)
{
    return fsync(fd);
}

static void log_name(enum kind kind, const char *path, off_t length, const char *other)
{
    struct iovec after = { (void *)other, other ? strlen(other) : 0 };
    if (!armed() || !what_is(path))
        return;
    lock_all(F_WRLCK);
    record(kind, path, length, NULL, &after);
    lock_all(F_UNLCK);
}

int ftruncate(int fd, off_t length)
{
    char path[PATH_MAX];
    if (armed() && path_of(fd, path))
        log_name(TRUNCATE, path, length, NULL);
    return real_ftruncate(fd, length);
}

int truncate(const char *path, off_t length)
{
    log_name(TRUNCATE, path, length, NULL);
    return real_truncate(path, length);
}

int rename(const char *from, const char *to)
{
    log_name(RENAME, from, 0, to);
    return real_rename(from, to);
}

int unlink(const char *path)
{
    log_name(UNLINK, path, 0, NULL);
    return real_unlink(path);
}

/* Other names of the same calls: offsets have 64 bits in both. */
_Static_assert(sizeof(off_t) == 8, "a 64-bit machine");
ssize_t pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t) __attribute__((alias("pwritev")));
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
int truncate64(const char *, off64_t) __attribute__((alias("truncate")));
