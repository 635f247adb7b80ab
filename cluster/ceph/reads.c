// SPDX-License-Identifier: MIT
/*
 * Reads of Ceph objects: see linnos_ceph.h.
 *
 * A read has an attempt at the chosen OSD, and possibly a probe copy, for which no caller waits.
 * The user is notified when the attempt is complete. The read is freed when both are complete.
 */
#include "linnos_ceph.h"

#include "agents.h"
#include "clock.h"
#include "messages.h"
#include "placement.h"
#include "versioned_struct.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Error texts contain this many bytes of an object's name, so that the reason always fits. */
#define NAMED "128"

_Static_assert(REPLICAS_MAX == LINNOS_CLUSTER_CANDIDATES, "both limits must be equal");

struct linnos_ceph {
	struct linnos_cluster *cluster;
	struct placement *placement;
	struct agents *agents;
	/* pool reads from primaries; users_pool is given to the user, and may be configured */
	rados_ioctx_t pool, users_pool;
	char *configuration, *user, *name;
	atomic_ullong reads, unknown, fresh, replica_reads, retried;
	pthread_mutex_t lock;
	pthread_cond_t none_left;
	uint64_t in_flight;
};

struct attempt {
	struct read *read;
	rados_read_op_t op;
	size_t bytes;
	int status;
	/* buffer of a copy */
	void *own;
	/* NULL to read from the primary */
	struct handle *handle;
	/* submission was reported to liblinnos-cluster, but not completion */
	bool is_counted;
	struct linnos_attempt sending;
};

struct read {
	struct linnos_ceph *ceph;
	linnos_ceph_done done;
	void *data, *buffer;
	size_t bytes;
	uint64_t offset;
	/* liblinnos-cluster has chosen an OSD other than the primary */
	bool is_elsewhere;
	/* -1 for the primary, chosen by librados */
	int osd;
	struct linnos_choice choice;
	uint32_t osds[REPLICAS_MAX];
	struct attempt first, copy;
	atomic_int n_attempts;
	char object[];
};

static void release(struct read *read)
{
	struct linnos_ceph *ceph = read->ceph;

	if (atomic_fetch_sub(&read->n_attempts, 1) > 1)
		return;
	free(read);
	pthread_mutex_lock(&ceph->lock);
	if (!--ceph->in_flight)
		pthread_cond_broadcast(&ceph->none_left);
	pthread_mutex_unlock(&ceph->lock);
}

static void end_attempt(rados_completion_t completion, void *data);

static void release_handle(struct attempt *attempt)
{
	if (attempt->handle)
		handle_leave(attempt->read->ceph->placement, attempt->handle);
	attempt->handle = NULL;
}

/* Send an attempt with its handle, or to the primary if it has none. */
static int send_attempt(struct attempt *attempt, void *buffer)
{
	struct read *read = attempt->read;
	struct handle *handle = attempt->handle;
	rados_completion_t completion;
	int status = rados_aio_create_completion2(attempt, end_attempt, &completion);

	if (status < 0)
		goto fail;
	attempt->op = rados_create_read_op();
	rados_read_op_read(attempt->op, read->offset, read->bytes, buffer, &attempt->bytes,
			   &attempt->status);
	status = rados_aio_read_op_operate(
		attempt->op, handle ? handle_pool(handle) : read->ceph->pool, completion,
		read->object,
		handle ? LIBRADOS_OPERATION_LOCALIZE_READS : LIBRADOS_OPERATION_NOFLAG);
	rados_aio_release(completion);
	if (status >= 0)
		return 0;
	rados_release_read_op(attempt->op);
fail:
	release_handle(attempt);
	return status;
}

/* Return true if the OSD has answered, which includes that the object does not exist. */
static bool is_answer(ssize_t bytes)
{
	return bytes >= 0 || bytes == -ENOENT;
}

