// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The kernel's side of `linnapp watch`: write a record for each storage system call of the followed
 * processes when it returns, and one for each block I/O when it completes.
 *
 * An I/O is a bio from the time that the block layer queues it until its last part has ended. Bios
 * that were merged into one request, or split into several, still are one I/O each. The thread that
 * queues a bio is the one whose call needs it, so the association of both is exact: it is the
 * thread's current call, if there is one.
 *
 * A descriptor is converted to its struct file here, so dup(), fork() and exec() need not be
 * followed. A file's name is reported when it is opened or first used: its dentries up to the root,
 * because d_path() may only be called from few places, none of which are here.
 *
 * When the scheduler switches from a call's thread to another, the reason for its wait is derived
 * from whether the kernel itself accounts the sleep as one for I/O, and from the waking thread.
 *
 * Every system call and every switch of every thread passes here, and most need no action. This is
 * decided with plain loads (struct lw_glance), without a look-up in a map.
 *
 * Calls and I/Os that do not match the user's filters are left out here, before they take space in
 * the buffer, and are counted.
 *
 * The code is in six files, each a layer: watch_kernel.bpf.h has the kernel's types,
 * watch_paths.bpf.h the names of files, watch_hash.bpf.h the hashes of contents, watch_ring.bpf.h the
 * requests of io_uring, watch_ios.bpf.h the block I/Os, and this file the filters, system calls and
 * processes.
 *
 * Only tracepoints are used, no probes in functions, which some kernels do not permit.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "watch_records.h"
#include "watch_kernel.bpf.h"

enum req_flag_bits { __REQ_META, __REQ_FUA, __REQ_PREFLUSH, __REQ_RAHEAD, __REQ_LATCRIT };

/* From include/trace/events/linnos.h, which this kernel may not have. */
enum linnos_reason { LINNOS_PROBE = 2 };

struct vector_part {
	__u64 base;
	__u64 length;
};

#define ARGUMENT_BYTES (LW_N_ARGUMENTS * sizeof(__u64))
#define HOW_BYTES (3 * sizeof(__u64))	/* struct open_how */
#define KERNEL_THREAD 0x00200000	/* PF_KTHREAD */
#define JOURNAL_THREAD "jbd2/"
#define AT_FDCWD -100
#define REQ_OP_MASK 0xff
#define FMODE_PATH 0x4000
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct lw_settings settings SEC(".rodata.settings") = {};

struct call_in_flight {
	__u64 time_ns;		/* first, because the reader checks it, too; 0 if it has returned */
	__u64 args[8];	/* six are used; a power of two for the verifier */
	struct lw_call call;
	struct lw_file file;
	__u32 is_elsewhere;	/* not in a requested path, as far as known */
	__u32 ios;		/* number of its own I/Os in flight */
	__u64 ios_end_ns;	/* time at which the last of them ended */
	__u64 off_ns;		/* time at which it stopped running; 0 if it runs */
	__u64 woken_ns;
	__u32 off_for;		/* enum lw_wait */
	__u8 is_woken_by_journal;
	__u8 is_returning;	/* its duration is final */
	__u64 waits_ns[LW_N_WAITS];
};

/* A part that was split off a bio. */
struct part {
	__u64 whole;
	struct lw_stages stages;
};

struct decided_read {
	__u64 sector;
	__u32 device;
	__u32 decision;
};

struct named_file {
	struct lw_file file;
	__u32 is_elsewhere;	/* not in a requested path */
	__u32 is_reported;
};

/* Buffer for composing paths: a folder's path ends at FOLDER_END, where a name in it starts. */
#define FOLDER_END 4096
struct path_text {
	char text[FOLDER_END + 2 * LW_PREFIX];
	/* Never accessed: the verifier forgets a comparison and needs a mask, whose range ends here. */
	char beyond[FOLDER_END];
};

struct lw_glance glance;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} records SEC(".maps");

