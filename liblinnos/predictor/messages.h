/* SPDX-License-Identifier: MIT */
/* The message of linnos_error(), one for each thread. */
#ifndef LINNOS_MESSAGES_H
#define LINNOS_MESSAGES_H

#define ERROR_BYTES 512

/* Store a message for this thread and return @error. */
int format_error(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Report that NULL was given in place of an object that must be created first. Return -EINVAL. */
int error_null(const char *thing);
/* Report that memory is short. Return -ENOMEM. */
int error_memory(void);

#endif
