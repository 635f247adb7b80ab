// SPDX-License-Identifier: MIT
/*
 * Reads by several threads while OSDs fail, librados rejects submissions, and the map changes, so
 * that handles are opened and closed. Each read must complete once, with the contents of its object
 * or an error, and closing a pool must wait for all reads. LINNOS_READS sets the number of reads.
 */
#include "../linnos_ceph.h"
#include "rados.h"

#include "../../../liblinnos/tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* DEPTH reads per thread are in flight; the mock has room for twice all of them. */
enum { THREADS = 4, DEPTH = 7, OBJECTS = 26, BYTES = 16 };

struct slot {
	char buffer[BYTES], letter;
	/* true while in flight; set by the thread and cleared on completion */
	atomic_bool is_used;
};

struct reader {
	pthread_t thread;
	uint64_t random, n_begun;
	struct slot slots[DEPTH];
};

static struct linnos_ceph *ceph;
static atomic_bool is_held, is_closed;
static atomic_ullong n_ended, n_errors, n_refused;
static uint64_t n_reads;

static void check(const struct slot *slot, ssize_t bytes)
{
	assert(bytes == BYTES || bytes == -EIO || bytes == -ENOMEM);
	for (unsigned int k = 0; bytes == BYTES && k < BYTES; k++)
		assert(slot->buffer[k] == slot->letter);
	n_errors += bytes < 0;
	n_ended++;
}

static void end(void *data, ssize_t bytes, int osd)
{
	struct slot *slot = data;

	check(slot, bytes);
	assert(atomic_exchange(&slot->is_used, false));
}

static void begin(struct reader *r, struct slot *slot, const char *object)
{
	int osds[LINNOS_CLUSTER_CANDIDATES], status;
	unsigned int n;

	slot->is_used = true;
	n = chance(&r->random) % 8 ? 0 : linnos_ceph_osds(ceph, object, osds);
	if (n)
		status = linnos_ceph_aio_read_from(ceph, osds[n - 1], object, slot->buffer, BYTES,
						   0, end, slot);
	else
		status = linnos_ceph_aio_read(ceph, object, slot->buffer, BYTES, 0, end, slot);
	if (!status) {
		r->n_begun++;
		return;
	}
	/* librados rejected it, or the OSD's handle was closed */
	assert(status == -ENOMEM || (n && status == -ENXIO));
	n_refused++;
	slot->is_used = false;
}

static void *read_all(void *data)
{
	struct reader *r = data;

	for (uint64_t k = 0; k < n_reads / THREADS; k++) {
		struct slot *slot = &r->slots[k % DEPTH];
		char object[] = {'a' + chance(&r->random) % OBJECTS, 0};
		struct linnos_ceph_stats stats;

		while (slot->is_used)
			usleep(10);
		slot->letter = *object;
		switch (chance(&r->random) % 512) {
		case 0:
			linnos_ceph_get_stats(ceph, &stats, sizeof(stats));
			break;
		case 1:
			linnos_ceph_wrote(ceph, object);
			break;
		case 2:
			r->n_begun++;
			check(slot, linnos_ceph_read(ceph, object, slot->buffer, BYTES, 0));
			break;
		default:
			begin(r, slot, object);
		}
	}
	return NULL;
}

/* One read in twenty fails; the others complete at once, or late if the drive is slow. */
static void *serve(void *data)
{
	uint64_t random = 1;

	while (!is_closed) {
		unsigned int n = requests(), k;
		bool fails;

		if (!n || is_held) {
			usleep(10);
			continue;
		}
		k = chance(&random) % n;
		fails = chance(&random) % 20 == 0;
		pass_us(chance(&random) % 50 ? 20 : 3000);
		end_request(k, fails ? -EIO : BYTES, *request(k).object);
	}
	return NULL;
}

static uint64_t map_random;

static void change(struct monitors *m)
{
	m->epoch++;
	m->n_groups = m->n_groups == 8 ? 12 : 8;
	for (unsigned int k = 0; k < 3; k++)
		m->osds[k] = 3 * k + chance(&map_random) % 3;
	for (unsigned int k = 0; k < OSDS; k++) {
		m->host[k] = chance(&map_random) % 6;
		m->is_nowhere[k] = chance(&map_random) % 10 == 0;
	}
}

static void *change_map(void *data)
{
	while (!is_closed) {
		change_monitors(change);
		/* the placement of OSDs and the handles are outdated now */
		pass_us(61000000);
		usleep(100000);
	}
	return NULL;
}

/*
 * Return true once all attempts reported as sent are reported as complete, within a few seconds.
 * About one read in a hundred is sent twice, so only a long run is certain to have such reads.
 */
static bool all_attempts_are_reported(void)
{
	struct linnos_cluster_stats s;

	for (unsigned int k = 0; k < 5000; k++) {
		linnos_cluster_get_stats(linnos_ceph_cluster(ceph), &s, sizeof(s));
		if (s.sent == s.ended && !requests())
			return s.sent && (s.copies || n_reads < 100000);
		usleep(1000);
	}
	return false;
}

static void *close_pool(void *data)
{
	linnos_ceph_close(ceph);
	is_closed = true;
	return data;
}

/* No OSD answers, and closing waits for all reads that librados has accepted. */
static void close_while_reads_are_in_flight(struct reader *readers)
{
	pthread_t closer;

	is_held = true;
	for (unsigned int k = 0; k < THREADS * DEPTH; k++) {
		struct reader *r = &readers[k / DEPTH];

		if (!r->slots[k % DEPTH].is_used) {
			r->slots[k % DEPTH].letter = 'z';
			begin(r, &r->slots[k % DEPTH], "z");
		}
	}
	assert(!pthread_create(&closer, NULL, close_pool, NULL));
	usleep(100000);
	assert(!is_closed && requests());
	is_held = false;
	pthread_join(closer, NULL);
}

TEST(each_read_completes_once_with_correct_data)
{
	const char *wanted = getenv("LINNOS_READS");
	struct reader readers[THREADS] = {0};
	pthread_t server, changer;
	uint64_t n_begun = 0;

	n_reads = wanted ? strtoull(wanted, NULL, 10) : 200000;
	monitors.n_groups = 8;
	change_monitors(change);
	sends_fail_each(50);
	assert(!linnos_ceph_open(&ceph, "data", NULL));
	assert(!pthread_create(&server, NULL, serve, NULL));
	assert(!pthread_create(&changer, NULL, change_map, NULL));
	for (unsigned int k = 0; k < THREADS; k++) {
		readers[k].random = k;
		assert(!pthread_create(&readers[k].thread, NULL, read_all, &readers[k]));
	}
	for (unsigned int k = 0; k < THREADS; k++)
		pthread_join(readers[k].thread, NULL);
	assert(all_attempts_are_reported());
	close_while_reads_are_in_flight(readers);
	for (unsigned int k = 0; k < THREADS; k++)
		n_begun += readers[k].n_begun;
	assert(n_ended == n_begun);
	pthread_join(server, NULL);
	pthread_join(changer, NULL);
	assert(!requests() && n_errors && n_errors < n_begun / 5 && n_refused);
}
