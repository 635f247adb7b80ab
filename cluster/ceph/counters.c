// SPDX-License-Identifier: MIT
/* Performance counters of librados: see counters.h. */
#include "counters.h"

#include "answers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The maximum answer of a handle; a typical one has 3,000 bytes. */
enum { ANSWER_MAX = 1 << 20 };

void counters_folder(char *folder, size_t room)
{
	const char *temporary = getenv("TMPDIR");
	int n = snprintf(folder, room, "%s/linnos-ceph-XXXXXX", temporary ? temporary : "/tmp");

	if (n < 0 || (size_t)n >= room || !mkdtemp(folder))
		folder[0] = 0;
}

void counters_path(const char *folder, unsigned int handle, char *path, size_t room)
{
	snprintf(path, room, "%s/%u.asok", folder, handle);
}

static bool read_all(int fd, void *data, size_t bytes)
{
	for (ssize_t n; bytes; bytes -= n, data = (char *)data + n) {
		n = TEMP_FAILURE_RETRY(read(fd, data, bytes));
		if (n <= 0)
			return false;
	}
	return true;
}

static bool read_counter(const char *counters, const char *name, uint64_t *value)
{
	char words[32];

	snprintf(words, sizeof(words), "\"%s\":", name);
	return read_number(counters, words, value);
}

bool read_unanswered(const char *counters, uint64_t *unanswered)
{
	uint64_t sent, resent, answered;

	if (!read_counter(counters, "op_send", &sent) ||
	    !read_counter(counters, "op_resend", &resent) ||
	    !read_counter(counters, "op_reply", &answered))
		return false;
	/* the counters are not read atomically */
	*unanswered = sent > resent + answered ? sent - resent - answered : 0;
	return true;
}

bool counters_unanswered(const char *folder, unsigned int handle, uint64_t *unanswered)
{
	static const char query[] = "{\"prefix\":\"perf dump\",\"logger\":\"objecter\"}";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	bool is_valid = false;
	char *answer = NULL;
	uint32_t bytes;
	int fd;

	if (!folder[0])
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	counters_path(folder, handle, address.sun_path, sizeof(address.sun_path));
	/* including the terminating zero; the listener may be closing */
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    send(fd, query, sizeof(query), MSG_NOSIGNAL) != sizeof(query) ||
	    !read_all(fd, &bytes, sizeof(bytes)))
		goto out;
	bytes = ntohl(bytes);
	answer = bytes < ANSWER_MAX ? calloc(1, bytes + 1) : NULL;
	is_valid = answer && read_all(fd, answer, bytes) && read_unanswered(answer, unanswered);
out:
	free(answer);
	if (fd >= 0)
		close(fd);
	return is_valid;
}
