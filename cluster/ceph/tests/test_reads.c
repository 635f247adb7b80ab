// SPDX-License-Identifier: MIT
/* Tests of where reads go, with a mock of librados and the real library that chooses. */
#include "../linnos_ceph.h"
#include "datagram.h"
#include "rados.h"

#include "../../../liblinnos/tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static struct linnos_ceph *ceph;
static char buffer[16];

/* Replaces the function of the C library, so that each run makes the same random choices. */
ssize_t getrandom(void *buf, size_t bytes, unsigned int flags)
{
	memset(buf, 1, bytes);
	return (ssize_t)bytes;
}

static struct {
	unsigned int n;
	ssize_t bytes;
	int osd;
} ended;

static void note(void *data, ssize_t bytes, int osd)
{
	assert(data == buffer);
	ended.n++;
	ended.bytes = bytes;
	ended.osd = osd;
}

static void set_monitors(void)
{
	monitors = (struct monitors){.epoch = 5, .n_groups = 8, .osds = {1, 2, 0}};
	for (uint32_t k = 0; k < OSDS; k++)
		monitors.host[k] = k % 3;
}

static void open_with(const struct linnos_ceph_options *options)
{
	memset(&ended, 0, sizeof(ended));
	assert(!linnos_ceph_open(&ceph, "data", options));
}

static void close_pool(void)
{
	if (ceph)
		linnos_ceph_close(ceph);
	ceph = NULL;
}

AFTER_EACH(close_pool)

static void open_pool(const struct linnos_ceph_options *options)
{
	set_monitors();
	open_with(options);
}

static struct linnos_ceph_stats stats(void)
{
	struct linnos_ceph_stats s;

	linnos_ceph_get_stats(ceph, &s, sizeof(s));
	return s;
}

static void wait_for_queries(uint64_t n)
{
	while (stats().monitor_queries < n)
		usleep(100);
}

static void begin(const char *object)
{
	assert(!linnos_ceph_aio_read(ceph, object, buffer, sizeof(buffer), 64, note, buffer));
}

/* Wait until the OSDs of an object are known and their number is @n. */
static int *osds_of(const char *object, unsigned int n)
{
	static int osds[LINNOS_CLUSTER_CANDIDATES];
	uint64_t asked = stats().monitor_queries;

	if (!linnos_ceph_osds(ceph, object, osds))
		wait_for_queries(asked + 1);
	assert(linnos_ceph_osds(ceph, object, osds) == n);
	return osds;
}

static void wait_for_placement(const char *object)
{
	assert(osds_of(object, 3)[0] == (int)monitors.osds[0]);
}

/*
 * Look up an object for a few seconds of the real clock, while a condition holds. Each time, the
 * simulated clock advances.
 */
#define LOOK_UP_WHILE(condition, us)                                                               \
	for (unsigned int tries = 0; tries < 50 && (condition); tries++) {                         \
		osds_of("a", 3);                                                                   \
		pass_us(us);                                                                       \
		usleep(100000);                                                                    \
	}

static void read_once(const char *object, unsigned int took_us)
{
	begin(object);
	pass_us(took_us);
	while (requests())
		end_request(requests() - 1, sizeof(buffer), 'x');
}

TEST(reads_do_not_wait_for_monitors)
{
	struct request r;

	open_pool(NULL);
	begin("a");
	r = request(0);
	assert(!strcmp(r.object, "a") && r.offset == 64);
	assert(!*r.host && r.flags == LIBRADOS_OPERATION_NOFLAG);
	end_request(0, sizeof(buffer), 'x');
	assert(ended.n == 1 && ended.bytes == sizeof(buffer) && ended.osd == -1);
	assert(buffer[0] == 'x' && buffer[sizeof(buffer) - 1] == 'x');
	wait_for_queries(1);
	/* the monitors are asked once per group, and there is one handle per host */
	read_once("a", 0);
	read_once("a", 0);
	assert(stats().monitor_queries == 1 && stats().handles == 4);
	assert(stats().reads == 3 && stats().unknown == 1);
	assert(ended.osd >= 0);
}

