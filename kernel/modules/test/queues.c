/* Waiting for completions, and being called for them. */
#include "kofi_test.h"

struct kt_sleeper {
	struct fid_cq *cq;
	struct completion begun, ended;
	ssize_t result;
	void *context;
	int timeout;
};

static int kt_sleep(void *of)
{
	struct kt_sleeper *sleeper = of;
	struct fi_cq_tagged_entry entry = {};

	allow_signal(SIGKILL);
	complete(&sleeper->begun);
	sleeper->result = fi_cq_sread(sleeper->cq, &entry, 1, NULL, sleeper->timeout);
	sleeper->context = entry.op_context;
	complete(&sleeper->ended);
	/* Until it is stopped, so that its number stays its own. */
	while (!kthread_should_stop())
		msleep(1);
	return 0;
}

static struct task_struct *kt_begin(struct kt_sleeper *sleeper, struct fid_cq *cq, int timeout)
{
	struct task_struct *thread;

	memset(sleeper, 0, sizeof(*sleeper));
	sleeper->cq = cq;
	sleeper->timeout = timeout;
	init_completion(&sleeper->begun);
	init_completion(&sleeper->ended);
	thread = kthread_run(kt_sleep, sleeper, "kofi_sleeper");
	if (!IS_ERR(thread))
		wait_for_completion(&sleeper->begun);
	return thread;
}

static bool kt_end(struct kt_sleeper *sleeper, struct task_struct *thread)
{
	bool ok = wait_for_completion_timeout(&sleeper->ended, msecs_to_jiffies(KT_LONG));

	kthread_stop(thread);
	return ok;
}

struct kt_called {
	struct completion all;
	int count, wanted, calls;
	/* Closing the queue that calls. */
	int close;
	bool may_sleep;
};

static void kt_call(struct fid_cq *cq, void *arg)
{
	struct fi_cq_tagged_entry entry;
	struct kt_called *called = arg;

	called->calls++;
	called->may_sleep = !in_atomic() && !irqs_disabled();
	called->close = fi_close(&cq->fid);
	while (fi_cq_read(cq, &entry, 1) == 1)
		if (++called->count == called->wanted)
			complete(&called->all);
}

static void kt_callback(struct kt_pair *pair)
{
	struct kt_called called = { .wanted = 20 };
	bool ok = true;
	int at;

	init_completion(&called.all);
	KT(kofi_cq_set_callback(pair->cq[1], kt_call, &called) == 0, "a queue gets a callback");
	for (at = 0; at < called.wanted; at++)
		ok = ok && fi_recv(pair->ep[1], pair->to, 8, NULL, FI_ADDR_UNSPEC, NULL) == 0 &&
		     fi_send(pair->ep[0], pair->from, 8, NULL, pair->addr[1], NULL) == 0;
	KT(ok && wait_for_completion_timeout(&called.all, msecs_to_jiffies(KT_LONG)), "it is called until all completions were read");
	KT(called.calls >= 1 && called.calls <= called.wanted && called.may_sleep, "in a context that may sleep");
	KT(called.close == -FI_EBUSY, "in which its queue is not closed");
	KT(kofi_cq_set_callback(pair->cq[1], NULL, NULL) == 0, "a callback is ended");
	/* Nothing may use it any more. */
	memset(&called, 0xff, sizeof(called));
	called.wanted = 20;
	for (at = 0; at < called.wanted; at++)
		ok = ok && kt_done(pair->cq[0], NULL, NULL);
	KT(ok && fi_recv(pair->ep[1], pair->to, 8, NULL, FI_ADDR_UNSPEC, NULL) == 0 &&
		   fi_send(pair->ep[0], pair->from, 8, NULL, pair->addr[1], NULL) == 0 && kt_done(pair->cq[1], NULL, NULL) &&
		   kt_done(pair->cq[0], NULL, NULL),
	   "then the queue is read as before");
}

