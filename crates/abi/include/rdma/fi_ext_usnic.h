/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_ext_usnic.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_EXT_USNIC_H
#define FI_EXT_USNIC_H

#include <net/if.h>
#include <rdma/fabric.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the usnic provider has beside the common interface: tables that fi_open_ops gives on its objects. The members of all
 * descriptions follow each other without gaps. Source: fi_usnic(7).
 */

/* Protocol of its reliable endpoints. */
#define FI_PROTO_RUDP (100U | (1UL << 31))

/* Names of the tables: of a fabric, and of an address vector. */
#define FI_USNIC_FABRIC_OPS_1 "fabric_ops 1"
#define FI_USNIC_AV_OPS_1 "av_ops 1"

/* Version of fi_usnic_info, and the room for the name of a device in it. */
#define FI_EXT_USNIC_INFO_VERSION 2
#define FI_EXT_USNIC_MAX_DEVNAME 16

/* Something that a device may be capable of, and whether it is. */
struct fi_usnic_cap {
    const char *uc_capability;
    int uc_present;
} __attribute__((packed));

/* An interface, as version 1 describes it. */
struct fi_usnic_info_v1 {
    uint32_t ui_link_speed;
    uint32_t ui_netmask_be;
    char ui_ifname[IF_NAMESIZE];
    uint32_t ui_num_vf;
    uint32_t ui_qp_per_vf;
    uint32_t ui_cq_per_vf;
} __attribute__((packed));

/* An interface, as version 2 describes it; it begins as version 1 does. */
struct fi_usnic_info_v2 {
    uint32_t ui_link_speed;
    uint32_t ui_netmask_be;
    char ui_ifname[IF_NAMESIZE];
    unsigned int ui_num_vf;
    unsigned int ui_qp_per_vf;
    unsigned int ui_cq_per_vf;
    char ui_devname[FI_EXT_USNIC_MAX_DEVNAME];
    uint8_t ui_mac_addr[6];
    uint8_t ui_pad0[2];
    uint32_t ui_ipaddr_be;
    uint32_t ui_prefixlen;
    uint32_t ui_mtu;
    uint8_t ui_link_up;
    uint8_t ui_pad1[3];
    uint32_t ui_vendor_id;
    uint32_t ui_vendor_part_id;
    uint32_t ui_device_id;
    char ui_firmware[64];
    unsigned int ui_intr_per_vf;
    unsigned int ui_max_cq;
    unsigned int ui_max_qp;
    unsigned int ui_max_cqe;
    unsigned int ui_max_send_credits;
    unsigned int ui_max_recv_credits;
    const char *ui_nicname;
    const char *ui_pid;
    struct fi_usnic_cap **ui_caps;
} __attribute__((packed));

/* An interface, in the version that the provider says. */
struct fi_usnic_info {
    uint32_t ui_version;
    uint8_t ui_pad0[4];
    union {
        struct fi_usnic_info_v1 v1;
        struct fi_usnic_info_v2 v2;
    } ui;
} __attribute__((packed));

/* The table FI_USNIC_FABRIC_OPS_1. */
struct fi_usnic_ops_fabric {
    size_t size;
    /* Describes the interface of a fabric, in that version. */
    int (*getinfo)(uint32_t version, struct fid_fabric *fabric, struct fi_usnic_info *info);
};

struct fid_av;

/* The table FI_USNIC_AV_OPS_1. */
struct fi_usnic_ops_av {
    size_t size;
    /* Tells how far away an address is: 0 on the same link, -1 if it cannot be reached. */
    int (*get_distance)(struct fid_av *av, void *addr, int *metric);
};

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_USNIC_H */