TEST(reads_leave_a_slow_osd_by_a_handle_of_another_host)
{
	unsigned int n_redirected = 0, n_copies = 0;

	open_pool(NULL);
	wait_for_placement("a");
	for (unsigned int k = 0; k < 1000; k++) {
		struct request r;

		pass_us(500);
		begin("a");
		/* the first attempt is sent last, after its copy */
		r = request(requests() - 1);
		/*
		 * the primary is read by the handle without a location, another OSD by its host's
		 * handle
		 */
		assert(!*r.host == (r.flags == LIBRADOS_OPERATION_NOFLAG));
		assert(strcmp(r.host, "node1"));
		n_redirected += !!*r.host;
		/* the node becomes slow after having been fast for a while */
		pass_us(*r.host || k < 200 ? 100 : 3000);
		end_request(requests() - 1, sizeof(buffer), 'x');
		assert(ended.n == k + 1 && ended.osd == (*r.host ? r.host[4] - '0' : 1));
		/* a probe copy checks the slow node */
		if (requests()) {
			n_copies++;
			assert(!strcmp(request(0).host, "node1"));
			pass_us(2900);
			end_request(0, sizeof(buffer), 'y');
			assert(buffer[0] == 'x');
		}
	}
	assert(n_copies);
	assert(n_redirected > 600 && n_redirected == stats().replica_reads);
	assert(stats().bounced == UINT64_MAX);
}

TEST(written_object_is_read_from_primary_for_a_time)
{
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
	char other[8];

	options.fresh_ms = 50;
	open_pool(&options);
	wait_for_placement("a");
	linnos_ceph_wrote(ceph, "a");
	read_once("a", 0);
	assert(stats().fresh == 1 && ended.osd == -1);
	pass_us(60000);
	read_once("a", 0);
	assert(stats().fresh == 1 && ended.osd >= 0);
	options.fresh_ms = 1000000;
	close_pool();
	open_pool(&options);
	wait_for_placement("a");
	linnos_ceph_wrote(ceph, "a");
	/* until the group has had enough later writes: all groups get them */
	for (unsigned int k = 0; k < 1000; k++) {
		snprintf(other, sizeof(other), "b%u", k);
		linnos_ceph_wrote(ceph, other);
	}
	read_once("a", 0);
	assert(!stats().fresh && ended.osd >= 0);
}

TEST(failed_replica_read_is_retried_at_the_primary)
{
	open_pool(NULL);
	wait_for_placement("a");
	/* all reads go to the primary until it becomes slow */
	for (unsigned int k = 0; k < 200 && !stats().replica_reads; k++)
		read_once("a", k < 100 ? 100 : 3000);
	assert(stats().replica_reads);
	do {
		begin("a");
		if (!*request(requests() - 1).host)
			end_request(requests() - 1, sizeof(buffer), 'x');
	} while (!requests());
	ended.n = 0;
	/* ignore its copy, if there is one */
	end_request(requests() - 1, -EIO, 0);
	assert(!ended.n && requests() >= 1);
	assert(!*request(requests() - 1).host && stats().retried == 1);
	end_request(requests() - 1, 3, 'y');
	assert(ended.n == 1 && ended.bytes == 3 && ended.osd == -1 && buffer[2] == 'y');
	while (requests())
		end_request(0, -EIO, 0);
	assert(ended.n == 1);
}

TEST(misplaced_group_is_read_from_primary)
{
	open_pool(NULL);
	monitors.are_elsewhere = true;
	read_once("a", 0);
	wait_for_queries(1);
	read_once("a", 0);
	assert(stats().misplaced == 1 && stats().unknown == 2 && ended.osd == -1);
}

static void split(struct monitors *m)
{
	m->osds[0] = 2;
	m->osds[1] = 1;
	m->n_groups = 12;
	m->epoch++;
}

TEST(new_map_is_noticed)
{
	open_pool(NULL);
	wait_for_placement("a");
	change_monitors(split);
	LOOK_UP_WHILE(osds_of("a", 3)[0] != 2, 0);
	wait_for_placement("a");
	assert(stats().misplaced == 0);
}