static void kt_formats(struct kt_pair *pair)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE, .size = 4 };
	struct fi_cq_entry entries[3];
	struct fid_cq *cq = NULL;
	struct fid_ep *ep = NULL;
	char text[8];
	int at, sent = 0;

	KT(fi_cq_open(pair->domain, &attr, &cq, NULL) == 0, "a queue of four contexts is opened");
	if (!cq || fi_endpoint(pair->domain, pair->info, &ep, NULL))
		return;
	KT(fi_cq_sread(cq, entries, 1, NULL, 0) == -FI_EINVAL, "without a wait object there is no waiting");
	fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV);
	fi_ep_bind(ep, &pair->av->fid, 0);
	fi_enable(ep);
	/* The first one may wait for a connection. */
	fi_send(ep, pair->from, 8, NULL, pair->addr[1], NULL);
	for (at = 0; at < KT_LONG && fi_cq_read(cq, entries, 1) != 1; at++)
		msleep(1);
	for (at = 0; at < 10; at++)
		if (fi_send(ep, pair->from, 8, NULL, pair->addr[1], (void *)(long)(at + 1)) == 0)
			sent++;
	KT(sent == 4, "a post that has no place for its completion is refused, to be tried again");
	KT(fi_cq_read(cq, entries, 3) == 3 && entries[0].op_context == (void *)1 && entries[2].op_context == (void *)3,
	   "entries of the format FI_CQ_FORMAT_CONTEXT are read, several at once and in order");
	KT(fi_send(ep, pair->from, 8, NULL, pair->addr[1], NULL) == 0, "what was read makes room");
	KT(!strcmp(fi_cq_strerror(cq, FI_ETRUNC, NULL, text, sizeof(text)), "Truncation error") && strlen(text) == 7,
	   "fi_cq_strerror spells an error, as much as fits");
	fi_close(&ep->fid);
	KT(fi_close(&cq->fid) == 0, "a queue with entries is closed");
}

void kt_queues(void)
{
	struct fi_cq_tagged_entry entry;
	struct kt_sleeper sleeper;
	struct task_struct *thread;
	struct kt_pair pair;
	unsigned long until;

	KT(kt_open(&pair, FI_MSG) == 0, "endpoints are opened");
	KT(fi_cq_read(pair.cq[0], &entry, 1) == -FI_EAGAIN, "an empty queue says so");
	/* By the clock of the kernel's timers: in a guest it may lag behind the others, and catch up at once. */
	until = jiffies + msecs_to_jiffies(20);
	KT(fi_cq_sread(pair.cq[0], &entry, 1, NULL, 20) == -FI_EAGAIN && time_after_eq(jiffies, until),
	   "fi_cq_sread waits as long as it is told");
	KT(fi_cq_sread(pair.cq[0], &entry, 1, NULL, 0) == -FI_EAGAIN, "fi_cq_sread for no time does not wait");
	thread = kt_begin(&sleeper, pair.cq[1], -1);
	if (!IS_ERR(thread)) {
		bool ok = fi_recv(pair.ep[1], pair.to, 8, NULL, FI_ADDR_UNSPEC, &pair) == 0 &&
			  fi_send(pair.ep[0], pair.from, 8, NULL, pair.addr[1], NULL) == 0;

		KT(kt_end(&sleeper, thread) && ok && sleeper.result == 1 && sleeper.context == &pair,
		   "a message wakes the thread that waits for it");
		kt_done(pair.cq[0], NULL, NULL);
	}
	thread = kt_begin(&sleeper, pair.cq[1], -1);
	if (!IS_ERR(thread)) {
		KT(fi_cq_signal(pair.cq[1]) == 0 && kt_end(&sleeper, thread) && sleeper.result == -FI_EAGAIN,
		   "fi_cq_signal wakes it, too");
	}
	thread = kt_begin(&sleeper, pair.cq[1], -1);
	if (!IS_ERR(thread)) {
		send_sig(SIGKILL, thread, 1);
		KT(kt_end(&sleeper, thread) && sleeper.result == -FI_EINTR, "a signal of the process interrupts it");
	}
	kt_callback(&pair);
	kt_formats(&pair);
	KT(kt_close(&pair) == 0, "all is closed");
}
