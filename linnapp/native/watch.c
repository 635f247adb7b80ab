// SPDX-License-Identifier: MIT
/*
 * The user-space side of `linnapp watch`: load the kernel's side, read its records, determine the
 * name of each file and fill rows.
 *
 * Memory is bounded: by MAX_NAMES names of MAX_NAME_BYTES in total, MAX_INODES files, and one
 * entry for each struct file and thread that existed at the same time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "watch.h"
#include "watch_calls.h"
#include "watch_kernel.h"

/* Limits of names, which are stored once and identified by numbers. */
#define MAX_NAME_BYTES (128 << 20)
/* Tables of 2^21 and 2^22 entries are at most half full. */
#define MAX_NAMES ((1 << 20) - 2)
#define MAX_INODES ((1 << 21) - 2)

#define ARGUMENT_BYTES (LW_N_ARGUMENTS * sizeof(uint64_t))

/* The compiled kernel's side, linked into the library so that it is a single file. */
__asm__(".section .rodata\n"
	".balign 8\n"
	"lw_object: .incbin \"" LW_OBJECT "\"\n"
	"lw_object_end:\n"
	".previous\n");
extern const char lw_object[] __attribute__((visibility("hidden")));
extern const char lw_object_end[] __attribute__((visibility("hidden")));

/* An open-addressed hash table from numbers to entries; key 0 is a free one. */
struct lw_entry {
	uint64_t key;
	union {
		struct {
			uint64_t inode;
			uint32_t device;
			int32_t name;
		} file;
		struct {
			uint64_t time_ns;
			int32_t names[LW_N_NAMES];
		} call;
		int64_t first_access_ns;
		int32_t name;
	};
};

struct lw_table {
	struct lw_entry *entries;
	size_t capacity, used;
};

struct lw_names {
	char **text;
	struct lw_table by_hash;
	size_t n, bytes;
	uint64_t left_out;	/* number of names beyond the limits of memory */
};

struct lw_watch {
	struct bpf_object *object;
	struct bpf_link *links[24];
	size_t n_links;
	struct ring_buffer *ring;
	int calls_in_flight, ios_in_flight, counters, processes;
	struct lw_glance *glance;	/* the kernel's memory */
	int64_t to_epoch_ns;
	struct lw_names names;
	struct lw_table files, calls, inodes;
	struct lw_rows *rows;
	struct lw_counts counts;
	char error[4096];
};

__attribute__((format(printf, 2, 3)))
static int fail(struct lw_watch *w, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(w->error, sizeof(w->error), format, arguments);
	va_end(arguments);
	return -1;
}

/* ---- tables ---- */

/* Spread the bits of a key over all bits. */
static uint64_t mixed(uint64_t key)
{
	key ^= key >> 33;
	key *= 0xff51afd7ed558ccdULL;
	key ^= key >> 33;
	return key;
}

/* Return the entry of a key, or the free entry for it; NULL if out of memory. */
static struct lw_entry *find_entry(struct lw_table *t, uint64_t key)
{
	if (2 * (t->used + 1) > t->capacity) {
		struct lw_table larger = { .capacity = t->capacity ? 2 * t->capacity : 1024 };

		larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
		if (!larger.entries)
			return NULL;
		for (size_t i = 0; i < t->capacity; i++) {
			if (t->entries[i].key) {
				*find_entry(&larger, t->entries[i].key) = t->entries[i];
				larger.used++;
			}
		}
		free(t->entries);
		*t = larger;
	}
	for (size_t i = mixed(key);; i++) {
		struct lw_entry *e = &t->entries[i & (t->capacity - 1)];

		if (!e->key || e->key == key)
			return e;
	}
}

/* Return the entry of a key, which is added if needed; NULL if out of memory. */
static struct lw_entry *add_entry(struct lw_table *t, uint64_t key)
{
	struct lw_entry *e = find_entry(t, key);

