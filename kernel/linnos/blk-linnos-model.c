// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: what the network says, and which network.
 *
 * Here are the engine that the processor allows, the model that is active on a
 * drive, what is computed ahead with it, and the upload of another. When to
 * ask, and what to do with the answer, is the policy's: blk-linnos.c.
 */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/static_call.h>

#ifdef CONFIG_BLK_LINNOS_AVX2
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#endif

#include "blk-linnos-policy.h"

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
static size_t linnos_active_bytes(bool wide)
{
	return wide ? offsetof(struct linnos_active_model, net) :
		      sizeof(struct linnos_active_model);
}

static struct linnos_active_model *linnos_active_alloc(bool wide)
{
	return alloc_pages_exact(linnos_active_bytes(wide),
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
	bytes = linnos_active_bytes(active->wide);
	kvfree(active->wide);
	free_pages_exact(active, bytes);
}

static void linnos_active_free_rcu(struct rcu_head *rcu)
{
	struct linnos_active_model *active =
		container_of(rcu, struct linnos_active_model, rcu);

	/* vfree() of a wide model is deferred when called from here */
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
 *    finds was last changed by itself, and prepares only if it mostly was.
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
				const struct linnos_history *history)
{
	prepared->serial = active->serial;
	prepared->generation = history->generation;
	prepared->past.known = 0;
}

/**
 * linnos_prepare() - compute ahead what can be, now that a read has completed
 * @linnos: the disk's policy, awake once
 * @history: the history with this read
 *
 * Context: Any.
 */
void linnos_prepare(struct blk_linnos *linnos,
		    const struct linnos_history *history)
{
	struct linnos_active_model *active;
	struct linnos_prepared *prepared;
	u8 digits[LINNOS_N_INPUTS];

	if (!rcu_access_pointer(linnos->model))
		return;
	prepared = get_cpu_ptr(linnos->prepared);
	/* written on this CPU alone: by an interrupt, and by what it interrupts */
	if (READ_ONCE(prepared->in_use) || prepared->unused >= PREPARE_UNUSED ||
	    prepared->local < PREPARE_LOCAL)
		goto out;

	WRITE_ONCE(prepared->in_use, true);
	barrier();
	rcu_read_lock();
	active = rcu_dereference(linnos->model);
	if (active && !active->wide) {
		linnos_history_digits(history, digits);
		static_call(linnos_history)(&active->net, digits,
					    &prepared->past);
		linnos_prepared_tag(prepared, active, history);
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
			       const struct linnos_history *history,
			       u32 pending, s64 *out)
{
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
	    prepared->generation != history->generation) {
		linnos_history_digits(history, digits);
		slow = static_call(linnos_both)(&active->net, digits, past,
						pending) > 0;
		linnos_prepared_tag(prepared, active, history);
	} else if (past->known & bit) {
		slow = past->slow & bit;
		bit = 0;
	} else {
		slow = static_call(linnos_margin)(&active->net, past, pending) >
		       0;
	}
	past->known |= bit;
	past->slow = slow ? past->slow | bit : past->slow & ~bit;
	if (out)
		linnos_net_outputs(&active->net, past, pending, out);

	barrier();
	WRITE_ONCE(prepared->in_use, false);
	put_cpu_ptr(linnos->prepared);
	return slow;
}

/**
 * linnos_predict() - ask the network about a read
 * @linnos: the disk's policy, awake once
 * @active: its model
 * @history: the last completed reads
 * @pending: pages pending, the read included
 * @out: the network's outputs, for fast and for slow; NULL if nobody asks
 *
 * Return: true if it will be slow.
 */
bool linnos_predict(struct blk_linnos *linnos,
		    const struct linnos_active_model *active,
		    const struct linnos_history *history, u32 pending, s64 *out)
{
	u64 n = this_cpu_read(linnos->stats->count[LINNOS_STAT_INFERENCES]);
	bool sample = !(n % INFERENCE_SAMPLE);
	s64 both[LINNOS_N_OUTPUTS];
	u8 digits[LINNOS_N_INPUTS];
	u64 start_ns = 0;
	bool slow;

	if (sample)
		start_ns = ktime_get_ns();

	if (unlikely(active->wide)) {
		linnos_features_encode(history->pending, history->latency_us,
				       pending, digits);
		slow = linnos_infer(active->wide, digits, out ?: both);
	} else {
		slow = linnos_predict_net(linnos, active, history, pending,
					  out);
	}

	linnos_count(linnos, LINNOS_STAT_INFERENCES);
	if (sample)
		this_cpu_add(linnos->stats->count[LINNOS_STAT_INFERENCE_NS],
			     (ktime_get_ns() - start_ns) * INFERENCE_SAMPLE);
	return slow;
}

/**
 * linnos_set_model() - check a model file and make it the active model
 * @linnos: the disk's policy
 * @file: the whole file
 * @bytes: its size
 *
 * A decision is made by the old model or by the new one, never by a mixture. A
 * read in flight was decided by the old one and is held against the threshold of
 * the new: slow and the counters of mistakes may be off by as many.
 *
 * Context: Process context, @linnos->lock held.
 * Return: %LINNOS_MODEL_OK, the check that failed, or -ENOMEM. On failure the
 * old model stays active.
 */
int linnos_set_model(struct blk_linnos *linnos, const void *file, size_t bytes)
{
	static atomic64_t last_serial = ATOMIC64_INIT(0);
	struct linnos_active_model *fresh, *old;
	enum linnos_model_error error;
	struct linnos_model *model;

	model = kvmalloc(sizeof(*model), GFP_KERNEL);
	if (!model)
		return -ENOMEM;
	error = linnos_model_parse(model, file, bytes);
	if (error) {
		kvfree(model);
		return error;
	}

	fresh = linnos_active_alloc(false);
	if (!fresh)
		goto no_memory;
	if (linnos_net_pack(&fresh->net, model)) {
		fresh->id = model->id;
		fresh->threshold_us = model->threshold_us;
		kvfree(model);
	} else {
		linnos_active_free(fresh);
		fresh = linnos_active_alloc(true);
		if (!fresh)
			goto no_memory;
		fresh->id = model->id;
		fresh->threshold_us = model->threshold_us;
		fresh->wide = model;
	}
	fresh->serial = atomic64_inc_return(&last_serial);

	old = rcu_replace_pointer(linnos->model, fresh,
				  lockdep_is_held(&linnos->lock));
	WRITE_ONCE(linnos->threshold_us, fresh->threshold_us);
	if (old)
		call_rcu(&old->rcu, linnos_active_free_rcu);
	return LINNOS_MODEL_OK;

no_memory:
	kvfree(model);
	return -ENOMEM;
}

/**
 * linnos_active_store() - write the active model back as its file
 * @active: the active model
 * @file: room for %LINNOS_MODEL_BYTES
 * @scratch: room for a model
 */
void linnos_active_store(const struct linnos_active_model *active, void *file,
			 struct linnos_model *scratch)
{
	if (active->wide) {
		linnos_model_store(active->wide, file);
		return;
	}
	linnos_net_unpack(&active->net, scratch);
	linnos_model_store(scratch, file);
}

static void linnos_upload_drop(struct blk_linnos *linnos)
{
	kvfree(linnos->upload.file);
	memset(&linnos->upload, 0, sizeof(linnos->upload));
}

static void linnos_say_refused(struct blk_linnos *linnos,
			       enum linnos_model_error error)
{
	pr_warn("%s: model refused: %s\n", linnos->disk->disk_name,
		linnos_model_error_string(error));
}

static int linnos_upload_refuse(struct blk_linnos *linnos,
				enum linnos_model_error error)
{
	linnos_say_refused(linnos, error);
	linnos_upload_drop(linnos);
	return -EINVAL;
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
	enum linnos_model_error error;
	int ret;

