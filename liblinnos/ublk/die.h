/* SPDX-License-Identifier: MIT */
/* What goes wrong, as it is said: one line on stderr. */
#ifndef LINNOS_UBLK_DIE_H
#define LINNOS_UBLK_DIE_H

/* Another program that ends in this way says what it is called. */
#ifndef PROGRAM
#define PROGRAM "linnos-ublk"
#endif

/* Exit statuses. */
#define EXIT_NOT_STARTED 1
#define EXIT_USAGE 2
#define EXIT_DEGRADED 3 /* stopped in order, but a replica was dropped */

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
