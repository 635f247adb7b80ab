// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the data itself.
 *
 * Pages are allocated when first written and freed when wholly discarded, so memory usage depends
 * on the data written, not on the drive's size. Data moves when the request is submitted. A request
 * may take effect at any time between submission and completion, so this is correct.
 *
 * A page whose 64-bit words, except the first, are an arithmetic series is stored as its first
 * word, base and step. A page of zeros or of one byte is such a series, and so are the contents
 * written by the replayer. Drives of many GiB then fit into memory. A series that is written in
 * part, or with other data, becomes a page, and remains one until it is discarded.
 */
#include <linux/blk-mq.h>
#include <linux/highmem.h>
#include <linux/pagemap.h>

#include "fault.h"
#include "store.h"

#define SECTORS_PER_PAGE	(PAGE_SIZE >> SECTOR_SHIFT)

#define SERIES_WORDS		(PAGE_SIZE / sizeof(u64))

/* Marks pointers to a series in the tree. */
#define SERIES			1

/**
 * struct series - a page whose words, except the first, are base + i * step
 * @first: word 0
 * @base: word 1, minus @step
 * @step: difference between consecutive words
 */
struct series {
	u64 first;
	u64 base;
	u64 step;
};

static bool is_series(const void *entry)
{
	return xa_pointer_tag((void *)entry) == SERIES;
}

static struct series *to_series(void *entry)
{
	return xa_untag_pointer(entry);
}

static void store_free(void *entry)
{
	if (is_series(entry))
		kfree(to_series(entry));
	else if (entry)
		__free_page(entry);
}

/**
 * flashsim_store_init() - initialise an empty store
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
	unsigned long idx;
	void *entry;

	xa_for_each(&store->pages, idx, entry) {
		store_free(entry);
		cond_resched();
	}
	xa_destroy(&store->pages);
}

/* Write bytes @off to @off + @len of the page, whole words, to @data. */
static void series_expand(const struct series *series, void *data, u32 off,
			  u32 len)
{
	u64 word = series->base + off / sizeof(word) * series->step;
	void *at = data;

	for (; at < data + len; at += sizeof(word), word += series->step)
		memcpy(at, &word, sizeof(word));
	if (!off)
		memcpy(data, &series->first, sizeof(word));
}

/* Return whether the page at @data is a series, and set @series to it. */
static bool series_find(struct series *series, const void *data)
{
	u64 word, next;
	u32 i;

	memcpy(&series->first, data, sizeof(word));
	memcpy(&word, data + sizeof(word), sizeof(word));
	memcpy(&next, data + 2 * sizeof(word), sizeof(word));
	series->step = next - word;
	series->base = word - series->step;
	for (i = 2; i < SERIES_WORDS; i++) {
		word += series->step;
		memcpy(&next, data + i * sizeof(word), sizeof(word));
		if (next != word)
			return false;
	}
	return true;
}

/*
 * Return the page at @idx. If there is none, create it, from its series if
 * there is one. Return NULL if out of memory.
 */
static struct page *store_page(struct flashsim_store *store, unsigned long idx)
{
	void *entry = xa_load(&store->pages, idx), *data;
	struct page *page;

	if (entry && !is_series(entry))
		return entry;
	page = alloc_page(GFP_NOIO | __GFP_ZERO | __GFP_HIGHMEM);
	if (!page)
		return NULL;
	if (entry) {
		data = kmap_local_page(page);
		series_expand(to_series(entry), data, 0, PAGE_SIZE);
		kunmap_local(data);
	}
	if (xa_is_err(xa_store(&store->pages, idx, page, GFP_NOIO))) {
		__free_page(page);
		return NULL;
	}
	store_free(entry);
	return page;
}

/* Store a whole page as a series, unless there is a page already. */
static bool store_series(struct flashsim_store *store, unsigned long idx,
			 const struct series *series)
{
	void *entry = xa_load(&store->pages, idx);
	struct series *new;

	if (is_series(entry)) {
		*to_series(entry) = *series;
		return true;
	}
	if (entry)
		return false;
	new = kmemdup(series, sizeof(*series), GFP_NOIO);
	if (new && !xa_is_err(xa_store(&store->pages, idx,
				       xa_tag_pointer(new, SERIES), GFP_NOIO)))
		return true;
	kfree(new);
	return false;
}

