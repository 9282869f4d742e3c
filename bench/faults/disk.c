/*
 * What stands between a process and its disk, for fault injection: load it with LD_PRELOAD.
 *
 * Two things, for files below the directory FAULTS_ROOT only:
 *
 * - With FAULTS_JOURNAL, every call that changes a file or a name, and every sync, is written down
 *   in that file in the order in which it took effect. A lock is held over each call and its
 *   record, so that the order is true. What is written to standard output is written down as well:
 *   a process says there what it has acknowledged. A journal of FAULTS_JOURNAL_MAX bytes ends the
 *   process, between two calls.
 * - After fault_arm(), the n-th call of a kind fails: once, or from there on (a full disk).
 *
 * Files are known by device and inode, looked up at each call, because some are opened inside libc
 * (fopen) where nothing can be put in between. The table of readers beside each LMDB file is
 * written through a memory map, which shows in no call; it means nothing after a restart.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, SYNC_DIR, MARK };
enum { FAIL_WRITE = 1, FAIL_SYNC, FAIL_NAME, FAIL_MEMORY };
enum { DURABLE = 1 };
enum { FILES_MAX = 65536 };

struct record {
    uint32_t op, flags;
    uint64_t file, offset, length; /* of the data that follows; names end with NUL, two for RENAME */
};

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static uint64_t files, noted, noted_max = UINT64_MAX;
static struct { dev_t device; ino_t inode; uint64_t file; } known[FILES_MAX];

static _Atomic int armed, sticky, with_errno;
static _Atomic long calls, fail_at, failed;
static uintptr_t memory_from, memory_to;

static ssize_t (*real_write)(int, const void *, size_t);

__attribute__((constructor)) static void begin(void)
{
    const char *below = getenv("FAULTS_ROOT"), *path = getenv("FAULTS_JOURNAL");
    real_write = REAL(write);
    if (below && realpath(below, root)) root_length = strlen(root);
    if (getenv("FAULTS_JOURNAL_MAX")) noted_max = strtoull(getenv("FAULTS_JOURNAL_MAX"), NULL, 10);
    if (path) journal = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* --- failing */

static int find_module(struct dl_phdr_info *info, size_t size, void *wanted)
{
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, wanted)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        memory_from = info->dlpi_addr + part->p_vaddr;
        memory_to = memory_from + part->p_memsz;
    }
    return 1;
}

/* Let the n-th call of a kind from now on fail; with `on`, all after it too, until disarmed. */
void fault_arm(int kind, long n, int error, int on, const char *module)
{
    if (module) dl_iterate_phdr(find_module, (void *)module);
    calls = failed = 0;
    fail_at = n;
    with_errno = error;
    sticky = on;
    armed = kind;
}

/* Fail no more; return how many calls have failed. */
long fault_disarm(void)
{
    armed = 0;
    return failed;
}

static int fails(int kind)
{
    if (armed != kind) return 0;
    long n = ++calls;
    if (n != fail_at && !(sticky && n > fail_at)) return 0;
    failed++;
    errno = with_errno;
    return 1;
}

/* --- writing down */

static void put(const void *data, size_t length)
{
    const char *at = data;
    while (length) {
        ssize_t done = real_write(journal, at, length);
        if (done <= 0) abort();
        at += done;
        length -= done;
    }
}

static void note(uint32_t op, uint32_t flags, uint64_t file, uint64_t offset, const void *data, uint64_t length)
{
    struct record record = {op, flags, file, offset, length};
    put(&record, sizeof record);
    if (data) put(data, length);
    noted += sizeof record + (data ? length : 0);
    if (noted > noted_max) kill(getpid(), SIGKILL);
}

