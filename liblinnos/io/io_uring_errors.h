/* SPDX-License-Identifier: MIT */
/* Classify the errors of io_uring_enter(2) as transient or permanent. */
#ifndef LINNOS_IO_URING_ERRORS_H
#define LINNOS_IO_URING_ERRORS_H

#include <errno.h>
#include <stdbool.h>
#include <time.h>

/* The time for which a caller tries again while the kernel is short of resources. */
#define IO_URING_RETRY_NS 1000000000ull
#define IO_URING_RETRY_PAUSE_NS 100000

/*
 * EAGAIN and ENOMEM: the kernel is short of memory. EBUSY: completions must be reaped first. EINTR:
 * a signal arrived. Any other error means that the ring cannot be entered any more, for example
 * because a seccomp filter forbids it (EPERM) or its descriptor was closed (EBADF), and repeating
 * the call cannot help.
 */
static inline bool io_uring_error_is_transient(int error)
{
	return error == -EAGAIN || error == -ENOMEM || error == -EBUSY || error == -EINTR;
}

/* Sleep between two attempts, so that waiting for memory does not take a whole CPU. */
static inline void io_uring_pause(void)
{
	const struct timespec pause = {.tv_nsec = IO_URING_RETRY_PAUSE_NS};

	nanosleep(&pause, NULL);
}

#endif
