// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the data itself.
 *
 * Pages are allocated when first written and freed when wholly discarded, so
 * memory follows what was written, not the drive's size. Data moves when the
 * request is submitted: a request takes effect somewhere between submission and
 * completion, and that is as good a point as any.
 */
#include <linux/blk-mq.h>
#include <linux/highmem.h>
#include <linux/pagemap.h>

#include "fault.h"
#include "store.h"

#define SECTORS_PER_PAGE	(PAGE_SIZE >> SECTOR_SHIFT)

/**
 * flashsim_store_init() - an empty store
 * @store: the store
 */
void flashsim_store_init(struct flashsim_store *store)
{
	xa_init(&store->pages);
	init_rwsem(&store->lock);
}

/**
 * flashsim_store_destroy() - free all data
 * @store: the store; empty and usable afterwards
 */
void flashsim_store_destroy(struct flashsim_store *store)
{
	struct page *page;
	unsigned long idx;

	xa_for_each(&store->pages, idx, page) {
		__free_page(page);
		cond_resched();
	}
	xa_destroy(&store->pages);
}

/* The page at @idx, made if it is not there. NULL without memory. */
static struct page *store_page(struct flashsim_store *store, unsigned long idx)
{
	struct page *page = xa_load(&store->pages, idx);
	struct page *old;

	if (page)
		return page;
	page = alloc_page(GFP_NOIO | __GFP_ZERO | __GFP_HIGHMEM);
	if (!page)
		return NULL;
	old = xa_cmpxchg(&store->pages, idx, NULL, page, GFP_NOIO);
	if (!old)
		return page;
	/* Another write made it first, or the tree has no memory. */
	__free_page(page);
	return xa_is_err(old) ? NULL : old;
}

static void store_damage(struct page *page, unsigned int off, u64 sector,
			 unsigned int len, const struct flashsim_faults *faults)
{
	u8 *data;

	if (!faults->nr_hits)
		return;
	data = kmap_local_page(page);
	flashsim_faults_damage(faults, data + off, sector, len);
	kunmap_local(data);
}

static bool store_segment(struct flashsim_store *store, struct bio_vec *bv,
			  u64 sector, bool write,
			  const struct flashsim_faults *faults)
{
	/* With faults about, sector by sector: a part of a write may be lost. */
	u32 step = faults->nr_hits ? SECTOR_SIZE : PAGE_SIZE;
	unsigned int done = 0;

	while (done < bv->bv_len) {
		unsigned int off = (sector % SECTORS_PER_PAGE) << SECTOR_SHIFT;
		unsigned int len = min3(bv->bv_len - done,
					(unsigned int)PAGE_SIZE - off, step);
		unsigned long idx = sector / SECTORS_PER_PAGE;
		struct page *page;

		if (write && !flashsim_faults_lost(faults, sector)) {
			page = store_page(store, idx);
			if (!page)
				return false;
			memcpy_page(page, off, bv->bv_page,
				    bv->bv_offset + done, len);
			store_damage(page, off, sector, len, faults);
		} else if (!write) {
			page = xa_load(&store->pages, idx);
			if (page)
				memcpy_page(bv->bv_page, bv->bv_offset + done,
					    page, off, len);
			else
				memzero_page(bv->bv_page, bv->bv_offset + done,
					     len);
			store_damage(bv->bv_page, bv->bv_offset + done, sector,
				     len, faults);
		}
		done += len;
		sector += len >> SECTOR_SHIFT;
	}
	return true;
}

/**
 * flashsim_store_copy() - move a read's or write's data
 * @store: the store
 * @rq: the request; may sleep for memory
 * @faults: damage to do on the way: to what is stored, or to what is read
 *
 * Return: BLK_STS_OK, or BLK_STS_RESOURCE when there is no memory.
 */
blk_status_t flashsim_store_copy(struct flashsim_store *store,
				 struct request *rq,
				 const struct flashsim_faults *faults)
{
	bool write = op_is_write(req_op(rq));
	u64 sector = blk_rq_pos(rq);
	struct req_iterator iter;
	struct bio_vec bv;
	bool ok = true;

	down_read(&store->lock);
	rq_for_each_segment(bv, rq, iter) {
		ok = store_segment(store, &bv, sector, write, faults);
		if (!ok)
			break;
		sector += bv.bv_len >> SECTOR_SHIFT;
	}
	up_read(&store->lock);
	return ok ? BLK_STS_OK : BLK_STS_RESOURCE;
}

/**
 * flashsim_store_discard() - forget a range, which reads as zeros afterwards
 * @store: the store
 * @sector: first sector
 * @nr_sectors: length
 */
void flashsim_store_discard(struct flashsim_store *store, u64 sector,
			    u64 nr_sectors)
{
	u64 end = sector + nr_sectors;

	down_write(&store->lock);
	while (sector < end) {
		u64 next = min_t(u64, end, round_down(sector, SECTORS_PER_PAGE) +
				 SECTORS_PER_PAGE);
		unsigned long idx = sector / SECTORS_PER_PAGE;
		struct page *page;

		if (next - sector == SECTORS_PER_PAGE) {
			page = xa_erase(&store->pages, idx);
			if (page)
				__free_page(page);
		} else {
			page = xa_load(&store->pages, idx);
			if (page)
				memzero_page(page, (sector % SECTORS_PER_PAGE)
					     << SECTOR_SHIFT,
					     (next - sector) << SECTOR_SHIFT);
		}
		sector = next;
	}
	up_write(&store->lock);
}
