/*
 * A library for LD_PRELOAD that makes a PostgreSQL server tear its own page writes and crash.
 *
 * A disk promises whole sectors, not whole pages: when the machine fails, a page may be half written. Here each process
 * of the server writes, by a choice drawn from a seed, only some sectors of a page of a relation and says that all of
 * it was written. Until the crash the server reads what it wrote, as it would from the cache of the kernel. After a
 * number of torn pages, or before the next thing that promises they are whole, all processes are killed at once.
 *
 *   TEAR_ARM    nothing is torn before this file exists
 *   TEAR_SEED   number that the choices are drawn from, together with the page's place and its LSN
 *   TEAR_MAX    crash after so many torn pages
 *   TEAR_LOG    one line for each recorded write: path, block within the fork, first byte that was written, end of the
 *               bytes that were written. The range is empty when the page was cut off with the end of its file.
 *   TEAR_PAGES  the whole page that was meant to be written, one for each line
 *
 * Recorded are torn writes, and every later write of the same page. What promises that pages are whole is fsync() of
 * their file, which writes the rest of them, and a new pg_control, before which the server crashes: once a checkpoint
 * is complete, recovery starts behind their images.
 *
 * Not torn: WAL, pg_control, SLRUs, temporary relations, and pages of zeros (a file being extended). Majors 10 and 11
 * write pages with write(), later ones with pwrite(), from 17 on also with pwritev().
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "crash.h"

#define BLOCK 8192
#define SECTOR 512
#define BLOCKS_IN_SEGMENT 131072
#define MOST_TEARS 10000
#define LONGEST_WRITE (1 << 20)

/* A page that was torn once. */
struct page {
    uint64_t file;
    uint32_t block;
    uint32_t line; /* of the last write */
    int torn;      /* the last write was not whole */
};

/* Shared by all processes of the server: made before the first fork, changed under a lock. */
struct state {
    volatile int armed;
    uint32_t lines, tears, pages;
    struct page page[MOST_TEARS];
};

/* A file of a relation. */
struct file {
    char path[PATH_MAX];
    uint64_t id;
    uint64_t draw; /* the same in every directory that a cluster lies in */
    uint32_t first_block;
};

static struct state *state;
static const char *arm_path;
static uint64_t seed;
static uint32_t most_tears;
static int log_fd, pages_fd;

static __typeof__(read) *real_read;
static __typeof__(write) *real_write;
static __typeof__(pread) *real_pread;
static __typeof__(pwrite) *real_pwrite;
static __typeof__(pwritev) *real_preadv, *real_pwritev;
static __typeof__(pwritev2) *real_pwritev2;
static __typeof__(fsync) *real_fsync, *real_fdatasync;
static __typeof__(ftruncate) *real_ftruncate;

