/* SPDX-License-Identifier: MIT */
/* Threads of a library, in which all signals are blocked, so that the program handles them. */
#ifndef LINNOS_THREAD_H
#define LINNOS_THREAD_H

#include <pthread.h>

/* Start a thread that blocks all signals. Return 0 or a negative errno. */
int thread_begin(pthread_t *thread, void *(*run)(void *data), void *data);

#endif