/* A read without data does not access a drive, so its latency counts only if it was late. */
static enum linnos_end end_of(ssize_t bytes)
{
	if (!is_answer(bytes))
		return LINNOS_FAILED;
	return bytes > 0 ? LINNOS_SUCCEEDED : LINNOS_CANCELLED;
}

static void report_submit(struct attempt *attempt, unsigned int replica, enum linnos_kind kind,
			  uint64_t now_ns)
{
	struct read *read = attempt->read;

	attempt->is_counted = true;
	linnos_cluster_on_submit(read->ceph->cluster, &attempt->sending, &read->choice, replica,
				 kind, now_ns);
}

static void report_complete(struct attempt *attempt, enum linnos_end end, uint64_t now_ns)
{
	attempt->is_counted = false;
	linnos_cluster_on_complete(attempt->read->ceph->cluster, &attempt->sending, end, now_ns);
}

static void end_attempt(rados_completion_t completion, void *data)
{
	struct attempt *attempt = data;
	struct read *read = attempt->read;
	struct linnos_ceph *ceph = read->ceph;
	bool is_copy = attempt == &read->copy;
	uint64_t now_ns = clock_ns();
	ssize_t bytes = rados_aio_get_return_value(completion);

	if (bytes >= 0)
		bytes = attempt->status < 0 ? attempt->status : (ssize_t)attempt->bytes;
	rados_release_read_op(attempt->op);
	release_handle(attempt);
	if (is_copy) {
		report_complete(attempt, end_of(bytes), now_ns);
		free(attempt->own);
		release(read);
		return;
	}
	if (attempt->is_counted) {
		report_complete(attempt, end_of(bytes), now_ns);
		linnos_cluster_on_answer(ceph->cluster, &read->choice,
					 is_answer(bytes) ? &attempt->sending : NULL, now_ns);
	}
	/* retry at the primary, which can repair an object that a replica cannot read */
	if (!is_answer(bytes) && read->is_elsewhere) {
		read->is_elsewhere = false;
		read->osd = -1;
		atomic_fetch_add(&ceph->retried, 1);
		if (!send_attempt(attempt, read->buffer))
			return;
	}
	read->done(read->data, bytes, read->osd);
	release(read);
}

static void send_copy(struct read *read, uint64_t now_ns)
{
	struct attempt *copy = &read->copy;
	uint32_t osd = read->osds[read->choice.copy];

	copy->read = read;
	copy->own = malloc(read->bytes);
	atomic_fetch_add(&read->n_attempts, 1);
	report_submit(copy, read->choice.copy, LINNOS_PROBE_COPY, now_ns);
	if (copy->own) {
		copy->handle = handle_enter(read->ceph->placement, osd);
		if (!send_attempt(copy, copy->own))
			return;
	}
	report_complete(copy, LINNOS_CANCELLED, now_ns);
	free(copy->own);
	release(read);
}

static struct read *new_read(struct linnos_ceph *ceph, const char *object, void *buffer,
			     size_t bytes, uint64_t offset, linnos_ceph_done done, void *data)
{
	size_t length = strlen(object) + 1;
	struct read *read = calloc(1, sizeof(*read) + length);

	if (!read)
		return NULL;
	read->ceph = ceph;
	read->done = done;
	read->data = data;
	read->buffer = buffer;
	read->bytes = bytes;
	read->offset = offset;
	read->osd = -1;
	read->first.read = read;
	read->n_attempts = 1;
	memcpy(read->object, object, length);
	pthread_mutex_lock(&ceph->lock);
	ceph->in_flight++;
	pthread_mutex_unlock(&ceph->lock);
	return read;
}

