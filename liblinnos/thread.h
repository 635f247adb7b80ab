/* SPDX-License-Identifier: MIT */
/* Threads of a library's own: signals are its program's. */
#ifndef LINNOS_THREAD_H
#define LINNOS_THREAD_H

#include <pthread.h>

/* It is sent no signals; 0 or a negative errno. */
int thread_begin(pthread_t *thread, void *(*run)(void *of), void *of);

#endif
