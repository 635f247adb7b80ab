/* SPDX-License-Identifier: MIT */
/*
 * A worker serves one queue of the device. It is a thread with a ring and a queue of liblinnos. The
 * kernel delivers the requests of the device's queue through the ring, and the worker submits the
 * reads and replica writes for them to it. liblinnos chooses the replicas. Data that the workers
 * share is in the mirror.
 */
#ifndef LINNOS_UBLK_WORKER_H
#define LINNOS_UBLK_WORKER_H

#include "resync.h"
#include "ublk.h"

#include <liblinnos.h>
#include <pthread.h>
#include <sys/signalfd.h>

struct request;
struct worker;

struct mirror_stats {
	uint64_t reads, read_bytes, reads_failed;
	uint64_t writes, written_bytes, writes_failed; /* writes_failed: completed with an error */
	uint64_t flushes, zeroed, zeroed_bytes;
	uint64_t waited;	     /* writes deferred for another one to the same blocks */
	uint64_t received, answered; /* requests */
};

struct mirror {
	unsigned int n;
	struct replica replicas[REPLICAS_MAX];
	/* Protects those of the following members that all workers write to. */
	pthread_mutex_t lock;
	uint32_t in; /* bitmap of replicas in the mirror; read without the lock, see mirror_in() */
	char why_dropped[REPLICAS_MAX][WHY_BYTES]; /* constant after the replica was dropped */
	struct mirror_state state; /* the record of regions that may differ after a crash */
	struct request *first_write, *last_write; /* in the order of their arrival */
	unsigned int n_waiting;
	/* Paths of the replicas if `in` is recorded for a server that takes over after this one was
	 * killed; otherwise NULL. */
	const char *const *recorded;
	struct geometry geometry;
	struct linnos_array *array;
	bool hedges;
	struct ublk_device device;
	struct worker *workers;	 /* one per queue; the first one uses the members that follow */
	pthread_mutex_t gate;	 /* the other workers begin when it is unlocked */
	unsigned int n_serving;	 /* other workers that have not ended */
	unsigned int n_commands; /* START, STOP, and the wait before it, in flight */
	bool is_starting, stops_when_started;
	bool is_stopping;	  /* also read by the other workers */
	uint64_t received_before; /* requests up to the last pause */
	unsigned int n_pauses;
	struct __kernel_timespec pause; /* before STOP */
	int start_error;
	int signals; /* a signalfd */
	struct signalfd_siginfo signal;
	bool json; /* format of the reports */
};

static inline uint32_t mirror_in(const struct mirror *m)
{
	return __atomic_load_n(&m->in, __ATOMIC_ACQUIRE);
}

/* The kind of operation to which a completion belongs. The user_data of a read is the handle of
 * liblinnos, with both low bits set. */
enum kind {
	KIND_FETCH,
	KIND_REPLICA_WRITE,
	KIND_START,
	KIND_PAUSE,
	KIND_STOP,
	KIND_SIGNAL,
	KIND_MESSAGE,	       /* a message that was sent */
	KIND_WRITE_MAY_START,  /* message: a deferred write may start */
	KIND_NO_MORE_REQUESTS, /* message: the kernel delivers no more requests, so stop */
	KIND_WORKER_ENDED,     /* message: a worker has ended */
	KIND_STATE,	       /* a write of the mirror's state */
};
#define READ_MARK 3u
/* Positions of the other fields in user_data. */
#define KIND_SHIFT 2
#define REPLICA_SHIFT 6
#define TAG_SHIFT 16
#define MESSAGE_SHIFT 32
#define TO_SHIFT 40
#define KIND_MASK 15
#define TAG_MASK 0xffff

struct request {
	struct worker *worker;
	struct request *earlier, *later; /* list of the writes of all workers */
	unsigned int tag, op;
	bool is_fua, keeps_blocks; /* keeps_blocks: write zeros without punching holes */
	bool waits;		   /* protected by the mirror's lock, as earlier and later */
	uint64_t start, bytes;
	bool is_recorded; /* its bits were written to the state file, or failed to be */
	int record_error; /* the reason why they could not be written; otherwise 0 */
	bool sweeps;	  /* a flush whose success allows bits to be cleared */
	unsigned int n_replica_writes; /* replica writes in flight */
	uint32_t sent, failed;	       /* bitmaps of replicas */
	uint32_t writes_zeroes;	       /* replicas that have failed to punch holes */
	uint32_t synced;	       /* replicas to which the sync of a FUA zeroing was sent */
	int errors[REPLICAS_MAX];
	uint32_t written[REPLICAS_MAX];		      /* bytes */
	struct linnos_attempt attempts[REPLICAS_MAX]; /* writes, for the predictions of reads */
};

struct worker {
	struct mirror *mirror;
	unsigned int queue; /* of the device */
	pthread_t thread;   /* the first worker uses the main thread */
	struct linnos_queue *reads;
	struct io_uring ring;
	struct request *requests; /* by tag */
	char *buffers;
	unsigned int n_fetching; /* tags that the kernel has or that are being served */
	unsigned int n_reading;	 /* attempts in the ring */
	unsigned int n_messages; /* messages and writes of the mirror's state in the ring */
	struct mirror_stats stats;
};

/* The decoded user_data of a completion. */
struct user_data {
	enum kind kind;
	unsigned int tag, replica;
	unsigned int to, message; /* KIND_MESSAGE: the recipient and the kind of the message */
};

static inline uint64_t user_data_pack(const struct user_data *s)
{
	return (uint64_t)s->to << TO_SHIFT | (uint64_t)s->message << MESSAGE_SHIFT |
	       (uint64_t)s->tag << TAG_SHIFT | s->replica << REPLICA_SHIFT | s->kind << KIND_SHIFT;
}

static inline struct user_data user_data_unpack(uint64_t user_data)
{
	return (struct user_data){
		.kind = user_data >> KIND_SHIFT & KIND_MASK,
		.replica = user_data >> REPLICA_SHIFT & (REPLICAS_MAX - 1),
		.tag = user_data >> TAG_SHIFT & TAG_MASK,
		.message = user_data >> MESSAGE_SHIFT & KIND_MASK,
		.to = user_data >> TO_SHIFT,
	};
}

/* Add to a counter of a worker, which other threads may read at the same time. */
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
/* Submit, and wait until a request completes or the time is over. A negative time means no limit.
 * Exits if the ring can no longer be entered. */
void wait_for_completions(struct worker *w, int64_t timeout_ns);
void commit(struct worker *w, const struct request *r, int result);
/* Send a message, which becomes a completion of the other worker's ring. */
void send_message(struct worker *w, const struct worker *to, enum kind kind, unsigned int tag);

/* Sum the statistics of all workers, which may be serving requests at the same time. */
void mirror_sum_stats(const struct mirror *m, struct mirror_stats *sum);
/* Return the number of requests that a worker has received. */
uint64_t mirror_received(const struct mirror *m, unsigned int queue);

/* reads.c */
void read_begin(struct worker *w, struct request *r);
void read_complete(struct worker *w, const struct io_uring_cqe *cqe);
void reads_resubmit_expired(struct worker *w);

/* writes.c */
void write_begin(struct worker *w, struct request *r);
void flush_begin(struct worker *w, struct request *r);
/* Continue a deferred write. The caller does not hold the mirror's lock. */
void write_continue(struct worker *w, struct request *r);
/* Process the completion of a write of the mirror's state. */
void state_write_complete(struct worker *w, int result);
void replica_write_complete(struct worker *w, struct request *r, unsigned int k, int result);

#endif
