// SPDX-License-Identifier: MIT
/* Structures of the public headers that may grow: see versioned_struct.h. */
#include "versioned_struct.h"
#include "messages.h"

#include <errno.h>
#include <string.h>

/* No structure will ever be larger. A larger size means that the member was never set. */
#define BYTES_MAX 4096

int versioned_struct_copy_in(void *to, size_t bytes, const void *given, size_t ver0_bytes,
			     const char *name)
{
	size_t size;

	if (!given)
		return 0;
	memcpy(&size, given, sizeof(size));
	if (size < ver0_bytes || size > BYTES_MAX)
		return format_error(size < ver0_bytes ? -EINVAL : -E2BIG,
				    "%s: size is %zu; it must be between %zu and %d; set it to the "
				    "sizeof of the structure",
				    name, size, ver0_bytes, BYTES_MAX);
	for (size_t i = bytes; i < size; i++)
		if (((const char *)given)[i])
			return format_error(-E2BIG,
					    "%s: byte %zu is not zero, but this library supports "
					    "only %zu bytes; it is older than the program's header",
					    name, i, bytes);
	memcpy(to, given, size < bytes ? size : bytes);
	/* The copy has the size of this library's structure. */
	memcpy(to, &bytes, sizeof(bytes));
	return 0;
}

void versioned_struct_copy_out(void *to, size_t bytes, const void *from, size_t from_bytes)
{
	memset(to, 0, bytes);
	memcpy(to, from, bytes < from_bytes ? bytes : from_bytes);
}