	if (e && !e->key) {
		e->key = key;
		t->used++;
	}
	return e;
}

static uint64_t hashed(const char *text, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ULL;
	return mixed(hash);
}

/* Store a name as the next number; return false if no more names can be stored. */
static bool store_name(struct lw_names *names, const char *text, size_t length)
{
	char **room;

	if (names->n == MAX_NAMES || names->bytes + length > MAX_NAME_BYTES)
		return false;
	/* The array doubles when it is full. */
	if (!(names->n & (names->n - 1))) {
		room = realloc(names->text, (names->n ? 2 * names->n : 1) * sizeof(*room));
		if (!room)
			return false;
		names->text = room;
	}
	names->text[names->n] = strndup(text, length);
	if (!names->text[names->n])
		return false;
	names->n++;
	names->bytes += length + 1;
	return true;
}

/* Return the number of a name; LW_NO_NAME if no more names can be stored. */
static int32_t number_of(struct lw_names *names, const char *text, size_t length)
{
	/* Key 0 is a free entry. A name with the same hash as another one takes the next key. */
	uint64_t key = hashed(text, length) ?: 1;
	struct lw_entry *e = find_entry(&names->by_hash, key);

	while (e && e->key) {
		if (!strncmp(names->text[e->name], text, length) && !names->text[e->name][length])
			return e->name;
		key = key + 1 ?: 1;
		e = find_entry(&names->by_hash, key);
	}
	if (!e || !store_name(names, text, length)) {
		names->left_out++;
		return LW_NO_NAME;
	}
	e->key = key;
	e->name = names->n - 1;
	names->by_hash.used++;
	return e->name;
}

static void free_names(struct lw_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->text[i]);
	free(names->text);
	free(names->by_hash.entries);
}

/* ---- records to rows ---- */

static int32_t process_of(struct lw_watch *w, const char *comm)
{
	return number_of(&w->names, comm, strnlen(comm, LW_COMM));
}

static int32_t file_name(struct lw_watch *w, const struct lw_file *file)
{
	struct lw_entry *e = file->address ? find_entry(&w->files, file->address) : NULL;

	return e && e->key && e->file.inode == file->inode && e->file.device == file->device ?
		       e->file.name :
		       LW_NO_NAME;
}

/* Return the path of a file; if it has none, the kernel's description. */
static int32_t path_of(struct lw_watch *w, const struct lw_name_record *record)
{
	size_t length = strnlen(record->name, record->length);
	char name[64];
	const char *kind;

	if (length)
		return number_of(&w->names, record->name, length);
	if (S_ISDIR(record->file.mode))
		return number_of(&w->names, "/", 1);
	kind = S_ISSOCK(record->file.mode) ? "socket" :
	       S_ISFIFO(record->file.mode) ? "pipe" :
					     "anonymous";
	return number_of(&w->names, name,
			 snprintf(name, sizeof(name), "%s:[%llu]", kind,
				  (unsigned long long)record->file.inode));
}

/* Return the absolute path for a name in a call's arguments, from its directory. */
static int32_t absolute(struct lw_watch *w, int32_t name, int32_t directory)
{
	char path[2 * LW_LONG_NAME + 8];
	const char *relative;
	int length;

	if (name == LW_NO_NAME || *w->names.text[name] == '/' || directory == LW_NO_NAME)
		return name;
	relative = w->names.text[name];
	if (!strncmp(relative, "./", 2))
		relative += 2;
	length = snprintf(path, sizeof(path), "%s/%s",
			  strcmp(w->names.text[directory], "/") ? w->names.text[directory] : "",
			  relative);
	return number_of(&w->names, path, length);
}

/*
 * Return the first access to a file in the recording. The key can only collide between file systems
 * or generations: for 2^21 files, any two collide with a probability of one in ten million.
 */
