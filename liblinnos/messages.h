/* SPDX-License-Identifier: MIT */
/* What linnos_error() says: each thread's own. */
#ifndef LINNOS_MESSAGES_H
#define LINNOS_MESSAGES_H

#define ERROR_BYTES 512

/* Keeps a message for this thread and returns error. */
int error_say(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