/* Choose an OSD and its handle; the primary has none. */
static void choose(struct read *read, unsigned int n, uint64_t now_ns)
{
	struct linnos_ceph *ceph = read->ceph;
	int64_t osd;

	read->choice = (struct linnos_choice){.offset = read->offset, .bytes = read->bytes};
	osd = linnos_cluster_choose(ceph->cluster, &read->choice, read->osds, n, now_ns);
	if (osd < 0)
		return;
	report_submit(&read->first, read->choice.replica, LINNOS_PRIMARY_ATTEMPT, now_ns);
	read->osd = osd;
	if (!read->choice.replica)
		return;
	read->is_elsewhere = true;
	atomic_fetch_add(&ceph->replica_reads, 1);
	read->first.handle = handle_enter(ceph->placement, osd);
}

static int check_name(const struct linnos_ceph *ceph, const char *object)
{
	if (!ceph || !object)
		return error_null(!ceph ? "pool" : "object");
	return *object ? 0 : format_error(-EINVAL, "the name of the object is empty");
}

static int check_read(const struct linnos_ceph *ceph, const char *object, const void *buffer,
		      size_t bytes, linnos_ceph_done done)
{
	int status = check_name(ceph, object);

	if (status)
		return status;
	if (!buffer || !done)
		return error_null(!buffer ? "buffer" : "function to call");
	/*
	 * for an OSD, 0 means the whole object, and librados counts in an int: larger values would
	 * abort the program
	 */
	if (!bytes || bytes > INT32_MAX)
		return format_error(-EINVAL,
				    "object %." NAMED
				    "s: the read has %zu bytes; it must have 1 to %d",
				    object, bytes, INT32_MAX);
	return 0;
}

/* Check the arguments and allocate a read. */
static int prepare(struct read **read, struct linnos_ceph *ceph, const char *object, void *buffer,
		   size_t bytes, uint64_t offset, linnos_ceph_done done, void *data)
{
	int status = check_read(ceph, object, buffer, bytes, done);

	if (status)
		return status;
	*read = new_read(ceph, object, buffer, bytes, offset, done, data);
	return *read ? 0
		     : format_error(-ENOMEM,
				    "object %." NAMED "s: cannot allocate memory for the read",
				    object);
}

/* Send a read, whose memory may be freed at any time after that, or free it on failure. */
static int send_first(struct read *read, const char *object, uint64_t now_ns)
{
	int status = send_attempt(&read->first, read->buffer);

	if (status >= 0)
		return 0;
	if (read->first.is_counted) {
		report_complete(&read->first, LINNOS_CANCELLED, now_ns);
		linnos_cluster_on_answer(read->ceph->cluster, &read->choice, NULL, now_ns);
	}
	release(read);
	return format_error(status, "object %." NAMED "s: cannot send the read: %s", object,
			    strerror(-status));
}

int linnos_ceph_aio_read(struct linnos_ceph *ceph, const char *object, void *buffer, size_t bytes,
			 uint64_t offset, linnos_ceph_done done, void *data)
{
	uint64_t now_ns = clock_ns();
	struct read *read;
	unsigned int n;
	int status = prepare(&read, ceph, object, buffer, bytes, offset, done, data);

	if (status)
		return status;
	atomic_fetch_add(&ceph->reads, 1);
	switch (placement_find(ceph->placement, object, now_ns, read->osds, &n)) {
	case PLACE_UNKNOWN:
		atomic_fetch_add(&ceph->unknown, 1);
		break;
	case PLACE_FRESH:
		atomic_fetch_add(&ceph->fresh, 1);
		break;
	case PLACE_KNOWN:
		choose(read, n, now_ns);
	}
	/* send the copy first, because the read may be freed at any time after its submission */
	if (read->first.is_counted && read->choice.copy >= 0)
		send_copy(read, now_ns);
	status = send_first(read, object, now_ns);
	if (!status && ceph->agents)
		agents_query(ceph->agents, bytes, now_ns);
	return status;
}

