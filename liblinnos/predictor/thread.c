// SPDX-License-Identifier: MIT
/* Threads of a library: see thread.h. */
#include "thread.h"

#include <signal.h>

int thread_begin(pthread_t *thread, void *(*run)(void *data), void *data)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, run, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}
