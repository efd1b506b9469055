/* The queues of work of a connection. */
#include <linux/cpu.h>
#include <linux/interrupt.h>
#include <linux/sched/mm.h>
#include "verbs_parts.h"

/* How long a peer waits whose message finds no receive, as IB_QP_MIN_RNR_TIMER has it: 0.64 ms. */
#define KV_NOT_READY 12

static void kv_completed(struct ib_cq *cq, void *of)
{
	kv_wake(of);
}

/*
 * A message has come before the peer's last word on the connection; or the queue pair is in error, and what is outstanding ends, by
 * completions.
 */
static void kv_broken(struct ib_event *event, void *of)
{
	if (event->event == IB_EVENT_COMM_EST)
		kv_link_established(of);
	kv_wake(of);
}

int kv_queues_open(struct kv_link *of, struct kv_domain *domain, u32 depth, u32 pieces)
{
	struct ib_cq_init_attr attr = { .cqe = 2 * depth };
	struct ib_qp_init_attr init = {
		.event_handler = kv_broken,
		.qp_context = of,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = pieces, .max_recv_sge = pieces },
	};
	unsigned int saved;
	int status;

	if (of->cq)
		return -EISCONN;
	if (of->id->device != domain->device)
		return -EADDRNOTAVAIL;
	/* Before the connection is made; otherwise it is the longest time, 655 ms. */
	rdma_set_min_rnr_timer(of->id, KV_NOT_READY);
	saved = memalloc_noio_save();
	of->cq = ib_create_cq(domain->device, kv_completed, NULL, of, &attr);
	status = PTR_ERR_OR_ZERO(of->cq);
	if (status) {
		of->cq = NULL;
	} else {
		init.send_cq = of->cq;
		init.recv_cq = of->cq;
		status = rdma_create_qp(of->id, domain->pd, &init);
		if (status) {
			ib_destroy_cq(of->cq);
			of->cq = NULL;
		}
	}
	memalloc_noio_restore(saved);
	return status;
}

struct kv_pass {
	struct tasklet_struct tasklet;
	struct completion passed;
};

static void kv_passed(struct tasklet_struct *tasklet)
{
	struct kv_pass *pass = from_tasklet(pass, tasklet, tasklet);

	complete(&pass->passed);
}

static void kv_pass_begin(void *pass)
{
	tasklet_schedule(&((struct kv_pass *)pass)->tasklet);
}

/*
 * Waits until the tasklets that were scheduled on a processor have run, in their order. One that is running on another processor is put behind the later
 * ones, so that two passes are needed. Without a worker of another queue: the thread may be one that writes memory out, and is not to wait for one that there is no
 * memory for.
 */
static void kv_pass(int cpu)
{
	struct kv_pass pass;

	init_completion(&pass.passed);
	tasklet_setup(&pass.tasklet, kv_passed);
	/* No processor goes offline here (cpus_read_lock). The tasklets of one that did would have run elsewhere. */
	if (smp_call_function_single(cpu, kv_pass_begin, &pass, true))
		return;
	wait_for_completion(&pass.passed);
	tasklet_kill(&pass.tasklet);
}

/*
 * Waits until a software device has told of the completions that it has. That of Linux 6.1, rdma_rxe, frees a queue while the tasklet that
 * would tell of them is scheduled. The second time also those have run that went behind the others the first time.
 */
static void kv_settle(struct ib_device *device)
{
	int cpu, time;

	if (!ib_uses_virt_dma(device))
		return;
	cpus_read_lock();
	for (time = 0; time < 2; time++)
		for_each_online_cpu (cpu)
			kv_pass(cpu);
	cpus_read_unlock();
}

/* After this the device does not touch the memory of any work. */
void kv_queues_close(struct kv_link *of)
{
	unsigned int saved;

	if (!of->cq)
		return;
	saved = memalloc_noio_save();
	rdma_disconnect(of->id);
	rdma_destroy_qp(of->id);
	kv_settle(of->cq->device);
	ib_destroy_cq(of->cq);
	memalloc_noio_restore(saved);
	of->cq = NULL;
}

int kv_post(struct kv_link *of, const struct kv_work *work)
{
	static const enum ib_wr_opcode plain[] = { IB_WR_SEND, IB_WR_RDMA_WRITE, IB_WR_RDMA_READ };
	static const enum ib_wr_opcode with_data[] = { IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE_WITH_IMM, IB_WR_RDMA_READ };
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_id = work->id,
			.sg_list = (struct ib_sge *)work->list,
			.num_sge = work->count,
			.send_flags = (work->flags & KV_UNSIGNALED ? 0 : IB_SEND_SIGNALED) | (work->flags & KV_FENCE ? IB_SEND_FENCE : 0),
			.ex.imm_data = htonl(work->data),
		},
		.remote_addr = work->remote,
		.rkey = work->key,
	};

	BUILD_BUG_ON(sizeof(struct kv_piece) != sizeof(struct ib_sge));
	if (!of->cq)
		return -ENOTCONN;
	if (work->opcode >= ARRAY_SIZE(plain))
		return -EINVAL;
	wr.wr.opcode = work->flags & KV_WITH_DATA ? with_data[work->opcode] : plain[work->opcode];
	return ib_post_send(of->id->qp, &wr.wr, NULL);
}

int kv_post_receive(struct kv_link *of, u64 id, const struct kv_piece *list, u32 count)
{
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = (struct ib_sge *)list, .num_sge = count };

	if (!of->cq)
		return -ENOTCONN;
	return ib_post_recv(of->id->qp, &wr, NULL);
}

int kv_poll(struct kv_link *of, struct kv_done *to, int space)
{
	int count = of->cq ? ib_poll_cq(of->cq, min_t(int, space, ARRAY_SIZE(of->ended)), of->ended) : 0;
	int at;

	for (at = 0; at < count; at++) {
		const struct ib_wc *wc = of->ended + at;
		bool is_well = wc->status == IB_WC_SUCCESS;

		to[at] = (struct kv_done){ .id = wc->wr_id, .status = wc->status, .len = wc->byte_len };
		if (is_well && wc->opcode & IB_WC_RECV)
			to[at].flags = wc->opcode == IB_WC_RECV_RDMA_WITH_IMM ? KV_IS_WRITE : KV_IS_MESSAGE;
		if (is_well && wc->wc_flags & IB_WC_WITH_IMM) {
			to[at].flags |= KV_HAS_DATA;
			to[at].data = ntohl(wc->ex.imm_data);
		}
		if (is_well && wc->wc_flags & IB_WC_WITH_INVALIDATE)
			to[at].flags |= KV_HAS_TAKEN_KEY;
	}
	return count;
}

/* Has the next completion queue the owner's task; returns whether there may be one already. */
bool kv_arm(struct kv_link *of)
{
	return of->cq && ib_req_notify_cq(of->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0;
}
