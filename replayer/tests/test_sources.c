// SPDX-License-Identifier: MIT
/* Tests of the traces of a run as one stream of I/Os. */
#include "trace/sources.h"

#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#define MIB (1u << 20)

/* Return a fio iolog with these lines. */
static char *trace(const char *lines)
{
	char path[] = "/tmp/traceXXXXXX";
	FILE *f = fdopen(mkstemp(path), "w");

	assert(f);
	fprintf(f, "fio version 3 iolog\n%s", lines);
	fclose(f);
	return strdup(path);
}

static struct options o;
static struct sources all;

static void open_traces(const char *first, const char *second)
{
	o.traces[0] = trace(first);
	o.n_traces = 1;
	if (second)
		o.traces[o.n_traces++] = trace(second);
	all = (struct sources){.o = &o, .n_drives = 2, .limit_bytes = MIB};
	if (!o.rerate)
		o.rerate = 1;
}

static void close_traces(void)
{
	for (unsigned int i = 0; i < o.n_traces; i++) {
		trace_close(all.each[i].trace);
		unlink(o.traces[i]);
		free(o.traces[i]);
	}
	o = (struct options){0};
}

/* Check the next I/O of all sources. */
static void next_is(unsigned int source, uint64_t at_us, uint64_t offset_bytes, uint32_t size_bytes)
{
	struct source *s = source_first(&all);

	assert(s == &all.each[source] && s->next.at_ns == at_us * 1000);
	assert(s->next.offset_bytes == offset_bytes && s->next.size_bytes == size_bytes);
	source_advance(&all, s);
}

static void end_is_here(void)
{
	assert(!source_first(&all));
	close_traces();
}

TEST(traces_merge_by_due_time_and_ties_go_to_the_first)
{
	open_traces("10 x read 0 4096\n30 x read 4096 4096\n",
		    "10 x read 8192 4096\n20 x read 12288 4096\n");
	sources_scan(&all, NULL, NULL);
	sources_open(&all);
	next_is(0, 10, 0, 4096);
	next_is(1, 10, 8192, 4096);
	next_is(1, 20, 12288, 4096);
	next_is(0, 30, 4096, 4096);
	end_is_here();
}

TEST(spread_uses_the_drives_round_robin)
{
	open_traces("1 x read 0 4096\n2 x read 0 4096\n3 x read 0 4096\n", NULL);
	o.spread = true;
	sources_open(&all);
	for (unsigned int i = 0; i < 3; i++) {
		assert(all.each[0].drive == i % 2);
		source_advance(&all, &all.each[0]);
	}
	end_is_here();
}

static void add_up(void *context, const struct trace_io *io)
{
	*(uint64_t *)context += io->size_bytes;
}

TEST(scan_reports_every_io_once)
{
	uint64_t bytes = 0;

	open_traces("1 x read 0 4096\n2 x write 0 8192\n", "1 x read 0 65536\n9 x trim 0 1\n");
	sources_scan(&all, add_up, &bytes);
	assert(bytes == 12288 + 65536);
	assert(sources_skipped(&all) == 1);
	close_traces();
}

TEST(readonly_leaves_out_the_writes_that_are_due_in_the_run)
{
	open_traces("1 x write 0 4096\n3 x write 0 4096\n4 x read 0 4096\n8 x write 0 4096\n"
		    "9 x write 0 4096\n",
		    NULL);
	o.readonly = true;
	o.skip_s = 2e-6;
	o.duration_s = 6e-6;
	sources_open(&all);
	next_is(0, 2, 0, 4096);
	assert(all.writes_left_out == 1);
	end_is_here();
}
