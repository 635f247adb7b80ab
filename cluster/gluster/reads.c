// SPDX-License-Identifier: MIT
/*
 * Reads of GlusterFS: see linnos_gluster.h.
 *
 * A read has an attempt at the replica that was chosen, and perhaps a copy, which nobody waits for,
 * and a hedge. It is given back when all have ended; its user is told as soon as one has answered,
 * or the ordinary handle has when none could.
 */
#include "clock.h"
#include "messages.h"
#include "volume.h"
#include "waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ORDINARY = -1 };

struct attempt {
	struct read *read;
	/* NULL: it reads into the user's buffer */
	void *own;
	/* a candidate, or ORDINARY */
	int replica;
	enum linnos_kind kind;
	/* the library has been told that it was sent */
	bool is_counted;
	struct linnos_sending sending;
};

struct read {
	struct linnos_gluster_file *file;
	linnos_gluster_done done;
	void *of, *buffer;
	size_t bytes;
	off_t offset;
	struct linnos_choice choice;
	uint32_t nodes[REPLICAS_MAX];
	struct attempt first, copy, hedge, last;
	/* by the volume's lock: with those that its user waits for; and its place among those that
	 * may be late */
	unsigned int n_attempts, n_awaited;
	bool is_done;
	struct read *next;
};

static void end_attempt(glfs_fd_t *fd, ssize_t bytes, struct glfs_stat *before,
			struct glfs_stat *after, void *of);

/* The lock is held. */
static void unlist(struct read *read)
{
	struct read **of = &read->file->gluster->late;

	while (*of && *of != read)
		of = &(*of)->next;
	if (*of)
		*of = read->next;
}

/* The lock is held, and is not then. */
static void release_and_unlock(struct read *read)
{
	struct linnos_gluster_file *file = read->file;
	bool is_last = !--read->n_attempts;

	if (is_last && !--file->in_flight)
		pthread_cond_broadcast(&file->gluster->changed);
	pthread_mutex_unlock(&file->gluster->lock);
	if (is_last)
		free(read);
}

/* Before any of it is sent. */
static void prepare(struct attempt *attempt, struct read *read, int replica, enum linnos_kind kind,
		    bool has_own)
{
	*attempt = (struct attempt){.read = read, .replica = replica, .kind = kind};
	if (has_own)
		attempt->own = malloc(read->bytes);
	read->n_attempts++;
	read->n_awaited += kind != LINNOS_COPY;
}

static void count_sent(struct attempt *attempt, uint64_t now_ns)
{
	struct read *read = attempt->read;

	attempt->is_counted = true;
	linnos_cluster_sent(read->file->gluster->cluster, &attempt->sending, &read->choice,
			    attempt->replica, attempt->kind, now_ns);
}

/* It ends in any case, perhaps before this does. */
static void send_attempt(struct attempt *attempt, bool has_room)
{
	struct read *read = attempt->read;
	struct linnos_gluster_file *file = read->file;
	glfs_fd_t *fd = attempt->replica < 0 ? file->ordinary : file->replicas[attempt->replica];

	if (!has_room)
		errno = ENOMEM;
	if (!has_room || glfs_pread_async(fd, attempt->own ? attempt->own : read->buffer,
					  read->bytes, read->offset, 0, end_attempt, attempt))
		end_attempt(fd, -1, NULL, NULL, attempt);
}

static void end_attempt(glfs_fd_t *fd, ssize_t bytes, struct glfs_stat *before,
			struct glfs_stat *after, void *of)
{
	struct attempt *attempt = of;
	struct read *read = attempt->read;
	struct linnos_gluster *g = read->file->gluster;
	bool is_ordinary = attempt->replica == ORDINARY, is_awaited, is_answer, is_hopeless;
	uint64_t now_ns;

	(void)fd;
	(void)before;
	(void)after;
	if (bytes < 0)
		bytes = errno ? -errno : -EIO;
	now_ns = clock_ns();
	/* past the end no drive was asked: that tells something only if it was late */
	if (attempt->is_counted)
		linnos_cluster_ended(g->cluster, &attempt->sending,
				     bytes < 0	 ? LINNOS_FAILED
				     : bytes > 0 ? LINNOS_ANSWERED
						 : LINNOS_CANCELLED,
				     now_ns);
	pthread_mutex_lock(&g->lock);
	read->n_awaited -= attempt->kind != LINNOS_COPY;
	is_awaited = !read->is_done && attempt->kind != LINNOS_COPY;
	is_answer = is_awaited && (bytes >= 0 || is_ordinary);
	is_hopeless = is_awaited && !is_answer && !read->n_awaited;
	read->is_done |= is_answer;
	if (is_answer || is_hopeless)
		unlist(read);
	if (is_hopeless)
		prepare(&read->last, read, ORDINARY, LINNOS_FIRST, false);
	pthread_mutex_unlock(&g->lock);
	if (is_hopeless || (is_answer && attempt->is_counted))
		linnos_cluster_answered(g->cluster, &read->choice,
					is_answer ? &attempt->sending : NULL, now_ns);
	if (is_hopeless) {
		g->retried++;
		mark_fresh(read->file, now_ns);
		send_attempt(&read->last, true);
	}
	if (is_answer) {
		if (attempt->own && bytes > 0)
			memcpy(read->buffer, attempt->own, bytes);
		read->done(read->of, bytes,
			   is_ordinary ? ORDINARY : read->file->first + attempt->replica);
	}
	free(attempt->own);
	pthread_mutex_lock(&g->lock);
	release_and_unlock(read);
}

/* ---- late ones ---- */

