/* SPDX-License-Identifier: MIT */
/*
 * Add up the recordings of the kernel's function graph tracer: raw pages of its ring buffer, a
 * file for each CPU.
 *
 * The event of each function that returned has its entry and return times, and its depth among the
 * traced functions. A function returns after all functions that it called, so a thread's events
 * come in post-order: the calls that have ended one level deeper since the calling function began
 * are those that it called. Calls of one function by the same caller are one node of a tree. The
 * function at depth 0 is the outermost call; its tree is added to that of earlier calls when it
 * returns.
 *
 * A thread may have moved between CPUs, so the files are merged by time. One page of each file and
 * one call of each thread are kept: memory does not depend on the length of the recording.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "function_graph.h"

#define MAX_DEPTH 256
#define MAX_PAGE_BYTES (1u << 20)

/* Flags in a page's number of bytes: events were lost before it; their number follows the data. */
#define MISSED_EVENTS (1u << 31)
#define MISSED_STORED (1u << 30)

/* Types of an event, in the lowest five bits of its header (linux/ring_buffer.h). */
#define TYPE_BITS 5
#define TYPE_DATA_MAX 28
#define TYPE_PADDING 29
#define TYPE_TIME_EXTEND 30
#define TYPE_TIME_STAMP 31
/* The bits of an absolute time in the event; the others are those of the page's time. */
#define TIME_STAMP_MASK ((1ull << 59) - 1)

/* A function as called by another one. @next is the next one with the same caller. */
struct node {
	struct node *called;	/* the first of the functions that it called */
	struct node *next;
	struct lg_row sum;
};

struct thread {
	struct thread *next;
	int32_t pid;
	bool is_cut;		/* a part of its current call is missing */
	/* By depth: the first of those that have ended since the calling function began. */
	struct node *ended[MAX_DEPTH + 2];
};

struct event {
	uint64_t time_ns;
	int32_t pid;
	uint32_t depth;
	uint64_t function, begin_ns, end_ns;
};

struct cpu {
	FILE *file;
	uint8_t *page;
	uint32_t at, end;
	uint64_t time_ns;
	bool has_missed;	/* before the current event */
	bool is_done;
	struct event event;
};

#define THREAD_LISTS 1024

struct lg_sums {
	struct lg_layout layout;
	struct node *calls;	/* the first outermost function */
	struct thread *threads[THREAD_LISTS];
	struct lg_counts counts;
};

/* Return the place of a function in a list, which is the end if it is not in the list. */
static struct node **place_of(struct node **list, uint64_t function)
{
	while (*list && (*list)->sum.function != function)
		list = &(*list)->next;
	return list;
}

/* Move the nodes of a list to another one, in which each function is once. */
static void merge_lists(struct node **to, struct node *from)
{
	while (from) {
		struct node **place = place_of(to, from->sum.function), *next = from->next;

		if (!*place) {
			*place = from;
			from->next = NULL;
		} else {
			struct lg_row *sum = &(*place)->sum;

			sum->calls += from->sum.calls;
			sum->total_ns += from->sum.total_ns;
			sum->self_ns += from->sum.self_ns;
			sum->children += from->sum.children;
			merge_lists(&(*place)->called, from->called);
			free(from);
		}
		from = next;
	}
}

static void free_list(struct node *list)
{
	while (list) {
		struct node *next = list->next;

		free_list(list->called);
		free(list);
		list = next;
	}
}

static void forget_ended(struct thread *thread)
{
	for (int i = 0; i < MAX_DEPTH + 2; i++) {
		free_list(thread->ended[i]);
		thread->ended[i] = NULL;
	}
}

static struct thread *thread_of(struct lg_sums *s, int32_t pid)
{
	struct thread **list = &s->threads[(uint32_t)pid % THREAD_LISTS];
	struct thread *thread = *list;

	while (thread && thread->pid != pid)
		thread = thread->next;
	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		thread->pid = pid;
		/* All of its earlier events may have been lost. */
		thread->is_cut = s->counts.missed > 0;
		thread->next = *list;
		*list = thread;
	}
	return thread;
}

/* Mark all pending calls: parts of them may be missing from now on. */
static void cut_all(struct lg_sums *s)
{
	for (int i = 0; i < THREAD_LISTS; i++)
		for (struct thread *thread = s->threads[i]; thread; thread = thread->next)
			thread->is_cut = true;
}

