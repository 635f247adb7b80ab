/* SPDX-License-Identifier: MIT */
/*
 * A worker serves one queue of the device: a thread with a ring, which the kernel gives the queue's
 * requests through and their attempts and legs go through, and with a queue of liblinnos' to choose
 * replicas by. What several workers need to agree on is the mirror's.
 */
#ifndef LINNOS_UBLK_WORKER_H
#define LINNOS_UBLK_WORKER_H

#include "mirror.h"

#include <pthread.h>

/* What our completions are of; those of reads are liblinnos' handles, marked by both low bits. */
enum kind {
	OF_FETCH,
	OF_LEG,
	OF_START,
	OF_PAUSE,
	OF_STOP,
	OF_SIGNAL,
	OF_MESSAGE,  /* that we have sent */
	OF_TURN,     /* of a write that waited: told by another worker, as the next two */
	OF_STOPPING, /* the kernel gives it no more: all are to stop */
	OF_END,	     /* it has ended */
	OF_STATE,    /* a write of the mirror's state */
};
#define READ_MARK 3u
/* From where on the parts of the others lie in user_data. */
#define KIND_SHIFT 2
#define REPLICA_SHIFT 6
#define TAG_SHIFT 16
#define SAMPLE_SHIFT 32
#define TO_SHIFT 40
#define KIND_MASK 15
#define TAG_MASK 0xffff

struct request {
	struct worker *worker;
	struct request *earlier, *later; /* of the writes of all workers */
	unsigned int tag, op;
	bool is_fua, keeps_blocks; /* keeps_blocks: zeros are to be written, not holes made */
	bool waits;		   /* as are earlier and later, under the mirror's lock */
	uint64_t start, bytes;
	bool is_recorded; /* the bits of its regions are on the mirror's state file, or cannot be:
			   */
	int record_error; /* then this is why */
	bool sweeps;	  /* a flush after whose success bits may be cleared */
	unsigned int n_legs;	/* under way */
	uint32_t sent, failed;	/* replicas, by bit */
	uint32_t writes_zeroes; /* that cannot make holes after all */
	uint32_t synced;	/* FUA of zeros: the sync has been sent */
	int errors[REPLICAS_MAX];
	uint32_t written[REPLICAS_MAX];		  /* bytes */
	struct linnos_attempt told[REPLICAS_MAX]; /* of writes, by which reads are predicted */
};

struct worker {
	struct mirror *mirror;
	unsigned int queue; /* of the device */
	pthread_t thread;   /* but of the first, which is the program's */
	struct linnos_queue *reads;
	struct io_uring ring;
	struct request *requests; /* by tag */
	char *buffers;
	unsigned int n_fetching; /* tags that the kernel has or we serve */
	unsigned int n_reading;	 /* attempts in the ring */
	unsigned int n_messages; /* messages and writes of the mirror's state in the ring */
	struct mirror_stats stats;
};

/* What a completion is of. */
struct subject {
	enum kind kind;
	unsigned int tag, replica;
	unsigned int to, told; /* OF_MESSAGE: which worker was told what kind */
};

static inline uint64_t subject_pack(const struct subject *s)
{
	return (uint64_t)s->to << TO_SHIFT | (uint64_t)s->told << SAMPLE_SHIFT |
	       (uint64_t)s->tag << TAG_SHIFT | s->replica << REPLICA_SHIFT | s->kind << KIND_SHIFT;
}

static inline struct subject subject_unpack(uint64_t user_data)
{
	return (struct subject){
		.kind = user_data >> KIND_SHIFT & KIND_MASK,
		.replica = user_data >> REPLICA_SHIFT & (REPLICAS_MAX - 1),
		.tag = user_data >> TAG_SHIFT & TAG_MASK,
		.told = user_data >> SAMPLE_SHIFT & KIND_MASK,
		.to = user_data >> TO_SHIFT,
	};
}

/* Counters of a worker's, which others may look at meanwhile. */
static inline void count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline char *buffer(const struct worker *w, unsigned int tag)
{
	return w->buffers + (size_t)tag * w->mirror->device.request_bytes_max;
}

/* Return a free submission entry. Exits if the ring can no longer be entered. */
struct io_uring_sqe *get_sqe(struct worker *w);
/* Submit, and wait until a request completes or the time is over; for ever if it is below 0. Exits
 * if the ring can no longer be entered. */
void wait_for_completions(struct worker *w, int64_t timeout_ns);
void commit(struct worker *w, const struct request *r, int result);
/* Another worker's next completion. */
void tell(struct worker *w, const struct worker *to, enum kind kind, unsigned int tag);

/* reads.c */
void read_begin(struct worker *w, struct request *r);
void read_heard(struct worker *w, const struct io_uring_cqe *cqe);
void reads_due(struct worker *w);

/* writes.c */
void write_begin(struct worker *w, struct request *r);
void flush_begin(struct worker *w, struct request *r);
/* A write that waited goes on; not under the mirror's lock. */
void write_continue(struct worker *w, struct request *r);
/* The mirror's state has been written. */
void state_heard(struct worker *w, int result);
void replica_write_complete(struct worker *w, struct request *r, unsigned int k, int result);

#endif
