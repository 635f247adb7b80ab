// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: what the model says, and which model.
 *
 * Here are the engine that the processor allows, the model that is active on a
 * drive, what is computed ahead with it, and the upload of another. When to
 * ask, and what to do with the answer, is the policy's: blk-linnos.c. The most is
 * about networks: of a model of latencies all is computed when it is asked.
 */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/unaligned.h>

#ifdef CONFIG_BLK_LINNOS_AVX2
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#endif

#include "blk-linnos-policy.h"

static_assert(LINNOS_LATENCY_BYTES_MAX <= LINNOS_MODEL_BYTES);

/*
 * Engines. margin() is greater than zero when the read is slow; both() first
 * computes the history's share. All give the same results, bit for bit.
 */
static s64 linnos_both_scalar(const struct linnos_net *net, const u8 *digits,
			      struct linnos_past *past, u32 pending)
{
	linnos_history_scalar(net, digits, past);
	return linnos_margin_scalar(net, past, pending);
}

DEFINE_STATIC_CALL(linnos_history, linnos_history_scalar);
DEFINE_STATIC_CALL(linnos_margin, linnos_margin_scalar);
DEFINE_STATIC_CALL(linnos_both, linnos_both_scalar);

static const char *linnos_engine = "scalar";

#ifdef CONFIG_BLK_LINNOS_AVX2
/* An interrupt may find the vector registers in use: plain C then. */
static void linnos_history_fpu(const struct linnos_net *net, const u8 *digits,
			       struct linnos_past *past)
{
	if (!irq_fpu_usable()) {
		linnos_history_scalar(net, digits, past);
		return;
	}
	kernel_fpu_begin();
	linnos_history_avx2(net, digits, past);
	kernel_fpu_end();
}

static s64 linnos_margin_fpu(const struct linnos_net *net,
			     const struct linnos_past *past, u32 pending)
{
	s64 margin;

	if (!irq_fpu_usable())
		return linnos_margin_scalar(net, past, pending);
	kernel_fpu_begin();
	margin = linnos_margin_avx2(net, past, pending);
	kernel_fpu_end();
	return margin;
}

static s64 linnos_both_fpu(const struct linnos_net *net, const u8 *digits,
			   struct linnos_past *past, u32 pending)
{
	s64 margin;

	if (!irq_fpu_usable())
		return linnos_both_scalar(net, digits, past, pending);
	kernel_fpu_begin();
	linnos_history_avx2(net, digits, past);
	margin = linnos_margin_avx2(net, past, pending);
	kernel_fpu_end();
	return margin;
}

static int __init linnos_choose_engine(void)
{
	if (!boot_cpu_has(X86_FEATURE_AVX2) ||
	    !cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL))
		return 0;
	static_call_update(linnos_history, linnos_history_fpu);
	static_call_update(linnos_margin, linnos_margin_fpu);
	static_call_update(linnos_both, linnos_both_fpu);
	linnos_engine = "avx2";
	pr_info("using the AVX2 engine\n");
	return 0;
}
arch_initcall(linnos_choose_engine);
#endif

/**
 * linnos_engine_name() - which engine computes
 *
 * Return: "scalar" or "avx2".
 */
const char *linnos_engine_name(void)
{
	return linnos_engine;
}

/* Pages exactly: kmalloc() would round a model up to the next power of two. */
static size_t linnos_active_bytes(bool packed)
{
	return packed ? sizeof(struct linnos_active_model) :
			offsetof(struct linnos_active_model, net);
}

static struct linnos_active_model *linnos_active_alloc(bool packed)
{
	return alloc_pages_exact(linnos_active_bytes(packed),
				 GFP_KERNEL | __GFP_ZERO);
}

/**
 * linnos_active_free() - free a model
 * @active: the model, which nobody uses any more, or NULL
 */
void linnos_active_free(struct linnos_active_model *active)
{
	size_t bytes;

	if (!active)
		return;
	bytes = linnos_active_bytes(!active->wide && !active->latency);
	kvfree(active->wide);
	kvfree(active->latency);
	free_pages_exact(active, bytes);
}