TEST(new_map_is_noticed_with_many_objects_queued)
{
	struct linnos_ceph_stats s;
	char object[16];
	unsigned int k;

	set_monitors();
	/* nearly every object has a group of its own */
	monitors.n_groups = 1 << 16;
	open_with(NULL);
	wait_for_placement("a");
	change_monitors(split);
	for (k = 0; k < 60000; k++) {
		snprintf(object, sizeof(object), "b%u", k);
		read_once(object, 0);
		usleep(50);
		/* until then, new objects are not where 2^16 groups would place them */
		if (k % 1000 == 999 && (s = stats(), !s.misplaced))
			break;
	}
	assert(k > 900 && k < 60000);
}

static void be_silent(struct monitors *m)
{
	m->are_silent = true;
}

static void answer_again(struct monitors *m)
{
	m->are_silent = m->find_nothing = false;
}

TEST(silent_monitors_are_not_asked_for_each_read)
{
	open_pool(NULL);
	change_monitors(be_silent);
	for (unsigned int k = 0; k < 100; k++) {
		read_once("a", 0);
		pass_us(1000);
	}
	wait_for_queries(1);
	assert(stats().unknown == 100 && stats().monitor_queries == 1);
	change_monitors(answer_again);
	pass_us(1000000);
	wait_for_placement("a");
}

TEST(only_the_first_osd_of_a_host_is_read)
{
	set_monitors();
	/* 0 and 3 are on one host: a handle with this location reads from the first of them */
	monitors.osds[1] = 3;
	open_with(NULL);
	assert(osds_of("a", 2)[1] == 3);
	close_pool();
	/* an OSD on the primary's host cannot be read from */
	set_monitors();
	monitors.osds[1] = 4;
	open_with(NULL);
	assert(osds_of("a", 2)[1] == 0);
}

TEST(osd_added_later_is_read)
{
	set_monitors();
	monitors.osds[2] = 8;
	monitors.host[8] = 7;
	open_with(NULL);
	assert(osds_of("a", 3)[2] == 8);
}

TEST(unknown_host_of_an_osd_is_looked_up_again)
{
	set_monitors();
	monitors.find_nothing = true;
	open_with(NULL);
	osds_of("a", 1);
	change_monitors(answer_again);
	/* not for each read */
	read_once("a", 0);
	assert(stats().monitor_queries == 1);
	pass_us(11000000);
	read_once("a", 0);
	wait_for_queries(2);
	wait_for_placement("a");
}

static void move(struct monitors *m)
{
	m->host[2] = 5;
	m->epoch++;
}

TEST(moved_osd_is_read_at_its_new_host)
{
	struct request r;

	open_pool(NULL);
	wait_for_placement("a");
	assert(stats().handles == 4);
	change_monitors(move);
	/* it was found a moment ago, and is not looked up again with each map */
	LOOK_UP_WHILE(stats().monitor_queries == 1, 0);
	assert(stats().monitor_queries == 2 && stats().handles == 4);
	pass_us(61000000);
	LOOK_UP_WHILE(stats().handles == 4, 0);
	assert(stats().handles == 5);
	assert(!linnos_ceph_aio_read_from(ceph, 2, "a", buffer, 4, 0, note, buffer));
	r = request(0);
	assert(!strcmp(r.host, "node5"));
	end_request(0, 4, 'x');
	/* the handle of the host without OSDs is closed at the second check */
	LOOK_UP_WHILE(stats().handles == 5, 61000000);
	assert(stats().handles == 4);
	wait_for_placement("a");
}

static void close_handle(struct monitors *m)
{
	m->is_nowhere[2] = true;
	m->epoch++;
}

TEST(osd_without_host_is_not_read_in_any_group)
{
	int osds[LINNOS_CLUSTER_CANDIDATES];

	open_pool(NULL);
	wait_for_placement("a");
	wait_for_placement("an object of another group");
	change_monitors(close_handle);
	pass_us(61000000);
	for (unsigned int k = 0; k < 50 && linnos_ceph_osds(ceph, "a", osds) == 3; k++)
		usleep(100000);
	assert(osds_of("a", 2)[1] == 0);
	/* the clock stands still, so the monitors are not asked for this one yet */
	assert(osds_of("an object of another group", 2)[1] == 0);
}

TEST(handle_with_reads_in_flight_is_not_closed)
{
	open_pool(NULL);
	wait_for_placement("a");
	assert(!linnos_ceph_aio_read_from(ceph, 2, "a", buffer, 4, 0, note, buffer));
	change_monitors(move);
	LOOK_UP_WHILE(true, 61000000);
	assert(stats().handles == 5);
	end_request(0, 4, 'x');
}