/* A map of this kind with this number of places, from keys to values. */
#define MAP(name, kind, places, key_type, value_type)	\
	struct {					\
		__uint(type, BPF_MAP_TYPE_##kind);	\
		__uint(max_entries, places);		\
		__type(key, key_type);			\
		__type(value, value_type);		\
	} name SEC(".maps")

MAP(processes, HASH, 16384, __u32, __u32);

/* By thread: the last call; it is in progress if time_ns is not 0. */
MAP(calls_in_flight, HASH, 32768, __u32, struct call_in_flight);

MAP(ios_in_flight, HASH, 65536, __u64, struct lw_io_record);

/* By address. */
MAP(parts, HASH, 65536, __u64, struct part);

/* By thread: the last read about which LinnOS decided, until it is queued. */
MAP(decided, LRU_HASH, 16384, __u32, struct decided_read);

/* By thread: address of the last I/O that it queued for a driver that passes I/Os on. */
MAP(passed_on, LRU_HASH, 16384, __u32, __u64);

/* Files whose names are known, by address. */
MAP(named, LRU_HASH, 65536, __u64, struct named_file);

MAP(choices, HASH, LW_MAX_CHOICES, struct lw_choice, __u32);

MAP(path_texts, PERCPU_ARRAY, 1, __u32, struct path_text);

MAP(counters, PERCPU_ARRAY, LW_N_COUNTERS, __u32, __u64);

static __always_inline void count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &counter);

	/* An increment by an interrupt can occur in between on the same CPU. */
	if (value)
		__sync_fetch_and_add(value, 1);
}

/* Count in call_enters(), where no atomic operation is needed: it is never nested on a CPU. */
static __always_inline void count_skipped(void)
{
	__u32 counter = LW_SKIPPED_CALLS;
	__u64 *value = bpf_map_lookup_elem(&counters, &counter);

	if (value)
		++*value;
}

/* Wake the reader if the buffer is 1/8 full: a wake-up per record would be too expensive. */
static __always_inline __u64 wake_up(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) >
		       bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / 8 ?
		       BPF_RB_FORCE_WAKEUP :
		       BPF_RB_NO_WAKEUP;
}

/*
 * Return the running task. Its fields are read by plain loads, which give 0 on a fault: reading by
 * a helper (BPF_CORE_READ) takes 5 ns each time, and each call needs many reads.
 */
static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task_btf();
}

static __always_inline bool is_kernel_thread(void)
{
	return current_task()->flags & KERNEL_THREAD;
}

static __always_inline struct lw_place *place_of(__u32 number)
{
	__u32 place = LW_PLACE(number);

	/* The compiler knows the bound, but the verifier of 6.1 does not. */
	barrier_var(place);
	return &glance.places[place & (LW_N_PLACES - 1)];
}

static __noinline int is_among_followed(__u32 tgid)
{
	__u32 *how;

	if (settings.every_process_but)
		return tgid != settings.every_process_but && !is_kernel_thread();
	how = bpf_map_lookup_elem(&processes, &tgid);
	return how && *how == LW_FOLLOWED;
}

static __always_inline bool is_followed(__u32 tgid)
{
	__u32 followed = place_of(tgid)->followed;

	return followed && (followed == tgid || is_among_followed(tgid));
}

static __always_inline bool is_chosen(const struct lw_choice *choice)
{
	return bpf_map_lookup_elem(&choices, choice);
}

/* Return true if this thread is one of those requested. */
static __noinline int is_requested(__u32 tid)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (settings.by_process) {
		struct lw_choice process = { .kind = LW_PROCESS_NAME };

		BPF_CORE_READ_STR_INTO(&process.comm, task, group_leader, comm);
		if (!is_chosen(&process))
			return false;
	}
	if (settings.by_thread) {
		struct lw_choice number = { .kind = LW_THREAD, .tid = tid };
		struct lw_choice name = { .kind = LW_THREAD_NAME };

		BPF_CORE_READ_STR_INTO(&name.comm, task, comm);
		return is_chosen(&number) || is_chosen(&name);
	}
	return true;
}

#include "watch_paths.bpf.h"

static __always_inline bool is_compat(struct task_struct *task)
{
#ifdef __TARGET_ARCH_x86
	return task->thread_info.status & 2;	/* TS_COMPAT */
#else
	return task->thread_info.flags & 1 << 22;	/* TIF_32BIT */
#endif
}