static int64_t first_access_ns(struct lw_watch *w, const struct lw_file *file, int64_t time_ns)
{
	uint64_t of = mixed((uint64_t)file->device << 32 | file->generation);
	uint64_t key = mixed(file->inode ^ of) ?: 1;
	struct lw_entry *e = find_entry(&w->inodes, key);

	if (e && e->key)
		return e->first_access_ns;
	if (!e || w->inodes.used == MAX_INODES) {
		w->counts.files_left_out++;
		return LW_NULL;
	}
	e->key = key;
	w->inodes.used++;
	e->first_access_ns = time_ns;
	return time_ns;
}

static int add_call(struct lw_watch *w, const struct lw_call_record *r, bool has_arguments)
{
	const struct lw_call *what = &lw_calls[r->call].what;
	struct lw_call_row *row = &w->rows->calls[w->rows->n_calls];
	struct lw_entry *named = find_entry(&w->calls, r->tid);
	int32_t directory, path = LW_NO_NAME, to_path = LW_NO_NAME, word = LW_NO_NAME;
	bool is_file = what->path < 0 || (what->flags & LW_OPENS && r->result >= 0), has_inode;
	int64_t time_ns = r->time_ns + w->to_epoch_ns, on_cpu_ns = r->duration_ns;

	if (named && named->key && named->call.time_ns == r->time_ns) {
		path = named->call.names[LW_PATH];
		*(what->word >= 0 ? &word : &to_path) = named->call.names[LW_TO_PATH];
	}
	directory = file_name(w, &r->file);
	if (is_file || (path != LW_NO_NAME && !*w->names.text[path])) {
		/* An empty name stands for the directory argument itself, which may be any file. */
		is_file = true;
		path = directory;
	} else {
		path = absolute(w, path, directory);
	}
	has_inode = is_file && r->file.address;
	for (int i = 0; i < LW_N_WAITS; i++)
		on_cpu_ns -= r->waits_ns[i];
	*row = (struct lw_call_row){
		.time_ns = time_ns,
		.duration_ns = r->duration_ns,
		.result = r->result,
		.offset = r->offset,
		.bytes = r->bytes,
		.fd = is_file ? r->fd : LW_NULL,
		.inode = has_inode ? (int64_t)r->file.inode : LW_NULL,
		.first_access_ns = has_inode ? first_access_ns(w, &r->file, time_ns) : LW_NULL,
		.on_cpu_ns = on_cpu_ns,
		.io_wait_ns = r->waits_ns[LW_IO_WAIT],
		.others_io_wait_ns = r->waits_ns[LW_OTHERS_IO_WAIT],
		.journal_wait_ns = r->waits_ns[LW_JOURNAL_WAIT],
		.other_wait_ns = r->waits_ns[LW_OTHER_WAIT],
		.wakeup_ns = r->waits_ns[LW_WAKEUP],
		.preempted_ns = r->waits_ns[LW_PREEMPTED],
		.pid = r->pid,
		.tid = r->tid,
		.process = process_of(w, r->comm),
		.path = path,
		.to_path = r->to_elsewhere ? to_path : absolute(w, to_path, directory),
		.call = r->call,
		.device = is_file ? r->file.device : 0,
		.mode = is_file ? r->file.mode : 0,
		.word = word,
		.has_arguments = has_arguments,
		.hash = r->hash,
		.hashed_bytes = r->hashed_bytes,
	};
	_Static_assert(sizeof(row->arguments) == ARGUMENT_BYTES, "a place for each");
	if (has_arguments)
		memcpy(row->arguments, r->arguments, sizeof(row->arguments));
	if (lw_calls[r->call].nr >= LW_MAX_CALL_NR) {
		/* No thread waits in a request of io_uring. */
		row->on_cpu_ns = row->io_wait_ns = row->others_io_wait_ns = LW_NULL;
		row->journal_wait_ns = row->other_wait_ns = LW_NULL;
		row->wakeup_ns = row->preempted_ns = LW_NULL;
	}
	return ++w->rows->n_calls == w->rows->capacity ? -ENOBUFS : 0;
}

