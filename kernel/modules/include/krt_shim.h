/* The kernel's side of the crates krt, kernel/sync and info. Each module includes it in one of its C files. */
#ifndef KRT_SHIM_H
#define KRT_SHIM_H

#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

void *krt_alloc(size_t size, size_t align, bool zero);
void krt_free(void *memory);
size_t krt_live(void);
void krt_print(int level, const char *text, size_t len);
void krt_panic(const char *text, size_t len);
void *krt_mutex_new(u32 level);
void krt_mutex_free(void *mutex);
void krt_mutex_lock(void *mutex);
void krt_mutex_unlock(void *mutex);
void *krt_signal_new(void);
void krt_signal_free(void *of);
u64 krt_signal_number(void *of);
void krt_signal_raise(void *of);
s64 krt_signal_wait(void *of, u64 number, s64 ms);
u64 krt_clock_ns(void);
void krt_pause(void);
void *krt_work_new(void (*run)(void *), void *of);
void krt_work_free(void *of);
void krt_work_queue(void *of);
void krt_work_queue_later(void *of);
void krt_work_hold(void *of);
bool krt_work_release(void *of);
bool krt_work_is_current(void *of);
bool krt_work_attend(void *of, void *signal);
bool krt_work_asked(void *of);
void krt_work_leave(void *of);
void krt_work_pass(void *of, void *to);
void krt_work_set_busy(void *of, bool is_busy);
void krt_work_cancel(void *of);

/* Allocations of this module that were not freed. */
static atomic_long_t krt_count = ATOMIC_LONG_INIT(0);

/*
 * Rust code runs in process context only, where memory may be waited for. Up to two pages the kernel finds some; what may be larger is
 * asked for by code that can do without. kmalloc aligns powers of two to themselves, and nothing else beyond ARCH_KMALLOC_MINALIGN;
 * kvmalloc returns whole pages. No disk is written to have memory: what waits for it may be on the way to that disk.
 */
void *krt_alloc(size_t size, size_t align, bool zero)
{
	gfp_t gfp = GFP_NOIO | __GFP_NOWARN | (zero ? __GFP_ZERO : 0);
	void *memory;

	might_sleep();
	if (align > PAGE_SIZE)
		return NULL;
	if (align > ARCH_KMALLOC_MINALIGN)
		size = roundup_pow_of_two(max(size, align));
	if (size <= 2 * PAGE_SIZE)
		memory = kmalloc(size, gfp | __GFP_NOFAIL);
	else
		memory = kvmalloc(size, gfp);
	if (memory)
		atomic_long_inc(&krt_count);
	return memory;
}

void krt_free(void *memory)
{
	atomic_long_dec(&krt_count);
	kvfree(memory);
}

size_t krt_live(void)
{
	return atomic_long_read(&krt_count);
}

void krt_print(int level, const char *text, size_t len)
{
	printk("%c%c" KBUILD_MODNAME ": %.*s\n", KERN_SOH_ASCII, '0' + level, (int)len, text);
}

void krt_panic(const char *text, size_t len)
{
	pr_emerg(KBUILD_MODNAME ": Rust panic: %.*s\n", (int)len, text);
	BUG();
}

/* One class for each level, so that lockdep knows which locks are taken inside others. */
static struct lock_class_key krt_classes[8];

void *krt_mutex_new(u32 level)
{
	struct mutex *mutex = krt_alloc(sizeof(*mutex), __alignof__(*mutex), true);

	if (mutex)
		__mutex_init(mutex, KBUILD_MODNAME, &krt_classes[level & 7]);
	return mutex;
}

void krt_mutex_free(void *mutex)
{
	mutex_destroy(mutex);
	krt_free(mutex);
}

void krt_mutex_lock(void *mutex)
{
	mutex_lock(mutex);
}

void krt_mutex_unlock(void *mutex)
{
	mutex_unlock(mutex);
}

/*
 * What is waited for that comes within this time is looked for again and again instead of sleeping, as long as the processor has nothing else to run. Other
 * threads are given way so many times: one of them may be what is waited for.
 */
#define KRT_LINGER_NS 50000
#define KRT_GIVE_WAY 1
#define KRT_SLEEPS 8

struct krt_signal {
	wait_queue_head_t threads;
	atomic64_t number;
	/* The last wait was so short that the next one begins without sleeping, but for the first few after one that had to sleep all the same. */
	bool is_soon;
	u8 sleeps;
	/* Wakes threads whose time is over. It stays set when a wait ends: the next one needs it no earlier, and to set and stop one for each takes longer. */
	struct timer_list limit;
};