static __always_inline void read_arguments(struct pt_regs *regs, __u64 *args)
{
#ifdef __TARGET_ARCH_x86
	args[0] = regs->di;
	args[1] = regs->si;
	args[2] = regs->dx;
	args[3] = regs->r10;
	args[4] = regs->r8;
	args[5] = regs->r9;
#else
	for (int i = 0; i < LW_N_ARGUMENTS; i++)
		args[i] = BPF_CORE_READ((struct user_pt_regs *)regs, regs[i]);
#endif
}

/* Return the descriptor of a call without names: its first or its second argument. */
static __always_inline int descriptor(struct pt_regs *regs, __s8 which)
{
#ifdef __TARGET_ARCH_x86
	return which ? regs->si : regs->di;
#else
	return which ? BPF_CORE_READ((struct user_pt_regs *)regs, regs[1]) :
		       BPF_CORE_READ((struct user_pt_regs *)regs, regs[0]);
#endif
}

static __always_inline int folder_fd(const struct call_in_flight *call, __s8 fd)
{
	return fd < 0 ? AT_FDCWD : (int)call->args[fd & 7];
}

/* Return true if a call is in the requested paths, by the names in its arguments. */
static __always_inline bool names_are_in_paths(const struct call_in_flight *call)
{
	const struct lw_call *what = &call->call;

	if (name_is_in_paths(call->args[what->path & 7], folder_fd(call, what->fd)))
		return true;
	return what->to_path >= 0 &&
	       name_is_in_paths(call->args[what->to_path & 7],
				what->fd >= 0 ? (int)call->args[(what->to_path - 1) & 7] : AT_FDCWD);
}

static __always_inline void is_under_way(struct call_in_flight *call, __u32 tid)
{
	call->time_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&place_of(tid)->calls, 1);
}

static __always_inline void is_over(struct call_in_flight *call, __u32 tid)
{
	call->time_ns = 0;
	__sync_fetch_and_sub(&place_of(tid)->calls, 1);
}

/*
 * Return the entry for a thread's next call, empty. It exists until the thread ends: adding and
 * removing it each time would take as long as everything else.
 */
static __always_inline struct call_in_flight *room_for_call(__u32 tid)
{
	static const struct call_in_flight none;
	struct call_in_flight *call = bpf_map_lookup_elem(&calls_in_flight, &tid);

	if (call) {
		/* Its return was missed. */
		if (call->time_ns)
			is_over(call, tid);
		__builtin_memset(call, 0, sizeof(*call));
		return call;
	}
	bpf_map_update_elem(&calls_in_flight, &tid, &none, BPF_ANY);
	return bpf_map_lookup_elem(&calls_in_flight, &tid);
}

/* Return the current call of a thread if it is recorded. */
static __always_inline struct call_in_flight *call_under_way(__u32 tid)
{
	struct call_in_flight *call;

	if (!place_of(tid)->calls)
		return NULL;
	call = bpf_map_lookup_elem(&calls_in_flight, &tid);
	return call && call->time_ns ? call : NULL;
}

/* In Linux 6.2 and later: lets the verifier permit reads through an address that was read. */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;

static __always_inline bool is_known_as_socket(struct task_struct *task, int fd)
{
	struct fdtable *table = task->files->fdt;
	struct list_head *place;
	struct file *file;
	__u64 operations;

	if (fd < 0 || (unsigned int)fd >= table->max_fds)
		return false;
	place = bpf_rdonly_cast(table->fd + fd, bpf_core_type_id_kernel(struct list_head));
	file = bpf_rdonly_cast(place->next, bpf_core_type_id_kernel(struct file));
	operations = (__u64)file->f_op;
	return operations && operations == glance.socket_operations;
}

/* Return true if a file is a socket, not only its name; all sockets share their operations. */
static __always_inline bool is_socket(struct file *file)
{
	__u64 operations = (__u64)BPF_CORE_READ(file, f_op);

	if (operations && operations == glance.socket_operations)
		return true;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK ||
	    BPF_CORE_READ(file, f_mode) & FMODE_PATH)
		return false;
	/* Another thread may have closed it, and its memory may belong to another file now. */
	if (operations == (__u64)BPF_CORE_READ(file, f_op))
		glance.socket_operations = operations;
	return true;
}

/* Begin a call that is not left out so far, by descriptor or by name. */
static __noinline int begin_call(struct pt_regs *regs, const struct lw_call *known,
				 struct file *file, __u32 tid)
{
	struct call_in_flight *call = room_for_call(tid);

