/* /dev/kofi0: the block layer's side of kofi_blk.ko. */
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>
#include "kofi_blk_mod.h"

/* Copies between a request's pages and its buffer. */
static void blk_copy(struct request *rq, u8 *buffer, bool to_buffer)
{
	struct req_iterator at;
	struct bio_vec piece;

	rq_for_each_segment(piece, rq, at) {
		if (to_buffer)
			memcpy_from_bvec(buffer, &piece);
		else
			memcpy_to_bvec(&piece, buffer);
		buffer += piece.bv_len;
	}
}

void blk_end(struct blk_device *dev, struct blk_slot *slot, blk_status_t status)
{
	struct request *rq = slot->rq;

	if (status == BLK_STS_OK && slot->op == KOFI_BLK_READ)
		blk_copy(rq, slot->buffer, false);
	slot->rq = NULL;
	blk_mq_end_request(rq, status);
}

static int blk_op(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return KOFI_BLK_READ;
	case REQ_OP_WRITE:
		return KOFI_BLK_WRITE;
	case REQ_OP_FLUSH:
		return KOFI_BLK_FLUSH;
	case REQ_OP_DISCARD:
		return KOFI_BLK_DISCARD;
	case REQ_OP_WRITE_ZEROES:
		return KOFI_BLK_ZERO;
	default:
		return -EOPNOTSUPP;
	}
}

static blk_status_t blk_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data)
{
	struct blk_device *dev = hctx->queue->queuedata;
	struct request *rq = data->rq;
	struct blk_slot *slot = &dev->slots[rq->tag];
	unsigned int noio;
	int op = blk_op(rq);
	bool is_taken;

	blk_mq_start_request(rq);
	if (op < 0)
		return BLK_STS_NOTSUPP;
	slot->rq = rq;
	slot->op = op;
	slot->len = op == KOFI_BLK_FLUSH ? 0 : blk_rq_bytes(rq);
	if (op == KOFI_BLK_WRITE)
		blk_copy(rq, slot->buffer, true);
	/* What is posted may need memory, for which this disk may have to be written. */
	noio = memalloc_noio_save();
	is_taken = blk_submit(dev, slot);
	memalloc_noio_restore(noio);
	return is_taken ? BLK_STS_OK : BLK_STS_IOERR;
}

static const struct blk_mq_ops blk_ops = {
	.queue_rq = blk_queue_rq,
};

static const struct block_device_operations blk_fops = {
	.owner = THIS_MODULE,
};

static void blk_limits(struct blk_device *dev, struct request_queue *queue)
{
	const struct kofi_blk_disk *disk = &dev->disk;
	/* A request names its length with 32 bits. */
	unsigned int most = round_down(UINT_MAX, 4096) >> SECTOR_SHIFT;

	blk_queue_logical_block_size(queue, disk->block);
	blk_queue_physical_block_size(queue, max(disk->block, 4096U));
	blk_queue_io_opt(queue, disk->longest);
	blk_queue_max_hw_sectors(queue, disk->longest >> SECTOR_SHIFT);
	blk_queue_max_segments(queue, USHRT_MAX);
	blk_queue_max_segment_size(queue, UINT_MAX);
	blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	blk_queue_write_cache(queue, disk->features & KOFI_BLK_CACHE, disk->features & KOFI_BLK_CACHE);
	if (disk->features & KOFI_BLK_HAS_DISCARD) {
		queue->limits.discard_granularity = max(disk->block, 4096U);
		blk_queue_max_discard_sectors(queue, most);
	}
	if (disk->features & KOFI_BLK_HAS_ZERO)
		blk_queue_max_write_zeroes_sectors(queue, most);
}

int blk_disk_add(struct blk_device *dev)
{
	struct blk_mq_tag_set *tags = &dev->tags;
	int status;

	tags->ops = &blk_ops;
	tags->nr_hw_queues = 1;
	tags->queue_depth = dev->disk.depth;
	tags->numa_node = NUMA_NO_NODE;
	/* Posting takes locks that sleep. */
	tags->flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_BLOCKING;
	tags->driver_data = dev;
	status = blk_mq_alloc_tag_set(tags);
	if (status)
		return status;
	dev->gendisk = blk_mq_alloc_disk(tags, dev);
	if (IS_ERR(dev->gendisk)) {
		status = PTR_ERR(dev->gendisk);
		dev->gendisk = NULL;
		blk_mq_free_tag_set(tags);
		return status;
	}
	blk_limits(dev, dev->gendisk->queue);
	snprintf(dev->gendisk->disk_name, DISK_NAME_LEN, "kofi0");
	dev->gendisk->fops = &blk_fops;
	dev->gendisk->private_data = dev;
	set_capacity(dev->gendisk, dev->disk.capacity);
	set_disk_ro(dev->gendisk, dev->disk.features & KOFI_BLK_READ_ONLY);
	status = add_disk(dev->gendisk);
	if (status) {
		put_disk(dev->gendisk);
		blk_mq_free_tag_set(tags);
		dev->gendisk = NULL;
	}
	return status;
}

void blk_disk_remove(struct blk_device *dev)
{
	if (!dev->gendisk)
		return;
	del_gendisk(dev->gendisk);
	put_disk(dev->gendisk);
	blk_mq_free_tag_set(&dev->tags);
}

/* Slots and buffers for as many requests as may be asked for; the disk uses those that are granted. */
int blk_memory(struct blk_device *dev)
{
	u32 at, depth = dev->settings.depth;
	size_t stride = PAGE_SIZE + dev->settings.longest;

	/* Zeroed: targets see what earlier requests left in it, and nothing else of this kernel. Buffers begin where a page does. */
	dev->memory = vzalloc(depth * stride);
	dev->slots = kvcalloc(depth, sizeof(*dev->slots), GFP_KERNEL);
	if (!dev->memory || !dev->slots)
		return -ENOMEM;
	for (at = 0; at < depth; at++) {
		INIT_LIST_HEAD(&dev->slots[at].list);
		dev->slots[at].buffer = dev->memory + at * stride + PAGE_SIZE;
	}
	return 0;
}

void blk_memory_free(struct blk_device *dev)
{
	vfree(dev->memory);
	kvfree(dev->slots);
}
