/* SPDX-License-Identifier: MIT */
/*
 * Convert the kernel's records of system calls and block I/Os to rows of two tables.
 *
 * linnapp/insight/calls.py loads this interface; see watch.bpf.c for the recorded
 * events. It is for use by a single thread.
 */
#ifndef LINNAPP_WATCH_H
#define LINNAPP_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "watch_records.h"

/* The number of a missing name; see lw_name(). */
#define LW_NO_NAME (-1)
/* The value of a missing number. */
#define LW_NULL INT64_MIN

struct lw_call_row {
	int64_t time_ns;		/* since 1970 */
	int64_t duration_ns;
	int64_t result;
	int64_t offset;
	int64_t bytes;
	int64_t fd;
	int64_t inode;
	int64_t first_access_ns;	/* of the file; distinguishes it from others of this inode */
	/* The following times add up to duration_ns. */
	int64_t on_cpu_ns;
	int64_t io_wait_ns;		/* as enum lw_wait */
	int64_t others_io_wait_ns;
	int64_t journal_wait_ns;
	int64_t other_wait_ns;
	int64_t wakeup_ns;
	int64_t preempted_ns;
	uint64_t arguments[6];
	uint64_t hash;			/* of the first hashed_bytes that it read or wrote */
	uint32_t pid;
	uint32_t tid;
	int32_t process;		/* number of a name, as are the paths */
	int32_t path;
	int32_t to_path;
	uint32_t call;			/* see lw_call_name() */
	uint32_t device;		/* of the inode's file system; major << 20 | minor */
	uint32_t mode;
	int32_t word;			/* number of a name: see struct lw_call */
	uint32_t has_arguments;
	uint32_t hashed_bytes;		/* 0 if there is no hash */
	uint32_t unused;
};

struct lw_io_row {
	int64_t time_ns;
	int64_t latency_ns;		/* LW_NULL if its end was not seen */
	int64_t plug_ns;		/* until a scheduler received it */
	int64_t scheduler_ns;		/* until the driver received it */
	int64_t drive_ns;		/* until it ended; each of these is LW_NULL if not seen */
	int64_t call_time_ns;		/* LW_NULL if it was not queued in a recorded call */
	uint64_t sector;
	uint32_t pid;
	uint32_t tid;
	int32_t process;
	uint32_t bytes;
	uint32_t device;
	uint32_t op;
	uint32_t flags;			/* enum lw_io_flag */
	uint32_t call;
	uint32_t drive;			/* the drive to which it was passed on, or LW_SEVERAL */
	uint32_t decision;		/* enum lw_decision */
	uint32_t priority;		/* class << 13 | hint << 3 | level */
	uint32_t unused;
};

/* Numbers of events that are not in the rows, by reason. */
struct lw_counts {
	uint64_t lost_calls;		/* the buffer was full */
	uint64_t lost_names;
	uint64_t lost_ios;
	uint64_t untracked_calls;	/* more at the same time than fit into the kernel's tables */
	uint64_t untracked_ios;
	uint64_t untracked_processes;
	uint64_t compat_calls;		/* of 32-bit programs */
	uint64_t other_ios;		/* of processes that are not followed */
	uint64_t filtered_calls;	/* not requested */
	uint64_t filtered_ios;
	uint64_t missed_events;		/* because of a concurrent interrupt */
	uint64_t unfinished_calls;	/* not returned when the recording ended */
	uint64_t unhashed_calls;	/* without a hash, because the content was not in memory */
	uint64_t names_left_out;	/* more than are kept in memory */
	uint64_t files_left_out;
};

/* An upper bound of the number of recorded system calls. */
#define LW_MAX_CALLS 255

/* What to record. */
struct lw_request {
	struct lw_settings settings;
	uint8_t calls[LW_MAX_CALLS];	/* whether each is requested; see settings.by_call */
	uint32_t n_threads;
	struct lw_choice threads[LW_MAX_CHOICES];
};

/* Rows of the caller: room for @capacity of each kind, of which some are filled. */
struct lw_rows {
	struct lw_call_row *calls;
	struct lw_io_row *ios;
	uint64_t capacity, n_calls, n_ios;
};

enum { LW_FULL = 1 };

struct lw_watch *lw_new(struct lw_rows *rows);
int lw_attach(struct lw_watch *w, const struct lw_request *request, uint32_t buffer_bytes);
int lw_follow(struct lw_watch *w, uint32_t pid, uint32_t how);
int lw_read(struct lw_watch *w, int timeout_ms);
int lw_feed(struct lw_watch *w, const void *record, size_t size);
void lw_stop(struct lw_watch *w);
int lw_read_unfinished(struct lw_watch *w);
const struct lw_counts *lw_counts(struct lw_watch *w);
const char *lw_name(const struct lw_watch *w, int32_t number);
const char *lw_call_name(uint32_t call);
const char *lw_error(const struct lw_watch *w);
void lw_close(struct lw_watch *w);

#endif
