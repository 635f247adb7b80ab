/* SPDX-License-Identifier: MIT */
/* What goes wrong, as it is said: one line on stderr. */
#ifndef LINNOS_AGENT_DIE_H
#define LINNOS_AGENT_DIE_H

#define PROGRAM "linnos-agent"

#define EXIT_NOT_STARTED 1
#define EXIT_USAGE 2

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