static void krt_signal_limit(struct timer_list *timer)
{
	struct krt_signal *signal = from_timer(signal, timer, limit);

	wake_up_all(&signal->threads);
}

void *krt_signal_new(void)
{
	struct krt_signal *signal = krt_alloc(sizeof(*signal), __alignof__(*signal), true);

	if (signal) {
		init_waitqueue_head(&signal->threads);
		timer_setup(&signal->limit, krt_signal_limit, 0);
	}
	return signal;
}

void krt_signal_free(void *of)
{
	struct krt_signal *signal = of;

	del_timer_sync(&signal->limit);
	krt_free(of);
}

u64 krt_signal_number(void *of)
{
	struct krt_signal *signal = of;

	return atomic64_read_acquire(&signal->number);
}

void krt_signal_raise(void *of)
{
	struct krt_signal *signal = of;

	/* A full barrier, so that a thread which is not seen here sees the number. */
	atomic64_inc_return(&signal->number);
	if (waitqueue_active(&signal->threads))
		wake_up_all(&signal->threads);
}

/* Looks for a short time whether the signal is raised; returns whether it was. */
static bool krt_signal_linger(struct krt_signal *signal, u64 number)
{
	u64 until = local_clock() + KRT_LINGER_NS;
	int given = 0;

	while (krt_signal_number(signal) == number) {
		if (single_task_running() && !need_resched())
			cpu_relax();
		else if (given++ < KRT_GIVE_WAY)
			yield();
		else
			return false;
		if (signal_pending(current) || local_clock() >= until)
			return false;
	}
	return true;
}

/* Returns whether a time is over; otherwise the timer wakes the threads then, or earlier. */
static bool krt_signal_is_late(struct krt_signal *signal, unsigned long until)
{
	if (time_after_eq(jiffies, until))
		return true;
	timer_reduce(&signal->limit, until);
	return false;
}

/* As wait_event_interruptible, but a thread that is woken for what it waits for does not first prepare to wait again. Returns false after a signal of the process. */
static bool krt_signal_sleep_until(struct krt_signal *signal, u64 number, unsigned long until)
{
	bool is_well = true;
	DEFINE_WAIT(entry);

	do {
		prepare_to_wait(&signal->threads, &entry, TASK_INTERRUPTIBLE);
		if (krt_signal_number(signal) != number || krt_signal_is_late(signal, until))
			break;
		is_well = !signal_pending(current);
		if (is_well)
			schedule();
	} while (is_well && krt_signal_number(signal) == number);
	finish_wait(&signal->threads, &entry);
	return is_well;
}

static s64 krt_signal_sleep(struct krt_signal *signal, u64 number, s64 ms)
{
	unsigned long until;

	if (ms < 0)
		return wait_event_interruptible(signal->threads, krt_signal_number(signal) != number) ? -1 : 1;
	/* The tick that is under way is over too early. */
	until = jiffies + msecs_to_jiffies(min_t(s64, ms, INT_MAX)) + (ms > 0);
	if (!krt_signal_sleep_until(signal, number, until))
		return -1;
	if (krt_signal_number(signal) == number)
		return 0;
	return time_before(jiffies, until) ? max_t(s64, jiffies_to_msecs(until - jiffies), 1) : 1;
}

/* Returns -1 if a signal of the process interrupted it; otherwise the milliseconds that are left, or 0 when the time is over. */
s64 krt_signal_wait(void *of, u64 number, s64 ms)
{
	struct krt_signal *signal = of;
	u64 begin;
	s64 left;

	if (ms && READ_ONCE(signal->is_soon)) {
		u8 sleeps = READ_ONCE(signal->sleeps);

		if (!sleeps && krt_signal_linger(signal, number))
			return ms < 0 ? 1 : ms;
		WRITE_ONCE(signal->sleeps, sleeps ? sleeps - 1 : KRT_SLEEPS);
	}
	begin = local_clock();
	left = krt_signal_sleep(signal, number, ms);
	WRITE_ONCE(signal->is_soon, left && local_clock() - begin < KRT_LINGER_NS);
	return left;
}

u64 krt_clock_ns(void)
{
	return ktime_get_ns();
}

/* Sleeps whatever signals the process has. */
void krt_pause(void)
{
	usleep_range(1000, 2000);
}

struct krt_work {
	struct work_struct work;
	void (*run)(void *of);
	void *of;
	spinlock_t lock;
	/* Raised in place of queueing, by which a thread that waits does the work itself; or one does something after which it does the work; and whether it is to. */
	struct krt_signal *attendant;
	bool held;
	bool asked;
	/* Another work, which does this one when it runs, and is queued in place of this one unless it is busy. */
	struct krt_work *through;
	bool busy;
};

