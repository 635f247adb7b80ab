// SPDX-License-Identifier: MIT
/*
 * Count the instructions of a function call by single-stepping a program.
 *
 *	count_steps ADDRESS SKIP CALLS OUT PROGRAM [ARGUMENT...]
 *
 * The program skips SKIP calls of the function at the address (hexadecimal, of
 * a program that is not relocated). For each of the next CALLS calls it writes
 * one number to OUT. It is meant for a user-mode Linux kernel, which has no
 * access to the processor's counters. The count does not depend on the load of
 * the machine. x86-64 only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static unsigned long address;
static long original;

static void die(const char *what)
{
	fprintf(stderr, "count_steps: %s: %s\n", what, strerror(errno));
	if (child > 0)
		kill(child, SIGKILL);
	exit(1);
}

static void arm(int armed)
{
	long word = armed ? (original & ~0xffL) | 0xcc : original;

	if (ptrace(PTRACE_POKETEXT, child, address, word))
		die("cannot write the breakpoint");
}

static void resume(enum __ptrace_request how, int signal)
{
	if (ptrace(how, child, NULL, (void *)(long)signal))
		die("ptrace");
}

/* Return the signal that stopped the child, or 0 after an exec. Exit when the child ends. */
static int wait_for_stop(void)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		die("waitpid");
	if (WIFEXITED(status))
		exit(WEXITSTATUS(status));
	if (WIFSIGNALED(status))
		exit(128 + WTERMSIG(status));
	if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
		return 0;
	return WSTOPSIG(status);
}

static struct user_regs_struct registers(void)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, child, NULL, &regs))
		die("registers");
	return regs;
}

/*
 * Step from the first instruction of the function to the one after its call. A signal that arrives
 * with the last step is stored in *pending, because a kernel that loses one waits forever.
 */
static long count_call(struct user_regs_struct entry, int *pending)
{
	unsigned long back = ptrace(PTRACE_PEEKTEXT, child, entry.rsp, NULL);
	long steps = 0;
	int signal = 0;

	for (;;) {
		struct user_regs_struct now;

		resume(PTRACE_SINGLESTEP, signal);
		signal = wait_for_stop();
		if (signal == SIGTRAP)
			signal = 0;
		steps += !signal;
		now = registers();
		if (now.rip == back && now.rsp == entry.rsp + 8) {
			*pending = signal;
			return steps;
		}
	}
}

int main(int argc, char **argv)
{
	long skip, calls, hits = 0;
	FILE *out;
	int signal;

	if (argc < 6) {
		fprintf(stderr, "usage: count_steps ADDRESS SKIP CALLS OUT PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	address = strtoul(argv[1], NULL, 16);
	skip = atol(argv[2]);
	calls = atol(argv[3]);
	out = fopen(argv[4], "w");
	if (!out)
		die(argv[4]);
	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[5], argv + 5);
		_exit(127);
	}
	if (child < 0 || wait_for_stop() != SIGTRAP)
		die(argv[5]);
	if (ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL))
		die("options");
	original = ptrace(PTRACE_PEEKTEXT, child, address, NULL);
	arm(1);
	signal = 0;
	for (;;) {
		struct user_regs_struct regs;

		resume(PTRACE_CONT, signal);
		signal = wait_for_stop();
		if (!signal) {
			/* the program has executed itself again, without the breakpoint */
			arm(1);
			continue;
		}
		regs = registers();
		if (signal != SIGTRAP || regs.rip != address + 1)
			continue;
		signal = 0;
		regs.rip = address;
		if (ptrace(PTRACE_SETREGS, child, NULL, &regs))
			die("registers");
		arm(0);
		if (hits++ < skip) {
			resume(PTRACE_SINGLESTEP, 0);
			signal = wait_for_stop();
			if (signal == SIGTRAP)
				signal = 0;
		} else {
			fprintf(out, "%ld\n", count_call(regs, &signal));
		}
		if (hits == skip + calls)
			fclose(out);
		else
			arm(1);
	}
}
