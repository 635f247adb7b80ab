/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Part of watch.bpf.c: record block I/Os, from the time that they are queued until their last part
 * has ended.
 */
/* Return true if an I/O does not match the filters; those of calls and paths apply to its call. */
static __always_inline bool is_filtered(__u32 flags, __u32 tid, const struct call_in_flight *call)
{
	bool by_call = settings.by_call || settings.by_path;

	if (!by_call && !settings.by_process && !settings.by_thread)
		return false;
	if (!(flags & LW_WATCHED))
		return true;
	return by_call ? !call || call->is_elsewhere : !is_requested(tid);
}

/* For an I/O of md or dm, note the drive to which they pass it, in the thread that queued it. */
static __always_inline void note_drive(const struct lw_io_record *io, __u64 key, bool is_passed_on)
{
	__u32 tid = io->tid;
	struct lw_io_record *above;
	__u64 *noted;

	if (is_passed_on && !(io->flags & LW_BELOW))
		bpf_map_update_elem(&passed_on, &tid, &key, BPF_ANY);
	if (is_passed_on || !(io->flags & LW_BELOW))
		return;
	noted = bpf_map_lookup_elem(&passed_on, &tid);
	if (!noted)
		return;
	key = *noted;
	above = bpf_map_lookup_elem(&ios_in_flight, &key);
	if (above && above->tid == tid)
		above->drive = !above->drive || above->drive == io->device ? io->device :
									      LW_SEVERAL;
}

/* Return the decision of LinnOS about a read that is queued now, directly after it. */
static __always_inline __u32 take_decision(const struct lw_io_record *io)
{
	struct decided_read *last;
	__u32 tid = io->tid, decision;

	if (!bpf_core_enum_value_exists(enum req_flag_bits, __REQ_LATCRIT))
		return LW_UNDECIDED;
	last = bpf_map_lookup_elem(&decided, &tid);
	if (!last || io->op || last->device != io->device || last->sector != io->sector)
		return LW_UNDECIDED;
	decision = last->decision;
	bpf_map_delete_elem(&decided, &tid);
	return decision;
}

/* Record the end of an I/O in its call, if that is still in progress. */
static __always_inline void note_end(const struct lw_io_record *io, __u64 now_ns)
{
	struct call_in_flight *call;
	__u32 tid = io->tid;

	if (!(io->flags & LW_IN_CALL))
		return;
	call = bpf_map_lookup_elem(&calls_in_flight, &tid);
	if (!call || call->time_ns != io->call_time_ns ||
	    __sync_fetch_and_sub(&call->ios, 1) != 1)
		return;
	/* If the drive has no FUA, a flush follows that is not seen. */
	call->ios_end_ns = io->flags & LW_FUA ? 0 : now_ns;
}

/* Return a record with a copy of an I/O, to be submitted; count it as lost if there is no room. */
static __always_inline struct lw_io_record *copy_of_io(const struct lw_io_record *io)
{
	struct lw_io_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (record)
		*record = *io;
	else
		count(LW_LOST_IOS);
	return record;
}

/* Set a flag of an I/O if the kernel's flags have the bit of this name. */
#define COPY_FLAG(flags, opf, flag, bit)				\
	((flags) |= (opf) & 1U << bpf_core_enum_value(enum req_flag_bits, bit) ? (flag) : 0)

SEC("tp_btf/block_bio_queue")
int BPF_PROG(io_is_queued, struct bio *bio)
{
	__u64 id = bpf_get_current_pid_tgid(), key = (__u64)bio;
	struct lw_io_record io = { .type = LW_IO_RECORD, .parts = 1 }, *old, *record;
	struct gendisk *disk = BPF_CORE_READ(bio, bi_bdev, bd_disk);
	__u32 opf = BPF_CORE_READ(bio, bi_opf), tid = id;
	struct call_in_flight *call;

	if (is_followed(id >> 32)) {
		io.flags |= LW_WATCHED;
	} else if (!is_kernel_thread()) {
		count(LW_OTHER_IOS);
		return 0;
	}
	call = call_under_way(tid);
	if (is_filtered(io.flags, tid, call)) {
		count(LW_FILTERED_IOS);
		return 0;
	}
	io.pid = id >> 32;
	io.tid = tid;
	io.sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	io.bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	io.device = BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
	io.op = opf & REQ_OP_MASK;
	/* Kernels that set hints have done so by now, also from the thread's own priority. */
	io.priority = BPF_CORE_READ(bio, bi_ioprio);
	COPY_FLAG(io.flags, opf, LW_PREFLUSH, __REQ_PREFLUSH);
	COPY_FLAG(io.flags, opf, LW_FUA, __REQ_FUA);
	COPY_FLAG(io.flags, opf, LW_READAHEAD, __REQ_RAHEAD);
	COPY_FLAG(io.flags, opf, LW_METADATA, __REQ_META);
	/* Set while a driver without requests (md, dm) handles an I/O and passes on parts of it. */
	if (current_task()->bio_list)
		io.flags |= LW_BELOW;
	note_drive(&io, key, BPF_CORE_READ(disk, fops, submit_bio) != NULL);
	io.decision = take_decision(&io);
	if (call) {
		io.flags |= LW_IN_CALL;
		io.call = call->call.index - 1;
		io.call_time_ns = call->time_ns;
		__sync_fetch_and_add(&call->ios, 1);
	}
	bpf_get_current_comm(io.comm, LW_COMM);
	io.time_ns = bpf_ktime_get_ns();
	if (!bpf_map_update_elem(&ios_in_flight, &key, &io, BPF_NOEXIST))
		return 0;
	/* Another I/O has this address, because its end was not seen; or the table is full. */
	old = bpf_map_lookup_elem(&ios_in_flight, &key);
	if (!old) {
		if (call)
			__sync_fetch_and_sub(&call->ios, 1);
		count(LW_UNTRACKED_IOS);
		return 0;
	}
	note_end(old, io.time_ns);
	record = copy_of_io(old);
	if (record)
		bpf_ringbuf_submit(record, wake_up());
	bpf_map_update_elem(&ios_in_flight, &key, &io, BPF_ANY);
	return 0;
}

