// SPDX-License-Identifier: MIT
/* Load the kernel side and read its records, with libbpf if the agent was built with it. */
#include "requests.h"

#ifdef HAVE_LIBBPF
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * More than the buffer holds, so that a drive that fills it as fast as it is read cannot block
 * answers.
 */
#define TAKEN_MAX 32768

/* The compiled program is linked in, so that no separate file is needed. */
__asm__(".section .rodata\n"
	".balign 8\n"
	"requests_object: .incbin \"" REQUESTS_OBJECT "\"\n"
	"requests_object_end:\n"
	".previous\n");
extern const char requests_object[], requests_object_end[];

static struct watched *watched;
static unsigned int n_watched;
static struct ring_buffer *ring;
static volatile struct request_watch *watch;
static uint64_t n_lost;
static bool is_losing;
static unsigned int n_taken;
static int wakes = -1;

/* The first message of libbpf, which contains the reason of a failure. */
static char said[256];

static int on_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN && !*said)
		vsnprintf(said, sizeof(said), format, arguments);
	said[strcspn(said, "\n")] = 0;
	return 0;
}

static const char *reason(int error)
{
	static char why[sizeof(said) + 64];

	if (error == EPERM)
		return "BPF needs CAP_BPF and CAP_PERFMON; see linnos-agent(8), WITHOUT LINNOS";
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return "the kernel was built without CONFIG_DEBUG_INFO_BTF "
		       "(/sys/kernel/btf/vmlinux); the module of linnos-dkms does not need it";
	snprintf(why, sizeof(why), "%s (Linux 5.16 or later is needed)",
		 *said ? said : strerror(error));
	return why;
}

static int on_record(void *context, void *record, size_t bytes)
{
	(void)context;
	(void)bytes;
	if (!is_losing)
		watched_feed(watched, n_watched, record);
	return ++n_taken < TAKEN_MAX ? 0 : -EAGAIN;
}

/*
 * libbpf's own descriptor is readable while there is any record, which is always the case on a busy
 * drive. This one becomes readable once after each wake-up.
 */
static int open_wakes(int records)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, records, &event))
		return -1;
	return fd;
}

const char *requests_watch(struct watched *all, unsigned int n)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "linnos_agent");
	struct bpf_program *program = NULL;
	struct bpf_object *object;
	int records;

	libbpf_set_print(on_message);
	object = bpf_object__open_mem(requests_object, requests_object_end - requests_object,
				      &options);
	if (!object || bpf_object__load(object))
		return reason(errno);
	records = bpf_object__find_map_fd_by_name(object, "records");
	watch = mmap(NULL, sizeof(*watch), PROT_READ | PROT_WRITE, MAP_SHARED,
		     bpf_object__find_map_fd_by_name(object, ".bss"), 0);
	if (watch == MAP_FAILED)
		return reason(errno);
	wakes = open_wakes(records);
	ring = ring_buffer__new(records, on_record, NULL, NULL);
	if (wakes < 0 || !ring)
		return reason(errno);
	while ((program = bpf_object__next_program(object, program)))
		if (!bpf_program__attach(program))
			return reason(errno);
	for (unsigned int k = 0; k < n; k++) {
		watch->disks[k] = NO_DISK;
		all[k].disk = &watch->disks[k];
	}
	watched = all;
	n_watched = n;
	return NULL;
}

int requests_fd(void)
{
	return wakes;
}

void requests_take(bool woken)
{
	struct epoll_event event;
	uint64_t lost;

	if (!watched)
		return;
	if (woken)
		epoll_wait(wakes, &event, 1, 0);
	/* ignore the remaining records: their completions could be matched with later requests */
	lost = watch->lost;
	is_losing = lost != n_lost;
	n_lost = lost;
	n_taken = 0;
	ring_buffer__consume(ring);
	if (is_losing)
		watched_lost();
}

#else

const char *requests_watch(struct watched *all, unsigned int n)
{
	(void)all;
	(void)n;
	return "watching requests needs libbpf and clang, without which this agent was built";
}

int requests_fd(void)
{
	return -1;
}

void requests_take(bool woken)
{
	(void)woken;
}

#endif
