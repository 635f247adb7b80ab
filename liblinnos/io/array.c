// SPDX-License-Identifier: MIT
/* Open and close arrays, and return their statistics. */
#include "array.h"
#include "kernel_query.h"
#include "bounce.h"
#include "direct.h"
#include "messages.h"
#include "io_context.h"
#include "options.h"
#include "versioned_struct.h"
#include "uring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t array_clock_ns(const struct linnos_array *a)
{
	struct timespec t;

	if (a->backend.now_ns)
		return a->backend.now_ns(a->backend.context);
	if (a->hooks.clock_ns)
		return a->hooks.clock_ns(a->hooks.context);
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t array_size_now(const struct linnos_array *a)
{
	uint64_t largest = 0;

	for (unsigned int k = 0; k < a->n; k++) {
		uint64_t bytes = a->replicas[k].size_bytes;
		struct stat st;

		if (a->is_files && !fstat(a->replicas[k].fd, &st) && S_ISREG(st.st_mode))
			bytes = st.st_size;
		if (bytes > largest)
			largest = bytes;
	}
	return largest;
}

static int open_path(const struct linnos_options *o, struct replica *r, const char *path,
		     bool has_others)
{
	int flags = O_RDONLY | O_CLOEXEC;

	r->fd = open(path, o->flags & LINNOS_BUFFERED ? flags : flags | O_DIRECT);
	/* The file system does not support O_DIRECT. */
	if (r->fd < 0 && errno == EINVAL)
		r->fd = open(path, flags);
	if (r->fd >= 0) {
		r->is_ours = true;
		return 0;
	}
	return error_say(
		-errno, "replica %s: %s%s", path, strerror(errno),
		errno == EACCES ? "; drives are read by root and the group disk"
		: errno == ENOENT && has_others
			? "; NULL in its place (None in Python, Rust) opens the array without it"
			: "");
}

static int look_at(struct linnos_array *a, struct replica *r)
{
	int flags = fcntl(r->fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(r->fd, &st))
		return error_say(-errno, "replica %s: %s", r->name, strerror(errno));
	if ((flags & O_ACCMODE) == O_WRONLY)
		return error_say(-EBADF, "replica %s: not open for reading", r->name);
	r->align_bytes = r->memory_align_bytes = 1;
	if (S_ISREG(st.st_mode)) {
		r->size_bytes = st.st_size;
	} else if (!S_ISBLK(st.st_mode)) {
		return error_say(-EINVAL, "replica %s: neither a block device nor a regular file",
				 r->name);
	} else if (ioctl(r->fd, BLKGETSIZE64, &r->size_bytes)) {
		return error_say(-errno, "replica %s: no size: %s", r->name, strerror(errno));
	}
	if (r->size_bytes > a->size_bytes)
		a->size_bytes = r->size_bytes;
	if (flags & O_DIRECT)
		direct_io_needs(r->fd, &r->align_bytes, &r->memory_align_bytes);
	/* No current drive requires more. All reads of such a drive would fail. */
	if (r->memory_align_bytes > BOUNCE_ALIGN)
		return error_say(
			-EINVAL,
			"replica %s: O_DIRECT wants memory aligned to %u bytes; at most %u "
			"can be, so set LINNOS_BUFFERED",
			r->name, r->memory_align_bytes, BOUNCE_ALIGN);
	return 0;
}

static int name_it(struct replica *r, const char *name, const char *kind, int number)
{
	char numbered[32];

	snprintf(numbered, sizeof(numbered), "%s %d", kind, number);
	r->fd = -1;
	r->name = strdup(name ? name : numbered);
	return r->name ? 0 : error_say(-ENOMEM, "out of memory");
}

static bool is_there(const struct replica *r)
{
	return r->fd != -1;
}

static int open_file(struct linnos_array *a, const struct linnos_options *o, const char *path,
		     int fd, bool has_others)
{
	struct replica *r = &a->replicas[a->n++];
	int error = name_it(r, path, "descriptor", fd);

	r->fd = fd;
	if (!error && path)
		error = open_path(o, r, path, has_others);
	if (!error && !is_there(r)) {
		r->align_bytes = r->memory_align_bytes = 1;
		return 0;
	}
	return error ? error : look_at(a, r);
}

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

static int take_replica(struct linnos_array *a, const struct linnos_replica *given)
{
	struct replica *r = &a->replicas[a->n];
	int error = name_it(r, given->name, "replica", (int)a->n);

	a->n++;
	if (error)
		return error;
	r->size_bytes = given->bytes;
	r->align_bytes = given->align_bytes ? given->align_bytes : 1;
	r->memory_align_bytes = given->memory_align_bytes ? given->memory_align_bytes : 1;
	if (!is_power_of_two(r->align_bytes) || !is_power_of_two(r->memory_align_bytes) ||
	    r->memory_align_bytes > BOUNCE_ALIGN)
		return error_say(-EINVAL,
				 "%s: aligned to %u bytes, and memory to %u; powers of two can be, "
				 "for memory up to %u",
				 r->name, r->align_bytes, r->memory_align_bytes, BOUNCE_ALIGN);
	if (r->size_bytes > a->size_bytes)
		a->size_bytes = r->size_bytes;
	return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) || S_ISBLK(b->st_mode))
		return S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Check that no two files or devices are the same, and that none is empty unless all are. */