static void wait_until_changed(struct linnos_gluster *g, uint64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += until.tv_nsec;
	until.tv_sec += ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	pthread_cond_timedwait(&g->changed, &g->lock, &until);
}

/* The lock is held, and meanwhile is not. */
static void hedge(struct linnos_gluster *g, struct read *read, uint64_t now_ns)
{
	int replica = linnos_cluster_hedge(g->cluster, &read->choice, now_ns);

	unlist(read);
	if (replica < 0)
		return;
	prepare(&read->hedge, read, replica, LINNOS_HEDGE, true);
	count_sent(&read->hedge, now_ns);
	pthread_mutex_unlock(&g->lock);
	send_attempt(&read->hedge, read->hedge.own);
	pthread_mutex_lock(&g->lock);
}

void *send_late(void *of)
{
	struct linnos_gluster *g = of;

	pthread_mutex_lock(&g->lock);
	while (!g->is_ending) {
		uint64_t now_ns = clock_ns(), next_ns = now_ns + 1000000000;
		struct read *read = g->late;

		for (; read && read->choice.hedge_at_ns > now_ns; read = read->next)
			if (read->choice.hedge_at_ns < next_ns)
				next_ns = read->choice.hedge_at_ns;
		if (read)
			hedge(g, read, now_ns);
		else
			wait_until_changed(g, next_ns - now_ns);
	}
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

/* ---- reads ---- */

static int refused(const struct linnos_gluster_file *file, const void *buffer, size_t bytes,
		   off_t offset, linnos_gluster_done done)
{
	if (!file || !buffer || !done)
		return error_null(!file ? "file" : !buffer ? "buffer" : "function to call");
	if (!bytes || bytes > INT32_MAX || offset < 0)
		return error_say(-EINVAL, "a read of %zu bytes at %lld; 1 to %d, from 0 on", bytes,
				 (long long)offset, INT32_MAX);
	return 0;
}

static void choose(struct read *read, uint64_t now_ns)
{
	struct linnos_gluster_file *file = read->file;
	struct linnos_gluster *g = file->gluster;
	unsigned int n = g->graph.n_replicas;

	for (unsigned int k = 0; k < n; k++)
		read->nodes[k] = file->first + k;
	read->choice = (struct linnos_choice){
		.offset = read->offset, .bytes = read->bytes, .home = file->home};
	linnos_cluster_choose(g->cluster, &read->choice, read->nodes, n, now_ns);
	prepare(&read->first, read, read->choice.replica, LINNOS_FIRST, g->hedges);
	count_sent(&read->first, now_ns);
	if (read->choice.copy >= 0) {
		prepare(&read->copy, read, read->choice.copy, LINNOS_COPY, true);
		count_sent(&read->copy, now_ns);
	}
}

int linnos_gluster_pread_async(struct linnos_gluster_file *file, void *buffer, size_t bytes,
			       off_t offset, linnos_gluster_done done, void *of)
{
	int status = refused(file, buffer, bytes, offset, done);
	struct linnos_gluster *g = status ? NULL : file->gluster;
	uint64_t now_ns = clock_ns();
	struct read *read;
	bool has_copy;

	if (status)
		return status;
	read = calloc(1, sizeof(*read));
	if (!read)
		return error_say(-ENOMEM, "a read: no memory");
	*read = (struct read){
		.file = file,
		.done = done,
		.of = of,
		.buffer = buffer,
		.bytes = bytes,
		.offset = offset,
	};
	pthread_mutex_lock(&g->lock);
	file->in_flight++;
	pthread_mutex_unlock(&g->lock);
	g->reads++;
	if (file->first < 0 || is_fresh(file, now_ns)) {
		g->fresh++;
		prepare(&read->first, read, ORDINARY, LINNOS_FIRST, false);
		send_attempt(&read->first, true);
		return 0;
	}
	choose(read, now_ns);
	has_copy = read->copy.read;
	if (g->hedges) {
		pthread_mutex_lock(&g->lock);
		read->next = g->late;
		g->late = read;
		pthread_cond_broadcast(&g->changed);
		pthread_mutex_unlock(&g->lock);
	}
	/* first the copy: when the other one has ended all may be gone */
	if (has_copy)
		send_attempt(&read->copy, read->copy.own);
	send_attempt(&read->first, !g->hedges || read->first.own);
	if (g->agents)
		agents_ask(g->agents, bytes, now_ns);
	return 0;
}

ssize_t linnos_gluster_pread(struct linnos_gluster_file *file, void *buffer, size_t bytes,
			     off_t offset)
{
	struct waiting waiting;
	int status;

	waiting_begin(&waiting);
	status = linnos_gluster_pread_async(file, buffer, bytes, offset, waiting_wake, &waiting);
	waiting_end(&waiting, !status);
	if (status || waiting.bytes >= 0)
		return status ? status : waiting.bytes;
	return error_say(waiting.bytes, "a read of %zu bytes at %lld: %s", bytes, (long long)offset,
			 strerror(-waiting.bytes));
}

void linnos_gluster_get_stats(struct linnos_gluster *g, struct linnos_gluster_stats *stats,
			      size_t bytes)
{
	struct linnos_gluster_stats own;

	memset(stats, 0, bytes);
	if (!g) {
		error_null("volume");
		return;
	}
	own = (struct linnos_gluster_stats){
		.reads = g->reads,
		.fresh = g->fresh,
		.retried = g->retried,
		.looked = g->looked,
		.nodes = g->graph.n_bricks,
	};
	memcpy(stats, &own, bytes < sizeof(own) ? bytes : sizeof(own));
}
