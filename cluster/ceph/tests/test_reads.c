// SPDX-License-Identifier: MIT
/* Where reads go, with a librados that is none; of the library that chooses nothing is made up. */
#include "../linnos_ceph.h"
#include "datagram.h"
#include "rados.h"

#include "../../../liblinnos/tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static struct linnos_ceph *ceph;
static char buffer[16];

static struct {
	unsigned int n;
	ssize_t bytes;
	int osd;
} ended;

static void note(void *of, ssize_t bytes, int osd)
{
	assert(of == buffer);
	ended.n++;
	ended.bytes = bytes;
	ended.osd = osd;
}

static void open_pool(const struct linnos_ceph_options *options)
{
	monitors = (struct monitors){.epoch = 5, .n_groups = 8, .primary = 1};
	memset(&ended, 0, sizeof(ended));
	assert(!linnos_ceph_open(&ceph, "data", options));
}

static struct linnos_ceph_stats stats(void)
{
	struct linnos_ceph_stats s;

	linnos_ceph_get_stats(ceph, &s, sizeof(s));
	return s;
}

static void wait_until_asked(uint64_t n)
{
	while (stats().asked_monitors < n)
		usleep(100);
}

static void begin(const char *object)
{
	assert(!linnos_ceph_aio_read(ceph, object, buffer, sizeof(buffer), 64, note, buffer));
}

/* Where an object lies is known. */
static void know(const char *object)
{
	int osds[LINNOS_CLUSTER_CANDIDATES];
	uint64_t asked = stats().asked_monitors;

	if (!linnos_ceph_osds(ceph, object, osds))
		wait_until_asked(asked + 1);
	assert(linnos_ceph_osds(ceph, object, osds) == 3 && osds[0] == (int)monitors.primary);
}

static void read_once(const char *object, unsigned int took_us)
{
	begin(object);
	pass_us(took_us);
	while (requests())
		end_request(requests() - 1, sizeof(buffer), 'x');
}

TEST(nobody_waits_for_monitors)
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
	wait_until_asked(1);
	/* once a group, and one handle a host */
	read_once("a", 0);
	read_once("a", 0);
	assert(stats().asked_monitors == 1 && stats().handles == 4);
	assert(stats().reads == 3 && stats().unknown == 1);
	assert(ended.osd >= 0);
	linnos_ceph_close(ceph);
}

TEST(reads_leave_an_osd_that_is_slow_by_the_handle_of_another_s_host)
{
	unsigned int n_left = 0, n_copies = 0;

	open_pool(NULL);
	know("a");
	for (unsigned int k = 0; k < 1000; k++) {
		struct request r;

		pass_us(500);
		begin("a");
		/* the first attempt is the last to be sent, behind its copy */
		r = request(requests() - 1);
		/* the primary by librados' own handle, another by its host's */
		assert(!*r.host == (r.flags == LIBRADOS_OPERATION_NOFLAG));
		assert(strcmp(r.host, "node1"));
		n_left += !!*r.host;
		/* it turns slow when it has been quick for a while */
		pass_us(*r.host || k < 200 ? 100 : 3000);
		end_request(requests() - 1, sizeof(buffer), 'x');
		assert(ended.n == k + 1 && ended.osd == (*r.host ? r.host[4] - '0' : 1));
		/* a copy looks at the slow one */
		if (requests()) {
			n_copies++;
			assert(!strcmp(request(0).host, "node1"));
			pass_us(2900);
			end_request(0, sizeof(buffer), 'y');
			assert(buffer[0] == 'x');
		}
	}
	assert(n_copies);
	assert(n_left > 600 && n_left == stats().replica_reads);
	assert(stats().bounced == UINT64_MAX);
	linnos_ceph_close(ceph);
}

TEST(what_was_written_is_the_primary_s_for_a_while)
{
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
	char other[8];

	options.fresh_ms = 50;
	open_pool(&options);
	know("a");
	linnos_ceph_wrote(ceph, "a");
	read_once("a", 0);
	assert(stats().fresh == 1 && ended.osd == -1);
	pass_us(60000);
	read_once("a", 0);
	assert(stats().fresh == 1 && ended.osd >= 0);
	options.fresh_ms = 1000000;
	linnos_ceph_close(ceph);
	open_pool(&options);
	know("a");
	linnos_ceph_wrote(ceph, "a");
	/* until its group has been written to often enough: all groups are */
	for (unsigned int k = 0; k < 1000; k++) {
		snprintf(other, sizeof(other), "b%u", k);
		linnos_ceph_wrote(ceph, other);
	}
	read_once("a", 0);
	assert(!stats().fresh && ended.osd >= 0);
	linnos_ceph_close(ceph);
}

TEST(what_a_replica_cannot_give_is_asked_of_the_primary)
{
	open_pool(NULL);
	know("a");
	/* all go to the primary until it turns slow */
	for (unsigned int k = 0; k < 200 && !stats().replica_reads; k++)
		read_once("a", k < 100 ? 100 : 3000);
	assert(stats().replica_reads);
	do {
		begin("a");
		if (!*request(requests() - 1).host)
			end_request(requests() - 1, sizeof(buffer), 'x');
	} while (!requests());
	ended.n = 0;
	/* its copy, if there is one, is nobody's */
	end_request(requests() - 1, -EIO, 0);
	assert(!ended.n && requests() >= 1);
	assert(!*request(requests() - 1).host && stats().retried == 1);
	end_request(requests() - 1, 3, 'y');
	assert(ended.n == 1 && ended.bytes == 3 && ended.osd == -1 && buffer[2] == 'y');
	while (requests())
		end_request(0, -EIO, 0);
	assert(ended.n == 1);
	linnos_ceph_close(ceph);
}

