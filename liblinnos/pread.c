// SPDX-License-Identifier: MIT
/* linnos_pread(): the calling thread waits for the drive itself. */
#include "lanes.h"
#include "latcrit.h"
#include "reads.h"

#include <errno.h>
#include <sys/uio.h>

static int ask_drive(const struct linnos_array *a, const struct attempt *at)
{
	struct iovec iov = {.iov_base = at->data + at->from, .iov_len = at->bytes - at->from};
	ssize_t n = preadv2(a->replicas[at->replica].fd, &iov, 1, at->offset + at->from,
			    at->hinted ? RWF_LATCRIT : 0);

	return n < 0 ? -errno : n;
}

ssize_t pread_plain(struct linnos_array *a, struct linnos_read *r)
{
	enum linnos_outcome outcome;

	do {
		struct attempt *at = read_take_next(r);

		outcome = attempt_ended(a, at, ask_drive(a, at), &r);
	} while (outcome == LINNOS_AGAIN);
	return r->result;
}

ssize_t linnos_pread(struct linnos_array *a, void *buf, size_t bytes, off_t offset)
{
	struct linnos_read r;
	int error = read_begin(a, &r, buf, bytes, offset, false);

	if (error)
		return error;
	if (r.copy)
		lanes_send_copy(a, r.copy);
	return r.is_timed ? lanes_read(a, &r) : pread_plain(a, &r);
}