int linnos_ceph_aio_read_from(struct linnos_ceph *ceph, int osd, const char *object, void *buffer,
			      size_t bytes, uint64_t offset, linnos_ceph_done done, void *data)
{
	struct read *read;
	int status = prepare(&read, ceph, object, buffer, bytes, offset, done, data);

	if (status)
		return status;
	read->osd = osd;
	if (osd >= 0) {
		read->first.handle = handle_enter(ceph->placement, osd);
		if (!read->first.handle) {
			release(read);
			return format_error(
				-ENXIO, "osd.%d: the location of none of its objects is known yet",
				osd);
		}
	}
	return send_first(read, object, 0);
}

static ssize_t describe_failure(const struct linnos_ceph *ceph, const char *object, ssize_t status)
{
	const char *user = ceph->user ? ceph->user : "admin";
	char remedy[2 * NAME_MAX_BYTES] = "";

	if (status == -EPERM || status == -EACCES)
		snprintf(remedy, sizeof(remedy), "; client.%s needs `osd 'allow r pool=%s'`", user,
			 ceph->name);
	if (status == -ETIMEDOUT)
		snprintf(remedy, sizeof(remedy),
			 "; `ceph pg stat` shows whether the pool is available, and "
			 "rados_osd_op_timeout limits the wait");
	return format_error(status, "object %." NAMED "s of pool %s: %s%s", object, ceph->name,
			    strerror(-status), remedy);
}

/* A thread that waits for its read. */
struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool has_ended;
	ssize_t bytes;
};

static void wake(void *data, ssize_t bytes, int osd)
{
	struct waiting *w = data;

	pthread_mutex_lock(&w->lock);
	w->bytes = bytes;
	w->has_ended = true;
	pthread_cond_signal(&w->ended);
	pthread_mutex_unlock(&w->lock);
}

/*
 * Disable cancellation of the thread while it waits, because the completion would otherwise write
 * to a stack that no longer exists.
 */
ssize_t linnos_ceph_read(struct linnos_ceph *ceph, const char *object, void *buffer, size_t bytes,
			 uint64_t offset)
{
	struct waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
	int status, cancel_state, disabled;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	status = linnos_ceph_aio_read(ceph, object, buffer, bytes, offset, wake, &w);
	pthread_mutex_lock(&w.lock);
	while (!status && !w.has_ended)
		pthread_cond_wait(&w.ended, &w.lock);
	pthread_mutex_unlock(&w.lock);
	pthread_setcancelstate(cancel_state, &disabled);
	if (status)
		return status;
	return w.bytes < 0 ? describe_failure(ceph, object, w.bytes) : w.bytes;
}

void linnos_ceph_wrote(struct linnos_ceph *ceph, const char *object)
{
	if (!check_name(ceph, object))
		placement_wrote(ceph->placement, object, clock_ns());
}

unsigned int linnos_ceph_osds(struct linnos_ceph *ceph, const char *object,
			      int osds[LINNOS_CLUSTER_CANDIDATES])
{
	uint32_t numbers[REPLICAS_MAX];
	unsigned int n;

	if (check_name(ceph, object) ||
	    placement_find(ceph->placement, object, clock_ns(), numbers, &n) == PLACE_UNKNOWN)
		return 0;
	for (unsigned int k = 0; k < n; k++)
		osds[k] = numbers[k];
	return n;
}

rados_ioctx_t linnos_ceph_pool(struct linnos_ceph *ceph)
{
	if (!ceph)
		error_null("pool");
	return ceph ? ceph->users_pool : NULL;
}

struct linnos_cluster *linnos_ceph_cluster(struct linnos_ceph *ceph)
{
	if (!ceph)
		error_null("pool");
	return ceph ? ceph->cluster : NULL;
}

void linnos_ceph_get_stats(struct linnos_ceph *ceph, struct linnos_ceph_stats *stats, size_t bytes)
{
	struct placement_counts counts;
	struct linnos_ceph_stats own;

	memset(stats, 0, bytes);
	if (!ceph) {
		error_null("pool");
		return;
	}
	placement_count(ceph->placement, &counts);
	own = (struct linnos_ceph_stats){
		.reads = ceph->reads,
		.unknown = ceph->unknown,
		.fresh = ceph->fresh,
		.replica_reads = ceph->replica_reads,
		.bounced = counts.bounced,
		.retried = ceph->retried,
		.monitor_queries = counts.queries,
		.misplaced = counts.misplaced,
		.handles = counts.handles,
	};
	versioned_struct_copy_out(stats, bytes, &own, sizeof(own));
}