	if (!call) {
		count(LW_UNTRACKED_CALLS);
		return 0;
	}
	read_arguments(regs, call->args);
	call->call = *known;
	if (known->path >= 0) {
		if (settings.by_path)
			call->is_elsewhere = !names_are_in_paths(call);
		/* The file that is opened is determined at the return. */
		if (!call->is_elsewhere)
			describe_folder(folder_fd(call, known->fd), &call->file);
	} else {
		call->is_elsewhere = file ? !describe_file(file, BPF_CORE_READ(file, f_inode),
							   false, &call->file) :
					    settings.by_path;
	}
	if (call->is_elsewhere && !(known->flags & LW_OPENS)) {
		count(LW_FILTERED_CALLS);
		return 0;
	}
	is_under_way(call, tid);
	return 0;
}

/* The short path of most calls; the rest is in a separate function to keep it fast. */
static __always_inline int enter_call(struct pt_regs *regs, long nr, bool can_cast)
{
	struct task_struct *task = current_task();
	const struct lw_call *known;
	struct file *file = NULL;

	if (!is_followed(task->tgid) || nr < 0 || nr >= LW_MAX_CALL_NR)
		return 0;
	known = &glance.calls[nr];
	if (!known->index)
		return 0;
	if (is_compat(task)) {
		count(LW_COMPAT_CALLS);
		return 0;
	}
	if (known->flags & LW_LEFT_OUT ||
	    (known->flags & LW_OF_SOME && !is_requested(task->pid)))
		goto skipped;
	if (known->path < 0 && known->fd >= 0) {
		int fd = descriptor(regs, known->fd);
		bool no_socket = known->flags & LW_NO_SOCKETS;

		/* A socket is in no path, and most calls of a server use one. */
		if (can_cast && no_socket && is_known_as_socket(task, fd))
			goto skipped;
		file = file_of(task, fd);
		if (no_socket && file && is_socket(file))
			goto skipped;
	}
	return begin_call(regs, known, file, task->pid);
skipped:
	count_skipped();
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(call_enters, struct pt_regs *regs, long nr)
{
	return enter_call(regs, nr, true);
}

/* Replacement on kernels without bpf_rdonly_cast(). */
SEC("tp_btf/sys_enter")
int BPF_PROG(call_enters_old, struct pt_regs *regs, long nr)
{
	return enter_call(regs, nr, false);
}

/* Copy an argument's name. The call has just read it, so its page is present. */
static __always_inline void report_name(const struct call_in_flight *call, __u32 tid,
				      __u32 argument, __u64 from)
{
	struct lw_name_record *record;
	long length;

	record = bpf_ringbuf_reserve(&records, sizeof(*record) + LW_SHORT_NAME, 0);
	if (!record)
		goto lost;
	length = bpf_probe_read_user_str(record->name, LW_SHORT_NAME, (void *)from);
	if (length == LW_SHORT_NAME) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		record = bpf_ringbuf_reserve(&records, sizeof(*record) + LW_LONG_NAME, 0);
		if (!record)
			goto lost;
		length = bpf_probe_read_user_str(record->name, LW_LONG_NAME, (void *)from);
	}
	if (length < 0) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return;
	}
	record->type = LW_NAME_RECORD;
	record->tid = tid;
	record->time_ns = call->time_ns;
	record->argument = argument;
	record->length = length;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return;
lost:
	count(LW_LOST_NAMES);
}

/* Return the number of bytes that a call requests in all parts of its vector. */
static __always_inline __s64 vector_bytes(__u64 parts, __u64 n)
{
	struct vector_part part;
	__s64 bytes = 0;

	if (n > LW_MAX_VECTOR)
		return LW_NONE;
	for (int i = 0; i < LW_MAX_VECTOR; i++) {
		if (i >= n)
			break;
		if (bpf_probe_read_user(&part, sizeof(part), (void *)(parts + i * sizeof(part))))
			return LW_NONE;
		bytes += part.length;
	}
	return bytes;
}

