/* SPDX-License-Identifier: MIT */
/* What linnos_error() says: each thread's own. */
#ifndef LINNOS_MESSAGES_H
#define LINNOS_MESSAGES_H

#define ERROR_BYTES 512

/* Keeps a message for this thread and returns error. */
int error_say(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL was given in the place of a thing that should have been made before; -EINVAL. */
int error_null(const char *thing);

#endif
