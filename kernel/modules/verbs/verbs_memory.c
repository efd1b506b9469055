/* Memory as devices see it: that of operations, and regions that peers reach. */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "verbs_parts.h"

static bool by_page;
module_param(by_page, bool, 0444);
MODULE_PARM_DESC(by_page, "map buffers of vmalloc page by page also where a device reads addresses of the kernel, for tests");

/* How many registrations devices did not end when they were asked to. */
static atomic_t kv_kept = ATOMIC_INIT(0);

static int kv_kept_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%d\n", atomic_read(&kv_kept));
}

static const struct kernel_param_ops kv_kept_ops = { .get = kv_kept_get };
module_param_cb(kept, &kv_kept_ops, NULL, 0444);
MODULE_PARM_DESC(kept, "how many registrations devices did not end when they were asked to; the log says each");

/* Returns the page that an address of the kernel is in, or null. */
static struct page *kv_page(const void *at)
{
	return virt_addr_valid(at) ? virt_to_page(at) : vmalloc_to_page(at);
}

/* Memory of peers: the device reaches it by a key of its own. */
struct kv_region {
	struct kv_domain *of;
	struct ib_mr *mr;
	struct sg_table table;
	int mapped;
};

/* A step of the domain's queue pair that is waited for. */
struct kv_step {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

static void kv_stepped(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kv_step *step = container_of(wc->wr_cqe, struct kv_step, cqe);

	step->status = wc->status;
	complete(&step->done);
}

/* Does one step. A queue pair that a failure left in error is made ready again before the next one: at once that may fail, too. */
static int kv_domain_step(struct kv_domain *of, struct ib_send_wr *work)
{
	struct kv_step step = { .cqe.done = kv_stepped };
	struct ib_qp_attr error = { .qp_state = IB_QPS_ERR };
	int status = 0;

	init_completion(&step.done);
	work->wr_cqe = &step.cqe;
	work->send_flags = IB_SEND_SIGNALED;
	mutex_lock(&of->lock);
	if (!of->is_ready)
		status = kv_domain_ready(of);
	if (!status && kv_fails > 0)
		ib_modify_qp(of->qp, &error, IB_QP_STATE);
	if (!status) {
		status = ib_post_send(of->qp, work, NULL);
		of->is_ready = !status;
	}
	if (!status) {
		wait_for_completion(&step.done);
		if (step.status) {
			pr_warn("kofi_verbs: a registration fails: %s\n", ib_wc_status_msg(step.status));
			status = -EIO;
			of->is_ready = false;
		}
	}
	mutex_unlock(&of->lock);
	return status;
}

static int kv_region_list(struct kv_region *region, u8 *base, size_t len)
{
	size_t pages = (offset_in_page(base) + len + PAGE_SIZE - 1) / PAGE_SIZE;
	struct scatterlist *at;
	struct page *page;
	int index, status;
	size_t part;

	if (!region->of->qp)
		return -EOPNOTSUPP;
	if (pages > region->of->device->attrs.max_fast_reg_page_list_len)
		return -EINVAL;
	status = sg_alloc_table(&region->table, pages, GFP_NOIO);
	if (status)
		return status;
	for_each_sg (region->table.sgl, at, pages, index) {
		page = kv_page(base);
		if (!page)
			return -EINVAL;
		part = min_t(size_t, len, PAGE_SIZE - offset_in_page(base));
		sg_set_page(at, page, part, offset_in_page(base));
		base += part;
		len -= part;
	}
	region->mapped = ib_dma_map_sg(region->of->device, region->table.sgl, pages, DMA_BIDIRECTIONAL);
	return region->mapped ? 0 : -ENOMEM;
}

static int kv_region_make(struct kv_region *region, void *base, size_t len, int access)
{
	struct ib_reg_wr work = { .wr.opcode = IB_WR_REG_MR };
	int status = kv_region_list(region, base, len);

	if (status)
		return status;
	region->mr = ib_alloc_mr(region->of->pd, IB_MR_TYPE_MEM_REG, region->table.orig_nents);
	if (IS_ERR(region->mr))
		return PTR_ERR(region->mr);
	if (ib_map_mr_sg(region->mr, region->table.sgl, region->mapped, NULL, PAGE_SIZE) != region->mapped)
		return -EINVAL;
	/* Peers name it by its address in the kernel, whatever addresses the device has for the pages. */
	region->mr->iova = (uintptr_t)base;
	ib_update_fast_reg_key(region->mr, ib_inc_rkey(region->mr->rkey));
	work.mr = region->mr;
	work.key = region->mr->rkey;
	work.access = access;
	return kv_domain_step(region->of, &work.wr);
}

static void kv_region_drop(struct kv_region *region)
{
	int status = IS_ERR_OR_NULL(region->mr) ? 0 : ib_dereg_mr(region->mr);

	/* Then the device may still reach the memory, which nothing here can change. */
	if (status) {
		atomic_inc(&kv_kept);
		pr_warn("kofi_verbs: a registration is not ended (%d)\n", status);
	}
	if (region->mapped)
		ib_dma_unmap_sg(region->of->device, region->table.sgl, region->table.orig_nents, DMA_BIDIRECTIONAL);
	sg_free_table(&region->table);
	kfree(region);
}

struct kv_region *kv_region_new(struct kv_domain *of, void *base, size_t len, bool is_read, bool is_written, u32 *key, int *status)
{
	int access = (is_read ? IB_ACCESS_REMOTE_READ : 0) | (is_written ? IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE : 0);
	struct kv_region *region = kzalloc(sizeof(*region), GFP_NOIO);
	unsigned int saved;

