/* SPDX-License-Identifier: MIT */
/* Threads of the library's own. */
#ifndef LINNOS_CEPH_THREAD_H
#define LINNOS_CEPH_THREAD_H

#include <pthread.h>

/* It has none of its program's signals; 0 or a negative errno. */
int thread_begin(pthread_t *thread, void *(*run)(void *of), void *of);

#endif
