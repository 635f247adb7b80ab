// SPDX-License-Identifier: MIT
/* Opening an array, and what it tells of itself. */
#include "array.h"
#include "best.h"
#include "direct.h"
#include "lanes.h"
#include "latcrit.h"
#include "model_file.h"
#include "reads.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Static_assert(LINNOS_REPLICAS_MAX == CHOOSER_DRIVES_MAX, "the chooser knows as many");

#define KNOWN_FLAGS                                                                                \
	(LINNOS_BUFFERED | LINNOS_HINT | LINNOS_ASK | LINNOS_UNGUARDED | LINNOS_HEDGE_BY_GAIN)
/* The options of the first version: less is none. */
#define OPTIONS_BYTES_MIN offsetof(struct linnos_options, hedge_tables)
/* Without a model: what no drive in order takes. */
#define OVERDUE_US 10000
/* A percentile of hedging is off by 1/64 at most. */
#define HISTOGRAM_BITS 6

uint64_t array_clock_ns(const struct linnos_array *a)
{
	struct timespec t;

	if (a->hooks.clock_ns)
		return a->hooks.clock_ns(a->hooks.context);
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t array_time(struct linnos_array *a, uint64_t clock_ns)
{
	if (clock_ns > a->now_ns)
		a->now_ns = clock_ns;
	return a->now_ns;
}

int array_fail(struct linnos_array *a, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(a->error, sizeof(a->error), format, args);
	va_end(args);
	return error;
}

uint64_t array_size_now(const struct linnos_array *a)
{
	uint64_t largest = 0;

	for (unsigned int k = 0; k < a->n; k++) {
		uint64_t bytes = a->replicas[k].size_bytes;
		struct stat st;

		if (!fstat(a->replicas[k].fd, &st) && S_ISREG(st.st_mode))
			bytes = st.st_size;
		if (bytes > largest)
			largest = bytes;
	}
	return largest;
}

/* What the caller's structure does not have yet keeps its default; what this library does not know
 * yet must be zero. */
static int take_options(struct linnos_array *a, const struct linnos_options *o)
{
	struct linnos_options defaults = LINNOS_OPTIONS_INIT;

	a->o = defaults;
	if (!o)
		return 0;
	if (o->size < OPTIONS_BYTES_MIN)
		return array_fail(a, -EINVAL,
				  "options of %zu bytes; begin with struct linnos_options o = "
				  "LINNOS_OPTIONS_INIT, which sets .size",
				  o->size);
	for (size_t i = sizeof(a->o); i < o->size; i++)
		if (((const char *)o)[i])
			return array_fail(a, -E2BIG,
					  "options that this liblinnos does not know (byte %zu is "
					  "not zero); it is older than the program's header",
					  i);
	memcpy(&a->o, o, o->size < sizeof(a->o) ? o->size : sizeof(a->o));
	return 0;
}

static int check_options(struct linnos_array *a, unsigned int n)
{
	const struct linnos_options *o = &a->o;

	if (o->flags & ~KNOWN_FLAGS)
		return array_fail(a, -EINVAL, "options: flags 0x%x; known are 0x%x", o->flags,
				  KNOWN_FLAGS);
	if (o->home != LINNOS_HOME_TURNS && (o->home < 0 || (unsigned int)o->home >= n))
		return array_fail(a, -EINVAL,
				  "options: home %d of %u replicas; give 0 to %u, or "
				  "LINNOS_HOME_TURNS",
				  o->home, n, n - 1);
	if (o->home_margin_percent > 100)
		return array_fail(a, -EINVAL, "options: home_margin_percent %u; 0 to 100 can be",
				  o->home_margin_percent);
	if (!(o->extra_io_percent >= 0 && o->extra_io_percent <= 100))
		return array_fail(a, -EINVAL, "options: extra_io_percent %g; 0 to 100 can be",
				  o->extra_io_percent);
	if (!(o->hedge_percentile >= 0 && o->hedge_percentile < 100))
		return array_fail(
			a, -EINVAL,
			"options: hedge_percentile %g; above 0 and below 100 can be, 0 is "
			"none",
			o->hedge_percentile);
	if (!!o->hedge_us + (o->hedge_percentile > 0) + !!o->hedge_tables +
		    !!(o->flags & LINNOS_HEDGE_BY_GAIN) >
	    1)
		return array_fail(a, -EINVAL,
				  "options: more than one of hedge_us, hedge_percentile, "
				  "hedge_tables and LINNOS_HEDGE_BY_GAIN; give one of them");
	return 0;
}

static int open_path(struct linnos_array *a, struct replica *r, const char *path)
{
	int flags = O_RDONLY | O_CLOEXEC;

	r->fd = open(path, a->o.flags & LINNOS_BUFFERED ? flags : flags | O_DIRECT);
	/* A file system without O_DIRECT. */
	if (r->fd < 0 && errno == EINVAL)
		r->fd = open(path, flags);
	if (r->fd >= 0) {
		r->is_ours = true;
		return 0;
	}
	return array_fail(a, -errno, "replica %s: %s%s", path, strerror(errno),
			  errno == EACCES ? "; drives are read by root and the group disk" : "");
}

static int look_at(struct linnos_array *a, struct replica *r)
{
	int flags = fcntl(r->fd, F_GETFL);
	struct stat st;

	if (flags < 0 || fstat(r->fd, &st))
		return array_fail(a, -errno, "replica %s: %s", r->name, strerror(errno));
	if ((flags & O_ACCMODE) == O_WRONLY)
		return array_fail(a, -EBADF, "replica %s: not open for reading", r->name);
	r->align_bytes = r->memory_align_bytes = 1;
	if (S_ISREG(st.st_mode)) {
		r->size_bytes = st.st_size;
	} else if (!S_ISBLK(st.st_mode)) {
		return array_fail(a, -EINVAL,
				  "replica %s: neither a block device nor a regular file", r->name);
	} else if (ioctl(r->fd, BLKGETSIZE64, &r->size_bytes)) {
		return array_fail(a, -errno, "replica %s: no size: %s", r->name, strerror(errno));
	}
	if (r->size_bytes > a->size_bytes)
		a->size_bytes = r->size_bytes;
	if (flags & O_DIRECT)
		direct_io_needs(r->fd, &r->align_bytes, &r->memory_align_bytes);
	/* Which no drive of today does; its reads would all fail. */
	if (r->memory_align_bytes > BOUNCE_ALIGN)
		return array_fail(
			a, -EINVAL,
			"replica %s: O_DIRECT wants memory aligned to %u bytes; at most %u "
			"can be, so set LINNOS_BUFFERED",
			r->name, r->memory_align_bytes, BOUNCE_ALIGN);
	return 0;
}

static int open_replica(struct linnos_array *a, const char *path, int fd, const char *model)
{
	struct replica *r = &a->replicas[a->n];
	char why[MODEL_WHY_BYTES], number[32];
	int error = 0;

	snprintf(number, sizeof(number), "descriptor %d", fd);
	r->fd = fd;
	r->name = strdup(path ? path : number);
	a->n++;
	if (!r->name)
		return array_fail(a, -ENOMEM, "out of memory");
	if (path)
		error = open_path(a, r, path);
	if (!error)
		error = look_at(a, r);
	if (error)
		return error;
	if (model)
		a->models[a->n - 1] = model_file_read(model, &error, why);
	else
		a->models[a->n - 1] = model_mean_of_last(OVERDUE_US);
	if (a->models[a->n - 1])
		return 0;
	if (!model)
		return array_fail(a, -ENOMEM, "out of memory");
	return array_fail(a, error, "model of replica %s: %s", r->name, why);
}

static int read_hedge_tables(struct linnos_array *a)
{
	char why[HEDGE_TABLE_WHY_BYTES];
	int error = 0;

	a->hedge_tables = calloc(a->n, sizeof(*a->hedge_tables));
	if (!a->hedge_tables)
		return array_fail(a, -ENOMEM, "out of memory");
	for (unsigned int k = 0; !error && k < a->n; k++) {
		if (!a->o.hedge_tables[k])
			return array_fail(a, -EINVAL, "no hedge table for replica %s",
					  a->replicas[k].name);
		error = hedge_table_read(&a->hedge_tables[k], a->o.hedge_tables[k], why);
	}
	/* The caller's, who may let go of it. */
	a->o.hedge_tables = NULL;
	return error ? array_fail(a, error, "hedge table %s", why) : 0;
}

static int set_up(struct linnos_array *a)
{
	int error = a->o.hedge_tables ? read_hedge_tables(a) : 0;
	double share = a->o.extra_io_percent / 100;
	const char *why;

	if (error)
		return error;
	a->hint = a->o.flags & LINNOS_HINT;
	for (unsigned int k = 0; k < a->n; k++)
		a->hint = a->hint && latcrit_is_known(a->replicas[k].fd, a->replicas[k].size_bytes);
	a->asks = a->o.flags & LINNOS_ASK && best_is_known(a);
	a->races = a->o.flags & LINNOS_HEDGE_BY_GAIN;
	a->hedging = a->n > 1 && a->o.extra_io_percent > 0 &&
		     (a->o.hedge_us || a->o.hedge_percentile > 0 || a->hedge_tables || a->races);
	a->races = a->races && a->hedging;
	race_init(&a->race, share);
	a->hedge_ns = a->o.hedge_us * 1000ull;
	a->hedge_budget = (struct budget){.share = share, .burst = a->o.extra_io_burst};
	chooser_init(&a->chooser, a->n, a->drives, a->models, a->o.explore_ms * 1000000ull,
		     a->o.home_margin_percent, !(a->o.flags & LINNOS_UNGUARDED));
	chooser_cap(&a->chooser, share, a->hedging ? &a->hedge_budget : NULL);
	a->stats.not_choosing = a->n - __builtin_popcount(a->chooser.chooses);
	if (!histogram_init(&a->latencies, HISTOGRAM_BITS))
		return array_fail(a, -ENOMEM, "out of memory");
	error = a->hedging ? lanes_start(a, &why) : 0;
	if (!error)
		return 0;
	return array_fail(a, error, "%s: %s; hedging needs it; ask for none to read without", why,
			  strerror(-error));
}

static void give_back(struct linnos_array *a)
{
	lanes_stop(a);
	for (unsigned int k = 0; k < a->n; k++) {
		if (a->replicas[k].is_ours)
			close(a->replicas[k].fd);
		free(a->replicas[k].name);
		free(a->models[k]);
	}
	a->n = 0;
	free(a->hedge_tables);
	a->hedge_tables = NULL;
	histogram_free(&a->latencies);
	attempts_free(a);
	bounces_free(&a->bounces);
}

static int open_array(struct linnos_array **array, unsigned int n, const char *const *paths,
		      const int *fds, const char *const *models,
		      const struct linnos_options *options)
{
	struct linnos_array *a = calloc(1, sizeof(*a));
	int error;

	*array = a;
	if (!a)
		return -ENOMEM;
	pthread_mutex_init(&a->lock, NULL);
	if (!n || n > LINNOS_REPLICAS_MAX)
		return array_fail(a, -EINVAL, "an array of %u replicas; 1 to %u can be", n,
				  LINNOS_REPLICAS_MAX);
	error = take_options(a, options);
	if (!error)
		error = check_options(a, n);
	for (unsigned int k = 0; !error && k < n; k++)
		error = open_replica(a, paths ? paths[k] : NULL, fds ? fds[k] : -1,
				     models ? models[k] : NULL);
	if (!error)
		error = set_up(a);
	if (error)
		give_back(a);
	return error;
}

int linnos_open(struct linnos_array **array, unsigned int n_replicas, const char *const *paths,
		const char *const *models, const struct linnos_options *options)
{
	return open_array(array, n_replicas, paths, NULL, models, options);
}

int linnos_open_fds(struct linnos_array **array, unsigned int n_replicas, const int *fds,
		    const char *const *models, const struct linnos_options *options)
{
	return open_array(array, n_replicas, NULL, fds, models, options);
}

int linnos_close(struct linnos_array *a)
{
	unsigned int under_way = 0;

	if (!a)
		return 0;
	for (struct attempt *at = a->ring_attempts; at; at = at->later)
		under_way++;
	if (under_way)
		return array_fail(
			a, -EBUSY,
			"%u attempts of linnos_prep_read() are under way; give their "
			"completions to linnos_complete() first, or call linnos_abandon() "
			"when their ring is gone",
			under_way);
	give_back(a);
	reads_free(a);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return 0;
}

void linnos_error(struct linnos_array *a, char *text, size_t bytes)
{
	if (!bytes)
		return;
	if (!a) {
		snprintf(text, bytes, "out of memory");
		return;
	}
	array_lock(a);
	snprintf(text, bytes, "%s", a->error);
	array_unlock(a);
}

void linnos_get_stats(struct linnos_array *a, struct linnos_stats *stats, size_t bytes)
{
	memset(stats, 0, bytes);
	array_lock(a);
	memcpy(stats, &a->stats, bytes < sizeof(a->stats) ? bytes : sizeof(a->stats));
	array_unlock(a);
}

int linnos_drop(struct linnos_array *a, unsigned int replica)
{
	uint32_t gone;
	int error = 0;

	if (!a->n)
		return -EBADF;
	array_lock(a);
	gone = a->chooser.gone | 1u << replica % 32;
	if (replica >= a->n)
		error = array_fail(a, -EINVAL, "drop of replica %u; there are 0 to %u", replica,
				   a->n - 1);
	else if (gone == (1u << a->n) - 1)
		error = array_fail(a, -EBUSY, "replica %s: the last one, it cannot be dropped",
				   a->replicas[replica].name);
	else
		a->chooser.gone = gone;
	array_unlock(a);
	return error;
}

uint64_t linnos_size(const struct linnos_array *a)
{
	return a->size_bytes;
}

int linnos_asking_is_used(const struct linnos_array *a)
{
	return a->asks;
}

int linnos_hint_is_used(const struct linnos_array *a)
{
	return a->hint;
}
