// SPDX-License-Identifier: MIT
/* Where reads go, with a gfapi that is none; of the library that chooses nothing is made up. */
#include "../linnos_gluster.h"
#include "datagram.h"
#include "gfapi.h"

#include "../../../liblinnos/tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT(name)                                                                               \
	"volume " name "\n    type protocol/client\n    option remote-host "                       \
	"127.0.0.1\nend-volume\n"
#define CLIENTS CLIENT("data-client-0") CLIENT("data-client-1") CLIENT("data-client-2")
#define REPLICATE(name) "volume " name "\n    type cluster/replicate\nend-volume\n"

static struct linnos_gluster *gluster;
static struct linnos_gluster_file *file;
static char buffer[16];

static struct {
	atomic_uint n;
	ssize_t bytes;
	int node;
} ended;

static void note(void *of, ssize_t bytes, int node)
{
	assert(of == buffer);
	ended.bytes = bytes;
	ended.node = node;
	ended.n++;
}

static int set_up(glfs_t *handle, void *of)
{
	assert(handle && of == &volume);
	return 0;
}

/* GlusterFS would read from the first replica. */
static void be_calm(void)
{
	volume = (struct volume){
		.volfile = CLIENTS REPLICATE("data-replicate-0"),
		.private = "[r]\nchild_count = 3\nread_child = -1\nread-hash-mode = 0\n",
		.pathinfo = "",
	};
	ended.n = 0;
}

static void open_with(const struct linnos_gluster_options *options)
{
	assert(!linnos_gluster_open(&gluster, "data", set_up, &volume, options));
	assert(!linnos_gluster_open_file(gluster, "/file", O_RDWR | O_DIRECT, &file));
}

static void close_volume(void)
{
	linnos_gluster_close_file(file);
	linnos_gluster_close(gluster);
	assert(!volume.n_left && !requests());
}

static struct linnos_gluster_stats stats(void)
{
	struct linnos_gluster_stats s;

	linnos_gluster_get_stats(gluster, &s, sizeof(s));
	return s;
}

static void begin(void)
{
	assert(!linnos_gluster_pread_async(file, buffer, sizeof(buffer), 64, note, buffer));
}

static void read_once(unsigned int took_us)
{
	begin();
	pass_us(took_us);
	while (requests())
		end_request(requests() - 1, sizeof(buffer), 'x');
}

TEST(there_is_a_handle_for_each_replica_beside_the_ordinary_one)
{
	be_calm();
	open_with(NULL);
	assert(volume.n_handles == 4 && volume.n_preferring == 3 && volume.n_passing == 3);
	assert(linnos_gluster_volume(gluster) && linnos_gluster_fd(file));
	begin();
	assert(request(0).replica == 0 && request(0).offset == 64);
	end_request(0, sizeof(buffer), 'x');
	assert(ended.n == 1 && ended.bytes == sizeof(buffer) && ended.node == 0);
	assert(buffer[0] == 'x' && buffer[sizeof(buffer) - 1] == 'x');
	assert(stats().reads == 1 && stats().nodes == 3 && !stats().fresh);
	close_volume();
}

TEST(reads_leave_a_replica_that_is_slow)
{
	struct linnos_cluster_stats s;
	unsigned int n_left = 0, n_copies = 0;

	be_calm();
	open_with(NULL);
	for (unsigned int k = 0; k < 1000; k++) {
		int replica;

		pass_us(500);
		begin();
		/* the first attempt is the last to be sent, behind its copy */
		replica = request(requests() - 1).replica;
		n_left += replica != 0;
		/* it turns slow when it has been quick for a while */
		pass_us(replica || k < 200 ? 100 : 3000);
		end_request(requests() - 1, sizeof(buffer), 'x');
		assert(ended.n == k + 1 && ended.node == replica);
		/* a copy looks at the slow one */
		if (requests()) {
			n_copies++;
			assert(request(0).replica == 0);
			pass_us(2900);
			end_request(0, sizeof(buffer), 'y');
			assert(buffer[0] == 'x' && ended.n == k + 1);
		}
	}
	linnos_cluster_get_stats(linnos_gluster_cluster(gluster), &s, sizeof(s));
	assert(n_copies && n_copies == s.copies);
	assert(n_left > 600 && n_left == s.moved && s.sent == s.ended);
	close_volume();
}

