// SPDX-License-Identifier: MIT
/* Literal answers of the monitors of Ceph 16.2.15. */
#include "../answers.h"
#include "../counters.h"

#include "../../../liblinnos/tests/test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

TEST(object_hash_equals_that_of_ceph)
{
	static const struct {
		const char *name;
		uint32_t hash;
	} known[] = {
		{"a", 0x29eec818},
		{"ab", 0x9879ac41},
		{"o5", 0x232019de},
		{"abcdefghij", 0xc9cac242},
		{"abcdefghijk", 0xe52b8e4c},
		{"abcdefghijkl", 0x0b1b3ea5},
		{"abcdefghijklm", 0x3122b031},
		{"gr\303\266\303\237e", 0x9e8ea870},
		{"rbd_data.10226b8b4567.0000000000000f3a", 0x8f16d6cb},
	};

	for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
		assert(object_hash(known[k].name) == known[k].hash);
}

TEST(number_of_groups_need_not_be_a_power_of_two)
{
	assert(group_of(0x29eec818, 32) == 0x18);
	assert(group_of(0xd6d9af33, 40) == 0x13);
	assert(group_of(0xffffffff, 1) == 0);
	for (uint32_t hash = 0; hash < 1000; hash++)
		assert(group_of(hash, 40) < 40);
}

TEST(primary_is_the_first_osd)
{
	struct mapped mapped;

	assert(read_mapped("osdmap e12 pool 'data' (1) object 'a' -> pg 1.29eec818 (1.18) -> "
			   "up ([1,0,2], p1) acting ([1,0,2], p0)\n",
			   &mapped));
	assert(mapped.epoch == 12 && mapped.hash == 0x29eec818 && mapped.group == 0x18);
	assert(mapped.n_osds == 3);
	assert(mapped.osds[0] == 0 && mapped.osds[1] == 1 && mapped.osds[2] == 2);
}

TEST(object_name_that_resembles_an_answer_is_parsed)
{
	struct mapped mapped;

	assert(read_mapped("osdmap e12 pool 'data' (1) object 'it has 'quotes' -> pg 1.0 (1.0)' -> "
			   "pg 1.72c4aa32 (1.12) -> up ([1,0,2], p1) acting ([1,0,2], p1)\n",
			   &mapped));
	assert(mapped.hash == 0x72c4aa32 && mapped.group == 0x12 && mapped.osds[0] == 1);
}

TEST(malformed_answers_of_monitors_are_refused)
{
	static const char *const others[] = {
		"",
		"osdmap e12",
		"osdmap e12 pool 'data' (1) object 'a' -> pg 1.29eec818 (1.18) -> ",
		"osdmap e12 pool 'data' (1) object 'a' -> pg 1.29eec818 (1.18) -> up ([], p-1) "
		"acting ([], p-1)",
		"osdmap eX pool 'data' (1) object 'a' -> pg 1.29eec818 (1.18) -> up ([1], p1) "
		"acting ([1], p1)",
	};
	struct mapped mapped;
	struct found found;

	for (size_t k = 0; k < sizeof(others) / sizeof(*others); k++) {
		assert(!read_mapped(others[k], &mapped));
		assert(!read_found(others[k], &found));
	}
}

TEST(osd_location_has_host_and_address)
{
	struct found found;

	assert(read_found("{\n    \"osd\": 1,\n    \"addrs\": {\n        \"addrvec\": [\n"
			  "            {\n                \"type\": \"v2\",\n"
			  "                \"addr\": \"10.0.1.2:6800\",\n"
			  "                \"nonce\": 2191\n            }\n        ]\n    },\n"
			  "    \"host\": \"linnos\",\n    \"crush_location\": {\n"
			  "        \"host\": \"node1\",\n        \"root\": \"default\"\n    }\n}\n",
			  &found));
	assert(!strcmp(found.host, "node1") && !strcmp(found.address, "10.0.1.2"));
	assert(read_found("{\"addr\":\"[fd00::1]:6800\",\"crush_location\":{\"host\":\"a b\"}}",
			  &found));
	assert(!strcmp(found.host, "a b") && !strcmp(found.address, "fd00::1"));
	/* an OSD without a location, and one whose location has only racks */
	assert(!read_found("{\"addr\":\"1.2.3.4:1\",\"host\":\"x\",\"crush_location\":{}}",
			   &found));
}

TEST(names_are_escaped_for_json)
{
	char text[32];

	assert(quoted("a\"b\\c\n", text, sizeof(text)) && !strcmp(text, "a\\\"b\\\\c\\u000a"));
	assert(!quoted("0123456789012345678901234567890123456789", text, sizeof(text)));
	assert(quoted("", text, sizeof(text)) && !*text);
}

TEST(unanswered_requests_are_counted)
{
	uint64_t unanswered;

	assert(read_unanswered("{\"objecter\": {\"op_active\": 2,\n\"op_send\": 596,\n"
			       "\"op_send_bytes\": 7,\n\"op_resend\": 1,\n\"op_reply\": 300}}",
			       &unanswered));
	assert(unanswered == 295);
	assert(!read_unanswered("{}", &unanswered));
}

/* A socket of a handle, and the thread of the test that asks for its counters. */
static int listener;
static pthread_t reading_thread;

static void *answer(void *reply)
{
	uint32_t bytes = reply ? htonl(strlen(reply)) : 0;
	char query[128];

	for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
		if (!reply)
			continue;
		assert(read(fd, query, sizeof(query)) > 0);
		usleep(50000);
		pthread_kill(reading_thread, SIGUSR1);
		usleep(50000);
		assert(write(fd, &bytes, sizeof(bytes)) == sizeof(bytes));
		assert(write(fd, reply, strlen(reply)) == (ssize_t)strlen(reply));
	}
	return NULL;
}

static void ignore(int number)
{
}

/* Return how often of @n times the counters are read from a handle that answers with @reply. */
static unsigned int n_read(const char *reply, unsigned int n, uint64_t *unanswered)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned int n_valid = 0;
	char folder[64];
	pthread_t thread;

	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	reading_thread = pthread_self();
	counters_folder(folder, sizeof(folder));
	counters_path(folder, 1, address.sun_path, sizeof(address.sun_path));
	assert(!bind(listener, (struct sockaddr *)&address, sizeof(address)));
	assert(!listen(listener, 16));
	assert(!pthread_create(&thread, NULL, answer, (void *)reply));
	while (n--)
		n_valid += counters_unanswered(folder, 1, unanswered);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(listener);
	assert(!unlink(address.sun_path) && !rmdir(folder));
	return n_valid;
}

TEST(counters_are_read_despite_a_signal)
{
	/* without SA_RESTART */
	struct sigaction action = {.sa_handler = ignore};
	uint64_t unanswered = 0;

	sigaction(SIGUSR1, &action, NULL);
	assert(n_read("{\"op_send\": 9, \"op_resend\": 0, \"op_reply\": 2}", 1, &unanswered) == 1);
	assert(unanswered == 7);
}

TEST(counters_are_unknown_if_the_socket_closes)
{
	uint64_t unanswered;

	/* no signal may end this program */
	assert(n_read(NULL, 2000, &unanswered) == 0);
}
