// SPDX-License-Identifier: MIT
/* Wait for a read: see waiting.h. */
#include "waiting.h"

void waiting_begin(struct waiting *w)
{
	*w = (struct waiting){.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel_state);
}

void waiting_wake(void *of, ssize_t bytes, int node)
{
	struct waiting *w = of;

	(void)node;
	pthread_mutex_lock(&w->lock);
	w->bytes = bytes;
	w->has_ended = true;
	pthread_cond_signal(&w->ended);
	pthread_mutex_unlock(&w->lock);
}

void waiting_end(struct waiting *w, bool was_sent)
{
	int now;

	pthread_mutex_lock(&w->lock);
	while (was_sent && !w->has_ended)
		pthread_cond_wait(&w->ended, &w->lock);
	pthread_mutex_unlock(&w->lock);
	pthread_setcancelstate(w->cancel_state, &now);
}