TEST(who_observes_reads_where_glusterfs_would)
{
	struct linnos_cluster_options observe = LINNOS_CLUSTER_OPTIONS_INIT;
	struct linnos_gluster_options options = LINNOS_GLUSTER_OPTIONS_INIT;
	struct linnos_cluster_stats s;

	observe.mode = LINNOS_CLUSTER_OBSERVE;
	options.choosing = &observe;
	be_calm();
	volume.private = "[r]\nchild_count = 3\nread_child = 2\nread-hash-mode = 1\n";
	open_with(&options);
	for (unsigned int k = 0; k < 100; k++) {
		begin();
		assert(requests() == 1 && request(0).replica == 2);
		pass_us(3000);
		end_request(0, sizeof(buffer), 'x');
	}
	linnos_cluster_get_stats(linnos_gluster_cluster(gluster), &s, sizeof(s));
	assert(s.reads == 100 && !s.moved);
	close_volume();
}

TEST(what_was_written_is_the_ordinary_handle_s_until_the_others_have_looked)
{
	struct linnos_gluster_options options = LINNOS_GLUSTER_OPTIONS_INIT;
	struct linnos_gluster_file *other;
	unsigned int n_looks;

	options.fresh_ms = 50;
	be_calm();
	open_with(&options);
	assert(!linnos_gluster_open_file(gluster, "/file", O_RDONLY, &other));
	linnos_gluster_wrote(other);
	n_looks = volume.n_looks;
	read_once(100);
	assert(ended.node == ORDINARY && stats().fresh == 1 && volume.n_looks == n_looks);
	/* a look that fails is none, and is not tried for each read */
	pass_us(50000);
	volume.look_fails = EIO;
	read_once(100);
	assert(ended.node == ORDINARY && volume.n_looks == n_looks + 1);
	read_once(100);
	assert(ended.node == ORDINARY && volume.n_looks == n_looks + 1 && stats().fresh == 3);
	volume.look_fails = 0;
	pass_us(1000000);
	read_once(100);
	assert(ended.node >= 0 && volume.n_looks == n_looks + 4 && stats().looked == 1);
	read_once(100);
	assert(ended.node >= 0 && volume.n_looks == n_looks + 4 && stats().fresh == 3);
	/* by its name there is another file now */
	linnos_gluster_wrote(file);
	pass_us(50000);
	volume.gfid[1] = 1;
	read_once(100);
	assert(ended.node == ORDINARY && stats().looked == 1 && stats().fresh == 4);
	volume.gfid[1] = 0;
	/* one that is opened now has been looked at */
	linnos_gluster_close_file(other);
	assert(!linnos_gluster_open_file(gluster, "/file", O_RDONLY, &other));
	n_looks = volume.n_looks;
	assert(!linnos_gluster_pread_async(other, buffer, 4, 0, note, buffer));
	assert(request(0).replica != ORDINARY && volume.n_looks == n_looks);
	end_request(0, 4, 'x');
	/* and another file was not written */
	linnos_gluster_close_file(other);
	volume.gfid[1] = 2;
	assert(!linnos_gluster_open_file(gluster, "/another", O_RDONLY, &other));
	linnos_gluster_wrote(file);
	assert(!linnos_gluster_pread_async(other, buffer, 4, 0, note, buffer));
	assert(request(0).replica != ORDINARY);
	end_request(0, 4, 'x');
	linnos_gluster_close_file(other);
	close_volume();
}

