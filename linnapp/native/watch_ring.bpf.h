/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Part of watch.bpf.c: record the reads, writes and syncs of io_uring, from submission to
 * completion. A request is a call with a name of its own, by the thread that submitted it.
 *
 * At the submission, the kernel has copied the description of the request. At the completion, it
 * has looked up the file and has not shown the result to the program yet.
 */
struct request_in_flight {
	__u64 time_ns;
	__u64 id;
	__u64 buffer;
	__u64 length;
	__s64 offset;
	__s64 bytes;
	__s64 fd;
	struct lw_call call;
	char comm[LW_COMM];
};

/* By address. A request may end without an event, so old ones make room for new ones. */
MAP(requests, LRU_HASH, 65536, __u64, struct request_in_flight);

/* Return the operation's properties if it is recorded, and requested from this thread. */
static __always_inline const struct lw_call *recorded_operation(struct io_kiocb *request)
{
	struct task_struct *task = current_task();
	__u32 operation = BPF_CORE_READ(request, opcode);
	const struct lw_call *known;

	if (!is_followed(task->tgid) || operation >= LW_N_OPERATIONS)
		return NULL;
	known = &glance.calls[LW_OPERATION(operation)];
	if (!known->index)
		return NULL;
	if (known->flags & LW_LEFT_OUT || (known->flags & LW_OF_SOME && !is_requested(task->pid))) {
		count(LW_SKIPPED_CALLS);
		return NULL;
	}
	return known;
}

static __always_inline int submit(struct io_kiocb *request)
{
	const struct lw_call *known = recorded_operation(request);
	struct request_in_flight new = { .offset = LW_NONE, .bytes = LW_NONE };
	struct io_rw *transfer = (struct io_rw *)request;
	__u64 key = (__u64)request;

	if (!known)
		return 0;
	new.call = *known;
	new.time_ns = bpf_ktime_get_ns();
	new.id = bpf_get_current_pid_tgid();
	new.fd = BPF_CORE_READ(request, cqe.fd);
	bpf_get_current_comm(new.comm, LW_COMM);
	if (known->flags & LW_BUFFER) {
		new.buffer = BPF_CORE_READ(transfer, addr);
		new.length = BPF_CORE_READ(transfer, len);
		new.offset = BPF_CORE_READ(transfer, kiocb.ki_pos);
		new.bytes = known->flags & LW_VECTOR ? vector_bytes(new.buffer, new.length) :
						       (__s64)new.length;
		/* The file's position, which other requests change, too. */
		if (new.offset == -1)
			new.offset = LW_NONE;
	}
	if (bpf_map_update_elem(&requests, &key, &new, BPF_ANY))
		count(LW_UNTRACKED_CALLS);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int request_is_submitted(__u64 *ctx)
{
	return submit((struct io_kiocb *)ctx[0]);
}

/* The name of the event in Linux 6.0 to 6.2. */
SEC("tp_btf/io_uring_submit_sqe")
int request_is_submitted_old(__u64 *ctx)
{
	return submit((struct io_kiocb *)ctx[0]);
}

static __noinline int complete(struct io_kiocb *request, const struct request_in_flight *r)
{
	struct file *file = BPF_CORE_READ(request, file);
	struct lw_call_record *record;
	struct lw_file described = {};

	if (file ? !describe_file(file, BPF_CORE_READ(file, f_inode), false, &described) :
		   settings.by_path) {
		count(LW_FILTERED_CALLS);
		return 0;
	}
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		count(LW_LOST_CALLS);
		return 0;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->type = LW_CALL_RECORD;
	record->call = r->call.index - 1;
	record->pid = r->id >> 32;
	record->tid = r->id;
	record->time_ns = r->time_ns;
	record->duration_ns = bpf_ktime_get_ns() - r->time_ns;
	record->result = BPF_CORE_READ(request, cqe.res);
	record->offset = r->offset;
	record->bytes = r->bytes;
	record->fd = r->fd;
	record->file = described;
	__builtin_memcpy(record->comm, r->comm, LW_COMM);
	/* A vector may be gone by now, and another process has other memory at this address. */
	if (settings.hashes && record->result > 0 && (r->call.flags & (LW_BUFFER | LW_VECTOR)) == LW_BUFFER &&
	    bpf_get_current_pid_tgid() >> 32 == r->id >> 32)
		hash_content(r->buffer, r->length, false, record);
	bpf_ringbuf_submit(record, wake_up());
	return 0;
}

SEC("tp_btf/io_uring_complete")
int request_is_complete(__u64 *ctx)
{
	struct request_in_flight *r;
	__u64 key = ctx[1];

	if (!key)
		return 0;
	r = bpf_map_lookup_elem(&requests, &key);
	if (!r)
		return 0;
	complete((struct io_kiocb *)key, r);
	bpf_map_delete_elem(&requests, &key);
	return 0;
}