static int check_files(const struct linnos_array *a, uint32_t *missing)
{
	struct stat stats[CHOOSER_DRIVES_MAX];

	for (unsigned int k = 0; k < a->n; k++) {
		const struct replica *r = &a->replicas[k];

		if (!is_there(r)) {
			*missing |= 1u << k;
			continue;
		}
		if (fstat(r->fd, &stats[k]))
			return error_say(-errno, "replica %s: %s", r->name, strerror(errno));
		for (unsigned int i = 0; i < k; i++)
			if (is_there(&a->replicas[i]) && is_same(&stats[i], &stats[k]))
				return error_say(-EINVAL,
						 "replica %s: the same as replica %s; each needs a "
						 "drive or a file of its own",
						 r->name, a->replicas[i].name);
		if (!r->size_bytes && a->size_bytes)
			return error_say(-EINVAL,
					 "replica %s: it is empty, where another holds %llu bytes; "
					 "copy them there, or open the array without it",
					 r->name, (unsigned long long)a->size_bytes);
	}
	if (*missing == (1u << a->n) - 1)
		return error_say(-EINVAL, "none of %u replicas is there; at least one must be",
				 a->n);
	return 0;
}

/* Set up everything that needs the replicas to be open. */
static int set_up(struct linnos_array *a, const char *const *models, const struct linnos_options *o)
{
	uint32_t missing = 0;
	const char *why;
	int error = a->is_files ? check_files(a, &missing) : 0;

	if (!error)
		error = linnos_predictor_create(&a->known, a->n, models, o);
	if (!error)
		error = linnos_chooser_create(&a->writer, a->known);
	if (error)
		return error;
	a->known->missing = a->known->common.gone = missing;
	a->asks = a->is_files && o->flags & LINNOS_QUERY_KERNEL && best_is_known(a);
	if (!a->is_files || !a->known->hedging)
		return 0;
	error = reaper_start(a, &why);
	return error ? error_say(error, "%s: %s; hedging needs it; ask for none to read without",
				 why, strerror(-error))
		     : 0;
}

