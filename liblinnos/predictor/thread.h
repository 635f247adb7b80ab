/* SPDX-License-Identifier: MIT */
/* Threads of a library, which leave all signals to the program. */
#ifndef LINNOS_THREAD_H
#define LINNOS_THREAD_H

#include <pthread.h>

/* Start a thread that receives no signals. Return 0 or a negative errno. */
int thread_begin(pthread_t *thread, void *(*run)(void *data), void *data);

#endif