static void linnos_active_free_rcu(struct rcu_head *rcu)
{
	struct linnos_active_model *active =
		container_of(rcu, struct linnos_active_model, rcu);

	/* vfree() of a large model is deferred when called from here */
	linnos_active_free(active);
}

/*
 * Preparing. Of the 31 digits only three belong to the read that arrives; the
 * share of the others in the hidden layer is computed when a read completes, on
 * its CPU, and kept there: no CPU reads what another has computed, which would
 * cost more than to compute it again. Whether that pays off depends:
 *
 *  - a drive without hinted reads has no use for it. Preparing stops after
 *    PREPARE_UNUSED completions without a hinted read;
 *  - where several CPUs complete reads of one drive, the next completion
 *    elsewhere makes it void. Each CPU keeps count of whether the history it
 *    finds was last changed by itself, and prepares only if it mostly was;
 *  - nor does it where hinted reads are of another order of size: larger ones do
 *    not change what small ones see.
 *
 * Otherwise a hinted read computes all of it when it arrives.
 */
/* So much is computed in vain after the last hinted read: a whole history. */
#define PREPARE_UNUSED LINNOS_HISTORY
/* Of late is among eight hinted reads, mostly is half of them. */
#define PREPARE_LOCAL_MAX 8
#define PREPARE_LOCAL (PREPARE_LOCAL_MAX / 2)

static void linnos_history_digits(const struct linnos_history *history,
				  u8 *digits)
{
	linnos_features_encode(history->pending, history->latency_us, 0,
			       digits);
}

static void linnos_prepared_tag(struct linnos_prepared *prepared,
				const struct linnos_active_model *active,
				const struct linnos_history *history, u32 size)
{
	prepared->serial = active->serial;
	prepared->size = size;
	prepared->generation = history->generation;
	prepared->past.known = 0;
}

/**
 * linnos_prepare() - compute ahead what can be, now that a read has completed
 * @linnos: the disk's policy, awake once
 * @history: the history with this read, of the order of its size
 * @size: which that is
 *
 * Context: Any.
 */
void linnos_prepare(struct blk_linnos *linnos,
		    const struct linnos_history *history, u32 size)
{
	struct linnos_active_model *active;
	struct linnos_prepared *prepared;
	u8 digits[LINNOS_N_INPUTS];

	if (!rcu_access_pointer(linnos->model))
		return;
	prepared = get_cpu_ptr(linnos->prepared);
	/* written on this CPU alone: by an interrupt, and by what it interrupts */
	if (READ_ONCE(prepared->in_use) || prepared->unused >= PREPARE_UNUSED ||
	    prepared->local < PREPARE_LOCAL || prepared->size != size)
		goto out;

	WRITE_ONCE(prepared->in_use, true);
	barrier();
	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	if (active && !active->wide && !active->latency) {
		linnos_history_digits(history, digits);
		static_call(linnos_history)(&active->net, digits,
					    &prepared->past);
		linnos_prepared_tag(prepared, active, history, size);
		prepared->unused++;
	}
	rcu_read_unlock();
	barrier();
	WRITE_ONCE(prepared->in_use, false);
out:
	put_cpu_ptr(linnos->prepared);
}

/*
 * Reading the clock twice costs as much as an inference: measure one in so
 * many and let it count for all, which costs less than two percent.
 */
#define INFERENCE_SAMPLE 64

/* Decisions for fewer pending pages are remembered, a bit each in a word. */
#define REMEMBERED 64

static bool linnos_predict_net(struct blk_linnos *linnos,
			       const struct linnos_active_model *active,
			       struct linnos_view *view)
{
	const struct linnos_history *history = &view->history;
	u32 pending = view->pending;
	struct linnos_prepared *prepared = get_cpu_ptr(linnos->prepared);
	struct linnos_past *past = &prepared->past;
	u64 bit = pending < REMEMBERED ? BIT_ULL(pending) : 0;
	u8 digits[LINNOS_N_INPUTS];
	bool slow;