TEST(that_there_is_no_such_object_is_an_answer)
{
	open_pool(NULL);
	know("a");
	begin("a");
	end_request(0, -ENOENT, 0);
	assert(ended.n == 1 && ended.bytes == -ENOENT && !stats().retried);
	linnos_ceph_close(ceph);
}

TEST(a_group_that_lies_elsewhere_is_left_to_the_primary)
{
	open_pool(NULL);
	monitors.are_elsewhere = true;
	read_once("a", 0);
	wait_until_asked(1);
	read_once("a", 0);
	assert(stats().misplaced == 1 && stats().unknown == 2 && ended.osd == -1);
	linnos_ceph_close(ceph);
}

TEST(another_map_is_met_and_asked_for)
{
	int osds[LINNOS_CLUSTER_CANDIDATES];

	open_pool(NULL);
	know("a");
	monitors.primary = 2;
	monitors.n_groups = 12;
	__atomic_store_n(&monitors.epoch, 6, __ATOMIC_SEQ_CST);
	/* nobody reads for a second: then it is looked for */
	for (unsigned int k = 0; k < 50; k++) {
		usleep(100000);
		if (linnos_ceph_osds(ceph, "a", osds) && osds[0] == 2)
			break;
	}
	know("a");
	assert(stats().misplaced == 0);
	linnos_ceph_close(ceph);
}

TEST(monitors_that_are_silent_are_not_asked_for_each_read)
{
	open_pool(NULL);
	__atomic_store_n(&monitors.are_silent, true, __ATOMIC_SEQ_CST);
	for (unsigned int k = 0; k < 100; k++) {
		read_once("a", 0);
		pass_us(1000);
	}
	assert(stats().unknown == 100 && stats().asked_monitors <= 2);
	__atomic_store_n(&monitors.are_silent, false, __ATOMIC_SEQ_CST);
	pass_us(1000000);
	know("a");
	linnos_ceph_close(ceph);
}

TEST(an_osd_may_be_read_from_by_its_number)
{
	open_pool(NULL);
	assert(linnos_ceph_aio_read_from(ceph, 2, "a", buffer, 4, 0, note, buffer) == -ENXIO);
	assert(strstr(linnos_ceph_error(), "osd.2"));
	know("a");
	assert(!linnos_ceph_aio_read_from(ceph, 2, "a", buffer, 4, 0, note, buffer));
	assert(!strcmp(request(0).host, "node2"));
	end_request(0, -EIO, 0);
	assert(ended.bytes == -EIO && ended.osd == 2 && !stats().retried && !stats().reads);
	linnos_ceph_close(ceph);
}

TEST(agents_are_asked_of_the_drive_that_is_the_osd_s)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;
	int agent = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t bytes = sizeof(at);
	unsigned int n_asked[2] = {0};
	uint8_t question[128];

	assert(!bind(agent, (struct sockaddr *)&at, sizeof(at)));
	assert(!getsockname(agent, (struct sockaddr *)&at, &bytes));
	options.agent_port = ntohs(at.sin_port);
	open_pool(&options);
	know("a");
	/* nobody answers: the others of three are asked, each once */
	for (unsigned int k = 0; k < 3; k++) {
		read_once("a", 0);
		pass_us(20000);
	}
	for (ssize_t n; (n = recv(agent, question, sizeof(question), MSG_DONTWAIT)) > 0;) {
		struct question asked;

		assert(!question_read(&asked, NULL, 0, question, n) && asked.drive < 2);
		n_asked[asked.drive]++;
	}
	assert(n_asked[0] && n_asked[1]);
	linnos_ceph_close(ceph);
	close(agent);
}

TEST(what_cannot_be_is_refused_with_the_reason)
{
	struct linnos_cluster_options hedging = LINNOS_CLUSTER_OPTIONS_INIT;
	struct linnos_ceph_options options = LINNOS_CEPH_OPTIONS_INIT;

	monitors = (struct monitors){.epoch = 5, .n_groups = 8};
	hedging.mode = LINNOS_CLUSTER_HEDGE;
	options.choosing = &hedging;
	assert(linnos_ceph_open(&ceph, "data", &options) == -ENOTSUP && !ceph);
	assert(strstr(linnos_ceph_error(), "hedges"));
	options.choosing = NULL;
	options.configuration = "/no/ceph.conf";
	assert(linnos_ceph_open(&ceph, "data", &options) == -ENOENT);
	assert(strstr(linnos_ceph_error(), "/no/ceph.conf"));
	assert(linnos_ceph_open(&ceph, "other", NULL) == -ENOENT);
	assert(strstr(linnos_ceph_error(), "other"));
	monitors.are_silent = true;
	assert(linnos_ceph_open(&ceph, "data", NULL) == -EPROTO);
	linnos_ceph_close(NULL);
}
