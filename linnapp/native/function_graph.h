/* SPDX-License-Identifier: MIT */
/*
 * Sums of the function graph tracer's recordings: see function_graph.c. The functions whose names
 * start with lg_ are called from Python (linnapp/insight/functions.py).
 */
#ifndef LINNAPP_FUNCTION_GRAPH_H
#define LINNAPP_FUNCTION_GRAPH_H

#include <stdint.h>

/**
 * struct lg_layout - layout of pages and events, from the kernel's `format` files
 * @page_bytes: size of a page of the ring buffer, including its header
 * @commit_at: offset of the number of bytes in a page
 * @data_at: offset of the first event
 * @exit_type: number of the event funcgraph_exit
 * @pid_at: offset of the thread's id in an event; 4 bytes
 * @function_at: offset of the function's address; 8 bytes
 * @depth_at: offset of its depth; 4 bytes
 * @begin_at: offset of the entry time; 8 bytes
 * @end_at: offset of the return time; 8 bytes
 * @exit_bytes: minimum size of such an event
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
 * struct lg_row - a function, as called by the nearest earlier row of a smaller depth
 * @function: the function's address
 * @calls: number of calls
 * @total_ns: time in it and in the functions that it called
 * @self_ns: the part of that outside the traced functions that it called
 * @children: number of calls of traced functions by it
 * @depth: number of callers: 0 for the outermost traced function
 */
struct lg_row {
	uint64_t function;
	uint64_t calls;
	uint64_t total_ns;
	int64_t self_ns;
	uint64_t children;
	uint32_t depth;
};

/**
 * struct lg_counts - counters of the input
 * @events: number of functions that returned
 * @missed: number of pages before which the kernel lost events
 * @cut: number of outermost calls that were dropped because a part of them is missing
 * @rows: number of rows for lg_rows()
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