	WRITE_ONCE(prepared->in_use, true);
	barrier();
	prepared->unused = 0;
	if (history->cpu == smp_processor_id())
		prepared->local = min(prepared->local + 1, PREPARE_LOCAL_MAX);
	else if (prepared->local)
		prepared->local--;

	if (prepared->serial != active->serial ||
	    prepared->size != view->size ||
	    prepared->generation != history->generation) {
		linnos_history_digits(history, digits);
		slow = static_call(linnos_both)(&active->net, digits, past,
						pending) > 0;
		linnos_prepared_tag(prepared, active, history, view->size);
	} else if (past->known & bit) {
		slow = past->slow & bit;
		bit = 0;
	} else {
		slow = static_call(linnos_margin)(&active->net, past, pending) >
		       0;
	}
	past->known |= bit;
	past->slow = slow ? past->slow | bit : past->slow & ~bit;
	if (view->traced)
		linnos_net_outputs(&active->net, past, pending, view->out);

	barrier();
	WRITE_ONCE(prepared->in_use, false);
	put_cpu_ptr(linnos->prepared);
	return slow;
}

static bool linnos_predict_wide(const struct linnos_active_model *active,
				struct linnos_view *view)
{
	u8 digits[LINNOS_N_INPUTS];

	linnos_features_encode(view->history.pending, view->history.latency_us,
			       view->pending, digits);
	return linnos_infer(active->wide, digits, view->out);
}

/* In us; slow is what is not worth waiting for, as an output of a network. */
static bool linnos_predict_latency(struct blk_linnos *linnos,
				   const struct linnos_active_model *active,
				   struct linnos_view *view)
{
	const struct linnos_latency *model = active->latency;

	linnos_features(linnos->watch, view, model->overdue_us);
	view->out[0] = model->refuse_us;
	view->out[1] = linnos_latency_us(model, view->features);
	return view->out[1] > view->out[0];
}

/**
 * linnos_predict() - ask the model about a read
 * @linnos: the disk's policy, awake once
 * @active: its model
 * @view: the read and what it finds; outputs are filled in
 *
 * Return: true if it will be slow.
 */
bool linnos_predict(struct blk_linnos *linnos,
		    const struct linnos_active_model *active,
		    struct linnos_view *view)
{
	u64 n = this_cpu_read(linnos->stats->count[LINNOS_STAT_INFERENCES]);
	bool sample = !(n % INFERENCE_SAMPLE);
	u64 start_ns = 0;
	bool slow;

	if (sample)
		start_ns = ktime_get_ns();

	if (active->latency)
		slow = linnos_predict_latency(linnos, active, view);
	else if (unlikely(active->wide))
		slow = linnos_predict_wide(active, view);
	else
		slow = linnos_predict_net(linnos, active, view);

	linnos_count(linnos, LINNOS_STAT_INFERENCES);
	if (sample)
		this_cpu_add(linnos->stats->count[LINNOS_STAT_INFERENCE_NS],
			     (ktime_get_ns() - start_ns) * INFERENCE_SAMPLE);
	return slow;
}

static int linnos_read_network(const void *file, size_t bytes,
			       struct linnos_active_model **fresh,
			       const char **why)
{
	struct linnos_active_model *active = NULL;
	enum linnos_model_error error;
	struct linnos_model *model;
	int ret = -ENOMEM;

	model = kvmalloc(sizeof(*model), GFP_KERNEL);
	if (!model)
		return -ENOMEM;
	error = linnos_model_parse(model, file, bytes);
	if (error) {
		*why = linnos_model_error_string(error);
		ret = -EINVAL;
		goto out;
	}
	active = linnos_active_alloc(true);
	if (active && !linnos_net_pack(&active->net, model)) {
		linnos_active_free(active);
		active = linnos_active_alloc(false);
		if (active)
			active->wide = model;
	}
	if (!active)
		goto out;
	active->id = model->id;
	active->threshold_us = model->threshold_us;
	active->chooses = true;
	*fresh = active;
	ret = 0;
out:
	if (!active || !active->wide)
		kvfree(model);
	return ret;
}

