// SPDX-License-Identifier: MIT
/*
 * Run a worker of linnos-ublk whose ring can no longer be entered. With the argument "full", its
 * submission queue is full; with "wait", it waits for completions.
 */
#include "worker.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void ublk_prep_commit(const struct ublk_device *d, struct io_uring_sqe *sqe, unsigned int queue,
		      unsigned int tag, const void *buf, int result)
{
	(void)d, (void)sqe, (void)queue, (void)tag, (void)buf, (void)result;
	abort();
}

static void forbid_io_uring_enter(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_enter, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		exit(77);
}

int main(int argc, char **argv)
{
	static struct mirror mirror;
	struct worker worker = {.mirror = &mirror, .queue = 2};

	mirror.device.number = 5;
	if (argc != 2 || io_uring_queue_init(4, &worker.ring, 0))
		return 77;
	forbid_io_uring_enter();
	if (!strcmp(argv[1], "wait"))
		for (;;)
			wait_for_completions(&worker, 1000000);
	for (;;)
		io_uring_prep_nop(get_sqe(&worker));
}
