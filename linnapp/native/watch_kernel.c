// SPDX-License-Identifier: MIT
/* Find out which events and functions this kernel has for the programs of watch.bpf.c. */
#include "watch_kernel.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <bpf/btf.h>

/* The event of LinnOS, on kernels that have it. */
#define DECISIONS "linnos_decision"
/* See watch.bpf.c. */
#define CAST "bpf_rdonly_cast"

/* Names of the event in which a request of io_uring is submitted; the older one first. */
static const char *const submissions[] = { "io_uring_submit_sqe", "io_uring_submit_req" };
#define COMPLETION "io_uring_complete"

/* Return the number of the type of an event's programs, which is negative if there is none. */
static int find_event(const struct btf *btf, const char *event)
{
	char type[64];

	snprintf(type, sizeof(type), "btf_trace_%s", event);
	return btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF);
}

/* Return true if the event has the request as its first argument, as in Linux 6.0 and later. */
static bool has_submission(const struct btf *btf, const char *event)
{
	int id = find_event(btf, event);
	const struct btf_type *type;

	if (id < 0)
		return false;
	type = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
	type = btf__type_by_id(btf, type->type);
	/* The first one is the data of the program. An older event has more than a flag after it. */
	return btf_is_func_proto(type) && btf_vlen(type) <= 3;
}

/* Return false if this kernel does not have the event of a program. */
bool lw_is_loadable(const struct lw_kernel *kernel, const struct bpf_program *program)
{
	const char *event = strchr(bpf_program__section_name(program), '/') + 1;

	if (!strcmp(event, DECISIONS))
		return kernel->has_decisions;
	if (!strcmp(event, COMPLETION))
		return kernel->submission;
	for (size_t i = 0; i < sizeof(submissions) / sizeof(submissions[0]); i++) {
		if (!strcmp(event, submissions[i]))
			return kernel->submission == submissions[i];
	}
	return true;
}

/* Determine the properties of this kernel. Return 0, or a negative errno and its reason. */
int lw_check_kernel(struct lw_kernel *kernel, char *error, size_t size)
{
	static const char *const events[] = {
		"sys_enter",	      "sys_exit",	    "block_bio_queue",
		"block_split",	      "block_bio_complete", "block_rq_complete",
		"block_rq_insert",    "block_rq_issue",	    "sched_process_fork",
		"sched_process_exec", "sched_process_exit", "sched_switch",
		"sched_waking",
	};
	struct btf *btf = btf__load_vmlinux_btf();
	int status = 0;

	if (!btf) {
		status = -errno;
		snprintf(error, size,
			 "this kernel does not describe its types (/sys/kernel/btf/vmlinux): it lacks "
			 "CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS or CONFIG_DEBUG_INFO_BTF");
		return status;
	}
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]) && !status; i++) {
		if (find_event(btf, events[i]) >= 0)
			continue;
		status = -ENOENT;
		snprintf(error, size, "this kernel has no tracepoint %s: it lacks %s", events[i],
			 !strncmp(events[i], "sys_", 4) ? "CONFIG_FTRACE_SYSCALLS" :
							  "CONFIG_BLK_DEV_IO_TRACE");
	}
	for (size_t i = 0; i < sizeof(submissions) / sizeof(submissions[0]); i++) {
		if (find_event(btf, COMPLETION) >= 0 && has_submission(btf, submissions[i]))
			kernel->submission = submissions[i];
	}
	kernel->has_decisions = find_event(btf, DECISIONS) >= 0;
	kernel->can_cast = btf__find_by_name_kind(btf, CAST, BTF_KIND_FUNC) >= 0;
	btf__free(btf);
	return status;
}
