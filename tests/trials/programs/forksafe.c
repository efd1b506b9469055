/*
 * forksafe
 *
 * Asks for endpoints of efa, and prints what libibverbs says of memory and child processes then: "fork status N", with the number of
 * ibv_is_fork_initialized(3), 0 if nothing keeps them apart.
 */
#include "efa.h"

int main(void)
{
	struct fi_info *hints = efa_hints("efa", FI_MSG), *info = NULL;
	void *verbs;
	int (*status)(void);

	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, hints, &info));
	verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	status = verbs ? (int (*)(void))(uintptr_t)dlsym(verbs, "ibv_is_fork_initialized") : NULL;
	if (!status)
		expect("ibv_is_fork_initialized", -FI_ENOSYS);
	printf("fork status %d\n", status());
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return 0;
}
