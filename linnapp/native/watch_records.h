/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The interface between the kernel's side of `linnapp watch` (watch.bpf.c) and its reader
 * (watch.c): one ring buffer of records, a table of system calls, a few counters.
 */
#ifndef LINNAPP_WATCH_RECORDS_H
#define LINNAPP_WATCH_RECORDS_H

#include <linux/types.h>

#define LW_MAX_CALL_NR 512
/* Operations of io_uring have numbers after those of system calls. */
#define LW_N_OPERATIONS 32
#define LW_OPERATION(opcode) (LW_MAX_CALL_NR + (opcode))
#define LW_COMM 16
/* A component has up to 255 bytes, and a name that the kernel accepts as a whole up to 4095. */
#define LW_COMPONENT 256
#define LW_MAX_COMPONENTS 64
#define LW_SHORT_NAME 512
#define LW_LONG_NAME 4096
/* The requested number of bytes of a longer vector is not determined. */
#define LW_MAX_VECTOR 64
/* More than the maximum number of bios in a request. */
#define LW_MAX_MERGED 65536
#define LW_NONE ((__s64)1 << 63)
#define LW_N_ARGUMENTS 6
/* Only the first bytes of a longer content are hashed; a power of two. */
#define LW_HASHED_BYTES (64 << 10)

/* Properties of a system call; -1 for an argument that it does not have. */
enum lw_call_flag {
	LW_POSITION = 1 << 0,	/* reads or writes at the file's position */
	LW_VECTOR = 1 << 1,	/* `bytes` is the number of parts, the argument before it the parts */
	LW_OPENS = 1 << 2,	/* its result is the descriptor */
	LW_LEFT_OUT = 1 << 3,	/* not requested: counted only */
	LW_HOW = 1 << 4,	/* its third argument points to flags, mode and resolve */
	LW_NO_SOCKETS = 1 << 5,	/* not requested if its descriptor is a socket */
	LW_OF_SOME = 1 << 6,	/* requested only for some of the followed processes and threads */
	LW_BUFFER = 1 << 7,	/* its second and third argument are a buffer or a vector of buffers */
};

/*
 * In a call with `path` and `fd`, `fd` is the directory to which the path is relative; a call
 * without `path` has its descriptor as its first or second argument. `word` is a name that is not a
 * path: of an extended attribute, or the content of a symbolic link.
 */
struct lw_call {
	__u8 index;		/* in the table of calls, + 1; 0 if not recorded */
	__u8 flags;
	__s8 fd, path, to_path, bytes, offset, word;
};

/*
 * A file in the kernel: the address distinguishes two names of one inode, the generation two
 * files that had the same inode number one after the other.
 */
struct lw_file {
	__u64 address;		/* 0 for none */
	__u64 inode;
	__u32 device;		/* major << 20 | minor */
	__u32 mode;
	__u32 generation;
	__u32 unused;
};

/* The reasons why a call did not run. */
enum lw_wait {
	LW_IO_WAIT,		/* slept for I/O with I/Os of its own in flight */
	LW_OTHERS_IO_WAIT,	/* slept for others' I/O: a page, a tag, too many dirty pages */
	LW_JOURNAL_WAIT,	/* slept until a thread of jbd2 woke it */
	LW_OTHER_WAIT,		/* slept for anything else */
	LW_WAKEUP,		/* woken, or its own I/Os had ended, but it did not run yet */
	LW_PREEMPTED,		/* runnable */
	LW_N_WAITS
};

enum lw_record_type { LW_CALL_RECORD, LW_FILE_RECORD, LW_NAME_RECORD, LW_IO_RECORD };

struct lw_call_record {
	__u32 type;
	__u32 call;		/* index in the table of calls */
	__u32 pid;
	__u32 tid;
	__u64 time_ns;
	__u64 duration_ns;
	__s64 result;
	__s64 offset;
	__s64 bytes;
	__s64 fd;
	struct lw_file file;	/* for a name (LW_NAME_RECORD), its directory */
	__u32 to_elsewhere;	/* the second name is relative to another directory */
	__u32 hashed_bytes;	/* number of bytes that `hash` is of; 0 for none */
	__u64 hash;		/* XXH64 of the content that was read or written */
	__u64 waits_ns[LW_N_WAITS];	/* it ran for the rest of its duration */
	char comm[LW_COMM];
	__u64 arguments[];	/* LW_N_ARGUMENTS, or none if not requested */
};

/* No call has both a second path and a word. */
enum lw_name_of { LW_PATH, LW_TO_PATH, LW_WORD = LW_TO_PATH, LW_N_NAMES };

/*
 * LW_FILE_RECORD: the path of `file`, empty if it has none. LW_NAME_RECORD: an argument of the call
 * by `tid` that began at `time_ns`; the record of the call follows.
 */
