/* SPDX-License-Identifier: MIT */
/* A request to read from a replica, with members that only files and block devices support. */
#ifndef LINNOS_IO_REQUEST_H
#define LINNOS_IO_REQUEST_H

#include "liblinnos.h"

struct io_request {
	struct linnos_request request;
	const struct iovec *iov; /* read into these buffers; NULL to use request.buf */
	int n_iov;
	int buffer; /* index of the registered buffer that contains request.buf; -1 for none */
	uint32_t sqe_flags, ioprio;
};

#endif
