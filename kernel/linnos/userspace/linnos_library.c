// SPDX-License-Identifier: MIT
/*
 * What only the user-space library has: the fast engines by name and the latency
 * model, over many feature vectors, for tests and benchmarks.
 */
#include <stdlib.h>
#include <string.h>

#include "linnos_fast.h"
#include "linnos_latency.h"

#define DIGIT_MAX 9

struct engine {
	const char *name;
	void (*history)(const struct linnos_net *net, const u8 *digits,
			struct linnos_past *past);
	s64 (*margin)(const struct linnos_net *net,
		      const struct linnos_past *past, u32 pending);
};

static const struct engine *find_engine(const char *name)
{
	static const struct engine engines[] = {
		{ "scalar", linnos_history_scalar, linnos_margin_scalar },
#ifdef __x86_64__
		{ "avx2", linnos_history_avx2, linnos_margin_avx2 },
#endif
	};
	size_t i;

	for (i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (!strcmp(engines[i].name, name))
			return &engines[i];
	return NULL;
}

/**
 * linnos_engine_available() - can this machine run an engine?
 * @name: "scalar" or "avx2"
 *
 * Return: true if it can.
 */
bool linnos_engine_available(const char *name)
{
#ifdef __x86_64__
	if (!strcmp(name, "avx2"))
		return __builtin_cpu_supports("avx2");
#endif
	return find_engine(name);
}

/**
 * linnos_margin_batch() - a fast engine over many feature vectors
 * @name: "scalar" or "avx2"
 * @model: a parsed model
 * @digits: @n rows of %LINNOS_N_INPUTS
 * @n: number of rows
 * @margin: filled in: output of slow less output of fast, one a row
 *
 * Return: @n; -1 - row when a row holds a value that is not a digit; @n + 1 when
 * the engine is not available, the model's weights need more than 16 bits, or
 * memory is short.
 */
long linnos_margin_batch(const char *name, const struct linnos_model *model,
			 const u8 *digits, long n, s64 *margin)
{
	const struct engine *engine = find_engine(name);
	struct linnos_past *past;
	struct linnos_net *net;
	long row, ret = n + 1;
	int i;

	if (!engine || !linnos_engine_available(name))
		return ret;
	net = aligned_alloc(_Alignof(struct linnos_net), sizeof(*net));
	past = aligned_alloc(_Alignof(struct linnos_past), sizeof(*past));
	if (!net || !past || !linnos_net_pack(net, model))
		goto out;
	for (row = 0; row < n; row++, digits += LINNOS_N_INPUTS) {
		const u8 *now = digits + LINNOS_NOW_DIGIT;

		for (i = 0; i < LINNOS_N_INPUTS; i++) {
			if (digits[i] > DIGIT_MAX) {
				ret = -1 - row;
				goto out;
			}
		}
		engine->history(net, digits, past);
		margin[row] = engine->margin(
			net, past, 100 * now[0] + 10 * now[1] + now[2]);
	}
	ret = n;
out:
	free(past);
	free(net);
	return ret;
}

/**
 * linnos_latency_batch() - predict many reads
 * @model: a parsed model
 * @features: @n rows of %LINNOS_N_FEATURES
 * @n: number of rows
 * @us: filled in: one a row
 *
 * Return: @n, or -1 - row when a row holds a number above %LINNOS_LATENCY_CAP.
 */
long linnos_latency_batch(const struct linnos_latency *model,
			  const u32 *features, long n, u32 *us)
{
	long row;
	int i;

	for (row = 0; row < n; row++, features += LINNOS_N_FEATURES) {
		for (i = 0; i < LINNOS_N_FEATURES; i++)
			if (features[i] > LINNOS_LATENCY_CAP)
				return -1 - row;
		us[row] = linnos_latency_us(model, features);
	}
	return n;
}
