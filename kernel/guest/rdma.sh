#!/bin/sh
# Makes rxe0 in a guest: RDMA over an Ethernet device without a wire, at 10.0.0.1.
for module in crc32_generic dummy udp_tunnel ip6_udp_tunnel ib_core ib_uverbs rdma_rxe configfs ib_cm iw_cm rdma_cm rdma_ucm; do
    insmod /mod/$module.ko || exit 1
done
ifconfig lo up
ifconfig dummy0 hw ether 02:00:00:00:00:01 mtu 4200
ifconfig dummy0 10.0.0.1 netmask 255.255.255.0 up
rdma link add rxe0 type rxe netdev dummy0 || exit 1
for wait in $(seq 100); do
    grep -q '0000:ffff:0a00:0001' /sys/class/infiniband/rxe0/ports/1/gids/* && exit 0
    sleep 0.1
done
exit 1
