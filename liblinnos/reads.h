/* SPDX-License-Identifier: MIT */
/*
 * Reads and the attempts that serve them: which replica is asked next, and when a read is over.
 *
 *   read_begin ──► attempt ──► attempt_ended ──► DONE
 *                     ▲              │  │
 *                     └──── AGAIN ◄──┘  └──► NOTHING: another attempt is under way, or the read
 *   read_hedge ──► attempt                            was over before
 *
 * A read is one thread's at a time. An attempt may outlive its read: it is lost then, has memory of
 * its own, and belongs to whoever hears of its end. A copy never has a read: it is sent to hear of
 * a replica.
 */
#ifndef LINNOS_READS_H
#define LINNOS_READS_H

#include "array.h"

/* Larger reads are not hedged: they would be copied. */
#define HEDGED_BYTES_MAX (1u << 20)
#define READ_BYTES_MAX 0x7ffff000u

struct attempt {
	struct attempt *next;		 /* of the free list */
	struct attempt *earlier, *later; /* of those in callers' rings */
	struct linnos_array *array;
	struct linnos_read *read; /* NULL: over without this attempt, or a copy */
	struct linnos_io observed;
	struct bounce *bounce; /* NULL: reads into the caller's memory */
	char *data;
	uint64_t offset; /* of data in the replica */
	size_t lead;	 /* of the read in data */
	size_t bytes;	 /* to read, alignment included */
	size_t want;	 /* of them, from the start, for the read */
	size_t from;	 /* the next submission's place in data */
	size_t got;	 /* bytes of data that are there */
	uint64_t lost_ns;
	/* Of arrays that hedge by gain. */
	uint32_t predicted_us;
	struct linnos_load met;
	double claimed_us; /* that the hedge gains against which this one lost, or as which */
	unsigned int replica;
	bool is_hedge, is_copy, in_callers_ring, hinted, lost_to_hedge;
};

struct linnos_read {
	struct linnos_read *earlier, *later; /* of those that may be hedged; of the free list */
	struct linnos_array *array;
	char *buf;
	size_t bytes;
	uint64_t offset;
	void *user;
	uint64_t start_ns;
	uint64_t hedge_after_ns; /* by its prediction, or what it gains; 0: as all others */
	double claimed_us;	 /* that its hedge gains; 0: there is none, or it is not known */
	unsigned int home, replica;
	uint32_t tried, refused; /* replicas, by bit; these because of the hint */
	uint32_t home_us;	 /* predicted */
	struct linnos_lot lot;
	bool moved, is_timed, is_listed, in_callers_ring;
	bool is_plain; /* without the hint from now on */
	size_t got;    /* bytes for the caller */
	int error;     /* of the last attempt; 0: its replica ends too early */
	ssize_t result;
	struct attempt *flying[2];
	struct attempt *next; /* to be sent */
	struct attempt *copy; /* likewise, by lanes_send_copy(); NULL: none */
};

/* Chooses the first replica: r->next is to be sent, and r->copy before it. Returns 0 or a negative
 * errno. */
int read_begin(struct linnos_array *a, struct linnos_read *r, void *buf, size_t bytes, off_t offset,
	       bool in_callers_ring);
/* It cannot be sent. */
void copy_take_back(struct linnos_array *a, struct attempt *copy);
/* An attempt has come back with this result. *read is its read, NULL when that is over already;
 * with LINNOS_AGAIN its next is to be sent. */
enum linnos_outcome attempt_ended(struct linnos_array *a, struct attempt *at, int result,
				  struct linnos_read **read);
/* The time to hedge has come: r->next is to be sent if true; else the time may be another one now,
 * if r->is_timed. */
bool read_hedge(struct linnos_array *a, struct linnos_read *r);
/* When it comes; UINT64_MAX: never, as things are. Under the lock. */
uint64_t read_hedge_ns(const struct linnos_array *a, const struct linnos_read *r);
/* Takes the attempt that is to be sent. */
struct attempt *read_take_next(struct linnos_read *r);
/* For a ring. */
void attempt_prepare(const struct linnos_array *a, struct attempt *at, struct io_uring_sqe *sqe);
uint64_t user_data_of_nop(void);
bool user_data_is_ours(uint64_t user_data);
/* NULL: a no-op's. */
struct attempt *attempt_of_user_data(uint64_t user_data);
/* Forgets all attempts in callers' rings, and their reads: no completion will come. */
void attempts_forsake(struct linnos_array *a);
void attempts_free(struct linnos_array *a);
/* A read of linnos_prep_read() that is over. Under the lock. */
void read_forget(struct linnos_array *a, struct linnos_read *r);
void reads_free(struct linnos_array *a);

#endif
