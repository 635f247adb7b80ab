// SPDX-License-Identifier: MIT
/* Alignment requirements of O_DIRECT: see direct.h. */
#include "direct.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The largest requirement of any file system, used if the kernel does not report one. */
#define FILE_ALIGN_BYTES 4096u

static bool is_power_of_two(uint32_t v)
{
	return v && !(v & (v - 1));
}

void direct_io_needs(int fd, uint32_t *align_bytes, uint32_t *memory_align_bytes)
{
	int logical_bytes;
/* Since Linux 6.1; the headers may be older. */
#ifdef STATX_DIOALIGN
	struct statx st;

	/* The kernel reports zeros if O_DIRECT is not supported. */
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