/* ---- creation and destruction ---- */

static void on_osd_found(void *data, uint32_t osd, const char *address, unsigned int rank)
{
	struct linnos_ceph *ceph = data;

	if (ceph->agents)
		agents_resolve(ceph->agents, osd, address, rank);
}

/* Return false if memory is exhausted. */
static bool copy_text(char **copy, const char *text)
{
	*copy = text ? strdup(text) : NULL;
	return !text || *copy;
}

static int copy_options(struct linnos_ceph_options *o, const char *pool,
			const struct linnos_ceph_options *given)
{
	int error;

	*o = (struct linnos_ceph_options)LINNOS_CEPH_OPTIONS_INIT;
	if (!pool)
		return error_null("name of a pool");
	error = versioned_struct_copy_in(o, sizeof(*o), given, LINNOS_CEPH_OPTIONS_SIZE_VER0,
					 "options (see LINNOS_CEPH_OPTIONS_INIT)");
	if (error)
		return error;
	if (o->agent_port > UINT16_MAX)
		return format_error(-EINVAL, "agent_port is %u; it must be at most 65535",
				    o->agent_port);
	if (o->choosing && o->choosing->mode == LINNOS_CLUSTER_HEDGE)
		return format_error(
			-ENOTSUP,
			"mode LINNOS_CLUSTER_HEDGE is not supported; use LINNOS_CLUSTER_CHOOSE");
	return 0;
}

int linnos_ceph_open(struct linnos_ceph **ceph, const char *pool,
		     const struct linnos_ceph_options *options)
{
	struct linnos_ceph_options o;
	struct linnos_ceph *c;
	struct login login;
	int status = copy_options(&o, pool, options);

	*ceph = NULL;
	if (status)
		return status;
	c = calloc(1, sizeof(*c));
	if (!c)
		return format_error(-ENOMEM, "cannot allocate memory for the pool");
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->none_left, NULL);
	if (!copy_text(&c->configuration, o.configuration) || !copy_text(&c->user, o.user) ||
	    !copy_text(&c->name, pool)) {
		status = format_error(-ENOMEM, "cannot allocate memory for the pool");
		goto fail;
	}
	login = (struct login){c->configuration, c->user, c->name};
	status = placement_create(&c->placement, &login, o.fresh_ms * UINT64_C(1000000),
				  on_osd_found, c, &c->pool, &c->users_pool);
	if (status)
		goto fail;
	status = linnos_cluster_create(&c->cluster, placement_osds(c->placement), o.choosing);
	if (status) {
		format_error(status, "%s", linnos_cluster_error());
		goto fail;
	}
	/* OSDs are looked up only after the first read, so this is early enough */
	if (o.agent_port)
		status = agents_create(&c->agents, c->cluster, placement_osds(c->placement),
				       o.agent_port);
	if (status)
		goto fail;
	*ceph = c;
	return 0;
fail:
	linnos_ceph_close(c);
	return status;
}

void linnos_ceph_close(struct linnos_ceph *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	while (c->in_flight)
		pthread_cond_wait(&c->none_left, &c->lock);
	pthread_mutex_unlock(&c->lock);
	/* free this first, because its thread uses the agents */
	if (c->placement)
		placement_free(c->placement);
	if (c->agents)
		agents_free(c->agents);
	linnos_cluster_free(c->cluster);
	pthread_cond_destroy(&c->none_left);
	pthread_mutex_destroy(&c->lock);
	free(c->configuration);
	free(c->user);
	free(c->name);
	free(c);
}