TEST(what_fails_at_a_replica_the_ordinary_handle_reads)
{
	struct linnos_cluster_stats s;

	be_calm();
	open_with(NULL);
	begin();
	end_request(0, -ENOTCONN, 0);
	assert(!ended.n && requests() == 1 && request(0).replica == ORDINARY);
	end_request(0, sizeof(buffer), 'x');
	assert(ended.n == 1 && ended.bytes == sizeof(buffer) && ended.node == ORDINARY);
	assert(buffer[0] == 'x' && stats().retried == 1);
	/* and those after it, for a while */
	begin();
	assert(request(0).replica == ORDINARY);
	end_request(0, -EIO, 0);
	assert(ended.bytes == -EIO && ended.node == ORDINARY);
	assert(stats().retried == 1 && stats().fresh == 1);
	linnos_cluster_get_stats(linnos_gluster_cluster(gluster), &s, sizeof(s));
	assert(s.errors == 1 && s.sent == 1 && s.ended == 1);
	close_volume();
}

TEST(that_there_is_nothing_to_read_tells_nothing_of_drives)
{
	struct linnos_cluster_stats s;

	be_calm();
	open_with(NULL);
	for (unsigned int k = 0; k < 2000; k++) {
		pass_us(500);
		begin();
		pass_us(k % 10 ? 20 : 100);
		while (requests())
			end_request(0, k % 10 ? 0 : 16, 'x');
	}
	linnos_cluster_get_stats(linnos_gluster_cluster(gluster), &s, sizeof(s));
	assert(!s.would_move && !s.copies && !s.errors);
	close_volume();
}

static void hedging(struct linnos_gluster_options *options)
{
	static struct linnos_cluster_options choosing = LINNOS_CLUSTER_OPTIONS_INIT;

	*options = (struct linnos_gluster_options)LINNOS_GLUSTER_OPTIONS_INIT;
	choosing.mode = LINNOS_CLUSTER_HEDGE;
	choosing.extra_io_percent = 100;
	options->choosing = &choosing;
}

/* So many reads that are usual; then one that has been sent twice. */
static void be_late(const struct linnos_gluster_options *options)
{
	be_calm();
	open_with(options);
	for (unsigned int k = 0; k < 200; k++) {
		pass_us(500);
		read_once(100);
	}
	begin();
	assert(requests() == 1);
	pass_us(2000);
	while (requests() < 2)
		usleep(100);
	assert(request(0).replica != request(1).replica && ended.n == 200);
	memset(buffer, 0, sizeof(buffer));
}

TEST(a_late_read_is_sent_a_second_time)
{
	struct linnos_gluster_options options;
	struct linnos_cluster_stats s;
	int node;

	hedging(&options);
	be_late(&options);
	node = request(1).replica;
	end_request(1, sizeof(buffer), 'x');
	assert(ended.n == 201 && ended.node == node && buffer[0] == 'x');
	/* whoever comes late has nowhere to write to */
	end_request(0, sizeof(buffer), 'y');
	assert(ended.n == 201 && buffer[0] == 'x');
	linnos_cluster_get_stats(linnos_gluster_cluster(gluster), &s, sizeof(s));
	assert(s.hedges == 1 && s.hedges_won == 1 && s.sent == s.ended);
	close_volume();
}

TEST(of_two_attempts_one_may_fail)
{
	struct linnos_gluster_options options;

	hedging(&options);
	be_late(&options);
	end_request(0, -EIO, 0);
	assert(ended.n == 200 && requests() == 1);
	end_request(0, sizeof(buffer), 'x');
	assert(ended.n == 201 && buffer[0] == 'x' && !stats().retried);
	close_volume();
	be_late(&options);
	end_request(0, -EIO, 0);
	end_request(0, -ENOTCONN, 0);
	assert(ended.n == 200 && requests() == 1 && request(0).replica == ORDINARY);
	end_request(0, sizeof(buffer), 'z');
	assert(ended.n == 201 && buffer[0] == 'z' && stats().retried == 1);
	close_volume();
}

