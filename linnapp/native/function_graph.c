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
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Addresses, numbered in the order of their first occurrence. */
struct addresses {
	uint64_t *of;
	uint32_t n, room;
	uint32_t *slots;	/* number + 1 by hash; 0 if free */
	uint32_t n_slots;
};

/*
 * A function as called by another one. Nodes are numbered, because their array moves; number 0 is
 * none. @next is the next node with the same caller, or the next free one.
 */
struct node {
	uint32_t function;
	uint32_t calls;
	uint64_t total_ns;
	int64_t self_ns;
	uint64_t children;
	uint32_t called;	/* the first of the functions that it called */
	uint32_t next;
};

struct thread {
	struct thread *next;
	int32_t pid;
	bool is_cut;		/* a part of its current call is missing */
	/* By depth: the first node of those that have ended since the calling function began. */
	uint32_t ended[MAX_DEPTH + 2];
};

struct event {
	uint64_t time_ns;
	int32_t pid;
	uint32_t depth;
	uint64_t function, begin_ns, end_ns;
};

struct cpu {
	int fd;
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
	struct addresses addresses;
	struct node *nodes;
	uint32_t n_nodes, room;
	uint32_t free;		/* the first free node */
	uint32_t calls;		/* the first outermost function */
	struct thread *threads[THREAD_LISTS];
	struct lg_counts counts;
};

static uint32_t hash(uint64_t address)
{
	return address * 0x9e3779b97f4a7c15ull >> 32;
}

static bool rehash(struct addresses *a)
{
	uint32_t n_slots = a->n_slots ? 2 * a->n_slots : 1024;
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return false;
	for (uint32_t i = 0; i < a->n; i++) {
		uint32_t at = hash(a->of[i]) & (n_slots - 1);

		while (slots[at])
			at = (at + 1) & (n_slots - 1);
		slots[at] = i + 1;
	}
	free(a->slots);
	a->slots = slots;
	a->n_slots = n_slots;
	return true;
}

/* Return the number of an address; UINT32_MAX if out of memory. */
static uint32_t number_of(struct addresses *a, uint64_t address)
{
	uint32_t at;

	if (2 * a->n >= a->n_slots && !rehash(a))
		return UINT32_MAX;
	at = hash(address) & (a->n_slots - 1);
	for (; a->slots[at]; at = (at + 1) & (a->n_slots - 1))
		if (a->of[a->slots[at] - 1] == address)
			return a->slots[at] - 1;
	if (a->n == a->room) {
		uint32_t room = a->room ? 2 * a->room : 512;
		uint64_t *of = realloc(a->of, room * sizeof(*of));

		if (!of)
			return UINT32_MAX;
		a->of = of;
		a->room = room;
	}
	a->of[a->n++] = address;
	a->slots[at] = a->n;
	return a->n - 1;
}

/* Return a new node; 0 if out of memory. */
static uint32_t node_new(struct lg_sums *s, uint32_t function)
{
	uint32_t node = s->free;

	if (node) {
		s->free = s->nodes[node].next;
	} else {
		if (s->n_nodes == s->room) {
			uint32_t room = s->room ? 2 * s->room : 512;
			struct node *nodes = realloc(s->nodes, room * sizeof(*nodes));

			if (!nodes)
				return 0;
			s->nodes = nodes;
			s->room = room;
			if (!s->n_nodes)
				s->n_nodes = 1;
		}
		node = s->n_nodes++;
	}
	s->nodes[node] = (struct node){ .function = function };
	return node;
}

static void node_free(struct lg_sums *s, uint32_t node)
{
	s->nodes[node].next = s->free;
	s->free = node;
}

/* Return the place of a function's number in a list, which is the end if it is not in the list. */
static uint32_t *place_of(struct lg_sums *s, uint32_t *list, uint32_t function)
{
	while (*list && s->nodes[*list].function != function)
		list = &s->nodes[*list].next;
	return list;
}

/* Move the nodes of a list to another one, in which each function is once. */
static void merge_lists(struct lg_sums *s, uint32_t *to, uint32_t from)
{
	while (from) {
		struct node *node = &s->nodes[from];
		uint32_t *place = place_of(s, to, node->function), next = node->next;

		if (!*place) {
			*place = from;
			node->next = 0;
		} else {
			struct node *sum = &s->nodes[*place];

			sum->calls += node->calls;
			sum->total_ns += node->total_ns;
			sum->self_ns += node->self_ns;
			sum->children += node->children;
			merge_lists(s, &sum->called, node->called);
			node_free(s, from);
		}
		from = next;
	}
}