TEST(handles_of_the_library_differ_from_that_of_the_user)
{
	open_pool(NULL);
	wait_for_placement("a");
	assert(stats().handles == 4);
	/* those of the library have a timeout, and admin sockets of their own */
	assert(!patient_handles() && !moved_sockets());
	rados_ioctx_set_namespace(linnos_ceph_pool(ceph), "mine");
	begin("a");
	assert(!*request(0).namespace);
	end_request(0, 4, 'x');
}

TEST(reads_without_data_have_no_latency)
{
	struct linnos_cluster_stats s;

	open_pool(NULL);
	wait_for_placement("a");
	for (unsigned int k = 0; k < 2000; k++) {
		pass_us(500);
		begin("a");
		/* a missing object or a read past its end does not access a drive */
		pass_us(k % 10 ? 20 : 100);
		while (requests())
			end_request(0, k % 10 ? k % 2 ? -ENOENT : 0 : 16, 'x');
	}
	linnos_cluster_get_stats(linnos_ceph_cluster(ceph), &s, sizeof(s));
	assert(!s.would_redirect && !s.copies && !s.errors);
}

TEST(read_from_given_osd)
{
	open_pool(NULL);
	assert(linnos_ceph_aio_read_from(ceph, 2, "a", buffer, 4, 0, note, buffer) == -ENXIO);
	assert(strstr(linnos_ceph_error(), "osd.2"));
	wait_for_placement("a");
	assert(!linnos_ceph_aio_read_from(ceph, 2, "a", buffer, 4, 0, note, buffer));
	assert(!strcmp(request(0).host, "node2"));
	end_request(0, -EIO, 0);
	assert(ended.bytes == -EIO && ended.osd == 2 && !stats().retried && !stats().reads);
}

TEST(agent_is_queried_about_the_drive_of_the_osd)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
	int agent = socket(AF_INET, SOCK_DGRAM, 0), input = dup(STDIN_FILENO);
	socklen_t bytes = sizeof(at);
	unsigned int n_asked[2] = {0};
	uint8_t query[128];

	assert(!bind(agent, (struct sockaddr *)&at, sizeof(at)));
	assert(!getsockname(agent, (struct sockaddr *)&at, &bytes));
	options.agent_port = ntohs(at.sin_port);
	set_monitors();
	/* 5 is the second OSD of its host; the host of 4, the primary, is unknown */
	memcpy(monitors.osds, (uint32_t[]){4, 5, 0}, sizeof(monitors.osds));
	monitors.is_nowhere[4] = true;
	open_with(&options);
	/* the first file opened next gets this descriptor */
	close(STDIN_FILENO);
	wait_for_placement("a");
	/* no agent answers: the two nodes that are not read from are queried, once each */
	for (unsigned int k = 0; k < 3; k++) {
		read_once("a", 0);
		pass_us(20000);
	}
	for (ssize_t n; (n = recv(agent, query, sizeof(query), MSG_DONTWAIT)) > 0;) {
		struct query asked;

		assert(!query_read(&asked, NULL, 0, query, n) && asked.drive < 2);
		n_asked[asked.drive]++;
	}
	assert(n_asked[0] && n_asked[1]);
	close_pool();
	close(agent);
	/* it was closed */
	assert(fcntl(STDIN_FILENO, F_GETFD) < 0);
	assert(input < 0 || (dup2(input, STDIN_FILENO) == STDIN_FILENO && !close(input)));
}

static unsigned int n_commands;

static void count_commands(struct monitors *m)
{
	n_commands = m->n_commands;
}

static void be_slow(struct monitors *m)
{
	m->n_commands = 0;
	m->takes_us = 100000;
}

TEST(close_waits_for_at_most_one_answer_of_the_monitors)
{
	int osds[LINNOS_CLUSTER_CANDIDATES];

	open_pool(NULL);
	change_monitors(be_slow);
	assert(!linnos_ceph_osds(ceph, "a", osds));
	do {
		usleep(1000);
		change_monitors(count_commands);
	} while (!n_commands);
	close_pool();
	/* the placement of the group, and for each of its three OSDs the host and the OSDs there */
	assert(monitors.n_commands < 7);
}