static int add_name(struct lw_watch *w, const struct lw_name_record *r)
{
	struct lw_entry *e;

	if (r->type == LW_FILE_RECORD) {
		int32_t name = path_of(w, r);

		e = r->file.address ? add_entry(&w->files, r->file.address) : NULL;
		if (!e)
			return 0;
		e->file.inode = r->file.inode;
		e->file.device = r->file.device;
		e->file.name = name;
		return 0;
	}
	e = r->tid ? add_entry(&w->calls, r->tid) : NULL;
	if (!e)
		return 0;
	if (e->call.time_ns != r->time_ns || !e->call.time_ns) {
		for (int i = 0; i < LW_N_NAMES; i++)
			e->call.names[i] = LW_NO_NAME;
	}
	e->call.time_ns = r->time_ns;
	e->call.names[r->argument] = number_of(&w->names, r->name, strnlen(r->name, r->length));
	return 0;
}

static int add_io(struct lw_watch *w, const struct lw_io_record *r)
{
	/* I/Os that bypassed the scheduler spent no time there. */
	uint64_t issue_ns = r->stages.issue_ns, insert_ns = r->stages.insert_ns ?: issue_ns;
	bool is_ended = r->flags & LW_COMPLETED;

	w->rows->ios[w->rows->n_ios] = (struct lw_io_row){
		.time_ns = r->time_ns + w->to_epoch_ns,
		.latency_ns = is_ended ? (int64_t)r->latency_ns : LW_NULL,
		.plug_ns = issue_ns ? (int64_t)(insert_ns - r->time_ns) : LW_NULL,
		.scheduler_ns = issue_ns ? (int64_t)(issue_ns - insert_ns) : LW_NULL,
		.drive_ns = issue_ns && is_ended ?
				    (int64_t)(r->time_ns + r->latency_ns - issue_ns) :
				    LW_NULL,
		.call_time_ns = r->flags & LW_IN_CALL ? (int64_t)r->call_time_ns + w->to_epoch_ns :
							LW_NULL,
		.sector = r->sector,
		.pid = r->pid,
		.tid = r->tid,
		.process = process_of(w, r->comm),
		.bytes = r->bytes,
		.device = r->device,
		.drive = r->drive ?: r->device,
		.decision = r->decision,
		.priority = r->priority,
		.op = r->op,
		.flags = r->flags,
		.call = r->call,
	};
	return ++w->rows->n_ios == w->rows->capacity ? -ENOBUFS : 0;
}

/* Process a record. Each is checked, because records may also come from a file. */
static int on_record(void *context, void *data, size_t size)
{
	const struct lw_name_record *name = data;
	const struct lw_call_record *call = data;
	struct lw_watch *w = context;

	if (size < sizeof(uint32_t))
		return -EINVAL;
	switch (call->type) {
	case LW_CALL_RECORD:
		if (size < sizeof(*call) || call->call >= LW_N_CALLS)
			return -EINVAL;
		return add_call(w, call, size >= sizeof(*call) + ARGUMENT_BYTES);
	case LW_FILE_RECORD:
	case LW_NAME_RECORD:
		if (size < sizeof(*name) || name->length > size - sizeof(*name) ||
		    name->length > LW_LONG_NAME || name->argument >= LW_N_NAMES ||
		    (name->length && name->name[name->length - 1]))
			return -EINVAL;
		return add_name(w, name);
	case LW_IO_RECORD:
		return size < sizeof(struct lw_io_record) ? -EINVAL : add_io(w, data);
	}
	return -EINVAL;
}

/* ---- recording ---- */

/* libbpf's last message without its prefix: the reason for a failure. */
static char last_message[1024];

static int on_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN && !last_message[0]) {
		vsnprintf(last_message, sizeof(last_message), format, arguments);
		last_message[strcspn(last_message, "\n")] = '\0';
	}
	return 0;
}

