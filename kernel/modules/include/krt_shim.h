/* The kernel's side of the crate krt. Each module includes it in one of its C files. */
#ifndef KRT_SHIM_H
#define KRT_SHIM_H

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

void *krt_alloc(size_t size, size_t align, bool zero);
void krt_free(void *memory);
void krt_print(int level, const char *text, size_t len);
void krt_panic(const char *text, size_t len);

/*
 * Rust code runs in process context only, where memory may be waited for. kmalloc aligns powers of two to themselves, and nothing else
 * beyond ARCH_KMALLOC_MINALIGN; kvmalloc returns whole pages.
 */
void *krt_alloc(size_t size, size_t align, bool zero)
{
	gfp_t gfp = GFP_KERNEL | __GFP_NOWARN | (zero ? __GFP_ZERO : 0);

	might_sleep();
	if (align > PAGE_SIZE)
		return NULL;
	if (align > ARCH_KMALLOC_MINALIGN)
		size = roundup_pow_of_two(max(size, align));
	return kvmalloc(size, gfp);
}

void krt_free(void *memory)
{
	kvfree(memory);
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

#endif
