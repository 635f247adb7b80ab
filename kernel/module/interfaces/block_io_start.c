// SPDX-License-Identifier: GPL-2.0-only
/* Since 6.5, a trace point reports that a request was allocated for a bio. */
#include <linux/blkdev.h>
#include <trace/events/block.h>

static void __maybe_unused linnos_test(void (*called)(void *data,
						      struct request *rq))
{
	check_trace_callback_type_block_io_start(called);
}