static void set_calls(struct lw_watch *w, const struct lw_request *request)
{
	const struct lw_settings *settings = &request->settings;

	for (uint32_t i = 0; i < LW_N_CALLS; i++) {
		struct lw_call *what = &w->glance->calls[lw_calls[i].nr];

		*what = lw_calls[i].what;
		what->index = i + 1;
		if (settings->by_call && !request->calls[i])
			what->flags |= LW_LEFT_OUT;
		if (settings->by_path)
			what->flags |= LW_NO_SOCKETS;
		if (settings->by_process || settings->by_thread)
			what->flags |= LW_OF_SOME;
	}
	for (uint32_t i = 0; settings->every_process_but && i < LW_N_PLACES; i++)
		w->glance->places[i].followed = LW_ASK;
}

static int set_choices(struct lw_watch *w, const struct lw_request *request, int map)
{
	for (uint32_t i = 0; i < request->n_threads; i++) {
		uint32_t yes = 1;
		int error = bpf_map_update_elem(map, &request->threads[i], &yes, BPF_ANY);

		if (error)
			return fail(w, "table of threads: %s", strerror(-error));
	}
	return 0;
}

static int attach(struct lw_watch *w, struct bpf_program *program)
{
	struct bpf_link *link;

	if (!bpf_program__autoload(program))
		return 0;
	link = bpf_program__attach(program);

	if (!link)
		return fail(w, "%s", last_message);
	w->links[w->n_links++] = link;
	return 0;
}

/**
 * lw_new() - create a reader that is not attached yet
 * @rows: the memory that it fills; the caller resets the numbers of rows
 */
struct lw_watch *lw_new(struct lw_rows *rows)
{
	struct lw_watch *w = calloc(1, sizeof(*w));

	if (w)
		w->rows = rows;
	return w;
}

/**
 * lw_attach() - load the kernel's side and start recording
 * @w: the reader
 * @request: what to record
 * @buffer_bytes: size of the record buffer; a power of two
 *
 * Return: 0, or a negative number, for which lw_error() has the reason.
 */
int lw_attach(struct lw_watch *w, const struct lw_request *request, uint32_t buffer_bytes)
{
	struct timespec realtime, monotonic;
	struct bpf_program *program;
	struct lw_kernel kernel = {};
	int error;

	last_message[0] = '\0';
	libbpf_set_print(on_message);
	error = lw_check_kernel(&kernel, w->error, sizeof(w->error));
	if (error)
		return error;
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "linnapp_watch");
	w->object = bpf_object__open_mem(lw_object, lw_object_end - lw_object, &options);
	if (!w->object)
		return fail(w, "%s", last_message);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(w->object, "records"),
				 buffer_bytes);
	if (request->settings.hashes)
		bpf_map__set_max_entries(bpf_object__find_map_by_name(w->object, "contents"),
					 libbpf_num_possible_cpus());
	error = bpf_map__set_initial_value(
		bpf_object__find_map_by_name(w->object, ".rodata.settings"), &request->settings,
		sizeof(request->settings));
	if (error)
		return fail(w, "settings: %s", strerror(-error));
	bpf_object__for_each_program(program, w->object) {
		bpf_program__set_autoload(program, lw_is_loadable(&kernel, program));
	}
	program = bpf_object__find_program_by_name(
		w->object, kernel.can_cast ? "call_enters_old" : "call_enters");
	bpf_program__set_autoload(program, false);
	error = bpf_object__load(w->object);
	if (error)
		return fail(w, "%s", last_message[0] ? last_message : strerror(-error));
	w->counters = bpf_object__find_map_fd_by_name(w->object, "counters");
	w->processes = bpf_object__find_map_fd_by_name(w->object, "processes");
	w->glance = mmap(NULL, sizeof(*w->glance), PROT_READ | PROT_WRITE, MAP_SHARED,
			 bpf_object__find_map_fd_by_name(w->object, ".bss"), 0);
	if (w->glance == MAP_FAILED) {
		w->glance = NULL;
		return fail(w, "tables of processes and calls: %s", strerror(errno));
	}
	set_calls(w, request);
	w->calls_in_flight = bpf_object__find_map_fd_by_name(w->object, "calls_in_flight");
	w->ios_in_flight = bpf_object__find_map_fd_by_name(w->object, "ios_in_flight");
	error = set_choices(w, request, bpf_object__find_map_fd_by_name(w->object, "choices"));
	if (error)
		return error;
	w->ring = ring_buffer__new(bpf_object__find_map_fd_by_name(w->object, "records"),
				   on_record, w, NULL);
	if (!w->ring)
		return fail(w, "buffer: %s", last_message);
	/* The program that sees I/Os begin is attached last and detached first, so no end is lost. */
	bpf_object__for_each_program(program, w->object) {
		if (strcmp(bpf_program__name(program), "io_is_queued") && attach(w, program))
			return -1;
	}
	if (attach(w, bpf_object__find_program_by_name(w->object, "io_is_queued")))
		return -1;
	clock_gettime(CLOCK_REALTIME, &realtime);
	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	w->to_epoch_ns = (realtime.tv_sec - monotonic.tv_sec) * 1000000000LL + realtime.tv_nsec -
			 monotonic.tv_nsec;
	return 0;
}