TEST(a_file_of_which_nobody_knows_the_set_is_the_ordinary_handle_s)
{
	be_calm();
	volume.volfile =
		CLIENTS CLIENTS REPLICATE("data-replicate-0") REPLICATE("data-replicate-1");
	open_with(NULL);
	read_once(100);
	assert(ended.node == ORDINARY && stats().fresh == 1 && stats().nodes == 6);
	linnos_gluster_close_file(file);
	volume.pathinfo =
		"(<DISTRIBUTE:data-dht> (<REPLICATE:data-replicate-1> <POSIX(/b):h:/b/f>))";
	assert(!linnos_gluster_open_file(gluster, "/file", O_RDONLY, &file));
	read_once(100);
	assert(ended.node == 3 && stats().fresh == 1);
	close_volume();
}

TEST(agents_are_asked_of_the_drive_that_is_the_brick_s)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct linnos_gluster_options options = LINNOS_GLUSTER_OPTIONS_INIT;
	int agent = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t bytes = sizeof(at);
	unsigned int n_asked[3] = {0};
	uint8_t datagram[128];

	assert(!bind(agent, (struct sockaddr *)&at, sizeof(at)));
	assert(!getsockname(agent, (struct sockaddr *)&at, &bytes));
	options.agent_port = ntohs(at.sin_port);
	be_calm();
	open_with(&options);
	/* nobody answers: each is asked once */
	for (unsigned int k = 0; k < 3; k++) {
		read_once(0);
		pass_us(20000);
	}
	for (ssize_t n; (n = recv(agent, datagram, sizeof(datagram), MSG_DONTWAIT)) > 0;) {
		struct question asked;

		assert(!question_read(&asked, NULL, 0, datagram, n) && asked.drive < 3);
		n_asked[asked.drive]++;
	}
	assert(!!n_asked[0] + !!n_asked[1] + !!n_asked[2] >= 2);
	close(agent);
	close_volume();
}

static int refuse(glfs_t *handle, void *of)
{
	(void)handle;
	(void)of;
	errno = EACCES;
	return -1;
}

static void is_refused(int status, const char *why)
{
	assert(linnos_gluster_open(&gluster, "data", set_up, &volume, NULL) == status);
	assert(!gluster && !volume.n_left && strstr(linnos_gluster_error(), why));
}

TEST(what_cannot_be_is_refused_with_the_reason)
{
	struct linnos_gluster_options options = LINNOS_GLUSTER_OPTIONS_INIT;
	struct linnos_gluster_stats s;

	be_calm();
	assert(linnos_gluster_open(&gluster, "other", set_up, &volume, NULL) == -ENOENT);
	assert(strstr(linnos_gluster_error(), "volume other: "));
	assert(linnos_gluster_open(&gluster, "data", refuse, NULL, NULL) == -EACCES);
	assert(linnos_gluster_open(&gluster, NULL, set_up, NULL, NULL) == -EINVAL);
	assert(linnos_gluster_open(&gluster, "data", NULL, NULL, NULL) == -EINVAL);
	options.size = 0;
	assert(linnos_gluster_open(&gluster, "data", set_up, &volume, &options) == -EINVAL);
	options.size = sizeof(options) + 8;
	assert(linnos_gluster_open(&gluster, "data", set_up, &volume, &options) == -EINVAL);
	options.size = sizeof(options);
	options.agent_port = 65536;
	assert(linnos_gluster_open(&gluster, "data", set_up, &volume, &options) == -EINVAL);
	volume.volfile = CLIENTS;
	is_refused(-ENOTSUP, "must be replicated");
	be_calm();
	volume.init_fails = ENOTCONN;
	is_refused(-ENOTCONN, "gluster volume status");
	linnos_gluster_close(NULL);
	linnos_gluster_close_file(NULL);
	linnos_gluster_wrote(NULL);
	assert(!linnos_gluster_volume(NULL) && !linnos_gluster_cluster(NULL));
	assert(!linnos_gluster_fd(NULL) && strstr(linnos_gluster_error(), "no file"));
	memset(&s, 1, sizeof(s));
	linnos_gluster_get_stats(NULL, &s, sizeof(s));
	assert(!s.reads && !s.nodes);
	be_calm();
	open_with(NULL);
	linnos_gluster_close_file(file);
	assert(linnos_gluster_open_file(gluster, "/none", O_RDONLY, &file) == -ENOENT && !file);
	assert(strstr(linnos_gluster_error(), "/none: "));
	assert(linnos_gluster_open_file(gluster, "/f", O_RDWR | O_CREAT, &file) == -EINVAL);
	volume.look_fails = ESTALE;
	assert(linnos_gluster_open_file(gluster, "/file", O_RDONLY, &file) == -ESTALE);
	volume.look_fails = 0;
	assert(!linnos_gluster_open_file(gluster, "/file", O_RDONLY, &file));
	assert(linnos_gluster_pread(file, buffer, 0, 0) == -EINVAL);
	assert(linnos_gluster_pread(file, buffer, 1, -1) == -EINVAL);
	assert(linnos_gluster_pread(file, buffer, (size_t)INT32_MAX + 1, 0) == -EINVAL);
	assert(linnos_gluster_pread(file, NULL, 1, 0) == -EINVAL);
	assert(linnos_gluster_pread(NULL, buffer, 1, 0) == -EINVAL && !requests());
	close_volume();
}

