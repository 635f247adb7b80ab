/* SPDX-License-Identifier: MIT */
/* The backend for files and block devices, with one ring for each channel. Its requests are the
 * first member of a struct io_request. */
#ifndef LINNOS_URING_H
#define LINNOS_URING_H

#include "io_request.h"
#include "replica.h"

/* The backend's context. @complete is called with the handle and the result of each request. If
 * @is_sent is false, the kernel has not accepted the request, because the ring cannot be used any
 * more after the error in @result. */
struct uring_context {
	const struct replica_set *set;
	void (*complete)(uint64_t handle, ssize_t result, bool is_sent);
};

void uring_backend_init(struct linnos_backend *backend, struct uring_context *context);
/* Fill a ring's entry. @fixed_file and @first_buffer are indices of registered files and buffers,
 * or -1 if they are not registered. */
void uring_prepare(struct io_uring_sqe *sqe, const struct replica_set *set,
		   const struct io_request *io, int fixed_file, int first_buffer);
/* Register the files and buffers of a queue in its ring. Return 0, or a negative errno after
 * setting the error text. */
int uring_register(void *ring, const struct linnos_queue_options *o);
/* Return true if the ring cannot be entered any more. Requests that were submitted may still
 * complete. */
bool uring_is_broken(const void *ring);
/* Return true if this is because its descriptor was closed. */
bool uring_descriptor_is_gone(const void *ring);
/* Return true if there is a request that the kernel has not accepted yet. */
bool uring_has_unsubmitted(const void *ring);

#endif
