/* SPDX-License-Identifier: MIT */
/* The properties of the kernel on which `linnapp watch` runs. */
#ifndef LINNAPP_WATCH_KERNEL_H
#define LINNAPP_WATCH_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include <bpf/libbpf.h>

/* Properties that determine which programs are loaded. */
struct lw_kernel {
	bool has_decisions;
	bool can_cast;
	const char *submission;	/* NULL if the requests of io_uring cannot be recorded */
};

int lw_check_kernel(struct lw_kernel *kernel, char *error, size_t size);
bool lw_is_loadable(const struct lw_kernel *kernel, const struct bpf_program *program);

#endif