	*status = -ENOMEM;
	if (!region)
		return NULL;
	region->of = of;
	saved = memalloc_noio_save();
	*status = kv_region_make(region, base, len, access);
	if (*status)
		kv_region_drop(region);
	memalloc_noio_restore(saved);
	if (*status)
		return NULL;
	*key = region->mr->rkey;
	return region;
}

void kv_region_free(struct kv_region *region)
{
	struct ib_send_wr work = { .opcode = IB_WR_LOCAL_INV, .ex.invalidate_rkey = region->mr->rkey };
	unsigned int saved = memalloc_noio_save();

	/* Where that fails, ending the registration does it. */
	kv_domain_step(region->of, &work);
	kv_region_drop(region);
	memalloc_noio_restore(saved);
}

static enum dma_data_direction kv_direction(bool is_written)
{
	return is_written ? DMA_FROM_DEVICE : DMA_TO_DEVICE;
}

/* Maps memory for the device; returns how many pieces that are. */
int kv_map(struct kv_domain *of, void *base, size_t len, bool is_written, struct kv_piece *to, u32 space)
{
	bool is_whole = virt_addr_valid(base) ? virt_addr_valid((u8 *)base + len - 1) :
						ib_uses_virt_dma(of->device) && !by_page;
	u32 count = 0;
	u8 *at = base;

	while (len) {
		size_t part = is_whole ? len : min_t(size_t, len, PAGE_SIZE - offset_in_page(at));
		struct page *page = is_whole ? NULL : kv_page(at);

		if (count == space || (!is_whole && !page)) {
			kv_unmap(of, is_written, to, count);
			return count == space ? -EMSGSIZE : -EINVAL;
		}
		to[count].addr = is_whole ? ib_dma_map_single(of->device, at, part, kv_direction(is_written)) :
					    ib_dma_map_page(of->device, page, offset_in_page(at), part, kv_direction(is_written));
		if (ib_dma_mapping_error(of->device, to[count].addr)) {
			kv_unmap(of, is_written, to, count);
			return -ENOMEM;
		}
		to[count].len = part;
		to[count].key = of->pd->local_dma_lkey;
		count++;
		at += part;
		len -= part;
	}
	return count;
}

void kv_unmap(struct kv_domain *of, bool is_written, const struct kv_piece *list, u32 count)
{
	u32 at;

	/* Single and page are unmapped alike. */
	for (at = 0; at < count; at++)
		ib_dma_unmap_page(of->device, list[at].addr, list[at].len, kv_direction(is_written));
}
