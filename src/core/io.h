/* System calls on files, restarted after a signal (EINTR) and repeated until all bytes are
 * transferred. Failures are reported as by the calls themselves: errno, and -1 or false. */
#ifndef CR_CORE_IO_H
#define CR_CORE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* `flags` get O_CLOEXEC. `mode` is for a file that is created. */
int cr_io_open(const char *path, int flags, mode_t mode);
int cr_io_open_at(int folder, const char *name, int flags, mode_t mode);

/* Reads some bytes; 0 at the end of the file. */
ssize_t cr_io_read(int fd, void *bytes, size_t size);

/* Reads the bytes that exist at offset `at` and after it, at most `size`. */
ssize_t cr_io_read_at(int fd, void *bytes, size_t size, off_t at);

/* Writes all of them. */
bool cr_io_write(int fd, const void *bytes, size_t size);

/* Flushes to the disk. True also if the file system has nothing to flush. */
bool cr_io_sync(int fd);

/* False when written data may be lost. The descriptor is closed in either case. */
bool cr_io_close(int fd);

bool cr_io_rename(const char *from, const char *to);
bool cr_io_make_folder(const char *path, mode_t mode);

#endif