/**
 * lw_follow() - follow a process and the processes that it creates from now on
 * @w: the reader
 * @pid: its process id in the initial namespace
 * @how: enum lw_follow
 *
 * Return: 0, or -1.
 */
int lw_follow(struct lw_watch *w, uint32_t pid, uint32_t how)
{
	int error = bpf_map_update_elem(w->processes, &pid, &how, BPF_ANY);
	uint32_t *followed = &w->glance->places[LW_PLACE(pid)].followed;

	if (error)
		return fail(w, "process %u: %s", pid, strerror(-error));
	__atomic_store_n(followed, how == LW_FOLLOWED ? pid : LW_ASK, __ATOMIC_RELEASE);
	return 0;
}

/**
 * lw_read() - convert records to rows, after the existing ones
 * @w: the reader
 * @timeout_ms: maximum time to wait for records
 *
 * Return: 0, LW_FULL if the rows must be taken before the next read, or -1.
 */
int lw_read(struct lw_watch *w, int timeout_ms)
{
	struct pollfd ready = { .events = POLLIN };
	int error;

	if (!w->ring)
		return fail(w, "nothing is recorded");
	ready.fd = ring_buffer__epoll_fd(w->ring);
	if (timeout_ms)
		poll(&ready, 1, timeout_ms);
	error = ring_buffer__consume(w->ring);
	if (error == -ENOBUFS)
		return LW_FULL;
	return error < 0 ? fail(w, "a record is damaged") : 0;
}

/**
 * lw_feed() - process a record from memory, as written by the kernel's side
 *
 * Return: as for lw_read().
 */
int lw_feed(struct lw_watch *w, const void *record, size_t size)
{
	int error = on_record(w, (void *)record, size);

	if (error == -ENOBUFS)
		return LW_FULL;
	return error ? fail(w, "a record is damaged") : 0;
}

static void detach(struct lw_watch *w)
{
	while (w->n_links)
		bpf_link__destroy(w->links[--w->n_links]);
}

