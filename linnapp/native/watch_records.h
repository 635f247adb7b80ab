/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the kernel's side of `linnapp watch` (watch.bpf.c) tells its reader (watch.c), and what it
 * is told: one ring buffer of records, a table of system calls, a few counters.
 */
#ifndef LINNAPP_WATCH_RECORDS_H
#define LINNAPP_WATCH_RECORDS_H

#include <linux/types.h>

#define LW_MAX_CALL_NR 512
#define LW_COMM 16
/* A component has up to 255 bytes, a name that the kernel takes as one up to 4095. */
#define LW_COMPONENT 256
#define LW_MAX_COMPONENTS 64
#define LW_SHORT_NAME 512
#define LW_LONG_NAME 4096
/* Of a vector with more parts than this the bytes asked for are not known. */
#define LW_MAX_VECTOR 64
/* More bios than a request can have. */
#define LW_MAX_MERGED 65536
#define LW_NONE ((__s64)1 << 63)
#define LW_N_ARGUMENTS 6

/* What there is to know of a system call; -1 for an argument that it does not have. */
enum lw_call_flag {
	LW_POSITION = 1 << 0,	/* reads or writes at the file's position */
	LW_VECTOR = 1 << 1,	/* `bytes` is the number of parts, the argument before it the parts */
	LW_OPENS = 1 << 2,	/* its result is the descriptor */
	LW_LEFT_OUT = 1 << 3,	/* not asked for: counted only */
	LW_HOW = 1 << 4,	/* its third argument points to flags, mode and resolve */
	LW_NO_SOCKETS = 1 << 5,	/* not asked for if its descriptor is a socket */
	LW_OF_SOME = 1 << 6,	/* not asked for of all processes and threads that are followed */
};

/*
 * A call with `path` and `fd` has in `fd` the directory that the path is relative to; one without
 * `path` has its descriptor as its first or second argument. `word` is a name that is no path: of
 * an extended attribute, or what a symbolic link will say.
 */
struct lw_call {
	__u8 index;		/* in the table of calls, and 1 more; 0: not recorded */
	__u8 flags;
	__s8 fd, path, to_path, bytes, offset, word;
};

/*
 * A file as the kernel has it: the address tells two names of one inode apart, the generation two
 * files that had one inode's number one after the other.
 */
struct lw_file {
	__u64 address;		/* 0: none */
	__u64 inode;
	__u32 device;		/* major << 20 | minor */
	__u32 mode;
	__u32 generation;
	__u32 unused;
};

/* What a call that did not run did meanwhile. */
enum lw_wait {
	LW_IO_WAIT,		/* slept for I/O, and had some of its own under way */
	LW_OTHERS_IO_WAIT,	/* slept for I/O, and had none: a page, a tag, too many dirty pages */
	LW_JOURNAL_WAIT,	/* slept until a thread of jbd2 woke it */
	LW_OTHER_WAIT,		/* slept for anything else */
	LW_WAKEUP,		/* was over what it slept for, or woken, and did not run yet */
	LW_PREEMPTED,		/* could have run */
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
	struct lw_file file;	/* with a name (LW_NAME_RECORD): the directory it is relative to */
	__u32 to_elsewhere;	/* the second name is relative to another directory */
	__u32 unused;
	__u64 waits_ns[LW_N_WAITS];	/* the rest of its duration it ran */
	char comm[LW_COMM];
	__u64 arguments[];	/* LW_N_ARGUMENTS, or none if nobody asked for them */
};

/* No call has both a second path and a word. */
enum lw_name_of { LW_PATH, LW_TO_PATH, LW_WORD = LW_TO_PATH, LW_N_NAMES };

/*
 * LW_FILE_RECORD: the path of `file`, empty if it has none. LW_NAME_RECORD: an argument of the call
 * of `tid` that began at `time_ns`, whose own record follows.
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
	LW_BELOW = 1 << 3,	/* queued by a driver that serves another I/O */
	LW_COMPLETED = 1 << 4,
	LW_FAILED = 1 << 5,
	LW_IN_CALL = 1 << 6,
	LW_WATCHED = 1 << 7,	/* by a watched program, not by a thread of the kernel */
	LW_FUA = 1 << 8,
};

/* What LinnOS decided about a read. */
enum lw_decision { LW_UNDECIDED, LW_ADMITTED, LW_REVOKED, LW_PROBE };

/* In a drive's place: they were several. */
#define LW_SEVERAL 0xffffffff

/* When it reached a scheduler, and when the driver; 0: not seen. Of its part that ended last. */
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
	__u32 parts;		/* under way */
	__u32 drive;		/* below the device; 0: none is known of */
	__u32 decision;
	__u32 priority;		/* ioprio: class, hint and level */
	char comm[LW_COMM];
};

enum lw_counter {
	LW_LOST_CALLS,		/* the buffer was full */
	LW_LOST_NAMES,
	LW_LOST_IOS,
	LW_UNTRACKED_CALLS,	/* more calls, I/Os, processes at a time than the tables hold */
	LW_UNTRACKED_IOS,
	LW_UNTRACKED_PROCESSES,
	LW_COMPAT_CALLS,	/* of 32-bit programs, whose numbers are others */
	LW_OTHER_IOS,		/* of programs that are not watched */
	LW_SKIPPED_CALLS,	/* of watched ones, and not asked for: seen at once, */
	LW_FILTERED_CALLS,	/* or once its paths are known */
	LW_FILTERED_IOS,
	LW_N_COUNTERS
};

/* How a process is followed. */
enum lw_follow {
	LW_LAUNCHER = 1,	/* not itself; its children from their exec on */
	LW_UNTIL_EXEC,
	LW_FOLLOWED,
};

/*
 * What every system call and every switch of every thread asks, at a glance: in one place, which
 * several processes and threads may share, is what is known of all of them.
 */
struct lw_place {
	/* The number of a process that is followed, or LW_ASK; 0: none of those here ever was. */
	__u32 followed;
	/* How many threads of those here are in a call that may be recorded. */
	__u32 calls;
};

#define LW_ASK 0xffffffff
#define LW_N_PLACES 4096
/* Of a process or a thread. Neighbours in number are in no cache line together. */
#define LW_PLACE(number) ((number) % 512 * 8 + (number) / 512 % 8)

struct lw_glance {
	struct lw_place places[LW_N_PLACES];
	struct lw_call calls[LW_MAX_CALL_NR];
	__u64 socket_operations;	/* the address of those that a socket's file has; 0: not seen */
};

#define LW_MAX_PATHS 8
#define LW_PREFIX 256
#define LW_MAX_CHOICES 64

/* What of a call's arguments is recorded: registers; and what they point to. */
enum lw_arguments { LW_NO_ARGUMENTS, LW_RAW, LW_DETAILED };

/* What is to be recorded of what is followed; fixed when the kernel's side is loaded. */
struct lw_settings {
	__u32 every_process_but;	/* this one; 0: only those that are followed */
	__u8 by_call;
	__u8 by_process;
	__u8 by_thread;
	__u8 by_path;
	__u32 arguments;		/* enum lw_arguments */
	/* Of files, and of folders with all in them. */
	__u32 path_length[LW_MAX_PATHS];
	char path[LW_MAX_PATHS][LW_PREFIX];
};

enum lw_choice_kind { LW_PROCESS_NAME, LW_THREAD_NAME, LW_THREAD };

/* A process or a thread that is asked for, by its name or by its number; the other is 0. */
struct lw_choice {
	__u32 kind;
	__u32 tid;
	char comm[LW_COMM];
};

#endif