static void *read_and_wait(void *data)
{
	assert(linnos_ceph_read(data, "a", buffer, sizeof(buffer), 0) == sizeof(buffer));
	return NULL;
}

TEST(cancelled_thread_ends_after_its_read)
{
	pthread_t thread;

	open_pool(NULL);
	assert(!pthread_create(&thread, NULL, read_and_wait, ceph));
	while (!requests())
		usleep(1000);
	usleep(10000);
	pthread_cancel(thread);
	usleep(100000);
	assert(pthread_tryjoin_np(thread, NULL) == EBUSY);
	end_request(0, sizeof(buffer), 'x');
	assert(!pthread_join(thread, NULL));
}

TEST(invalid_arguments_are_refused_with_the_reason)
{
	struct linnos_cluster_options hedging = LINNOS_CLUSTER_OPTIONS_INIT;
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
	int osds[LINNOS_CLUSTER_CANDIDATES];
	struct linnos_ceph_stats s;
	char name[2048] = "";

	set_monitors();
	hedging.mode = LINNOS_CLUSTER_HEDGE;
	options.choosing = &hedging;
	assert(linnos_ceph_open(&ceph, "data", &options) == -ENOTSUP && !ceph);
	assert(strstr(linnos_ceph_error(), "LINNOS_CLUSTER_HEDGE is not"));
	options.choosing = NULL;
	options.configuration = "/no/ceph.conf";
	assert(linnos_ceph_open(&ceph, "data", &options) == -ENOENT);
	assert(strstr(linnos_ceph_error(), "/no/ceph.conf"));
	assert(linnos_ceph_open(&ceph, "other", NULL) == -ENOENT);
	assert(strstr(linnos_ceph_error(), "other"));
	options.size = 0;
	assert(linnos_ceph_open(&ceph, "data", &options) == -EINVAL);
	options = (struct linnos_ceph_options)LINNOS_CEPH_OPTIONS_INIT;
	options.agent_port = 70000;
	assert(linnos_ceph_open(&ceph, "data", &options) == -EINVAL);
	assert(strstr(linnos_ceph_error(), "agent_port is 70000"));
	monitors.is_erasure_coded = true;
	assert(linnos_ceph_open(&ceph, "data", NULL) == -ENOTSUP);
	assert(strstr(linnos_ceph_error(), "erasure-coded"));
	monitors.are_silent = true;
	assert(linnos_ceph_open(&ceph, "data", NULL) == -EPROTO);
	linnos_ceph_close(NULL);
	linnos_ceph_wrote(NULL, "a");
	assert(!linnos_ceph_osds(NULL, "a", osds) && strstr(linnos_ceph_error(), "pool is NULL"));
	assert(!linnos_ceph_pool(NULL) && !linnos_ceph_cluster(NULL));
	memset(&s, 1, sizeof(s));
	linnos_ceph_get_stats(NULL, &s, sizeof(s));
	assert(!s.reads && !s.handles);
	open_pool(NULL);
	/* for an OSD, 0 bytes would mean the whole object */
	assert(linnos_ceph_aio_read(ceph, "a", buffer, 0, 0, note, buffer) == -EINVAL);
	assert(linnos_ceph_aio_read_from(ceph, -1, "a", buffer, 0, 0, note, buffer) == -EINVAL);
	assert(!requests() && strstr(linnos_ceph_error(), "0 bytes"));
	/* librados would abort the program */
	assert(linnos_ceph_read(ceph, "a", buffer, (size_t)INT32_MAX + 1, 0) == -EINVAL);
	assert(linnos_ceph_aio_read(ceph, "", buffer, 1, 0, note, buffer) == -EINVAL);
	assert(!requests() && strstr(linnos_ceph_error(), "name of the object is empty"));
	assert(linnos_ceph_read(ceph, "a", NULL, 1, 0) == -EINVAL);
	assert(!requests() && strstr(linnos_ceph_error(), "buffer"));
	/* the error text is complete even with the longest name */
	memset(name, 'n', sizeof(name) - 1);
	assert(linnos_ceph_aio_read(ceph, name, buffer, 0, 0, note, buffer) == -EINVAL);
	assert(strstr(linnos_ceph_error(), "0 bytes"));
}
