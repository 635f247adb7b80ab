// SPDX-License-Identifier: MIT
/* Open and close arrays, and return their statistics. */
#include "array.h"
#include "kernel_query.h"
#include "messages.h"
#include "options.h"
#include "versioned_struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The replicas to open. Exactly one of paths, fds and replicas is set. */
struct replica_sources {
	const char *const *paths;
	const int *fds;
	const struct linnos_replica *replicas;
	const struct linnos_backend *backend; /* with replicas */
};

static int add_replica(struct replica_set *set, const struct linnos_options *o,
		       const struct replica_sources *sources, unsigned int k, unsigned int n)
{
	const char *at = (const char *)sources->replicas;
	struct linnos_replica r = {.size = sizeof(r)};
	int error;

	if (!at)
		return replica_add_file(set, sources->paths ? sources->paths[k] : NULL,
					sources->fds ? sources->fds[k] : -1, o->flags, n > 1);
	error = versioned_struct_copy_in(&r, sizeof(r), at + k * sources->replicas->size,
					 LINNOS_REPLICA_SIZE_VER0, "struct linnos_replica");
	return error ? error : replica_add(set, &r);
}

static int set_backend(struct linnos_array *a, const struct linnos_backend *backend,
		       const struct linnos_options *o)
{
	const uint32_t file_flags = o->flags & (LINNOS_BUFFERED | LINNOS_QUERY_KERNEL);
	struct replica_set *set = &a->set;

	set->is_files = !backend;
	if (set->is_files) {
		a->uring = (struct uring_context){.set = set, .complete = io_channel_on_complete};
		uring_backend_init(&set->backend, &a->uring);
		return 0;
	}
	if (file_flags)
		return format_error(-EINVAL,
				    "options: flags has 0x%x, which a backend does not support; it "
				    "is only for files and block devices",
				    file_flags);
	return versioned_struct_copy_in(&set->backend, sizeof(set->backend), backend,
					LINNOS_BACKEND_SIZE_VER0, "struct linnos_backend");
}

/* Set up everything that needs the replicas to be open. */
static int set_up(struct linnos_array *a, const char *const *models, const struct linnos_options *o)
{
	struct replica_set *set = &a->set;
	int error = set->is_files ? replica_set_check_files(set) : 0;

	if (!error)
		error = linnos_predictor_create(&a->predictor, set->n, models, o);
	if (!error)
		error = linnos_chooser_create(&a->writer, a->predictor);
	if (error)
		return error;
	predictor_set_missing(a->predictor, set->missing);
	a->reaper.predictor = a->predictor;
	set->queries_kernel =
		set->is_files && o->flags & LINNOS_QUERY_KERNEL && kernel_can_predict(set);
	return set->is_files && a->predictor->hedging ? reaper_start(&a->reaper) : 0;
}

static void destroy(struct linnos_array *a)
{
	reaper_destroy(&a->reaper);
	linnos_chooser_free(a->writer);
	linnos_predictor_free(a->predictor);
	replica_set_close(&a->set);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static int open_array(struct linnos_array **array, unsigned int n,
		      const struct replica_sources *sources, const char *const *models,
		      const struct linnos_options *options)
{
	struct linnos_array *a = calloc(1, sizeof(*a));
	struct linnos_options o;
	int error;

	*array = NULL;
	if (!a)
		return error_memory();
	pthread_mutex_init(&a->lock, NULL);
	reaper_init(&a->reaper, &a->set);
	error = sources->paths || sources->fds || sources->replicas
			? options_copy_in(&o, options, n)
			: error_null("list of replicas");
	if (!error)
		error = set_backend(a, sources->backend, &o);
	for (unsigned int k = 0; !error && k < n; k++)
		error = add_replica(&a->set, &o, sources, k, n);
	if (!error)
		error = set_up(a, models, &o);
	if (error)
		destroy(a);
	else
		*array = a;
	return error;
}

int linnos_array_open(struct linnos_array **array, unsigned int n_replicas,
		      const char *const *paths, const char *const *models,
		      const struct linnos_options *options)
{
	return open_array(array, n_replicas, &(struct replica_sources){.paths = paths}, models,
			  options);
}

int linnos_array_open_fds(struct linnos_array **array, unsigned int n_replicas, const int *fds,
			  const char *const *models, const struct linnos_options *options)
{
	return open_array(array, n_replicas, &(struct replica_sources){.fds = fds}, models,
			  options);
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
			  &(struct replica_sources){.replicas = replicas, .backend = backend},
			  models, options);
}

int linnos_array_close(struct linnos_array *a)
{
	if (!a)
		return 0;
	if (a->queues)
		return format_error(-EBUSY, "the array has open queues; close them first, each in "
					    "its thread or after that thread has exited");
	destroy(a);
	return 0;
}

struct linnos_predictor *linnos_array_predictor(struct linnos_array *a)
{
	return a ? a->predictor : NULL;
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
	if (replica >= a->set.n)
		return format_error(-EINVAL, "replica is %u; it must be between 0 and %u", replica,
				    a->set.n - 1);
	linnos_chooser_on_submit(a->writer, write, &c, replica, LINNOS_WRITE,
				 replica_set_clock_ns(&a->set));
	return 0;
}

void linnos_array_write_complete(struct linnos_array *a, struct linnos_attempt *write)
{
	if (a)
		linnos_chooser_on_complete(a->writer, write, LINNOS_SUCCEEDED,
					   replica_set_clock_ns(&a->set));
}

void array_add_queue(struct linnos_array *a, struct account *queue)
{
	pthread_mutex_lock(&a->lock);
	queue->next = a->queues;
	a->queues = queue;
	pthread_mutex_unlock(&a->lock);
}

void array_remove_queue(struct linnos_array *a, struct account *queue)
{
	struct account **at = &a->queues;

	pthread_mutex_lock(&a->lock);
	while (*at != queue)
		at = &(*at)->next;
	*at = queue->next;
	counters_add(&a->closed, &queue->counts, sizeof(a->closed));
	pthread_mutex_unlock(&a->lock);
}

void linnos_array_get_stats(struct linnos_array *a, struct linnos_stats *stats, size_t bytes)
{
	struct linnos_stats s = {0};

	if (a) {
		predictor_count(a->predictor, &s);
		pthread_mutex_lock(&a->lock);
		counters_add(&s, &a->closed, sizeof(s));
		for (const struct account *queue = a->queues; queue; queue = queue->next)
			counters_add(&s, &queue->counts, sizeof(s));
		pthread_mutex_unlock(&a->lock);
		counters_add(&s, &a->reaper.account.counts, sizeof(s));
		/* A completion may be counted before its submission has been added. */
		if ((int64_t)s.in_flight < 0)
			s.in_flight = 0;
		s.not_choosing = a->set.n - (unsigned int)__builtin_popcount(
						    READ_ONCE(a->predictor->common.chooses));
	}
	versioned_struct_copy_out(stats, bytes, &s, sizeof(s));
}

int linnos_array_get_replica_stats(struct linnos_array *a, unsigned int replica,
				   struct linnos_replica_stats *stats, size_t bytes)
{
	if (!a)
		return error_null("array");
	return linnos_predictor_get_replica_stats(a->predictor, replica,
						  replica_set_clock_ns(&a->set), stats, bytes);
}

uint64_t linnos_array_size(const struct linnos_array *a)
{
	return a ? a->set.size_bytes : 0;
}

int linnos_array_queries_kernel(const struct linnos_array *a)
{
	return a && a->set.queries_kernel;
}