static int below_root(const char *path)
{
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int path_of(int fd, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below_root(path);
}

static int absolute(int at, const char *path, char *whole)
{
    char folder[PATH_MAX] = "";
    if (path[0] != '/') {
        if (at == AT_FDCWD ? !getcwd(folder, sizeof folder) : (path_of(at, folder), !folder[0])) return 0;
    }
    if (snprintf(whole, PATH_MAX, "%s%s%s", folder, folder[0] ? "/" : "", path) >= PATH_MAX) return 0;
    return below_root(whole);
}

static int slot_of(const struct stat *is)
{
    for (int i = (is->st_ino * 31 + is->st_dev) % FILES_MAX, n = 0; n < FILES_MAX; n++, i = (i + 1) % FILES_MAX)
        if (!known[i].device || (known[i].device == is->st_dev && known[i].inode == is->st_ino)) return i;
    abort();
}

/* The number of an open file below the root, 0 of any other; a file that is new gets one. */
static uint64_t file_of(int fd)
{
    char path[PATH_MAX];
    struct stat is;
    if (fstat(fd, &is) || !S_ISREG(is.st_mode) || !is.st_nlink) return 0;
    int slot = slot_of(&is);
    if (known[slot].device && known[slot].file) return known[slot].file;
    if (!path_of(fd, path)) return 0;
    known[slot].device = is.st_dev;
    known[slot].inode = is.st_ino;
    known[slot].file = ++files;
    note(CREATE, 0, files, 0, path, strlen(path) + 1);
    return files;
}

/* An inode that has lost its name may come back as another file. */
static void forget(const char *path)
{
    struct stat is;
    if (!lstat(path, &is)) known[slot_of(&is)].file = 0;
}

static int is_ours(int fd)
{
    char path[PATH_MAX];
    return path_of(fd, path);
}

/* --- data */

static ssize_t written(int fd, const void *data, size_t length, off_t offset, int at)
{
    static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
    if (!real_pwrite) real_pwrite = REAL(pwrite);
    if (armed == FAIL_WRITE && is_ours(fd) && fails(FAIL_WRITE)) {
        if (with_errno != ENOSPC || failed > 1 || length < 2) return -1;
        length /= 2; /* a disk that fills up takes a part first */
    }
    if (journal < 0) return at ? real_pwrite(fd, data, length, offset) : real_write(fd, data, length);
    pthread_mutex_lock(&lock);
    uint64_t file = file_of(fd);
    int mode = fcntl(fd, F_GETFL);
    struct stat is;
    if (!at) offset = mode & O_APPEND && !fstat(fd, &is) ? is.st_size : lseek(fd, 0, SEEK_CUR);
    ssize_t done = at ? real_pwrite(fd, data, length, offset) : real_write(fd, data, length);
    int error = errno;
    if (done > 0 && file) note(WRITE, mode & O_DSYNC ? DURABLE : 0, file, offset, data, done);
    if (done > 0 && fd == STDOUT_FILENO) note(MARK, 0, 0, 0, data, done);
    errno = error;
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t length) { return written(fd, data, length, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return written(fd, data, length, offset, 1); }
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return written(fd, data, length, offset, 1); }

static ssize_t gathered(int fd, const struct iovec *parts, int count, off_t offset, int at)
{
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        if (!parts[i].iov_len) continue;
        ssize_t done = written(fd, parts[i].iov_base, parts[i].iov_len, offset + total, at);
        if (done < 0) return total ? total : -1;
        total += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return total;
}

ssize_t writev(int fd, const struct iovec *parts, int count) { return gathered(fd, parts, count, 0, 0); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return gathered(fd, parts, count, offset, 1); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) { return gathered(fd, parts, count, offset, 1); }

static int cut(int fd, off_t length, int grow)
{
    struct stat is;
    int grows = !fstat(fd, &is) && is.st_size < length; /* what is there already needs no room */
    if (grows && armed == FAIL_WRITE && is_ours(fd) && fails(FAIL_WRITE)) return -1;
    pthread_mutex_lock(&lock);
    uint64_t file = journal < 0 ? 0 : file_of(fd);
    int done = grow ? REAL(posix_fallocate)(fd, 0, length) : REAL(ftruncate)(fd, length);
    if (!done && file && !fstat(fd, &is)) note(TRUNCATE, 0, file, is.st_size, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t length) { return cut(fd, length, 0); }
int ftruncate64(int fd, off_t length) { return cut(fd, length, 0); }

/* This one returns its error. */
int posix_fallocate(int fd, off_t from, off_t length)
{
    int done = cut(fd, from + length, 1);
    return done < 0 ? errno : done;
}

int posix_fallocate64(int fd, off_t from, off_t length) { return posix_fallocate(fd, from, length); }

/* --- syncs */

static int synced(int fd, int (*real)(int))
{
    char path[PATH_MAX];
    struct stat is;
    if (armed == FAIL_SYNC && is_ours(fd) && fails(FAIL_SYNC)) return -1;
    if (journal < 0) return real(fd);
    pthread_mutex_lock(&lock);
    int folder = !fstat(fd, &is) && S_ISDIR(is.st_mode) && path_of(fd, path);
    uint64_t file = folder ? 0 : file_of(fd);
    int done = real(fd);
    if (!done && folder) note(SYNC_DIR, 0, 0, 0, path, strlen(path) + 1);
    if (!done && file) note(SYNC, 0, file, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

int msync(void *from, size_t length, int flags)
{
    /* Only a table of readers is mapped to be written: nothing of it is to be kept. */
    return armed == FAIL_SYNC && fails(FAIL_SYNC) ? -1 : REAL(msync)(from, length, flags);
}

/* --- names */

static int opened(int at, const char *path, int flags, mode_t mode)
{
    char whole[PATH_MAX];
    struct stat was;
    int writes = flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC), ours = writes && absolute(at, path, whole);
    if (ours && flags & O_CREAT && armed == FAIL_NAME && fails(FAIL_NAME)) return -1;
    if (journal < 0 || !ours) return REAL(openat)(at, path, flags, mode);
    pthread_mutex_lock(&lock);
    int there = !lstat(whole, &was) && was.st_size;
    int fd = REAL(openat)(at, path, flags, mode), error = errno;
    uint64_t file = fd < 0 ? 0 : file_of(fd);
    if (file && there && flags & O_TRUNC) note(TRUNCATE, 0, file, 0, NULL, 0);
    errno = error;
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    char both[2 * PATH_MAX], target[PATH_MAX];
    if (!absolute(from_at, from, both) || !absolute(to_at, to, target)) return REAL(renameat)(from_at, from, to_at, to);
    if (armed == FAIL_NAME && fails(FAIL_NAME)) return -1;
    pthread_mutex_lock(&lock);
    if (journal >= 0) forget(target);
    int done = REAL(renameat)(from_at, from, to_at, to);
    size_t first = strlen(both) + 1, second = strlen(target) + 1;
    memcpy(both + first, target, second);
    if (!done && journal >= 0) note(RENAME, 0, 0, 0, both, first + second);
    pthread_mutex_unlock(&lock);
    return done;
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

static int named(uint32_t op, int at, const char *path, mode_t mode)
{
    char whole[PATH_MAX];
    int flags = op == RMDIR ? AT_REMOVEDIR : 0, ours = absolute(at, path, whole);
    if (ours && armed == FAIL_NAME && fails(FAIL_NAME)) return -1;
    pthread_mutex_lock(&lock);
    if (ours && journal >= 0 && op == UNLINK) forget(whole);
    int done = op == MKDIR ? REAL(mkdirat)(at, path, mode) : REAL(unlinkat)(at, path, flags);
    int error = errno;
    if (!done && ours && journal >= 0) note(op, 0, 0, 0, whole, strlen(whole) + 1);
    errno = error;
    pthread_mutex_unlock(&lock);
    return done;
}

int unlink(const char *path) { return named(UNLINK, AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return named(flags & AT_REMOVEDIR ? RMDIR : UNLINK, at, path, 0); }
int rmdir(const char *path) { return named(RMDIR, AT_FDCWD, path, 0); }
int mkdir(const char *path, mode_t mode) { return named(MKDIR, AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return named(MKDIR, at, path, mode); }

/* --- memory, of one module only */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static int refused(const void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    return armed == FAIL_MEMORY && from >= memory_from && from < memory_to && fails(FAIL_MEMORY);
}

void *malloc(size_t size) { return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size); }