static struct workqueue_struct *krt_workers;

static inline int krt_start(void)
{
	krt_workers = alloc_workqueue(KBUILD_MODNAME, WQ_MEM_RECLAIM, 0);
	return krt_workers ? 0 : -ENOMEM;
}

static inline void krt_stop(void)
{
	destroy_workqueue(krt_workers);
}

static void krt_work_run(struct work_struct *work)
{
	struct krt_work *of = container_of(work, struct krt_work, work);

	of->run(of->of);
}

void *krt_work_new(void (*run)(void *), void *of)
{
	struct krt_work *work = krt_alloc(sizeof(*work), __alignof__(*work), true);

	if (work) {
		INIT_WORK(&work->work, krt_work_run);
		spin_lock_init(&work->lock);
		work->run = run;
		work->of = of;
	}
	return work;
}

void krt_work_cancel(void *of)
{
	struct krt_work *work = of;

	cancel_work_sync(&work->work);
}

void krt_work_free(void *of)
{
	krt_work_cancel(of);
	krt_free(of);
}

/* Also in interrupts. */
static void krt_work_ask(struct krt_work *work, bool is_later)
{
	bool attended, held, passed;
	unsigned long flags;

	spin_lock_irqsave(&work->lock, flags);
	attended = work->attendant;
	held = !attended && !is_later && READ_ONCE(work->held);
	passed = !attended && !held && !is_later && work->through && !READ_ONCE(work->through->busy);
	if (attended || held || passed)
		work->asked = true;
	if (attended)
		krt_signal_raise(work->attendant);
	if (passed)
		queue_work(krt_workers, &work->through->work);
	spin_unlock_irqrestore(&work->lock, flags);
	if (!attended && !held && !passed)
		queue_work(krt_workers, &work->work);
}

void krt_work_queue(void *of)
{
	krt_work_ask(of, false);
}

/* As krt_work_queue, but by a worker even while the work is held. */
void krt_work_queue_later(void *of)
{
	krt_work_ask(of, true);
}

/* By one thread at a time; what is asked for meanwhile krt_work_release tells. */
void krt_work_hold(void *of)
{
	struct krt_work *work = of;

	WRITE_ONCE(work->held, true);
}

/* Returns whether the work was asked for while it was held, and has no attendant that does it. */
bool krt_work_release(void *of)
{
	struct krt_work *work = of;
	unsigned long flags;
	bool asked;

	spin_lock_irqsave(&work->lock, flags);
	WRITE_ONCE(work->held, false);
	asked = work->asked && !work->attendant;
	if (asked)
		work->asked = false;
	spin_unlock_irqrestore(&work->lock, flags);
	return asked;
}

/* Returns false if it has an attendant. */
bool krt_work_attend(void *of, void *signal)
{
	struct krt_work *work = of;
	unsigned long flags;
	bool is_free;

	spin_lock_irqsave(&work->lock, flags);
	is_free = !work->attendant;
	if (is_free) {
		work->attendant = signal;
		/* What a worker has not begun is the attendant's. */
		if (work_pending(&work->work))
			work->asked |= cancel_work(&work->work);
	}
	spin_unlock_irqrestore(&work->lock, flags);
	return is_free;
}

/* Returns once whether the attendant was asked to do the work. */
bool krt_work_asked(void *of)
{
	struct krt_work *work = of;
	unsigned long flags;
	bool asked;

	spin_lock_irqsave(&work->lock, flags);
	asked = work->asked;
	work->asked = false;
	spin_unlock_irqrestore(&work->lock, flags);
	return asked;
}

void krt_work_leave(void *of)
{
	struct krt_work *work = of;
	unsigned long flags;
	bool asked;

	spin_lock_irqsave(&work->lock, flags);
	work->attendant = NULL;
	/* What holds the work does it. */
	asked = work->asked && !READ_ONCE(work->held);
	if (asked)
		work->asked = false;
	spin_unlock_irqrestore(&work->lock, flags);
	if (asked)
		queue_work(krt_workers, &work->work);
}

/* Has another work do this one, or none; that one is left alone when this returns. */
void krt_work_pass(void *of, void *to)
{
	struct krt_work *work = of;
	unsigned long flags;

	spin_lock_irqsave(&work->lock, flags);
	work->through = to;
	spin_unlock_irqrestore(&work->lock, flags);
}

/* While it is, works that pass through it are done by themselves. */
void krt_work_set_busy(void *of, bool is_busy)
{
	struct krt_work *work = of;

	WRITE_ONCE(work->busy, is_busy);
}

bool krt_work_is_current(void *of)
{
	struct krt_work *work = of;

	return current_work() == &work->work;
}

#endif
