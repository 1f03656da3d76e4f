/* System calls on files, begun again after a signal (EINTR) and repeated until all bytes are
 * through. Failures are told as by the calls themselves: errno, and -1 or false. */
#ifndef CR_CORE_IO_H
#define CR_CORE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* `flags` get O_CLOEXEC. `mode` is of a file that is made. */
int cr_io_open(const char *path, int flags, mode_t mode);
int cr_io_open_at(int folder, const char *name, int flags, mode_t mode);

/* Some bytes; 0 at the end. */
ssize_t cr_io_read(int fd, void *bytes, size_t size);

/* As many bytes as there are from `at` on, `size` at most. */
ssize_t cr_io_read_at(int fd, void *bytes, size_t size, off_t at);

/* All of them. */
bool cr_io_write(int fd, const void *bytes, size_t size);

/* Waits for the disk. True as well where the file system has nothing to wait for. */
bool cr_io_sync(int fd);

/* False when what was written may be lost. The descriptor is free in either case. */
bool cr_io_close(int fd);

bool cr_io_rename(const char *from, const char *to);
bool cr_io_make_folder(const char *path, mode_t mode);

#endif
