// SPDX-License-Identifier: GPL-2.0-only
/* LinnOS: the active model of a drive, its predictions, and the upload of a new model. */
#define pr_fmt(fmt) "linnos: " fmt

#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "blk-linnos-policy.h"

#include <trace/events/linnos.h>

static_assert(LINNOS_LATENCY_BYTES_MAX <= LINNOS_MODEL_BYTES_MAX);

/*
 * Measure the duration of one inference in %INFERENCE_SAMPLE: reading the clock twice costs as
 * much as an inference.
 */
#define INFERENCE_SAMPLE 64

#ifdef CONFIG_BLK_LINNOS_NETWORK
static bool linnos_predict_network(const struct linnos_model *active,
				   struct linnos_prediction *found)
{
	struct linnos_hidden hidden __uninitialized;
	u8 digits[LINNOS_N_INPUTS] __uninitialized;

	linnos_encode_digits(&found->view, digits);
	linnos_hidden_layer(&active->net, digits, &hidden);
#ifdef CONFIG_BLK_LATCRIT
	if (trace_linnos_decision_enabled())
		linnos_outputs(&active->net, &hidden, found->out);
#endif
	return linnos_margin(&active->net, &hidden) > 0;
}
#endif

static bool linnos_predict_latency(struct blk_linnos *linnos,
				   const struct linnos_model *active,
				   struct linnos_prediction *found)
{
	const struct linnos_latency *model = active->latency;

	linnos_compute_features(&linnos->drive.start_slots, &found->view,
				model->overdue_us, found->features);
	found->n_features = LINNOS_N_FEATURES;
	found->overdue_us = model->overdue_us;
	found->out[0] = model->refuse_us;
	found->out[1] = linnos_latency_us(model, found->features);
	return found->out[1] > found->out[0];
}

static bool linnos_run_model(struct blk_linnos *linnos,
			     const struct linnos_model *active,
			     struct linnos_prediction *found)
{
#ifdef CONFIG_BLK_LINNOS_NETWORK
	if (!active->latency)
		return linnos_predict_network(active, found);
#endif
	return linnos_predict_latency(linnos, active, found);
}

/* Return true if the model predicts that the read will be slow. */
bool linnos_predict(struct blk_linnos *linnos,
		    const struct linnos_model *active,
		    struct linnos_prediction *found)
{
	u64 n = this_cpu_read(linnos->stats->count[LINNOS_STAT_INFERENCES]);
	bool sample = !(n % INFERENCE_SAMPLE);
	u64 start_ns = 0;
	bool slow;

	if (sample)
		start_ns = ktime_get_ns();
	slow = linnos_run_model(linnos, active, found);
	linnos_count(linnos, LINNOS_STAT_INFERENCES);
	if (sample)
		this_cpu_add(linnos->stats->count[LINNOS_STAT_INFERENCE_NS],
			     (ktime_get_ns() - start_ns) * INFERENCE_SAMPLE);
	return slow;
}

/* All other files are treated as latency models, whose checks refuse unknown files. */
static bool linnos_is_network_file(const void *file, size_t bytes)
{
#ifdef CONFIG_BLK_LINNOS_NETWORK
	return bytes >= LINNOS_FILE_HEADER &&
	       get_unaligned_le32(file + LINNOS_FILE_VERSION) ==
		       LINNOS_NETWORK_VERSION;
#else
	return false;
#endif
}

static enum linnos_model_error linnos_check_header(const void *file,
						   size_t bytes)
{
#ifdef CONFIG_BLK_LINNOS_NETWORK
	if (linnos_is_network_file(file, bytes))
		return linnos_network_check_header(file, bytes);
#endif
	return linnos_latency_check_header(file, bytes);
}

static struct linnos_model *linnos_model_alloc(const void *file,
					       size_t file_bytes)
{
	bool latency = !linnos_is_network_file(file, file_bytes);
	struct linnos_model *active;
	size_t bytes = sizeof(*active);

	if (latency)
		bytes = offsetof(struct linnos_model, trees) +
			linnos_latency_sizeof(file_bytes);
	active = kvzalloc(bytes, GFP_KERNEL);
	if (active && latency)
		active->latency = &active->trees;
	return active;
}

static enum linnos_model_error linnos_parse_weights(struct linnos_model *active,
						    const void *file,
						    size_t bytes)
{
#ifdef CONFIG_BLK_LINNOS_NETWORK
	if (!active->latency)
		return linnos_network_parse(&active->net, file, bytes);
#endif
	return linnos_latency_parse(active->latency, file, bytes);
}

