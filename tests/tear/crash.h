/* Kills a PostgreSQL server from inside one of its processes, as a failing machine would: all of it, at once. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <unistd.h>

static ssize_t read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    return length;
}

/* The process and the System V segment that postmaster.pid names. */
static pid_t read_postmaster(int *segment_id)
{
    char text[4096];
    unsigned long key;
    if (read_text("postmaster.pid", text, sizeof text) <= 0)
        abort();
    const char *line = text;
    for (int i = 1; i < 7 && line; i++)
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    if (!line || sscanf(line, "%lu %d", &key, segment_id) != 2)
        *segment_id = -1;
    return atoi(text);
}

/* Kills the children of a process except this one; 0 when it has stopped and they are dead. */
static int kill_children(pid_t parent)
{
    DIR *list = opendir("/proc");
    struct dirent *entry;
    int alive = list == NULL;
    while (list && (entry = readdir(list))) {
        char path[64], text[512], status;
        pid_t pid = atoi(entry->d_name), its_parent;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (pid <= 0 || pid == getpid() || read_text(path, text, sizeof text) <= 0)
            continue;
        /* The name before the last parenthesis may hold anything. */
        const char *rest = strrchr(text, ')');
        if (!rest || sscanf(rest + 1, " %c %d", &status, &its_parent) != 2)
            continue;
        if (its_parent == parent && status != 'Z' && status != 'X') {
            kill(pid, SIGKILL);
            alive++;
        }
        /* Until it has stopped, it may be making another child. */
        if (pid == parent && status != 'T' && status != 'Z')
            alive++;
    }
    if (list)
        closedir(list);
    return alive;
}

/* Ends the server. The caller holds the lock, so that no other process writes a page from now on. */
static void crash(void)
{
    int segment_id;
    pid_t postmaster = read_postmaster(&segment_id);
    if (postmaster != getppid())
        abort();
    /* It must start no more children, and not die before them: they are found as its children. */
    kill(postmaster, SIGSTOP);
    while (kill_children(postmaster) > 0)
        usleep(1000);
    kill(postmaster, SIGKILL);
    /* A test that does not start the server again would leave the segment to the machine. */
    if (segment_id >= 0)
        shmctl(segment_id, IPC_RMID, NULL);
    kill(getpid(), SIGKILL);
}