static void give_back(struct linnos_array *a)
{
	reaper_stop(a);
	linnos_chooser_free(a->writer);
	linnos_predictor_free(a->known);
	for (unsigned int k = 0; k < a->n; k++) {
		if (a->replicas[k].is_ours)
			close(a->replicas[k].fd);
		free(a->replicas[k].name);
	}
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* The replicas to open: exactly one of these is set. */
struct what {
	const char *const *paths;
	bool has_others; /* paths: there are several, so one may be NULL */
	const int *fds;
	const struct linnos_replica *replicas;
	const struct linnos_backend *backend;
};

static int open_replica(struct linnos_array *a, const struct linnos_options *o,
			const struct what *what, unsigned int k)
{
	const char *at = (const char *)what->replicas;
	struct linnos_replica given = {.size = sizeof(given)};
	int error;

	if (!at)
		return open_file(a, o, what->paths ? what->paths[k] : NULL,
				 what->fds ? what->fds[k] : -1, what->has_others);
	error = versioned_struct_copy_in(&given, sizeof(given), at + k * what->replicas->size,
					 LINNOS_REPLICA_SIZE_VER0, "struct linnos_replica");
	return error ? error : take_replica(a, &given);
}

static int take_backend(struct linnos_array *a, const struct linnos_backend *backend)
{
	a->is_files = !backend;
	if (a->is_files) {
		uring_backend_init(&a->backend);
		return 0;
	}
	return versioned_struct_copy_in(&a->backend, sizeof(a->backend), backend,
					LINNOS_BACKEND_SIZE_VER0, "struct linnos_backend");
}

static int open_array(struct linnos_array **array, unsigned int n, const struct what *what,
		      const char *const *models, const struct linnos_options *options)
{
	const uint32_t of_files = LINNOS_BUFFERED | LINNOS_QUERY_KERNEL;
	struct linnos_array *a = calloc(1, sizeof(*a));
	struct linnos_options o;
	int error;

	*array = NULL;
	if (!a)
		return error_say(-ENOMEM, "out of memory");
	pthread_mutex_init(&a->lock, NULL);
	error = what->paths || what->fds || what->replicas ? options_copy_in(&o, options)
							   : error_null("list of replicas");
	if (!error)
		error = options_check(&o, n);
	if (!error)
		error = take_backend(a, what->backend);
	if (!error && !a->is_files && o.flags & of_files)
		error = error_say(-EINVAL,
				  "options: flags 0x%x are of files and block devices, not of a "
				  "backend",
				  o.flags & of_files);
	for (unsigned int k = 0; !error && k < n; k++)
		error = open_replica(a, &o, what, k);
	if (!error)
		error = set_up(a, models, &o);
	if (error)
		give_back(a);
	else
		*array = a;
	return error;
}

int linnos_array_open(struct linnos_array **array, unsigned int n_replicas,
		      const char *const *paths, const char *const *models,
		      const struct linnos_options *options)
{
	return open_array(array, n_replicas,
			  &(struct what){.paths = paths, .has_others = n_replicas > 1}, models,
			  options);
}

int linnos_array_open_fds(struct linnos_array **array, unsigned int n_replicas, const int *fds,
			  const char *const *models, const struct linnos_options *options)
{
	return open_array(array, n_replicas, &(struct what){.fds = fds}, models, options);
}

int linnos_array_open_backend(struct linnos_array **array, unsigned int n_replicas,
			      const struct linnos_replica *replicas,
			      const struct linnos_backend *backend, const char *const *models,
			      const struct linnos_options *options)
{
	*array = NULL;
	if (!backend)
		return error_null("backend");
	return open_array(array, n_replicas,
			  &(struct what){.replicas = replicas, .backend = backend}, models,
			  options);
}

int linnos_array_close(struct linnos_array *a)
{
	if (!a)
		return 0;
	if (a->queues)
		return error_say(-EBUSY, "the array has queues; close them first, each in its "
					 "thread or after it");
	give_back(a);
	return 0;
}

struct linnos_predictor *linnos_array_predictor(struct linnos_array *a)
{
	return a ? a->known : NULL;
}

int linnos_array_drop_replica(struct linnos_array *a, unsigned int replica)
{
	return linnos_predictor_drop_replica(linnos_array_predictor(a), replica);
}

int linnos_array_restore_replica(struct linnos_array *a, unsigned int replica)
{
	return linnos_predictor_restore_replica(linnos_array_predictor(a), replica);
}

int linnos_set_model(struct linnos_array *a, unsigned int replica, const char *model)
{
	return linnos_predictor_set_model(linnos_array_predictor(a), replica, model);
}

int linnos_array_write_start(struct linnos_array *a, struct linnos_attempt *write,
			     unsigned int replica, size_t bytes)
{
	struct linnos_choice c = {.bytes = bytes};

	if (!a)
		return error_null("array");
	if (replica >= a->n)
		return error_say(-EINVAL, "write to replica %u; there are 0 to %u", replica,
				 a->n - 1);
	linnos_chooser_on_submit(a->writer, write, &c, replica, LINNOS_WRITE, array_clock_ns(a));
	return 0;
}

void linnos_array_write_complete(struct linnos_array *a, struct linnos_attempt *write)
{
	if (a)
		linnos_chooser_on_complete(a->writer, write, LINNOS_SUCCEEDED, array_clock_ns(a));
}

static void add_queue(struct queue_counts *sum, const struct linnos_queue *q)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)&q->counts;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += READ_ONCE(from[i]);
}

void array_count(struct linnos_array *a, struct queue_counts *sum)
{
	array_lock(a);
	*sum = a->past;
	for (const struct linnos_queue *q = a->queues; q; q = q->next)
		add_queue(sum, q);
	if (a->lanes)
		add_queue(sum, reaper_queue(a->lanes));
	array_unlock(a);
}

void linnos_array_get_stats(struct linnos_array *a, struct linnos_stats *stats, size_t bytes)
{
	struct linnos_stats s = {0};
	struct queue_counts q;
	uint32_t choosing;
	struct counts c;

	memset(stats, 0, bytes);
	if (!a)
		return;
	choosing = READ_ONCE(a->known->common.chooses);
	array_count(a, &q);
	known_count(a->known, &c);
	s.reads = c.reads;
	s.bytes = q.bytes;
	s.moved = c.moved;
	s.explored = c.explored;
	s.hedges = c.hedges;
	s.hedges_won = c.hedges_won;
	s.hedges_denied = c.hedges_denied;
	s.failovers = c.failovers;
	s.errors = c.errors;
	s.failed = q.failed;
	/* A completion may be counted after the count of submissions was read. */
	s.in_flight = q.sent > q.landed ? q.sent - q.landed : 0;
	s.saved_us_estimate = c.saved_us;
	s.hedges_saved_us = c.hedges_saved_us;
	s.asked = c.asked;
	s.without_ring = q.without_ring;
	s.not_choosing = a->n - (unsigned int)__builtin_popcount(choosing);
	s.stayed = c.stayed;
	s.late = q.late;
	s.cancelled = q.cancelled;
	versioned_struct_copy_out(stats, bytes, &s, sizeof(s));
}

int linnos_array_get_replica_stats(struct linnos_array *a, unsigned int replica,
				   struct linnos_replica_stats *stats, size_t bytes)
{
	if (!a)
		return error_null("array");
	return linnos_predictor_get_replica_stats(a->known, replica, array_clock_ns(a), stats,
						  bytes);
}

uint64_t linnos_array_size(const struct linnos_array *a)
{
	return a ? a->size_bytes : 0;
}

int linnos_array_queries_kernel(const struct linnos_array *a)
{
	return a && a->asks;
}
