/* SPDX-License-Identifier: MIT */
/* Has the kernel tell of requests, by BPF: see requests.bpf.c. */
#ifndef LINNOS_AGENT_REQUESTS_H
#define LINNOS_AGENT_REQUESTS_H

#include "watched.h"

/* NULL, or why not: what is missing, and what to do. */
const char *requests_watch(struct watched *all, unsigned int n);
/* Readable when there are many records; -1: nothing is watched. */
int requests_fd(void);
/* All there are are fed; none, if some were lost. @woken: it was readable. */
void requests_take(bool woken);

#endif