struct lw_name_record {
	__u32 type;
	__u32 tid;
	__u64 time_ns;
	__u32 argument;		/* enum lw_name_of */
	__u32 length;		/* with the final NUL */
	struct lw_file file;
	char name[];
};

enum lw_io_flag {
	LW_PREFLUSH = 1 << 0,
	LW_READAHEAD = 1 << 1,
	LW_METADATA = 1 << 2,
	LW_BELOW = 1 << 3,	/* queued by a driver that handles another I/O */
	LW_COMPLETED = 1 << 4,
	LW_FAILED = 1 << 5,
	LW_IN_CALL = 1 << 6,
	LW_WATCHED = 1 << 7,	/* by a watched program, not by a kernel thread */
	LW_FUA = 1 << 8,
};

/* The decision of LinnOS about a read. */
enum lw_decision { LW_UNDECIDED, LW_ADMITTED, LW_REVOKED, LW_PROBE };

/* In place of a drive, if there are several. */
#define LW_SEVERAL 0xffffffff

/* Times at which the part that ended last reached a scheduler and the driver; 0 if not seen. */
struct lw_stages {
	__u64 insert_ns;
	__u64 issue_ns;
};

struct lw_io_record {
	__u32 type;
	__u32 flags;
	__u32 pid;
	__u32 tid;
	__u64 time_ns;
	__u64 latency_ns;
	__u64 sector;
	__u32 bytes;
	__u32 device;
	__u32 op;
	__u32 call;
	__u64 call_time_ns;
	struct lw_stages stages;
	__u32 parts;		/* in flight */
	__u32 drive;		/* below the device; 0 if not known */
	__u32 decision;
	__u32 priority;		/* ioprio: class, hint and level */
	char comm[LW_COMM];
};

enum lw_counter {
	LW_LOST_CALLS,		/* the buffer was full */
	LW_LOST_NAMES,
	LW_LOST_IOS,
	LW_UNTRACKED_CALLS,	/* too many concurrent calls, I/Os, processes for the tables */
	LW_UNTRACKED_IOS,
	LW_UNTRACKED_PROCESSES,
	LW_COMPAT_CALLS,	/* of 32-bit programs, which have other call numbers */
	LW_OTHER_IOS,		/* of programs that are not watched */
	LW_SKIPPED_CALLS,	/* of watched programs, not requested: known immediately, */
	LW_FILTERED_CALLS,	/* or after its paths are known */
	LW_FILTERED_IOS,
	LW_UNHASHED_CALLS,	/* the content was not in memory any more */
	LW_N_COUNTERS
};

/* How a process is followed. */
enum lw_follow {
	LW_LAUNCHER = 1,	/* it is not followed, but its children are after their exec */
	LW_UNTIL_EXEC,		/* a child of a launcher before its exec */
	LW_FOLLOWED,
};

/*
 * Data that are checked at every system call and every switch of every thread. Several processes
 * and threads may share a place, which then has the data of all of them.
 */
struct lw_place {
	/* The id of a followed process, or LW_ASK; 0 if no process of this place was followed. */
	__u32 followed;
	/* Number of their threads that are in a call that may be recorded. */
	__u32 calls;
};

/* Processes of this place must be looked up in the table of processes. */
#define LW_ASK 0xffffffff
#define LW_N_PLACES 4096
/* The place of a process or thread. Consecutive ids never share a cache line. */
#define LW_PLACE(number) ((number) % 512 * 8 + (number) / 512 % 8)

struct lw_glance {
	struct lw_place places[LW_N_PLACES];
	struct lw_call calls[LW_MAX_CALL_NR + LW_N_OPERATIONS];
	__u64 socket_operations;	/* address of socket files' operations, 0 if not seen */
};

#define LW_MAX_PATHS 8
#define LW_PREFIX 256
#define LW_MAX_CHOICES 64

/* Recorded arguments of calls: none, registers, or also the data that they point to. */
enum lw_arguments { LW_NO_ARGUMENTS, LW_RAW, LW_DETAILED };

/* Filters of the recording, which are fixed when the kernel's side is loaded. */
struct lw_settings {
	__u32 every_process_but;	/* except this one; 0 for only those that are followed */
	__u8 by_call;
	__u8 by_process;
	__u8 by_thread;
	__u8 by_path;
	__u32 arguments;		/* enum lw_arguments */
	__u32 hashes;			/* record hashes of contents */
	/* Paths of files, and of folders including their content. */
	__u32 path_length[LW_MAX_PATHS];
	char path[LW_MAX_PATHS][LW_PREFIX];
};

enum lw_choice_kind { LW_PROCESS_NAME, LW_THREAD_NAME, LW_THREAD };

/* A requested process or thread, by name or id; the other is empty or 0. */
struct lw_choice {
	__u32 kind;
	__u32 tid;
	char comm[LW_COMM];
};

#endif
