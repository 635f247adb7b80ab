/* SPDX-License-Identifier: GPL-2.0-only */
/* flashsim: the data itself. */
#ifndef FLASHSIM_STORE_H
#define FLASHSIM_STORE_H

#include <linux/blk_types.h>
#include <linux/rwsem.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct flashsim_faults;
struct request;

/**
 * struct flashsim_store - sparse memory that holds a drive's data
 * @pages: pages written, by unit number; see store.c for other entries
 * @lock: taken for writing by writes and discards, which change @pages
 */
struct flashsim_store {
	struct xarray pages;
	struct rw_semaphore lock;
};

void flashsim_store_init(struct flashsim_store *store);
void flashsim_store_destroy(struct flashsim_store *store);
blk_status_t flashsim_store_copy(struct flashsim_store *store,
				 struct request *rq,
				 const struct flashsim_faults *faults);
blk_status_t flashsim_store_discard(struct flashsim_store *store, u64 sector,
				    u64 nr_sectors);

#endif /* FLASHSIM_STORE_H */
