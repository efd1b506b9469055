/* slice */
#include <kofi.h>
static int __init kofi_test_init(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric; struct fid_domain *domain; struct fid_ep *a, *b; struct fid_cq *cq; struct fid_av *av;
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_data_entry entry[4];
	fi_addr_t to; char name[64]; size_t len = sizeof(name); static char x[64] = "hello", y[64]; int r;
	hints->ep_attr->type = FI_EP_RDM; hints->caps = FI_MSG;
	r = fi_getinfo(KOFI_VERSION, NULL, 0, 0, hints, &info); pr_info("getinfo %d\n", r); if (r) return r;
	r = fi_fabric(info->fabric_attr, &fabric, NULL); pr_info("fabric %d\n", r);
	r = fi_domain(fabric, info, &domain, NULL); pr_info("domain %d\n", r);
	r = fi_cq_open(domain, &cq_attr, &cq, NULL); pr_info("cq %d\n", r);
	r = fi_av_open(domain, NULL, &av, NULL); pr_info("av %d\n", r);
	r = fi_endpoint(domain, info, &a, NULL); pr_info("ep %d\n", r);
	r = fi_endpoint(domain, info, &b, NULL); pr_info("ep %d\n", r);
	fi_ep_bind(a, &cq->fid, FI_SEND | FI_RECV); fi_ep_bind(a, &av->fid, 0); r = fi_enable(a); pr_info("enable %d\n", r);
	fi_ep_bind(b, &cq->fid, FI_SEND | FI_RECV); fi_ep_bind(b, &av->fid, 0); r = fi_enable(b); pr_info("enable %d\n", r);
	r = fi_getname(&b->fid, name, &len); pr_info("name %d %s\n", r, name);
	r = fi_av_insert(av, name, 1, &to, 0, NULL); pr_info("insert %d\n", r);
	r = fi_recv(b, y, sizeof(y), NULL, FI_ADDR_UNSPEC, y); pr_info("recv %d\n", r);
	r = fi_send(a, x, sizeof(x), NULL, to, x); pr_info("send %d\n", r);
	r = fi_cq_sread(cq, entry, 1, NULL, 5000); pr_info("sread %d %px\n", r, entry[0].op_context);
	r = fi_cq_sread(cq, entry, 1, NULL, 5000); pr_info("sread %d %s\n", r, y);
	pr_info("close %d\n", fi_close(&a->fid)); pr_info("close %d\n", fi_close(&b->fid)); pr_info("close %d\n", fi_close(&cq->fid));
	pr_info("close %d\n", fi_close(&av->fid)); pr_info("close %d\n", fi_close(&domain->fid)); pr_info("close %d\n", fi_close(&fabric->fid));
	fi_freeinfo(info); fi_freeinfo(hints);
	return 0;
}
static void __exit kofi_test_exit(void) {}
module_init(kofi_test_init); module_exit(kofi_test_exit); MODULE_LICENSE("Dual MIT/GPL");
