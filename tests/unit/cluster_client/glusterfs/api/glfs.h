/* SPDX-License-Identifier: MIT */
/* Of gfapi what gluster_reads.c calls, for a test that has no GlusterFS. */
#ifndef LINNOS_TEST_GLFS_H
#define LINNOS_TEST_GLFS_H

#include <sys/types.h>

typedef struct glfs glfs_t;
typedef struct glfs_fd glfs_fd_t;
struct glfs_stat;
typedef void (*glfs_io_cbk)(glfs_fd_t *file, ssize_t bytes, struct glfs_stat *before,
			    struct glfs_stat *after, void *data);

glfs_t *glfs_new(const char *volume);
int glfs_set_volfile(glfs_t *fs, const char *path);
int glfs_set_logging(glfs_t *fs, const char *path, int level);
int glfs_init(glfs_t *fs);
glfs_fd_t *glfs_open(glfs_t *fs, const char *path, int flags);
glfs_fd_t *glfs_creat(glfs_t *fs, const char *path, int flags, mode_t mode);
ssize_t glfs_pwrite(glfs_fd_t *file, const void *data, size_t bytes, off_t at, int flags,
		    struct glfs_stat *before, struct glfs_stat *after);
int glfs_pread_async(glfs_fd_t *file, void *data, size_t bytes, off_t at, int flags,
		     glfs_io_cbk done, void *of);
int glfs_fsync(glfs_fd_t *file, struct glfs_stat *before, struct glfs_stat *after);
int glfs_close(glfs_fd_t *file);

#endif