/* ---- threads ---- */

enum { THREADS = 4, READS = 5000, BYTES = 16 };

static atomic_bool is_over;
static atomic_uint n_errors;

/* One read in two hundred fails; the rest is there at once, or when the drive has been slow. */
static void *serve(void *of)
{
	uint64_t random = 1;

	while (!is_over || requests()) {
		unsigned int n = requests(), k;

		if (!n) {
			usleep(10);
			continue;
		}
		k = chance(&random) % n;
		pass_us(chance(&random) % 50 ? 20 : 3000);
		/* that others are sent before it has ended takes a moment */
		if (chance(&random) % 100 == 0)
			usleep(1000);
		end_request(k, chance(&random) % 200 ? BYTES : -EIO, 'a' + request(k).offset % 26);
	}
	return of;
}

static void *read_all(void *of)
{
	uint64_t random = (uintptr_t)of;
	char bytes[BYTES];

	for (unsigned int k = 0; k < READS; k++) {
		unsigned int at = chance(&random) % 26;
		ssize_t n = linnos_gluster_pread(file, bytes, BYTES, at);

		/* the ordinary handle has failed, too, or took no more */
		assert(n == BYTES || n == -EIO || n == -ENOMEM);
		for (unsigned int b = 0; n == BYTES && b < BYTES; b++)
			assert(bytes[b] == (char)('a' + at));
		n_errors += n < 0;
		if (chance(&random) % 500 == 0)
			linnos_gluster_wrote(file);
	}
	return NULL;
}

TEST(each_read_ends_once_and_right_whatever_happens)
{
	struct linnos_gluster_options options;
	struct linnos_cluster_stats s;
	pthread_t server, readers[THREADS];

	hedging(&options);
	options.fresh_ms = 1;
	be_calm();
	open_with(&options);
	sends_fail_each(500);
	is_over = false;
	assert(!pthread_create(&server, NULL, serve, NULL));
	for (uintptr_t k = 0; k < THREADS; k++)
		assert(!pthread_create(&readers[k], NULL, read_all, (void *)k));
	for (unsigned int k = 0; k < THREADS; k++)
		pthread_join(readers[k], NULL);
	/* what is late still is waited for */
	linnos_gluster_close_file(file);
	is_over = true;
	pthread_join(server, NULL);
	linnos_cluster_get_stats(linnos_gluster_cluster(gluster), &s, sizeof(s));
	assert(s.sent == s.ended && s.sent > READS / 4);
	assert(stats().reads == THREADS * READS && stats().retried && stats().looked);
	assert(n_errors && n_errors < THREADS * READS / 50 && s.hedges);
	sends_fail_each(0);
	file = NULL;
	close_volume();
}