static bool store_write(struct flashsim_store *store, unsigned long idx,
			u32 off, struct page *from, u32 from_off, u32 len)
{
	struct series series;
	struct page *page;
	bool found = false;
	void *data;

	if (len == PAGE_SIZE) {
		data = kmap_local_page(from);
		found = series_find(&series, data + from_off);
		kunmap_local(data);
	}
	if (found && store_series(store, idx, &series))
		return true;
	page = store_page(store, idx);
	if (!page)
		return false;
	memcpy_page(page, off, from, from_off, len);
	return true;
}

static void store_read(struct flashsim_store *store, unsigned long idx, u32 off,
		       struct page *to, u32 to_off, u32 len)
{
	void *entry = xa_load(&store->pages, idx), *data;

	if (!entry) {
		memzero_page(to, to_off, len);
	} else if (is_series(entry)) {
		data = kmap_local_page(to);
		series_expand(to_series(entry), data + to_off, off, len);
		kunmap_local(data);
	} else {
		memcpy_page(to, to_off, entry, off, len);
	}
}

static void store_damage(struct page *page, unsigned int off, u64 sector,
			 unsigned int len, const struct flashsim_faults *faults)
{
	u8 *data;

	if (!faults->nr_hits)
		return;
	data = kmap_local_page(page);
	flashsim_faults_damage(faults, data + off, sector << SECTOR_SHIFT, len);
	kunmap_local(data);
}

static bool store_segment(struct flashsim_store *store, struct bio_vec *bv,
			  u64 sector, bool write,
			  const struct flashsim_faults *faults)
{
	/* With faults, proceed by sectors: a part of a write may be lost. */
	u32 step = faults->nr_hits ? SECTOR_SIZE : PAGE_SIZE;
	unsigned int done = 0;

	while (done < bv->bv_len) {
		unsigned int off = (sector % SECTORS_PER_PAGE) << SECTOR_SHIFT;
		unsigned int len = min3(bv->bv_len - done,
					(unsigned int)PAGE_SIZE - off, step);
		unsigned long idx = sector / SECTORS_PER_PAGE;

		if (write && !flashsim_faults_lost(faults, sector)) {
			if (!store_write(store, idx, off, bv->bv_page,
					 bv->bv_offset + done, len))
				return false;
			/* With faults the length was less than a page. */
			if (faults->nr_hits)
				store_damage(xa_load(&store->pages, idx), off,
					     sector, len, faults);
		} else if (!write) {
			store_read(store, idx, off, bv->bv_page,
				   bv->bv_offset + done, len);
			store_damage(bv->bv_page, bv->bv_offset + done, sector,
				     len, faults);
		}
		done += len;
		sector += len >> SECTOR_SHIFT;
	}
	return true;
}

/**
 * flashsim_store_copy() - move the data of a read or write
 * @store: the store
 * @rq: the request; may sleep for memory
 * @faults: damage to apply to the stored data, or to the data read
 *
 * Return: BLK_STS_OK, or BLK_STS_RESOURCE if out of memory.
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

	if (write)
		down_write(&store->lock);
	else
		down_read(&store->lock);
	rq_for_each_segment(bv, rq, iter) {
		ok = store_segment(store, &bv, sector, write, faults);
		if (!ok)
			break;
		sector += bv.bv_len >> SECTOR_SHIFT;
	}
	if (write)
		up_write(&store->lock);
	else
		up_read(&store->lock);
	return ok ? BLK_STS_OK : BLK_STS_RESOURCE;
}

/**
 * flashsim_store_discard() - discard a range, which reads as zeros afterwards
 * @store: the store
 * @sector: first sector
 * @nr_sectors: length
 *
 * Return: BLK_STS_OK, or BLK_STS_RESOURCE if there is no memory for the rest of
 * a page.
 */
blk_status_t flashsim_store_discard(struct flashsim_store *store, u64 sector,
				    u64 nr_sectors)
{
	blk_status_t status = BLK_STS_OK;
	u64 end = sector + nr_sectors;

	down_write(&store->lock);
	while (sector < end && status == BLK_STS_OK) {
		u64 next = min_t(u64, end, round_down(sector, SECTORS_PER_PAGE) +
				 SECTORS_PER_PAGE);
		unsigned long idx = sector / SECTORS_PER_PAGE;
		struct page *page;

		if (next - sector == SECTORS_PER_PAGE) {
			store_free(xa_erase(&store->pages, idx));
		} else if (xa_load(&store->pages, idx)) {
			page = store_page(store, idx);
			if (page)
				memzero_page(page, (sector % SECTORS_PER_PAGE)
					     << SECTOR_SHIFT,
					     (next - sector) << SECTOR_SHIFT);
			else
				status = BLK_STS_RESOURCE;
		}
		sector = next;
	}
	up_write(&store->lock);
	return status;
}