SEC("tp_btf/block_split")
int BPF_PROG(io_is_split, struct bio *part)
{
	/* The part that is split off is chained to the rest, which keeps the whole's address. */
	struct part new = { .whole = (__u64)BPF_CORE_READ(part, bi_private) };
	struct lw_io_record *io = bpf_map_lookup_elem(&ios_in_flight, &new.whole);
	__u64 key = (__u64)part;

	if (!io)
		return 0;
	if (bpf_map_update_elem(&parts, &key, &new, BPF_ANY))
		count(LW_UNTRACKED_IOS);
	else
		__sync_fetch_and_add(&io->parts, 1);
	return 0;
}

/* The event of LinnOS, on kernels that have it: this thread queues the read next. */
SEC("tp_btf/linnos_decision")
int read_is_decided(__u64 *ctx)
{
	struct decided_read read = { .sector = ctx[1], .device = ctx[0] };
	__u64 id = bpf_get_current_pid_tgid();
	__u32 reason = ctx[4], tid = id;

	if (!is_followed(id >> 32) && !is_kernel_thread())
		return 0;
	read.decision = ctx[3]		       ? LW_REVOKED :
			reason == LINNOS_PROBE ? LW_PROBE :
						 LW_ADMITTED;
	bpf_map_update_elem(&decided, &tid, &read, BPF_ANY);
	return 0;
}

/* Events of a request apply to each of its bios. */
struct passage {
	struct bio *bio;
	__u64 time_ns;
	bool is_issue;
};

static long pass_next(__u32 index, struct passage *passage)
{
	struct lw_stages *stages = NULL;
	struct bio *bio = passage->bio;
	struct lw_io_record *io;
	__u64 key = (__u64)bio;
	struct part *part;

	if (!bio)
		return 1;
	passage->bio = BPF_CORE_READ(bio, bi_next);
	io = bpf_map_lookup_elem(&ios_in_flight, &key);
	if (io) {
		stages = &io->stages;
	} else {
		part = bpf_map_lookup_elem(&parts, &key);
		if (part)
			stages = &part->stages;
	}
	if (stages && passage->is_issue)
		stages->issue_ns = passage->time_ns;
	else if (stages)
		stages->insert_ns = passage->time_ns;
	return 0;
}

static __always_inline void pass(struct request *request, bool is_issue)
{
	struct passage passage = {
		.bio = BPF_CORE_READ(request, bio),
		.time_ns = bpf_ktime_get_ns(),
		.is_issue = is_issue,
	};

	bpf_loop(LW_MAX_MERGED, pass_next, &passage, 0);
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(request_is_inserted, struct request *request)
{
	pass(request, false);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_is_issued, struct request *request)
{
	pass(request, true);
	return 0;
}

static __always_inline void end(__u64 key, bool has_failed)
{
	struct lw_io_record *io = bpf_map_lookup_elem(&ios_in_flight, &key), *record;
	struct lw_stages stages = {};
	__u64 now_ns;

	if (io) {
		stages = io->stages;
	} else {
		struct part *part = bpf_map_lookup_elem(&parts, &key);
		__u64 address = key;

		if (!part)
			return;
		key = part->whole;
		stages = part->stages;
		bpf_map_delete_elem(&parts, &address);
		io = bpf_map_lookup_elem(&ios_in_flight, &key);
		if (!io)
			return;
	}
	if (has_failed)
		__sync_fetch_and_or(&io->flags, LW_FAILED);
	if (__sync_fetch_and_sub(&io->parts, 1) > 1)
		return;
	now_ns = bpf_ktime_get_ns();
	note_end(io, now_ns);
	record = copy_of_io(io);
	if (record) {
		record->flags |= LW_COMPLETED;
		record->latency_ns = now_ns - record->time_ns;
		record->stages = stages;
		bpf_ringbuf_submit(record, wake_up());
	}
	bpf_map_delete_elem(&ios_in_flight, &key);
}

/* For drivers without requests; for others, an I/O that ends before it has a request. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(io_completes, void *queue, struct bio *bio)
{
	end((__u64)bio, BPF_CORE_READ(bio, bi_status) != 0);
	return 0;
}

struct ending {
	struct bio *bio;
	__u32 bytes;
	bool has_failed;
};

static long end_next(__u32 index, struct ending *ending)
{
	struct bio *bio = ending->bio;
	__u32 bytes;

	if (!bio)
		return 1;
	bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (bytes > ending->bytes)
		return 1;
	ending->bio = BPF_CORE_READ(bio, bi_next);
	ending->bytes -= bytes;
	end((__u64)bio, ending->has_failed);
	return !ending->bytes;
}

/* The bios of a request within its first `bytes` bytes have ended. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_completes, struct request *request, int error, unsigned int bytes)
{
	struct ending ending = {
		.bio = BPF_CORE_READ(request, bio),
		.bytes = bytes,
		.has_failed = error != 0,
	};

	bpf_loop(LW_MAX_MERGED, end_next, &ending, 0);
	return 0;
}