static void count(struct lw_watch *w)
{
	uint64_t *const counts[LW_N_COUNTERS] = {
		[LW_LOST_CALLS] = &w->counts.lost_calls,
		[LW_LOST_NAMES] = &w->counts.lost_names,
		[LW_LOST_IOS] = &w->counts.lost_ios,
		[LW_UNTRACKED_CALLS] = &w->counts.untracked_calls,
		[LW_UNTRACKED_IOS] = &w->counts.untracked_ios,
		[LW_UNTRACKED_PROCESSES] = &w->counts.untracked_processes,
		[LW_COMPAT_CALLS] = &w->counts.compat_calls,
		[LW_OTHER_IOS] = &w->counts.other_ios,
		[LW_SKIPPED_CALLS] = &w->counts.filtered_calls,
		[LW_FILTERED_CALLS] = &w->counts.filtered_calls,
		[LW_FILTERED_IOS] = &w->counts.filtered_ios,
		[LW_UNHASHED_CALLS] = &w->counts.unhashed_calls,
	};
	int n_cpus = libbpf_num_possible_cpus();
	uint64_t values[n_cpus > 0 ? n_cpus : 1];
	struct bpf_program *program;

	for (uint32_t i = 0; i < LW_N_COUNTERS; i++)
		*counts[i] = 0;
	for (uint32_t i = 0; i < LW_N_COUNTERS; i++) {
		if (bpf_map_lookup_elem(w->counters, &i, values))
			continue;
		for (int cpu = 0; cpu < n_cpus; cpu++)
			*counts[i] += values[cpu];
	}
	w->counts.missed_events = 0;
	bpf_object__for_each_program(program, w->object) {
		struct bpf_prog_info info = {};
		uint32_t size = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
			w->counts.missed_events += info.recursion_misses;
	}
}

/** lw_counts() - get the numbers of calls and I/Os that are not in the rows */
const struct lw_counts *lw_counts(struct lw_watch *w)
{
	if (w->object)
		count(w);
	w->counts.names_left_out = w->names.left_out;
	return &w->counts;
}

/** lw_stop() - stop recording; the remaining records in the buffer can be read afterwards */
void lw_stop(struct lw_watch *w)
{
	uint32_t tid = 0;

	if (!w->n_links)
		return;
	detach(w);
	struct bpf_map *calls = bpf_object__find_map_by_name(w->object, "calls_in_flight");
	uint64_t call[bpf_map__value_size(calls) / sizeof(uint64_t)];
	/* A thread's last call has a time, its first member, which is not 0 until it returns. */
	while (!bpf_map_get_next_key(w->calls_in_flight, tid ? &tid : NULL, &tid)) {
		if (!bpf_map_lookup_elem(w->calls_in_flight, &tid, call) && call[0])
			w->counts.unfinished_calls++;
	}
}

/**
 * lw_read_unfinished() - create rows for the I/Os in flight after the recording has stopped
 *
 * Return: 0, or LW_FULL as for lw_read().
 */
int lw_read_unfinished(struct lw_watch *w)
{
	struct lw_io_record io;
	int error = 0;
	uint64_t key;

	while (!error && !bpf_map_get_next_key(w->ios_in_flight, NULL, &key)) {
		if (!bpf_map_lookup_elem(w->ios_in_flight, &key, &io))
			error = add_io(w, &io);
		bpf_map_delete_elem(w->ios_in_flight, &key);
	}
	return error ? LW_FULL : 0;
}

/** lw_name() - get a name by its number in a row, valid until lw_close(); NULL if there is none */
const char *lw_name(const struct lw_watch *w, int32_t number)
{
	return number >= 0 && (size_t)number < w->names.n ? w->names.text[number] : NULL;
}

/** lw_call_name() - get the name of a system call by its number; NULL if there are fewer */
const char *lw_call_name(uint32_t call)
{
	return call < LW_N_CALLS ? lw_calls[call].name : NULL;
}

/** lw_error() - get the reason for the last failure */
const char *lw_error(const struct lw_watch *w)
{
	return w->error;
}

/** lw_close() - detach and free everything */
void lw_close(struct lw_watch *w)
{
	detach(w);
	if (w->glance)
		munmap(w->glance, sizeof(*w->glance));
	ring_buffer__free(w->ring);
	bpf_object__close(w->object);
	free_names(&w->names);
	free(w->files.entries);
	free(w->calls.entries);
	free(w->inodes.entries);
	free(w);
}
