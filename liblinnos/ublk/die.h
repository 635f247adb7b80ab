/* SPDX-License-Identifier: MIT */
/* Error messages, each of which is one line on stderr. */
#ifndef LINNOS_UBLK_DIE_H
#define LINNOS_UBLK_DIE_H

/* Another program that uses this file defines its own name. */
#ifndef PROGRAM
#define PROGRAM "linnos-ublk"
#endif

/* Exit statuses. */
#define EXIT_NOT_STARTED 1
#define EXIT_USAGE 2
#define EXIT_DEGRADED 3 /* orderly stop, but a replica was dropped */

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