static __always_inline __s64 offset_of(const struct call_in_flight *call, __s64 result)
{
	__s64 offset = LW_NONE;
	struct file *file;

	if (call->call.offset >= 0)
		offset = call->args[call->call.offset & 7];
	if (!(call->call.flags & LW_POSITION) || (offset != LW_NONE && offset != -1))
		return offset;
	if ((call->file.mode & S_IFMT) != S_IFREG && (call->file.mode & S_IFMT) != S_IFBLK)
		return LW_NONE;
	/* At the return, because the position of an append is not known earlier. */
	file = file_of(current_task(), call->args[call->call.fd & 7]);
	if (!file || (__u64)file != call->file.address)
		return LW_NONE;
	offset = BPF_CORE_READ(file, f_pos);
	return result > 0 ? offset - result : offset;
}

/* A call's thread runs again: assign the time since it last ran. */
static __always_inline void runs_again(struct call_in_flight *call, __u64 now_ns)
{
	__u64 off_ns = call->off_ns, until_ns = call->woken_ns;
	__u32 what = call->off_for;

	if (!off_ns)
		return;
	call->off_ns = 0;
	/* It was woken while it was going to sleep, or the wake-up was not seen. */
	if (what == LW_PREEMPTED || until_ns <= off_ns || until_ns > now_ns)
		until_ns = now_ns;
	else if (what == LW_OTHER_WAIT && call->is_woken_by_journal)
		what = LW_JOURNAL_WAIT;
	/* The time after the end of its last I/O is completion work and the wake-up. */
	if (what == LW_IO_WAIT && !call->ios && call->ios_end_ns > off_ns &&
	    call->ios_end_ns < until_ns)
		until_ns = call->ios_end_ns;
	if (what < LW_N_WAITS)
		call->waits_ns[what] += until_ns - off_ns;
	call->waits_ns[LW_WAKEUP] += now_ns - until_ns;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(threads_switch, bool is_preempted, struct task_struct *from, struct task_struct *to)
{
	struct call_in_flight *call = call_under_way(from->pid);

	if (call && !call->is_returning) {
		/* Older kernels do not pass the state as an argument of the tracepoint. */
		if (is_preempted || !from->__state)
			call->off_for = LW_PREEMPTED;
		else if (!BPF_CORE_READ_BITFIELD_PROBED(from, in_iowait))
			call->off_for = LW_OTHER_WAIT;
		else
			call->off_for = call->ios ? LW_IO_WAIT : LW_OTHERS_IO_WAIT;
		call->off_ns = bpf_ktime_get_ns();
	}
	call = call_under_way(to->pid);
	if (call)
		runs_again(call, bpf_ktime_get_ns());
	return 0;
}

/* Return true in a thread of ext4's journal (jbd2), which commits data for which others wait. */
static __always_inline bool is_journal_thread(void)
{
	char comm[LW_COMM];

	return is_kernel_thread() && !bpf_get_current_comm(comm, sizeof(comm)) &&
	       !bpf_strncmp(comm, sizeof(JOURNAL_THREAD) - 1, JOURNAL_THREAD);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(thread_is_woken, struct task_struct *task)
{
	struct call_in_flight *call = call_under_way(task->pid);

	if (!call)
		return 0;
	call->is_woken_by_journal = call->off_for == LW_OTHER_WAIT && is_journal_thread();
	call->woken_ns = bpf_ktime_get_ns();
	return 0;
}

#include "watch_hash.bpf.h"

/* End a thread's current call, if there is one. */
static __noinline int end_call(long result)
{
	__u64 id = bpf_get_current_pid_tgid(), now_ns;
	struct lw_call_record *record;
	struct call_in_flight *call;
	__u32 tid = id;

	call = call_under_way(tid);
	if (!call)
		return 0;
	now_ns = bpf_ktime_get_ns();
	runs_again(call, now_ns);	/* in case this was not seen */
	call->is_returning = true;
	if (call->call.flags & LW_OPENS && result >= 0) {
		struct file *file = file_of(current_task(), result);

		__builtin_memset(&call->file, 0, sizeof(call->file));
		if (file)
			call->is_elsewhere = !describe_file(file, BPF_CORE_READ(file, f_inode),
							    true, &call->file);
	} else if (settings.by_path && call->call.path >= 0 && !call->is_elsewhere) {
		/* A name whose page was not present when the call began is present now. */
		call->is_elsewhere = !names_are_in_paths(call);
	}
	if (call->is_elsewhere) {
		count(LW_FILTERED_CALLS);
		goto done;
	}
	if (call->call.path >= 0 && !(call->call.flags & LW_OPENS && result >= 0))
		report_name(call, tid, LW_PATH, call->args[call->call.path & 7]);
	if (call->call.to_path >= 0)
		report_name(call, tid, LW_TO_PATH, call->args[call->call.to_path & 7]);
	if (settings.arguments == LW_DETAILED && call->call.word >= 0)
		report_name(call, tid, LW_WORD, call->args[call->call.word & 7]);
	if (settings.arguments)
		record = bpf_ringbuf_reserve(&records, sizeof(*record) + ARGUMENT_BYTES, 0);
	else
		record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count(LW_LOST_CALLS);
		goto done;
	}
	record->type = LW_CALL_RECORD;
	record->call = call->call.index - 1;
	record->pid = id >> 32;
	record->tid = tid;
	record->time_ns = call->time_ns;
	record->duration_ns = now_ns - call->time_ns;
	record->result = result;
	record->offset = offset_of(call, result);
	record->bytes = LW_NONE;
	if (call->call.flags & LW_VECTOR)
		record->bytes = vector_bytes(call->args[(call->call.bytes - 1) & 7],
					     call->args[call->call.bytes & 7]);
	else if (call->call.bytes >= 0)
		record->bytes = call->args[call->call.bytes & 7];
	record->fd = call->call.fd >= 0 ? (__s32)call->args[call->call.fd & 7] : LW_NONE;
	record->file = call->file;
	record->to_elsewhere = call->call.fd >= 0 && call->call.to_path >= 1 &&
			       (__s32)call->args[call->call.fd & 7] !=
				       (__s32)call->args[(call->call.to_path - 1) & 7];
	record->hash = 0;
	record->hashed_bytes = 0;
	if (settings.hashes && call->call.flags & LW_BUFFER && result > 0)
		hash_content(call->args[1], call->args[2], call->call.flags & LW_VECTOR, record);
	__builtin_memcpy(record->waits_ns, call->waits_ns, sizeof(record->waits_ns));
	if (call->call.flags & LW_OPENS && result >= 0)
		record->fd = result;
	bpf_get_current_comm(record->comm, LW_COMM);
	if (settings.arguments) {
		__builtin_memcpy(record->arguments, call->args, ARGUMENT_BYTES);
		if (settings.arguments == LW_DETAILED && call->call.flags & LW_HOW)
			bpf_probe_read_user(&record->arguments[2], HOW_BYTES,
					    (void *)call->args[2]);
	}
	bpf_ringbuf_submit(record, wake_up());
done:
	is_over(call, tid);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_returns, struct pt_regs *regs, long result)
{
	return place_of(current_task()->pid)->calls ? end_call(result) : 0;
}

#include "watch_ring.bpf.h"
#include "watch_ios.bpf.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_forks, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = BPF_CORE_READ(parent, tgid), to = BPF_CORE_READ(child, tgid), how;
	__u32 *parents;

	if (from == to)
		return 0;
	parents = bpf_map_lookup_elem(&processes, &from);
	if (!parents)
		return 0;
	how = *parents == LW_LAUNCHER ? LW_UNTIL_EXEC : *parents;
	if (bpf_map_update_elem(&processes, &to, &how, BPF_ANY)) {
		count(LW_UNTRACKED_PROCESSES);
		return 0;
	}
	place_of(to)->followed = how == LW_FOLLOWED ? to : LW_ASK;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_execs, struct task_struct *task)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u32 *how = bpf_map_lookup_elem(&processes, &tgid);

	if (how && *how == LW_UNTIL_EXEC) {
		*how = LW_FOLLOWED;
		place_of(tgid)->followed = tgid;
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exits, struct task_struct *task)
{
	__u32 tgid = BPF_CORE_READ(task, tgid), tid = BPF_CORE_READ(task, pid);
	struct call_in_flight *call = call_under_way(tid);

	if (call)
		is_over(call, tid);
	bpf_map_delete_elem(&calls_in_flight, &tid);
	if (BPF_CORE_READ(task, signal, live.counter) == 0) {
		bpf_map_delete_elem(&processes, &tgid);
		if (place_of(tgid)->followed == tgid)
			place_of(tgid)->followed = LW_ASK;
	}
	return 0;
}