static bool add_event(struct lg_sums *s, const struct event *event)
{
	struct thread *thread;
	struct node **place, *called;
	struct lg_row *sum;
	uint64_t ns;

	s->counts.events++;
	if (event->depth > MAX_DEPTH || event->end_ns < event->begin_ns)
		return false;
	thread = thread_of(s, event->pid);
	if (!thread)
		return false;
	place = place_of(&thread->ended[event->depth], event->function);
	if (!*place) {
		*place = calloc(1, sizeof(**place));
		if (!*place)
			return false;
		(*place)->sum.function = event->function;
	}
	ns = event->end_ns - event->begin_ns;
	sum = &(*place)->sum;
	sum->calls++;
	sum->total_ns += ns;
	sum->self_ns += (int64_t)ns;
	called = thread->ended[event->depth + 1];
	thread->ended[event->depth + 1] = NULL;
	for (struct node *each = called; each; each = each->next) {
		sum->self_ns -= (int64_t)each->sum.total_ns;
		sum->children += each->sum.calls;
	}
	merge_lists(&(*place)->called, called);
	if (event->depth)
		return true;
	if (thread->is_cut) {
		s->counts.cut++;
	} else {
		merge_lists(&s->calls, thread->ended[0]);
		thread->ended[0] = NULL;
	}
	thread->is_cut = false;
	forget_ended(thread);
	return true;
}

/* Read the next page, or set is_done at the end of the file. Return false if it is damaged. */
static bool next_page(const struct lg_layout *layout, struct cpu *cpu)
{
	size_t have = fread(cpu->page, 1, layout->page_bytes, cpu->file);
	uint32_t commit;

	if (have < layout->page_bytes) {
		cpu->is_done = true;
		return !have && !ferror(cpu->file);
	}
	memcpy(&cpu->time_ns, cpu->page, sizeof(cpu->time_ns));
	memcpy(&commit, cpu->page + layout->commit_at, sizeof(commit));
	cpu->has_missed = commit & MISSED_EVENTS;
	commit &= ~(MISSED_EVENTS | MISSED_STORED);
	if (commit > layout->page_bytes - layout->data_at)
		return false;
	cpu->at = layout->data_at;
	cpu->end = layout->data_at + commit;
	return true;
}

