/* SPDX-License-Identifier: MIT */
/*
 * What the function graph tracer has recorded, added up: see function_graph.c. Everything that
 * starts with lg_ is called from Python (linnapp/insight/functions.py).
 */
#ifndef LINNAPP_FUNCTION_GRAPH_H
#define LINNAPP_FUNCTION_GRAPH_H

#include <stdint.h>

/**
 * struct lg_layout - where things are, as the kernel's `format` files say
 * @page_bytes: a page of the ring buffer, its header included
 * @commit_at: offset of the number of bytes in a page
 * @data_at: offset of the first event
 * @exit_type: number of the event funcgraph_exit
 * @pid_at: offset in an event of the thread; 4 bytes
 * @function_at: of the function's address; 8 bytes
 * @depth_at: of its depth; 4 bytes
 * @begin_at: of the time it was entered; 8 bytes
 * @end_at: of the time it was left; 8 bytes
 * @exit_bytes: least size of such an event
 */
struct lg_layout {
	uint32_t page_bytes;
	uint32_t commit_at;
	uint32_t data_at;
	uint32_t exit_type;
	uint32_t pid_at;
	uint32_t function_at;
	uint32_t depth_at;
	uint32_t begin_at;
	uint32_t end_at;
	uint32_t exit_bytes;
};

/**
 * struct lg_row - a function, called from within another that nothing traced has called
 * @call: address of that other, the outermost
 * @function: the function's address
 * @calls: how many
 * @total_ns: time in it and in what it called
 * @self_ns: of that, outside of the traced functions that it called
 * @children: traced functions that it called itself
 */
struct lg_row {
	uint64_t call;
	uint64_t function;
	uint64_t calls;
	uint64_t total_ns;
	int64_t self_ns;
	uint64_t children;
};

/**
 * struct lg_counts - of what was read
 * @events: functions that returned
 * @missed: pages before which events were lost, as the kernel says
 * @cut: outermost calls that were dropped, as a part of them is missing
 * @rows: for lg_rows()
 */
struct lg_counts {
	uint64_t events;
	uint64_t missed;
	uint64_t cut;
	uint64_t rows;
};

struct lg_sums;

struct lg_sums *lg_add_up(const char *const *paths, int32_t n_paths,
			  const struct lg_layout *layout, struct lg_counts *counts);
void lg_rows(const struct lg_sums *sums, struct lg_row *rows);
void lg_free(struct lg_sums *sums);

#endif