__attribute__((constructor)) static void start(void)
{
    if (real_write)
        return;
#define RESOLVE(name) real_##name = dlsym(RTLD_NEXT, #name)
    RESOLVE(read), RESOLVE(pwrite), RESOLVE(pwritev), RESOLVE(pwritev2), RESOLVE(pread), RESOLVE(preadv);
    RESOLVE(fsync), RESOLVE(fdatasync), RESOLVE(ftruncate), RESOLVE(write);

    const char *log = getenv("TEAR_LOG"), *pages = getenv("TEAR_PAGES"), *max = getenv("TEAR_MAX");
    if (!log || !pages || !max || !getenv("TEAR_ARM"))
        return;
    arm_path = strdup(getenv("TEAR_ARM")); /* the server writes its process titles over the environment */
    seed = strtoull(getenv("TEAR_SEED") ? getenv("TEAR_SEED") : "0", NULL, 10);
    most_tears = strtoul(max, NULL, 10);
    log_fd = open(log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    pages_fd = open(pages, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    void *shared = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (log_fd < 0 || pages_fd < 0 || shared == MAP_FAILED || most_tears == 0 || most_tears > MOST_TEARS) {
        fprintf(stderr, "tear: cannot start, TEAR_LOG=%s TEAR_PAGES=%s TEAR_MAX=%s\n", log, pages, max);
        abort();
    }
    state = shared;
}

static int armed(void)
{
    start();
    if (state && !state->armed) {
        int before = errno;
        if (access(arm_path, F_OK) == 0)
            state->armed = 1;
        errno = before;
    }
    return state && state->armed;
}

/* A record lock: the kernel drops it when its holder dies. */
static void lock_all(short type)
{
    struct flock whole = { .l_type = type, .l_whence = SEEK_SET };
    while (fcntl(log_fd, F_SETLKW, &whole) != 0 && errno == EINTR)
        ;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 1;
    for (; *text; text++)
        hash = mix(hash, (unsigned char)*text);
    return hash;
}

/* Steps over a run of characters of one kind, which must not be empty. */
static const char *over(const char *at, int (*kind)(int))
{
    const char *end = at;
    while (kind((unsigned char)*end))
        end++;
    return end > at ? end : NULL;
}

/* Whether a name is NUMBER, NUMBER_FORK, NUMBER.SEGMENT or NUMBER_FORK.SEGMENT. */
static int is_relation_name(const char *name, uint32_t *segment)
{
    const char *at = over(name, isdigit);
    *segment = 0;
    if (at && *at == '_')
        at = over(at + 1, islower);
    if (at && *at == '.') {
        *segment = strtoul(at + 1, NULL, 10);
        at = over(at + 1, isdigit);
    }
    return at && !*at;
}

/* The path of an open file; 0 for pipes, sockets and the like. */
static int path_of(int fd, char path[PATH_MAX])
{
    char link[40];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    errno = before;
    path[length > 0 ? length : 0] = 0;
    return path[0] == '/';
}

/* Whether an open file is .../global/N, .../base/D/N or .../PG_V/D/N. */
static int is_relation(int fd, struct file *file)
{
    uint32_t segment;
    if (!path_of(fd, file->path))
        return 0;
    /* The last three names of the path, from the last on. */
    const char *names[3] = { "", "", "" }, *end = file->path + strlen(file->path);
    for (int i = 0; i < 3 && (end = memrchr(file->path, '/', end - file->path)); i++)
        names[i] = end + 1;
    if (!is_relation_name(names[0], &segment))
        return 0;
    if (strncmp(names[1], "global/", 7) == 0) {
        file->draw = hash_text(names[1]);
    } else {
        const char *after = over(names[1], isdigit);
        if (!after || *after != '/' || (strncmp(names[2], "base/", 5) != 0 && strncmp(names[2], "PG_", 3) != 0))
            return 0;
        file->draw = hash_text(names[2]);
    }
    file->id = hash_text(file->path);
    file->first_block = segment * BLOCKS_IN_SEGMENT;
    return 1;
}

#define EACH_PAGE(name) (struct page *name = state->page; name < state->page + state->pages; name++)

static struct page *find_page(const struct file *file, uint32_t block)
{
    for EACH_PAGE(page)
        if (page->file == file->id && page->block == block)
            return page;
    return NULL;
}

/* Adds a write to the log; a log that is not complete is worse than a crash. */
static void record(const struct file *file, uint32_t block, const char *page, int from, int to)
{
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s %u %d %d\n", file->path, block, from, to);
    if (real_pwrite(pages_fd, page, BLOCK, (off_t)state->lines * BLOCK) != BLOCK
        || real_write(log_fd, line, length) != length)
        abort();
    struct page *known = find_page(file, block);
    if (!known && state->pages < MOST_TEARS)
        known = &state->page[state->pages++];
    if (!known)
        abort();
    *known = (struct page){ file->id, block, state->lines++, to - from < BLOCK };
}

/* Before a checkpoint is complete: nothing but fsync() may have made its pages whole. */
static void crash_if_torn(void)
{
    lock_all(F_WRLCK);
    for EACH_PAGE(page)
        if (page->torn)
            crash();
    lock_all(F_UNLCK);
}

static int is_zero(const char *page)
{
    return page[0] == 0 && memcmp(page, page + 1, BLOCK - 1) == 0;
}

/* Half of the pages are whole; half of the others are cut in the middle. */
static void choose(const struct file *file, uint32_t block, const char *page, int *from, int *to)
{
    uint64_t lsn;
    memcpy(&lsn, page, sizeof lsn);
    uint64_t drawn = mix(mix(mix(mix(seed + 1, file->draw), block), lsn), 0) >> 16;
    int cut = drawn & 4 ? BLOCK / 2 : SECTOR * (1 + (int)((drawn >> 8) % (BLOCK / SECTOR - 1)));
    if (drawn & 1)
        return;
    if (drawn & 2)
        *to = cut;
    else
        *from = cut;
}

static int write_page(const struct file *file, int fd, const char *page, off_t at)
{
    uint32_t block = file->first_block + at / BLOCK;
    struct stat now;
    int from = 0, to = BLOCK;
    if (!is_zero(page))
        choose(file, block, page, &from, &to);
    int torn = to - from < BLOCK;
    /* The length of a file is another matter than its content: the server goes by it. */
    if (torn && (fstat(fd, &now) != 0 || (now.st_size < at + BLOCK && posix_fallocate(fd, at, BLOCK) != 0)))
        return -1;
    if (torn || find_page(file, block))
        record(file, block, page, from, to);
    if (real_pwrite(fd, page + from, to - from, at + from) != to - from)
        return -1;
    if (torn && ++state->tears >= most_tears)
        crash();
    return 0;
}

static ssize_t write_pages(const struct file *file, int fd, const struct iovec *parts, int count, off_t at)
{
    static char pages[LONGEST_WRITE];
    size_t total = 0;
    /* What is not of whole pages, or longer than any write of the server, cannot be recorded. */
    for (int i = 0; i < count; i++) {
        if (total + parts[i].iov_len > sizeof pages)
            abort();
        memcpy(pages + total, parts[i].iov_base, parts[i].iov_len);
        total += parts[i].iov_len;
    }
    if (at % BLOCK || total % BLOCK)
        abort();
    int failed = 0;
    lock_all(F_WRLCK);
    for (size_t done = 0; done < total && !failed; done += BLOCK)
        failed = write_page(file, fd, pages + done, at + done);
    lock_all(F_UNLCK);
    return failed ? -1 : (ssize_t)total;
}

/* Replaces torn pages among those read by what was meant to be written. */
static void show_intended(int fd, const struct iovec *parts, int count, off_t at, ssize_t got)
{
    struct file file;
    if (got < BLOCK || !armed() || state->pages == 0 || at % BLOCK || !is_relation(fd, &file))
        return;
    lock_all(F_WRLCK);
    for (int i = 0; i < count; i++) {
        for (size_t done = 0; done + BLOCK <= parts[i].iov_len && got >= BLOCK; done += BLOCK) {
            struct page *known = find_page(&file, file.first_block + at / BLOCK);
            if (known && known->torn
                && real_pread(pages_fd, (char *)parts[i].iov_base + done, BLOCK, (off_t)known->line * BLOCK) != BLOCK)
                abort();
            at += BLOCK;
            got -= BLOCK;
        }
    }
    lock_all(F_UNLCK);
}

/* The file is on disk: so is the rest of its torn pages. */
static void make_whole(int fd)
{
    struct file file;
    char page[BLOCK];
    if (!armed() || state->pages == 0 || !is_relation(fd, &file))
        return;
    lock_all(F_WRLCK);
    for EACH_PAGE(known) {
        if (known->file != file.id || !known->torn)
            continue;
        if (real_pread(pages_fd, page, BLOCK, (off_t)known->line * BLOCK) != BLOCK
            || real_pwrite(fd, page, BLOCK, (off_t)(known->block - file.first_block) * BLOCK) != BLOCK)
            abort();
        record(&file, known->block, page, 0, BLOCK);
    }
    lock_all(F_UNLCK);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
{
    struct file file;
    struct iovec part = { (void *)bytes, length };
    if (armed() && is_relation(fd, &file))
        return write_pages(&file, fd, &part, 1, at);
    return real_pwrite(fd, bytes, length, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    struct file file;
    if (armed() && is_relation(fd, &file))
        return write_pages(&file, fd, parts, count, at);
    return real_pwritev(fd, parts, count, at);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags)
{
    struct file file;
    if (armed() && at >= 0 && is_relation(fd, &file))
        return write_pages(&file, fd, parts, count, at);
    return real_pwritev2(fd, parts, count, at, flags);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    struct file file;
    struct iovec part = { (void *)bytes, length };
    off_t at;
    if (armed() && path_of(fd, file.path) && strstr(file.path, "/global/pg_control")) {
        crash_if_torn();
    } else if (armed() && length % BLOCK == 0 && is_relation(fd, &file) && (at = lseek(fd, 0, SEEK_CUR)) >= 0) {
        ssize_t done = write_pages(&file, fd, &part, 1, at);
        return done > 0 && lseek(fd, at + done, SEEK_SET) < 0 ? -1 : done;
    }
    return real_write(fd, bytes, length);
}

ssize_t read(int fd, void *bytes, size_t length)
{
    struct iovec part = { bytes, length };
    start();
    ssize_t got = real_read(fd, bytes, length);
    if (got >= BLOCK && state && state->pages > 0)
        show_intended(fd, &part, 1, lseek(fd, 0, SEEK_CUR) - got, got);
    return got;
}

ssize_t pread(int fd, void *bytes, size_t length, off_t at)
{
    struct iovec part = { bytes, length };
    start();
    ssize_t got = real_pread(fd, bytes, length, at);
    show_intended(fd, &part, 1, at, got);
    return got;
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at)
{
    start();
    ssize_t got = real_preadv(fd, parts, count, at);
    show_intended(fd, parts, count, at, got);
    return got;
}

int fsync(int fd)
{
    make_whole(fd);
    return real_fsync(fd);
}

int fdatasync(int fd)
{
    make_whole(fd);
    return real_fdatasync(fd);
}

int ftruncate(int fd, off_t length)
{
    static const char nothing[BLOCK];
    struct file file;
    if (armed() && state->pages > 0 && is_relation(fd, &file)) {
        lock_all(F_WRLCK);
        for EACH_PAGE(page)
            if (page->file == file.id && page->block - file.first_block >= length / BLOCK) {
                record(&file, page->block, nothing, 0, 0);
                page->torn = 0;
            }
        lock_all(F_UNLCK);
    }
    start();
    return real_ftruncate(fd, length);
}

/* Other names of the same calls: offsets have 64 bits in both. */
_Static_assert(sizeof(off_t) == 8, "a 64-bit machine");
ssize_t pwrite64(int, const void *, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t pread64(int, void *, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t) __attribute__((alias("pwritev")));
ssize_t preadv64(int, const struct iovec *, int, off64_t) __attribute__((alias("preadv")));
ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int) __attribute__((alias("pwritev2")));
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