	if (!offset) {
		if (upload->bytes) {
			linnos_say_refused(linnos, LINNOS_MODEL_TRUNCATED);
			upload->bytes = 0;
		}
		error = linnos_model_check_header(chunk, bytes);
		if (error)
			return linnos_upload_refuse(linnos, error);
		if (!upload->file)
			upload->file = kvmalloc(LINNOS_MODEL_BYTES, GFP_KERNEL);
		if (!upload->file)
			return -ENOMEM;
		upload->writer = writer;
		upload->bytes = 0;
	}
	if (!upload->file || upload->writer != writer ||
	    upload->bytes != offset)
		return linnos_upload_refuse(linnos, LINNOS_MODEL_ORDER);
	if (bytes > LINNOS_MODEL_BYTES - offset)
		return linnos_upload_refuse(linnos, LINNOS_MODEL_SIZE);

	memcpy(upload->file + offset, chunk, bytes);
	upload->bytes += bytes;
	if (upload->bytes < LINNOS_MODEL_BYTES) {
		if (bytes < PAGE_SIZE)
			return linnos_upload_refuse(linnos,
						    LINNOS_MODEL_TRUNCATED);
		return 0;
	}

	ret = linnos_set_model(linnos, upload->file, upload->bytes);
	if (ret > 0)
		return linnos_upload_refuse(linnos, ret);
	linnos_upload_drop(linnos);
	return ret;
}
