/* SPDX-License-Identifier: MIT */
/*
 * The system calls that `linnapp watch` records: the 42 of DIO, and others that read, write, name
 * or remove files, with the meanings of their arguments; see struct lw_call.
 */
#ifndef LINNAPP_WATCH_CALLS_H
#define LINNAPP_WATCH_CALLS_H

#include <linux/io_uring.h>
#include <sys/syscall.h>

#include "watch.h"

struct lw_known_call {
	const char *name;
	long nr;
	struct lw_call what;
};

#define LW_KNOWN(text, number, ...)                                                                \
	{                                                                                          \
		text, number,                                                                      \
		{                                                                                  \
			.fd = -1, .path = -1, .to_path = -1, .bytes = -1, .offset = -1,            \
			.word = -1, ##__VA_ARGS__                                                  \
		}                                                                                  \
	}
#define LW(name, ...) LW_KNOWN(#name, SYS_##name, ##__VA_ARGS__)
#define LW_RING(name, opcode, ...)                                                                 \
	LW_KNOWN("io_uring_" #name, LW_OPERATION(IORING_OP_##opcode), ##__VA_ARGS__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct lw_known_call lw_calls[] = {
	/* data */
	LW(read, .fd = 0, .bytes = 2, .flags = LW_BUFFER | LW_POSITION),
	LW(write, .fd = 0, .bytes = 2, .flags = LW_BUFFER | LW_POSITION),
	LW(pread64, .fd = 0, .bytes = 2, .offset = 3, .flags = LW_BUFFER),
	LW(pwrite64, .fd = 0, .bytes = 2, .offset = 3, .flags = LW_BUFFER),
	LW(readv, .fd = 0, .bytes = 2, .flags = LW_BUFFER | LW_VECTOR | LW_POSITION),
	LW(writev, .fd = 0, .bytes = 2, .flags = LW_BUFFER | LW_VECTOR | LW_POSITION),
	LW(preadv, .fd = 0, .bytes = 2, .offset = 3, .flags = LW_BUFFER | LW_VECTOR),
	LW(pwritev, .fd = 0, .bytes = 2, .offset = 3, .flags = LW_BUFFER | LW_VECTOR),
	LW(preadv2, .fd = 0, .bytes = 2, .offset = 3, .flags = LW_BUFFER | LW_VECTOR | LW_POSITION),
	LW(pwritev2, .fd = 0, .bytes = 2, .offset = 3, .flags = LW_BUFFER | LW_VECTOR | LW_POSITION),
	LW(fsync, .fd = 0),
	LW(fdatasync, .fd = 0),
	LW(sync_file_range, .fd = 0, .offset = 1, .bytes = 2),
	LW(readahead, .fd = 0, .offset = 1, .bytes = 2),
	LW(fadvise64, .fd = 0, .offset = 1, .bytes = 2),
	LW(fallocate, .fd = 0, .offset = 2, .bytes = 3),
	LW(sendfile, .fd = 1, .bytes = 3),
	LW(copy_file_range, .fd = 0, .bytes = 4),
	LW(syncfs, .fd = 0),
	LW(sync),
	LW(msync),
	LW(io_submit),
	LW(io_getevents),
	LW(io_uring_enter, .fd = 0),
	/* requests */
	LW_RING(read, READ, .fd = 0, .flags = LW_BUFFER),
	LW_RING(write, WRITE, .fd = 0, .flags = LW_BUFFER),
	LW_RING(readv, READV, .fd = 0, .flags = LW_BUFFER | LW_VECTOR),
	LW_RING(writev, WRITEV, .fd = 0, .flags = LW_BUFFER | LW_VECTOR),
	LW_RING(read_fixed, READ_FIXED, .fd = 0, .flags = LW_BUFFER),
	LW_RING(write_fixed, WRITE_FIXED, .fd = 0, .flags = LW_BUFFER),
	LW_RING(fsync, FSYNC, .fd = 0),
	LW_RING(sync_file_range, SYNC_FILE_RANGE, .fd = 0),
	/* metadata */
#ifdef SYS_open
	LW(open, .path = 0, .flags = LW_OPENS),
	LW(creat, .path = 0, .flags = LW_OPENS),
	LW(rename, .path = 0, .to_path = 1),
	LW(unlink, .path = 0),
	LW(rmdir, .path = 0),
	LW(mkdir, .path = 0),
	LW(mknod, .path = 0),
	LW(link, .path = 0, .to_path = 1),
	LW(symlink, .path = 1, .word = 0),
	LW(readlink, .path = 0),
	LW(stat, .path = 0),
	LW(lstat, .path = 0),
	LW(access, .path = 0),
#endif
	LW(openat, .fd = 0, .path = 1, .flags = LW_OPENS),
	LW(openat2, .fd = 0, .path = 1, .flags = LW_OPENS | LW_HOW),
	LW(close, .fd = 0),
	LW(lseek, .fd = 0, .offset = 1),
	LW(truncate, .path = 0, .offset = 1),
	LW(ftruncate, .fd = 0, .offset = 1),
#ifdef SYS_renameat
	LW(renameat, .fd = 0, .path = 1, .to_path = 3),
#endif
	LW(renameat2, .fd = 0, .path = 1, .to_path = 3),
	LW(unlinkat, .fd = 0, .path = 1),
	LW(linkat, .fd = 0, .path = 1, .to_path = 3),
	LW(symlinkat, .fd = 1, .path = 2, .word = 0),
	LW(readlinkat, .fd = 0, .path = 1),
	LW(fstat, .fd = 0),
	LW(newfstatat, .fd = 0, .path = 1),
	LW(statx, .fd = 0, .path = 1),
	LW(statfs, .path = 0),
	LW(fstatfs, .fd = 0),
	LW(faccessat, .fd = 0, .path = 1),
	LW(faccessat2, .fd = 0, .path = 1),
	/* extended attributes */
	LW(getxattr, .path = 0, .word = 1, .bytes = 3),
	LW(lgetxattr, .path = 0, .word = 1, .bytes = 3),
	LW(fgetxattr, .fd = 0, .word = 1, .bytes = 3),
	LW(setxattr, .path = 0, .word = 1, .bytes = 3),
	LW(lsetxattr, .path = 0, .word = 1, .bytes = 3),
	LW(fsetxattr, .fd = 0, .word = 1, .bytes = 3),
	LW(listxattr, .path = 0, .bytes = 2),
	LW(llistxattr, .path = 0, .bytes = 2),
	LW(flistxattr, .fd = 0, .bytes = 2),
	LW(removexattr, .path = 0, .word = 1),
	LW(lremovexattr, .path = 0, .word = 1),
	LW(fremovexattr, .fd = 0, .word = 1),
	/* directories */
	LW(mknodat, .fd = 0, .path = 1),
	LW(mkdirat, .fd = 0, .path = 1),
	LW(getdents64, .fd = 0, .bytes = 2),
};
#pragma GCC diagnostic pop

#define LW_N_CALLS (sizeof(lw_calls) / sizeof(lw_calls[0]))
_Static_assert(LW_N_CALLS < LW_MAX_CALLS, "an index and 1 more fit a byte");

#endif
