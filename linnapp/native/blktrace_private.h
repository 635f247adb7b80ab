/* SPDX-License-Identifier: MIT */
/*
 * The parts of the blktrace parser, in the order in which data goes through them:
 *
 *   files -> blktrace_events.c: events in order of time
 *         -> blktrace_requests.c: requests of the drive, and I/Os with what they saw
 *         -> blktrace_parser.c: columns
 */
#ifndef LINNAPP_BLKTRACE_PRIVATE_H
#define LINNAPP_BLKTRACE_PRIVATE_H

#include "blktrace_parser.h"
#include "linnos_drive.h"
#include "packed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/queue.h>

/* The on-disk event, as in linux/blktrace_api.h; repeated so that no kernel headers are needed. */
struct blk_event {
	uint32_t magic;
	uint32_t sequence;
	uint64_t time;
	uint64_t sector;
	uint32_t bytes;
	uint32_t action;
	uint32_t pid;
	uint32_t device;
	uint32_t cpu;
	uint16_t error;
	uint16_t pdu_len;
};

_Static_assert(sizeof(struct blk_event) == 48, "the layout is the kernel's");
_Static_assert(LT_HISTORY == LINNOS_HISTORY && LT_FEATURES == LINNOS_N_FEATURES, "and so is this");

enum blk_action { ACT_QUEUE = 1, ACT_BACKMERGE, ACT_FRONTMERGE, ACT_GETRQ, ACT_REQUEUE = 6,
		  ACT_ISSUE, ACT_COMPLETE, ACT_SPLIT = 13, ACT_REMAP = 15, ACT_MASK = 0xff };

#define CATEGORY(bit) (1u << (16 + (bit)))
#define CAT_WRITE CATEGORY(1)
#define CAT_PASSTHROUGH CATEGORY(9)
#define CAT_NOTIFY CATEGORY(10)
#define CAT_DISCARD CATEGORY(13)

/* Why the parser cannot go on; empty as long as it can. */
struct lt_failure {
	char why[LT_PACKED_WHY];
};

void lt_fail(struct lt_failure *failure, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void *lt_alloc(struct lt_failure *failure, size_t bytes);

static inline bool lt_failed(const struct lt_failure *failure)
{
	return *failure->why;
}

/* ---- blktrace_events.c ---- */

/* blkparse writes a merged trace in batches; within one the order is right. */
#define LT_WINDOW 128

struct lt_events {
	struct lt_source *sources;
	int n_sources;
	const char *path;		/* of the first */
	bool allow_truncated;
	struct lt_stats *stats;
	struct lt_failure *failure;
	struct blk_event window[LT_WINDOW];
	int window_start, window_len;
};

bool lt_events_open(struct lt_events *events, const char *const *paths, int n_paths);
bool lt_events_next(struct lt_events *events, struct blk_event *event);
int64_t lt_events_copy(struct lt_events *events, FILE *out);
void lt_events_close(struct lt_events *events);

/* ---- blktrace_requests.c ---- */

TAILQ_HEAD(lt_ios, lt_io);
TAILQ_HEAD(lt_parts, lt_part);

#define LT_CHAINS (1 << 14)

struct lt_requests {
	const struct lt_options *options;
	struct lt_stats *stats;
	struct lt_failure *failure;
	struct linnos_drive drive;
	uint64_t now_ns;
	bool has_requests;		/* the trace has G events */
	struct lt_ios ios;		/* that have not been taken, in order of arrival */
	struct lt_parts in_flight;
	struct lt_parts chains[LT_CHAINS];	/* by their first sector */
};

void lt_requests_init(struct lt_requests *requests);
void lt_requests_advance(struct lt_requests *requests, uint64_t now_ns);
void lt_requests_see(struct lt_requests *requests, const struct blk_event *event);
bool lt_requests_take(struct lt_requests *requests, bool at_end, struct lt_row *row);

#endif