static int linnos_read_latency(const void *file, size_t bytes,
			       struct linnos_active_model **fresh,
			       const char **why)
{
	struct linnos_active_model *active;
	enum linnos_latency_error error;
	struct linnos_latency *model;

	model = kvmalloc(linnos_latency_sizeof(bytes), GFP_KERNEL);
	if (!model)
		return -ENOMEM;
	error = linnos_latency_parse(model, file, bytes);
	if (error) {
		*why = linnos_latency_error_string(error);
		kvfree(model);
		return -EINVAL;
	}
	active = linnos_active_alloc(false);
	if (!active) {
		kvfree(model);
		return -ENOMEM;
	}
	active->latency = model;
	active->id = model->id;
	active->threshold_us = model->threshold_us;
	active->chooses = linnos_latency_chooses(model);
	*fresh = active;
	return 0;
}

/* Which kind? One that is neither is refused as a network would be. */
static bool linnos_is_latency_file(const void *file, size_t bytes)
{
	return bytes >= LINNOS_MODEL_HEADER &&
	       get_unaligned_le32(file + LINNOS_FILE_VERSION) ==
		       LINNOS_LATENCY_VERSION;
}

/*
 * What only a model of latencies sees is kept from now on, or not any more. Of
 * the reads before it nothing is known. Those in flight are not watched.
 */
static void linnos_set_watching(struct blk_linnos *linnos, bool on)
{
	unsigned long flags;

	if (on && !linnos->watching) {
		raw_spin_lock_irqsave(&linnos->history_lock, flags);
		write_seqcount_begin(&linnos->history_seq);
		memset(linnos->answered, 0, sizeof(linnos->answered));
		write_seqcount_end(&linnos->history_seq);
		raw_spin_unlock_irqrestore(&linnos->history_lock, flags);
	}
	/* pairs with linnos_reserve(): @watch is there */
	smp_store_release(&linnos->watching, on);
}

/**
 * linnos_set_model() - check a model file and make it the active model
 * @linnos: the disk's policy
 * @file: the whole file, of either kind
 * @bytes: its size
 * @why: set to the check that failed
 *
 * A decision is made by the old model or by the new one, never by a mixture. A
 * read in flight was decided by the old one and is held against the threshold of
 * the new: slow and the counters of mistakes may be off by as many.
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0, -EINVAL or -ENOMEM. On failure the old model stays active.
 */
int linnos_set_model(struct blk_linnos *linnos, const void *file, size_t bytes,
		     const char **why)
{
	static atomic64_t last_serial = ATOMIC64_INIT(0);
	bool latency = linnos_is_latency_file(file, bytes);
	struct linnos_active_model *fresh, *old;
	int ret;

	if (latency && !linnos->watch) {
		struct linnos_watch *watch =
			kzalloc(sizeof(*watch), GFP_KERNEL);

		if (!watch)
			return -ENOMEM;
		/* with nothing in it; pairs with the readers' dependency on it */
		smp_store_release(&linnos->watch, watch);
	}
	ret = latency ? linnos_read_latency(file, bytes, &fresh, why) :
			linnos_read_network(file, bytes, &fresh, why);
	if (ret)
		return ret;
	fresh->serial = atomic64_inc_return(&last_serial);

	if (latency)
		linnos_set_watching(linnos, true);
	old = rcu_replace_pointer(linnos->model, fresh,
				  lockdep_is_held(&linnos->lock));
	WRITE_ONCE(linnos->threshold_us, fresh->threshold_us);
	if (!latency)
		linnos_set_watching(linnos, false);
	if (old)
		call_rcu(&old->rcu, linnos_active_free_rcu);
	return 0;
}

/**
 * linnos_active_store() - write the active model back as its file
 * @active: the active model
 * @file: room for %LINNOS_MODEL_BYTES, more than either kind has
 * @scratch: room for a model
 *
 * Return: its size.
 */