static int linnos_refuse_model(const struct blk_linnos *linnos,
			       enum linnos_model_error error)
{
	pr_warn("%s: model refused: %s\n", linnos->disk->disk_name,
		linnos_model_error_string(error));
	return -EINVAL;
}

/*
 * Make a complete model file the active model. @linnos->lock is held. A read in flight was
 * predicted by the old model, but its latency is compared with the threshold of the new one.
 * Return: 0, -ENOMEM, or -EINVAL after a message in the kernel log. After an error, the old model
 * remains active.
 */
int linnos_set_model(struct blk_linnos *linnos, const void *file, size_t bytes)
{
	struct linnos_model *fresh, *old;
	enum linnos_model_error error;

	fresh = linnos_model_alloc(file, bytes);
	if (!fresh)
		return -ENOMEM;
	error = linnos_parse_weights(fresh, file, bytes);
	if (error) {
		kvfree(fresh);
		return linnos_refuse_model(linnos, error);
	}
	fresh->id = get_unaligned_le32(file + LINNOS_FILE_CRC32);
	fresh->threshold_us =
		get_unaligned_le32(file + LINNOS_FILE_THRESHOLD_US);
	old = rcu_replace_pointer(linnos->model, fresh,
				  lockdep_is_held(&linnos->lock));
	WRITE_ONCE(linnos->threshold_us, fresh->threshold_us);
	/* start times and regions are tracked only for models that use them */
	WRITE_ONCE(linnos->drive.ignores_regions,
		   !fresh->latency || !fresh->latency->uses_region);
	WRITE_ONCE(linnos->drive.tracks_starts, !!fresh->latency);
	kvfree_rcu(old, rcu);
	return 0;
}

/* Store a model as a file of at most %LINNOS_MODEL_BYTES_MAX. Return the size of the file. */
size_t linnos_model_store(const struct linnos_model *active, void *file)
{
#ifdef CONFIG_BLK_LINNOS_NETWORK
	if (!active->latency)
		return linnos_network_store(&active->net, file);
#endif
	return linnos_latency_store(active->latency, file);
}

static int linnos_upload_end(struct blk_linnos *linnos, int ret)
{
	kvfree(linnos->upload.file);
	memset(&linnos->upload, 0, sizeof(linnos->upload));
	return ret;
}

static int linnos_upload_refuse(struct blk_linnos *linnos,
				enum linnos_model_error error)
{
	return linnos_upload_end(linnos, linnos_refuse_model(linnos, error));
}

/*
 * Add the next chunk of a model file. @linnos->lock is held. @writer identifies the open file,
 * so that the chunks of two writers are not mixed. Return: see linnos_set_model().
 *
 * sysfs passes a write in chunks of a page. A chunk at offset 0 starts a new file, and the chunk
 * that completes the file activates the model. A chunk that is shorter than a page and does not
 * complete the file is the end of a truncated file. A file that is truncated at a page boundary is
 * detected only when the next file starts, because sysfs does not report when a file is closed.
 */
int linnos_upload_chunk(struct blk_linnos *linnos, const void *writer,
			const void *chunk, size_t offset, size_t bytes)
{
	struct linnos_upload *upload = &linnos->upload;
	enum linnos_model_error error;

	if (!offset) {
		if (upload->file)
			linnos_upload_refuse(linnos, LINNOS_MODEL_TRUNCATED);
		error = linnos_check_header(chunk, bytes);
		if (error)
			return linnos_upload_refuse(linnos, error);
		upload->file = kvmalloc(LINNOS_MODEL_BYTES_MAX, GFP_KERNEL);
		if (!upload->file)
			return -ENOMEM;
		upload->writer = writer;
		upload->total_bytes =
			get_unaligned_le32(chunk + LINNOS_FILE_TOTAL_BYTES);
	}
	if (!upload->file || upload->writer != writer ||
	    upload->bytes != offset)
		return linnos_upload_refuse(linnos, LINNOS_MODEL_ORDER);
	if (bytes > upload->total_bytes - offset)
		return linnos_upload_refuse(linnos, LINNOS_MODEL_SIZE);
	if (bytes < PAGE_SIZE && bytes < upload->total_bytes - offset)
		return linnos_upload_refuse(linnos, LINNOS_MODEL_TRUNCATED);

	memcpy(upload->file + offset, chunk, bytes);
	upload->bytes += bytes;
	if (upload->bytes < upload->total_bytes)
		return 0;
	return linnos_upload_end(linnos, linnos_set_model(linnos, upload->file,
							  upload->bytes));
}
