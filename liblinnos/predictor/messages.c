// SPDX-License-Identifier: MIT
/* The message of linnos_error(): see messages.h. */
#include "messages.h"
#include "linnos_choose.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static __thread char error_text[ERROR_BYTES];

int format_error(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof(error_text), format, args);
	va_end(args);
	return error;
}

int error_null(const char *thing)
{
	return format_error(-EINVAL,
			    "the %s is NULL; check whether the call that creates it has failed",
			    thing);
}

int error_memory(void)
{
	return format_error(-ENOMEM, "out of memory");
}

const char *linnos_error(void)
{
	return error_text;
}