size_t linnos_active_store(const struct linnos_active_model *active, void *file,
			   struct linnos_model *scratch)
{
	if (active->latency)
		return linnos_latency_store(active->latency, file);
	if (!active->wide)
		linnos_net_unpack(&active->net, scratch);
	linnos_model_store(active->wide ?: scratch, file);
	return LINNOS_MODEL_BYTES;
}

static void linnos_upload_drop(struct blk_linnos *linnos)
{
	kvfree(linnos->upload.file);
	memset(&linnos->upload, 0, sizeof(linnos->upload));
}

static void linnos_say_refused(struct blk_linnos *linnos, const char *why)
{
	pr_warn("%s: model refused: %s\n", linnos->disk->disk_name, why);
}

static int linnos_upload_refuse(struct blk_linnos *linnos,
				enum linnos_model_error error)
{
	linnos_say_refused(linnos, linnos_model_error_string(error));
	linnos_upload_drop(linnos);
	return -EINVAL;
}

/* How large will the file be that begins like this? NULL, or why it is none. */
static const char *linnos_upload_size(const void *chunk, size_t bytes,
				      size_t *total_bytes)
{
	enum linnos_latency_error latency_error;
	enum linnos_model_error error;

	if (linnos_is_latency_file(chunk, bytes)) {
		latency_error = linnos_latency_check_header(chunk, bytes);
		*total_bytes =
			get_unaligned_le32(chunk + LINNOS_FILE_TOTAL_BYTES);
		return latency_error ?
			       linnos_latency_error_string(latency_error) :
			       NULL;
	}
	error = linnos_model_check_header(chunk, bytes);
	*total_bytes = LINNOS_MODEL_BYTES;
	return error ? linnos_model_error_string(error) : NULL;
}

/**
 * linnos_upload_chunk() - take the next piece of a model file
 * @linnos: the disk's policy
 * @writer: identifies the open file, so that two writers do not mix
 * @chunk: the piece
 * @offset: where in the file it belongs
 * @bytes: its size
 *
 * sysfs hands a write over in pieces of a page. The pieces are collected, and
 * the one that completes the file activates the model. Offset 0 starts anew. A
 * piece shorter than a page that does not complete the file can only be the
 * end of a truncated one. One truncated between two pages is found out when the
 * next file begins, for sysfs does not say when a file is closed.
 *
 * Context: Process context, @linnos->lock held.
 * Return: 0, -ENOMEM, or -EINVAL after a line in the kernel log that says which
 * check failed; the old model stays active.
 */
int linnos_upload_chunk(struct blk_linnos *linnos, const void *writer,
			const void *chunk, size_t offset, size_t bytes)
{
	struct linnos_upload *upload = &linnos->upload;
	size_t total_bytes;
	const char *why;
	int ret;

	if (!offset) {
		if (upload->bytes)
			linnos_upload_refuse(linnos, LINNOS_MODEL_TRUNCATED);
		why = linnos_upload_size(chunk, bytes, &total_bytes);
		if (why)
			goto refuse;
		if (!upload->file)
			upload->file = kvmalloc(LINNOS_MODEL_BYTES, GFP_KERNEL);
		if (!upload->file)
			return -ENOMEM;
		upload->writer = writer;
		upload->bytes = 0;
		upload->total_bytes = total_bytes;
	}
	if (!upload->file || upload->writer != writer ||
	    upload->bytes != offset)
		return linnos_upload_refuse(linnos, LINNOS_MODEL_ORDER);
	if (bytes > upload->total_bytes - offset)
		return linnos_upload_refuse(linnos, LINNOS_MODEL_SIZE);

	memcpy(upload->file + offset, chunk, bytes);
	upload->bytes += bytes;
	if (upload->bytes < upload->total_bytes) {
		if (bytes < PAGE_SIZE)
			return linnos_upload_refuse(linnos,
						    LINNOS_MODEL_TRUNCATED);
		return 0;
	}

	ret = linnos_set_model(linnos, upload->file, upload->bytes, &why);
	if (ret == -EINVAL)
		goto refuse;
	linnos_upload_drop(linnos);
	return ret;

refuse:
	linnos_say_refused(linnos, why);
	linnos_upload_drop(linnos);
	return -EINVAL;
}
