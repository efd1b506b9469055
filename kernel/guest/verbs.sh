# What is run in a guest to try kofi_verbs.ko, over the kernel's software RDMA device. Each check is a line `ok` or `not ok`.
said=0
say() {
    status=$?
    said=$((said + 1))
    if [ $status = 0 ]; then echo "guest: ok - $1"; else echo "guest: not ok - $1"; fi
}
refused() { ! "$@" 2> /dev/null; }
# How many queue pairs, queues, domains, regions and connections of the kernel there are at the devices.
resources() { rdma resource show; }

insmod /mod/kofi.ko && rdma-up
say "a software RDMA device is made"
resources > /tmp/before
insmod /mod/kofi_verbs.ko
say "kofi_verbs is loaded"
dmesg -c > /tmp/log
insmod /mod/kofi_test.ko provider=kofi_verbs
say "kofi_test is loaded for kofi_verbs"
dmesg | sed 's/^\[[^]]*\] //' | grep '^kofi'
rmmod kofi_test
resources | cmp - /tmp/before
say "and leaves nothing at the device"
mount -t debugfs debug /sys/kernel/debug
played() {
    insmod /mod/kofi_pingpong.ko provider=kofi_verbs listen=10.0.0.1 connect=10.0.0.1 rounds=20 size=$1 || return 1
    for wait in $(seq 300); do
        [ "$(grep -c ' 0 rounds 20 of 20 ' /sys/kernel/debug/kofi_pingpong)" = 2 ] && break
        sleep 0.1
    done
    cat /sys/kernel/debug/kofi_pingpong
    rmmod kofi_pingpong && [ $wait != 300 ]
}
played 1 && played 4096 && played 100000
say "a message goes to and fro over a connection"
# With a program on the C library of Debian, over the verbs of user space; both ways, like `meets` over TCP.
peer() { timeout 60 kofi_verbs_peer $1 10.0.0.1 $2 $3 20 verbs; }
ended() {
    for wait in $(seq 300); do grep -q "^$1 0 rounds 20 of 20 " /sys/kernel/debug/kofi_pingpong && return 0; sleep 0.1; done
    cat /sys/kernel/debug/kofi_pingpong
    return 1
}
meets() {
    insmod /mod/kofi_pingpong.ko provider=kofi_verbs listen=10.0.0.1 rounds=20 size=$1 || return 1
    peer connect 47592 $1 && ended listen
    met=$?
    rmmod kofi_pingpong && [ $met = 0 ] || return 1
    peer listen 47593 $1 &
    for wait in $(seq 300); do rdma resource show cm_id | grep -q 'LISTEN.*:47593 ' && break; sleep 0.1; done
    insmod /mod/kofi_pingpong.ko provider=kofi_verbs connect=10.0.0.1 service=47593 rounds=20 size=$1 || return 1
    wait $! && ended connect
    met=$?
    rmmod kofi_pingpong && [ $met = 0 ]
}
meets 1 && meets 4096 && meets 100000
say "a program on the C library's verbs in user space connects, is connected to, and gets back what it sent"
insmod /mod/kofi_hold.ko && refused rmmod kofi_verbs
say "the provider is not unloaded while its fabric is open"
rmmod kofi_hold && rmmod kofi_verbs
say "and is when that is closed"
# As devices need it that know no addresses of the kernel.
insmod /mod/kofi_verbs.ko by_page=1 && insmod /mod/kofi_test.ko provider=kofi_verbs && rmmod kofi_test && rmmod kofi_verbs
say "all is kept as well where memory has a piece for each page"
for round in 1 2 3 4 5 6 7 8 9 10; do
    insmod /mod/kofi_verbs.ko && played 64 > /tmp/played && rmmod kofi_verbs || break
done
[ $round = 10 ] && rmmod kofi && ! lsmod | grep -q kofi
say "it is loaded, used and unloaded ten times"
resources | cmp - /tmp/before
say "and leaves the device as it was"
# The address of the device is that of an interface in another network namespace.
gids() { grep -q "0000:ffff:0a00:00$1" /sys/class/infiniband/rxe0/ports/1/gids/*; }
offered() { insmod /mod/kofi_hold.ko && rmmod kofi_hold; }
insmod /mod/macvlan.ko && insmod /mod/kofi.ko && insmod /mod/kofi_verbs.ko && ifconfig dummy0 0.0.0.0 &&
    ip link add link dummy0 name other type macvlan
unshare -n sleep 600 &
sleep 0.5
ip link set other netns $! && nsenter -t $! -n ifconfig other 10.0.0.9 up
for wait in $(seq 100); do gids 09 && ! gids 01 && break; sleep 0.1; done
[ $wait != 100 ] && refused offered && ifconfig dummy0 10.0.0.1 netmask 255.255.255.0 && sleep 1 && offered
say "an address of another network namespace is not offered, and one of the first one is"
kill $! && rmmod kofi_verbs && rmmod kofi
insmod /mod/kofi.ko && insmod /mod/kofi_verbs.ko && insmod /mod/kofi_pingpong.ko provider=kofi_verbs listen=10.0.0.1
rdma link delete rxe0 &
sleep 1
kill -0 $! && rmmod kofi_pingpong && wait $! && [ -z "$(rdma link show)" ] && rmmod kofi_verbs && rmmod kofi
say "a device that is to go waits until its domains are closed, and not longer"
echo "guest: 1..$said"
