/* SPDX-License-Identifier: MIT */
/* The I/Os in flight, their parts and the requests of these; see blktrace_requests.c. */
#ifndef LINNAPP_BLKTRACE_PARTS_H
#define LINNAPP_BLKTRACE_PARTS_H

#include "blktrace_private.h"

/*
 * Limits of the search for the part of an event: among those in flight, and among those whose
 * sectors have the same hash. No drive has that many in flight, but a trace that lost its
 * completions does, and must not take quadratic time.
 */
#define SCAN_LIMIT 4096
#define CHAIN_LIMIT 256

struct request {
	struct linnos_io io;		/* in the drive's state, if it is counted */
	uint64_t issued_ns;		/* time of the last issue */
	uint64_t start;			/* its number among lt_requests.starts, if it has a slot */
	uint64_t ended_before;		/* number of requests that had ended when it was created */
	uint32_t n_parts;
	bool issued;
	bool over;			/* it is no longer load */
	bool suspect;			/* its events may be missing */
};

struct lt_part {
	TAILQ_ENTRY(lt_part) chain, in_flight, of_io;
	struct lt_io *io;
	struct request *request;
	uint64_t sector;
	uint64_t requested_ns;		/* 0 if it is not in the trace */
	uint64_t touched_ns;		/* time of the last event */
	uint32_t bytes;
};

/* An I/O as it was submitted. */
struct lt_io {
	TAILQ_ENTRY(lt_io) arrival;
	struct lt_parts parts;		/* the parts that it waits for */
	uint32_t left_bytes;
	bool early;			/* submitted before the trace began */
	bool open;			/* it has neither ended nor been given up */
	uint64_t doubt_until_ns;	/* it was wrongly counted as load until then */
	struct lt_row row;
};

/* The state in which an event should find a part: see state_before(). */
enum state { QUEUED, REQUESTED, ISSUED, REFUSED };

/* The remaining sectors of an event, and how to search for their parts. */
struct range {
	uint64_t sector;
	uint32_t bytes;
	bool write;
	bool splits;			/* a part that is cut off has its own request */
	enum state state;
	const struct request *request;	/* of the part before, if it has more parts */
};

/* The place of a part: around the start of a range, or directly before or after the range. */
enum where { AROUND, BEFORE, AFTER };

static inline uint64_t end_of(uint64_t sector, uint32_t bytes)
{
	return sector + bytes / SECTOR_BYTES;
}

static inline bool is_write(const struct lt_part *part)
{
	return part->io->row.flags & LT_WRITE;
}

static inline struct lt_parts *chain_of(struct lt_requests *p, uint64_t sector, bool write)
{
	return &p->chains[((sector * 2 + write) * 0x9e3779b97f4a7c15ull) >> 32 & (LT_CHAINS - 1)];
}

static inline uint64_t ns_since(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

void lt_count_request(struct lt_requests *p, const struct lt_part *part);
void lt_uncount_request(struct lt_requests *p, struct request *r);
void lt_end_load(struct lt_requests *p, struct lt_part *part);
void lt_join_request(struct lt_requests *p, struct lt_part *part, struct request *r);
struct lt_part *lt_add_part(struct lt_requests *p, struct lt_io *io, uint64_t sector,
			    uint32_t bytes, struct request *r);
void lt_drop_part(struct lt_requests *p, struct lt_part *part);
int lt_score_part(const struct lt_part *part, const struct range *range);
struct lt_part *lt_find_near(struct lt_requests *p, const struct range *range, enum where where);
struct lt_part *lt_take_part(struct lt_requests *p, struct range *range);

#endif