static void free_list(struct lg_sums *s, uint32_t list)
{
	while (list) {
		uint32_t next = s->nodes[list].next;

		free_list(s, s->nodes[list].called);
		node_free(s, list);
		list = next;
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

static int add_event(struct lg_sums *s, const struct event *event)
{
	uint32_t depth = event->depth, function, called, node;
	struct thread *thread;
	struct node *sum;
	uint64_t ns;

	s->counts.events++;
	if (depth > MAX_DEPTH || event->end_ns < event->begin_ns)
		return -EINVAL;
	thread = thread_of(s, event->pid);
	function = number_of(&s->addresses, event->function);
	if (!thread || function == UINT32_MAX)
		return -ENOMEM;
	node = *place_of(s, &thread->ended[depth], function);
	if (!node) {
		node = node_new(s, function);
		if (!node)
			return -ENOMEM;
		*place_of(s, &thread->ended[depth], function) = node;
	}
	ns = event->end_ns - event->begin_ns;
	sum = &s->nodes[node];
	sum->calls++;
	sum->total_ns += ns;
	sum->self_ns += (int64_t)ns;
	called = thread->ended[depth + 1];
	thread->ended[depth + 1] = 0;
	for (uint32_t each = called; each; each = s->nodes[each].next) {
		sum->self_ns -= (int64_t)s->nodes[each].total_ns;
		sum->children += s->nodes[each].calls;
	}
	merge_lists(s, &sum->called, called);
	if (depth)
		return 0;
	if (thread->is_cut) {
		s->counts.cut++;
	} else {
		merge_lists(s, &s->calls, thread->ended[0]);
		thread->ended[0] = 0;
	}
	thread->is_cut = false;
	for (uint32_t i = 0; i < MAX_DEPTH + 2; i++) {
		free_list(s, thread->ended[i]);
		thread->ended[i] = 0;
	}
	return 0;
}

/* Read the next page, or set is_done at the end of the file. Return: 0, or a negative errno. */
static int next_page(const struct lg_layout *layout, struct cpu *cpu)
{
	uint32_t have = 0, commit;

	while (have < layout->page_bytes) {
		ssize_t n = read(cpu->fd, cpu->page + have, layout->page_bytes - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		have += n;
	}
	if (!have) {
		cpu->is_done = true;
		return 0;
	}
	if (have < layout->page_bytes)
		return -EINVAL;
	memcpy(&cpu->time_ns, cpu->page, sizeof(cpu->time_ns));
	memcpy(&commit, cpu->page + layout->commit_at, sizeof(commit));
	cpu->has_missed = commit & MISSED_EVENTS;
	commit &= ~(MISSED_EVENTS | MISSED_STORED);
	if (commit > layout->page_bytes - layout->data_at)
		return -EINVAL;
	cpu->at = layout->data_at;
	cpu->end = layout->data_at + commit;
	return 0;
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

/* Read the next function that returned from a CPU's file into @cpu->event. */
static int next_event(struct lg_sums *s, struct cpu *cpu)
{
	const struct lg_layout *layout = &s->layout;

	for (;;) {
		uint32_t head, type, delta, bytes, left;
		const uint8_t *data;
		uint16_t event_type;

		while (cpu->at + sizeof(head) > cpu->end) {
			int err = next_page(layout, cpu);

			if (err || cpu->is_done)
				return err;
			if (cpu->has_missed) {
				/* The current calls and migrations of its threads are lost. */
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
				return -EINVAL;
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
			/* Its length comes first and includes itself. */
			if (left < sizeof(uint32_t))
				return -EINVAL;
			bytes = u32_at(data);
			if (type != TYPE_PADDING) {
				if (bytes < sizeof(uint32_t) || bytes > left)
					return -EINVAL;
				data += sizeof(uint32_t);
			}
		}
		if (bytes > left)
			return -EINVAL;
		cpu->at += (bytes + 3) & ~3u;
		if (type == TYPE_PADDING)
			continue;
		memcpy(&event_type, data, sizeof(event_type));
		if (event_type != layout->exit_type)
			continue;
		if (bytes < layout->exit_bytes)
			return -EINVAL;
		cpu->event = (struct event){
			.time_ns = cpu->time_ns,
			.pid = u32_at(data + layout->pid_at),
			.depth = u32_at(data + layout->depth_at),
			.function = u64_at(data + layout->function_at),
			.begin_ns = u64_at(data + layout->begin_at),
			.end_ns = u64_at(data + layout->end_at),
		};
		return 0;
	}
}

static int merge(struct lg_sums *s, struct cpu *cpus, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		int err = next_event(s, &cpus[i]);

		if (err)
			return err;
	}
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
			return 0;
		while (!first->is_done && first->event.time_ns <= until) {
			int err = add_event(s, &first->event);

			if (!err)
				err = next_event(s, first);
			if (err)
				return err;
		}
	}
}

static int check_layout(const struct lg_layout *layout)
{
	uint32_t data = layout->exit_bytes;

	if (layout->page_bytes > MAX_PAGE_BYTES || layout->data_at >= layout->page_bytes ||
	    layout->commit_at + sizeof(uint32_t) > layout->data_at ||
	    layout->data_at < sizeof(uint64_t) || layout->pid_at + 4 > data ||
	    layout->depth_at + 4 > data || layout->function_at + 8 > data ||
	    layout->begin_at + 8 > data || layout->end_at + 8 > data)
		return -EINVAL;
	return 0;
}

static uint64_t count_nodes(const struct lg_sums *s, uint32_t list)
{
	uint64_t n = 0;

	for (; list; list = s->nodes[list].next)
		n += 1 + count_nodes(s, s->nodes[list].called);
	return n;
}

/**
 * lg_add_up() - read and add up recordings
 * @paths: a file for each CPU
 * @n_paths: number of files
 * @layout: layout of the pages and events
 * @counts: receives the counters
 *
 * Return: the sums, for lg_rows() and lg_free(). NULL with errno set: EINVAL if the files do not
 * match the layout, ENOMEM, or the error of opening or reading.
 */
struct lg_sums *lg_add_up(const char *const *paths, int32_t n_paths,
			  const struct lg_layout *layout, struct lg_counts *counts)
{
	struct lg_sums *s = calloc(1, sizeof(*s));
	struct cpu *cpus = calloc(n_paths > 0 ? n_paths : 1, sizeof(*cpus));
	int err = s && cpus ? check_layout(layout) : -ENOMEM;
	int32_t n_open = 0;

	if (!err)
		s->layout = *layout;
	while (!err && n_open < n_paths) {
		struct cpu *cpu = &cpus[n_open];

		cpu->page = malloc(layout->page_bytes);
		cpu->fd = cpu->page ? open(paths[n_open], O_RDONLY | O_CLOEXEC) : -1;
		if (cpu->fd < 0) {
			err = cpu->page ? -errno : -ENOMEM;
			free(cpu->page);
		} else {
			n_open++;
		}
	}
	if (!err)
		err = merge(s, cpus, n_paths);
	for (int32_t i = 0; i < n_open; i++) {
		close(cpus[i].fd);
		free(cpus[i].page);
	}
	free(cpus);
	if (err) {
		lg_free(s);
		errno = -err;
		return NULL;
	}
	s->counts.rows = count_nodes(s, s->calls);
	*counts = s->counts;
	return s;
}

static struct lg_row *write_rows(const struct lg_sums *s, uint32_t list, uint32_t depth,
				 struct lg_row *row)
{
	for (; list; list = s->nodes[list].next) {
		const struct node *node = &s->nodes[list];

		*row++ = (struct lg_row){
			.function = s->addresses.of[node->function],
			.depth = depth,
			.calls = node->calls,
			.total_ns = node->total_ns,
			.self_ns = node->self_ns,
			.children = node->children,
		};
		row = write_rows(s, node->called, depth + 1, row);
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
	write_rows(sums, sums->calls, 0, rows);
}

/**
 * lg_free() - free the result of lg_add_up()
 * @sums: the result, or NULL
 */
void lg_free(struct lg_sums *sums)
{
	if (!sums)
		return;
	for (int i = 0; i < THREAD_LISTS; i++) {
		while (sums->threads[i]) {
			struct thread *thread = sums->threads[i];

			sums->threads[i] = thread->next;
			free(thread);
		}
	}
	free(sums->nodes);
	free(sums->addresses.of);
	free(sums->addresses.slots);
	free(sums);
}
