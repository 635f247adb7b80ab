/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Simulate concurrent actions while the policy (policy.h) runs: each action
 * happens before one of the words that the policy reads or swaps, in all
 * combinations that keep the order of the actions.
 */
#ifndef _BENCH_INTERLEAVE_H
#define _BENCH_INTERLEAVE_H

#include "kernel_shim.h"
#include "linnos_shim.h"

static void run_due_actions(void);

#undef READ_ONCE
#define READ_ONCE(x) (run_due_actions(), *(const volatile typeof(x) *)&(x))
#undef cmpxchg
#define cmpxchg(p, old, new) (run_due_actions(), shim_cmpxchg(p, old, new))

#include "policy.h"

/* The maximum number of words that the code under test reads or swaps. */
#define WORDS 16
#define ACTIONS_MAX 8

static void (*const *actions)(void);
static int n_actions, n_done = ACTIONS_MAX, word;
/*
 * The index of the word before which each action happens, in the order of
 * actions.
 */
static int before[ACTIONS_MAX];

static void run_due_actions(void)
{
	static bool acting;

	/* actions read words, too */
	if (acting)
		return;
	acting = true;
	for (; n_done < n_actions && before[n_done] <= word; n_done++)
		actions[n_done]();
	acting = false;
	word++;
}

static void begin_run(void)
{
	n_done = 0;
	word = 0;
}

/* Run the remaining actions. */
static void end_run(void)
{
	if (!word || word > WORDS)
		abort();
	word = WORDS;
	run_due_actions();
}

/*
 * Try all combinations for this action and those after it. Return the number of
 * those for which @is_wrong returns true.
 */
static int try_all(bool (*is_wrong)(void), int action, int from)
{
	int wrong = 0, i;

	if (action < n_actions) {
		for (before[action] = from; before[action] <= WORDS; before[action]++)
			wrong += try_all(is_wrong, action + 1, before[action]);
		return wrong;
	}
	if (!is_wrong())
		return 0;
	fprintf(stderr, "wrong if the actions happen before words");
	for (i = 0; i < n_actions; i++)
		fprintf(stderr, " %d", before[i]);
	fprintf(stderr, "\n");
	return 1;
}

#endif
