// SPDX-License-Identifier: MIT
/* What O_DIRECT wants of a device or a file: see direct.h. */
#include "direct.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What file systems want at most, where the kernel does not tell. */
#define FILE_ALIGN_BYTES 4096u

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

void direct_io_needs(int fd, uint32_t *align_bytes, uint32_t *memory_align_bytes)
{
	int logical_bytes;
/* Of Linux 6.1, of which the headers may be older. */
#ifdef STATX_DIOALIGN
	struct statx st;

	/* Zeros are told of what has no O_DIRECT. */
	if (!syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) &&
	    st.stx_mask & STATX_DIOALIGN && is_power_of_two(st.stx_dio_offset_align) &&
	    is_power_of_two(st.stx_dio_mem_align)) {
		*align_bytes = st.stx_dio_offset_align;
		*memory_align_bytes = st.stx_dio_mem_align;
		return;
	}
#endif
	*align_bytes = *memory_align_bytes = FILE_ALIGN_BYTES;
	if (ioctl(fd, BLKSSZGET, &logical_bytes) || !is_power_of_two(logical_bytes))
		return;
	*align_bytes = logical_bytes;
	if (*memory_align_bytes > *align_bytes)
		*memory_align_bytes = *align_bytes;
}
