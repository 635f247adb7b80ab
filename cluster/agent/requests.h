/* SPDX-License-Identifier: MIT */
/* Receive records of requests from the kernel through BPF: see requests.bpf.c. */
#ifndef LINNOS_AGENT_REQUESTS_H
#define LINNOS_AGENT_REQUESTS_H

#include "watched.h"

/* Return NULL, or an error text that says what is missing and what to do. */
const char *requests_watch(struct watched *all, unsigned int n);
/* Return a descriptor that is readable when there are many records; -1 if nothing is watched. */
int requests_fd(void);
/* Process all records, or none if some were lost. @woken is true if the descriptor was readable. */
void requests_take(bool woken);

#endif