static uint32_t u32_at(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static uint64_t u64_at(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

/* Read the next function that returned into @cpu->event; return false if the file is damaged. */
static bool next_event(struct lg_sums *s, struct cpu *cpu)
{
	const struct lg_layout *layout = &s->layout;

	for (;;) {
		uint32_t head, type, delta, bytes, left;
		const uint8_t *data;
		uint16_t event_type;

		while (cpu->at + sizeof(head) > cpu->end) {
			if (!next_page(layout, cpu))
				return false;
			if (cpu->is_done)
				return true;
			if (cpu->has_missed) {
				/* Returns, and migrations of threads to this CPU, may be lost. */
				s->counts.missed++;
				cut_all(s);
			}
		}
		head = u32_at(cpu->page + cpu->at);
		type = head & ((1u << TYPE_BITS) - 1);
		delta = head >> TYPE_BITS;
		cpu->at += sizeof(head);
		data = cpu->page + cpu->at;
		left = cpu->end - cpu->at;
		if (type == TYPE_TIME_EXTEND || type == TYPE_TIME_STAMP) {
			uint64_t time;

			if (left < sizeof(uint32_t))
				return false;
			time = ((uint64_t)u32_at(data) << (32 - TYPE_BITS)) + delta;
			cpu->at += sizeof(uint32_t);
			if (type == TYPE_TIME_EXTEND)
				cpu->time_ns += time;
			else
				cpu->time_ns = (cpu->time_ns & ~TIME_STAMP_MASK) | time;
			continue;
		}
		if (type == TYPE_PADDING && !delta) {
			cpu->at = cpu->end;	/* end of the data in this page */
			continue;
		}
		cpu->time_ns += delta;
		if (type && type <= TYPE_DATA_MAX) {
			bytes = 4 * type;
		} else {
			/* The length comes first; that of data includes the length itself. */
			if (left < sizeof(uint32_t))
				return false;
			bytes = u32_at(data);
			if (type != TYPE_PADDING) {
				if (bytes < sizeof(uint32_t) || bytes > left)
					return false;
				data += sizeof(uint32_t);
			}
		}
		if (bytes > left)
			return false;
		cpu->at += (bytes + 3) & ~3u;
		if (type == TYPE_PADDING)
			continue;
		memcpy(&event_type, data, sizeof(event_type));
		if (event_type != layout->exit_type)
			continue;
		if (bytes < layout->exit_bytes)
			return false;
		cpu->event = (struct event){
			.time_ns = cpu->time_ns,
			.pid = u32_at(data + layout->pid_at),
			.depth = u32_at(data + layout->depth_at),
			.function = u64_at(data + layout->function_at),
			.begin_ns = u64_at(data + layout->begin_at),
			.end_ns = u64_at(data + layout->end_at),
		};
		return true;
	}
}

static bool merge(struct lg_sums *s, struct cpu *cpus, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (!next_event(s, &cpus[i]))
			return false;
	for (;;) {
		struct cpu *first = NULL;
		uint64_t until = UINT64_MAX;	/* when the next event of another CPU comes */

		for (int32_t i = 0; i < n; i++) {
			if (cpus[i].is_done)
				continue;
			if (!first || cpus[i].event.time_ns < first->event.time_ns) {
				until = first ? first->event.time_ns : UINT64_MAX;
				first = &cpus[i];
			} else if (cpus[i].event.time_ns < until) {
				until = cpus[i].event.time_ns;
			}
		}
		if (!first)
			return true;
		while (!first->is_done && first->event.time_ns <= until)
			if (!add_event(s, &first->event) || !next_event(s, first))
				return false;
	}
}

static bool is_possible(const struct lg_layout *layout)
{
	uint32_t data = layout->exit_bytes;

	return layout->page_bytes <= MAX_PAGE_BYTES && layout->data_at < layout->page_bytes &&
	       layout->commit_at + sizeof(uint32_t) <= layout->data_at &&
	       layout->data_at >= sizeof(uint64_t) && layout->pid_at + 4 <= data &&
	       layout->depth_at + 4 <= data && layout->function_at + 8 <= data &&
	       layout->begin_at + 8 <= data && layout->end_at + 8 <= data;
}

static uint64_t count_nodes(const struct node *list)
{
	uint64_t n = 0;

	for (; list; list = list->next)
		n += 1 + count_nodes(list->called);
	return n;
}

/**
 * lg_add_up() - read and add up recordings
 * @paths: a file for each CPU
 * @n_paths: number of files
 * @layout: layout of the pages and events
 * @counts: receives the counters
 *
 * Return: the sums, for lg_rows() and lg_free(). NULL if the files cannot be read or do not match
 * the layout, or if out of memory.
 */
struct lg_sums *lg_add_up(const char *const *paths, int32_t n_paths,
			  const struct lg_layout *layout, struct lg_counts *counts)
{
	struct lg_sums *s = calloc(1, sizeof(*s));
	struct cpu *cpus = calloc(n_paths, sizeof(*cpus));
	bool is_good = s && cpus && is_possible(layout);

	for (int32_t i = 0; is_good && i < n_paths; i++) {
		cpus[i].page = malloc(layout->page_bytes);
		cpus[i].file = fopen(paths[i], "re");
		is_good = cpus[i].page && cpus[i].file;
	}
	if (is_good) {
		s->layout = *layout;
		is_good = merge(s, cpus, n_paths);
	}
	for (int32_t i = 0; cpus && i < n_paths; i++) {
		if (cpus[i].file)
			fclose(cpus[i].file);
		free(cpus[i].page);
	}
	free(cpus);
	if (!is_good) {
		lg_free(s);
		return NULL;
	}
	s->counts.rows = count_nodes(s->calls);
	*counts = s->counts;
	return s;
}

static struct lg_row *write_rows(const struct node *list, uint32_t depth, struct lg_row *row)
{
	for (; list; list = list->next) {
		*row = list->sum;
		row->depth = depth;
		row = write_rows(list->called, depth + 1, row + 1);
	}
	return row;
}

/**
 * lg_rows() - get the results
 * @sums: the result of lg_add_up()
 * @rows: room for the number of rows in its counters; a function comes before those it called
 */
void lg_rows(const struct lg_sums *sums, struct lg_row *rows)
{
	write_rows(sums->calls, 0, rows);
}

/** lg_free() - free the result of lg_add_up(), or NULL */
void lg_free(struct lg_sums *sums)
{
	if (!sums)
		return;
	for (int i = 0; i < THREAD_LISTS; i++) {
		while (sums->threads[i]) {
			struct thread *thread = sums->threads[i];

			sums->threads[i] = thread->next;
			forget_ended(thread);
			free(thread);
		}
	}
	free_list(sums->calls);
	free(sums);
}
