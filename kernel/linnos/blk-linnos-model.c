// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: what the model says, and which model.
 *
 * Here are the model that is active on a drive, its answer, and the upload of
 * another. When to ask, and what to do with the answer, is the policy's:
 * blk-linnos.c. How a model computes is in linnos_network.c and linnos_latency.c.
 */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "blk-linnos-policy.h"

static_assert(LINNOS_LATENCY_BYTES_MAX <= LINNOS_NETWORK_BYTES);

/* Pages exactly: kmalloc() would round a model up to the next power of two. */
static size_t linnos_active_bytes(bool network)
{
	return network ? sizeof(struct linnos_active_model) :
			 offsetof(struct linnos_active_model, net);
}

static struct linnos_active_model *linnos_active_alloc(bool network)
{
	return alloc_pages_exact(linnos_active_bytes(network),
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
	bytes = linnos_active_bytes(!active->latency);
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
 * Reading the clock twice costs as much as an inference: measure one in so
 * many and let it count for all, which costs less than two percent.
 */
#define INFERENCE_SAMPLE 64

static bool linnos_predict_network(const struct linnos_active_model *active,
				   struct linnos_found *found)
{
	struct linnos_hidden hidden __uninitialized;
	u8 digits[LINNOS_N_INPUTS] __uninitialized;

	linnos_view_digits(&found->view, digits);
	linnos_hidden_layer(&active->net, digits, &hidden);
	if (found->traced)
		linnos_outputs(&active->net, &hidden, found->out);
	return linnos_margin(&active->net, &hidden) > 0;
}

/* In us; slow is what is not worth waiting for, as an output of a network. */
static bool linnos_predict_latency(struct blk_linnos *linnos,
				   const struct linnos_active_model *active,
				   struct linnos_found *found)
{
	const struct linnos_latency *model = active->latency;

	linnos_view_features(&linnos->drive.places, &found->view,
			     model->overdue_us, found->features);
	found->n_features = LINNOS_N_FEATURES;
	found->overdue_us = model->overdue_us;
	found->out[0] = model->refuse_us;
	found->out[1] = linnos_latency_us(model, found->features);
	return found->out[1] > found->out[0];
}

/**
 * linnos_predict() - ask the model about a read
 * @linnos: the disk's policy, on once
 * @active: its model
 * @found: the read and what it finds; outputs are filled in
 *
 * Return: true if it will be slow.
 */
bool linnos_predict(struct blk_linnos *linnos,
		    const struct linnos_active_model *active,
		    struct linnos_found *found)
{
	u64 n = this_cpu_read(linnos->stats->count[LINNOS_STAT_INFERENCES]);
	bool sample = !(n % INFERENCE_SAMPLE);
	u64 start_ns = 0;
	bool slow;

	if (sample)
		start_ns = ktime_get_ns();

	if (active->latency)
		slow = linnos_predict_latency(linnos, active, found);
	else
		slow = linnos_predict_network(active, found);

	linnos_count(linnos, LINNOS_STAT_INFERENCES);
	if (sample)
		this_cpu_add(linnos->stats->count[LINNOS_STAT_INFERENCE_NS],
			     (ktime_get_ns() - start_ns) * INFERENCE_SAMPLE);
	return slow;
}

/* Return: 0, -EINVAL with @why, or -ENOMEM. */
static int linnos_read_model(const void *file, size_t bytes, bool latency,
			     struct linnos_active_model **fresh,
			     const char **why)
{
	struct linnos_active_model *active;
	struct linnos_latency *trees = NULL;
	enum linnos_model_error error;

	if (latency) {
		trees = kvmalloc(linnos_latency_sizeof(bytes), GFP_KERNEL);
		if (!trees)
			return -ENOMEM;
	}
	active = linnos_active_alloc(!latency);
	if (!active) {
		kvfree(trees);
		return -ENOMEM;
	}
	active->latency = trees;
	error = latency ? linnos_latency_parse(trees, file, bytes) :
			  linnos_network_parse(&active->net, file, bytes);
	if (error) {
		*why = linnos_model_error_string(error);
		linnos_active_free(active);
		return -EINVAL;
	}
	active->id = latency ? trees->id : active->net.id;
	active->threshold_us = latency ? trees->threshold_us :
					 active->net.threshold_us;
	active->chooses = !latency || linnos_latency_chooses(trees);
	*fresh = active;
	return 0;
}

/* Which kind? One that is neither is refused as a network would be. */
static bool linnos_is_latency_file(const void *file, size_t bytes)
{
	return bytes >= LINNOS_FILE_HEADER &&
	       get_unaligned_le32(file + LINNOS_FILE_VERSION) ==
		       LINNOS_LATENCY_VERSION;
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
	bool latency = linnos_is_latency_file(file, bytes);
	struct linnos_active_model *fresh, *old;
	int ret;

	ret = linnos_read_model(file, bytes, latency, &fresh, why);
	if (ret)
		return ret;

	old = rcu_replace_pointer(linnos->model, fresh,
				  lockdep_is_held(&linnos->lock));
	WRITE_ONCE(linnos->threshold_us, fresh->threshold_us);
	linnos_set_watching(linnos);
	if (old)
		call_rcu(&old->rcu, linnos_active_free_rcu);
	return 0;
}

/**
 * linnos_active_store() - write the active model back as its file
 * @active: the active model
 * @file: room for %LINNOS_NETWORK_BYTES, more than either kind has
 *
 * Return: its size.
 */
size_t linnos_active_store(const struct linnos_active_model *active, void *file)
{
	if (active->latency)
		return linnos_latency_store(active->latency, file);
	return linnos_network_store(&active->net, file);
}

static void linnos_upload_drop(struct blk_linnos *linnos)
{
	kvfree(linnos->upload.file);
	memset(&linnos->upload, 0, sizeof(linnos->upload));
}

static int linnos_upload_refuse_why(struct blk_linnos *linnos, const char *why)
{
	pr_warn("%s: model refused: %s\n", linnos->disk->disk_name, why);
	linnos_upload_drop(linnos);
	return -EINVAL;
}

static int linnos_upload_refuse(struct blk_linnos *linnos,
				enum linnos_model_error error)
{
	return linnos_upload_refuse_why(linnos,
					linnos_model_error_string(error));
}

static enum linnos_model_error linnos_check_header(const void *file,
						   size_t bytes)
{
	return linnos_is_latency_file(file, bytes) ?
		       linnos_latency_check_header(file, bytes) :
		       linnos_network_check_header(file, bytes);
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
	const char *why;
	int ret;

	if (!offset) {
		if (upload->bytes)
			linnos_upload_refuse(linnos, LINNOS_MODEL_TRUNCATED);
		error = linnos_check_header(chunk, bytes);
		if (error)
			return linnos_upload_refuse(linnos, error);
		if (!upload->file)
			upload->file =
				kvmalloc(LINNOS_NETWORK_BYTES, GFP_KERNEL);
		if (!upload->file)
			return -ENOMEM;
		upload->writer = writer;
		upload->bytes = 0;
		upload->total_bytes =
			get_unaligned_le32(chunk + LINNOS_FILE_TOTAL_BYTES);
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
		return linnos_upload_refuse_why(linnos, why);
	linnos_upload_drop(linnos);
	return ret;
}
