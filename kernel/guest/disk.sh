# What is run in a guest to try /dev/kofi0: initiator and target in one kernel, over the provider PROVIDER, the target at TARGET.
# With HEAVY also what takes minutes. Each check is a line `ok` or `not ok`.
said=0
say() {
    status=$?
    said=$((said + 1))
    if [ $status = 0 ]; then echo "guest: ok - $1"; else echo "guest: not ok - $1"; fi
}
refused() { ! "$@" 2> /dev/null; }
# Runs a command again until it succeeds, for a minute.
until_done() {
    for attempt in $(seq 300); do
        "$@" > /dev/null 2>&1 && return 0
        sleep 0.2
    done
    return 1
}
checks() { e2fsck -fn /dev/kofi0 > /dev/null 2>&1; }
forget() { sync; echo 3 > /proc/sys/vm/drop_caches; }
parameter() { echo "$2" > /sys/module/kofi_target/parameters/$1; }
target() { insmod /mod/kofi_target.ko provider=$PROVIDER node=$TARGET "$@"; }
disk() { insmod /mod/kofi_blk.ko provider=$PROVIDER node=$TARGET timeout=3000 backoff_max=500 "$@"; }
reads() { dd if=/dev/kofi0 of=/dev/null bs=4k count=1 iflag=direct; }
# Whether the log has a line, since the last time it was asked for one.
logged() { dmesg -c | grep -q "$1"; }

# Milliseconds since the guest was started.
now() { sed 's/^\([0-9]*\)\.\([0-9]*\) .*/\1\20/' /proc/uptime; }
# A loop that writes a file and one that reads the disk, until they meet an error; `failed` waits for both and tells how long that took.
load() {
    (while dd if=/from/random of=/mnt/load bs=64k conv=fsync 2> /dev/null; do :; done) &
    writes=$!
    (while dd if=/dev/kofi0 of=/dev/null bs=64k count=64 iflag=direct 2> /dev/null; do :; done) &
    reads=$!
    sleep 1
    since=$(now)
}
# A request fails a tenth of its time limit of 3 s and the end of the connection after it at the latest. The load may meet two such: one that is not
# answered, and one for which there is no connection.
failed() {
    wait $writes $reads
    took=$(($(now) - since))
    echo "load: its errors came after $took ms"
    [ $took -lt 8000 ]
}
# The disk is back: its file system is mended and has all that was written before.
mends() {
    umount /mnt
    until_done reads && { e2fsck -fy /dev/kofi0 > /dev/null 2>&1; [ $? -le 1 ]; } && mount /dev/kofi0 /mnt && diff -r /from /mnt/to
}

# For providers over IP.
ifconfig lo 127.0.0.1 up
mount -t tmpfs -o size=80m tmp /tmp
for module in crc16 crc32c_generic libcrc32c mbcache jbd2 ext4; do insmod /mod/$module.ko; done
# A task that waits for 10 s ends the guest.
echo 10 > /proc/sys/kernel/hung_task_timeout_secs
echo 2 > /proc/sys/kernel/hung_task_check_interval_secs
echo 1 > /proc/sys/kernel/hung_task_panic
mkdir -p /mnt /from
cp /mod/*.ko /bin/busybox /from
dd if=/dev/urandom of=/from/random bs=1M count=4 2> /dev/null
truncate -s 64M /tmp/disk

insmod /mod/kofi.ko
[ $PROVIDER != kofi_verbs ] || rdma-up
insmod /mod/$PROVIDER.ko
refused disk
say "a disk without a target is not loaded"
target file=/tmp/disk && disk && [ "$(cat /sys/block/kofi0/size)" = 131072 ]
say "a target exports a file, and the disk has its size"
refused target file=/tmp/disk
say "a target that is loaded is not loaded again"

dd if=/from/random of=/dev/kofi0 bs=64k seek=3 conv=fsync 2> /dev/null && forget &&
    dd if=/dev/kofi0 bs=64k skip=3 count=64 2> /dev/null | cmp - /from/random
say "what is written is read"
dd if=/tmp/disk bs=64k skip=3 count=64 2> /dev/null | cmp - /from/random
say "and is in the file"
blkdiscard -o 1048576 -l 1048576 /dev/kofi0 && forget &&
    dd if=/dev/kofi0 bs=1M skip=1 count=1 2> /dev/null | cmp -n 1048576 - /dev/zero
say "what is discarded reads as zeros"

mkfs.ext4 -q -F /dev/kofi0 && mount /dev/kofi0 /mnt
say "it takes a file system"
refused rmmod kofi_blk && refused rmmod $PROVIDER && refused rmmod kofi
say "neither its module nor those below are unloaded while it is mounted"
tar -C /from -cf /mnt/from.tar . && mkdir /mnt/to && tar -C /mnt/to -xf /mnt/from.tar && rm /mnt/from.tar && forget &&
    diff -r /from /mnt/to
say "an archive is unpacked, and the files are the same"
umount /mnt && checks
say "the file system is as it should be"

# The target goes, and comes before the time limit: requests wait.
mount /dev/kofi0 /mnt
dd if=/from/random of=/mnt/again bs=4k conv=fsync 2> /dev/null &
dmesg -c > /dev/null
parameter listening 0 && parameter listening 1 && wait $! && forget && cmp /from/random /mnt/again && logged "kofi_blk: the connection is lost"
say "a target that comes back in time is not missed"

# A target that has no memory for a connection says so, and the next attempt is soon.
dmesg -c > /dev/null
parameter fails 3 && parameter listening 0 && parameter listening 1 && until_done reads
[ "$(cat /sys/module/kofi_target/parameters/fails)" = 0 ] && [ "$(dmesg | grep -c 'kofi_blk: the target refuses, for reason 3')" = 3 ]
say "connections that a target has no memory for are refused"

# The target goes for longer, under load.
dmesg -c > /dev/null
load
parameter listening 0 && failed && refused reads
say "without a target requests fail, within the time limit"
umount /mnt; parameter listening 1 && until_done reads
say "and with one again they do not"
logged "kofi_blk: the connection is lost" && e2fsck -fy /dev/kofi0 > /dev/null 2>&1; [ $? -le 1 ]
say "the file system can be repaired"
mount /dev/kofi0 /mnt && diff -r /from /mnt/to
say "and mounted, with all that was written before"

# The target is killed under load, and started again.
load
rmmod kofi_target && failed && refused reads
say "the load of a target that is killed fails within the time limit"
target file=/tmp/disk && mends
say "when it is started again, the file system is mounted with all that was written before"

# The host of the target is gone: nothing arrives, and nothing says so.
if [ $PROVIDER = kofi_tcp ]; then
    load
    ifconfig lo down && failed && refused reads
    say "the load of a target whose network is gone fails within the time limit"
    ifconfig lo 127.0.0.1 up && mends
    say "when it is back, the file system is mounted with all that was written before"
fi
umount /mnt
say "and unmounted"

# The device's queue pair that registers memory is in error for a while.
if [ $PROVIDER = kofi_verbs ]; then
    dmesg -c > /dev/null
    echo 3 > /sys/module/kofi_verbs/parameters/fails && parameter listening 0 && parameter listening 1 && until_done reads &&
        logged "a registration fails"
    say "buffers are registered again after registrations have failed"
fi

# The target does not answer any more.
parameter mute 1 && refused reads && refused reads
say "a target that says nothing lets requests fail"
logged "is not answered in time"
say "because of the time limit"
parameter mute 0 && until_done reads
say "when it answers again, the disk works again"

# The target is unloaded, another one is there.
rmmod kofi_target && target memory=64 && refused reads && logged "(-116)"
say "another disk in its place is refused"
rmmod kofi_target && target file=/tmp/disk && until_done reads && checks
say "the same one is taken"
rmmod kofi_blk && rmmod kofi_target && target file=/tmp/disk read_only=1 block=4096 && disk depth=32 longest=65536 &&
    [ "$(cat /sys/block/kofi0/ro /sys/block/kofi0/queue/logical_block_size /sys/block/kofi0/queue/max_hw_sectors_kb | xargs)" = "1 4096 64" ]
say "a disk that is read-only and has large blocks says so"
refused dd if=/dev/zero of=/dev/kofi0 bs=4k count=1 && reads 2> /dev/null
say "and takes no writes"
rmmod kofi_blk && rmmod kofi_target
say "all is unloaded"

if [ "$HEAVY" ]; then
    tries() { fio --eta=never --direct=1 --ioengine=libaio --iodepth=32 --output=/tmp/fio "$@" 2> /dev/null; }
    target file=/tmp/disk && disk
    badblocks -w -s -b 4096 /dev/kofi0 2> /dev/null > /tmp/bad && ! [ -s /tmp/bad ]
    say "badblocks finds none"
    tries --name=verify --filename=/dev/kofi0 --rw=randwrite --bsrange=4k-128k \
        --size=48m --verify=crc32c --do_verify=1
    say "fio reads what it wrote, 32 requests at a time"
    tail -n 12 /tmp/fio
    tries --name=load --filename=/dev/kofi0 --rw=randrw --bs=16k --size=48m --time_based --runtime=60 &
    load=$!
    sleep 3
    parameter listening 0 && refused wait $load
    say "under fio requests fail without a target"
    dmesg -c > /dev/null
    (for kill in 1 2 3 4 5 6 7 8; do parameter listening 1; until_done reads; parameter listening 0; done; parameter listening 1) &
    until_done reads
    tries --name=verify --filename=/dev/kofi0 --rw=randwrite --bs=8k \
        --size=32m --verify=crc32c --do_verify=1
    say "what fio wrote while the target went and came is there"
    wait
    [ "$(dmesg | grep -c 'kofi_blk: the connection is lost')" -ge 8 ]
    say "and it did go"
    mkfs.ext4 -q -F /dev/kofi0 && mount /dev/kofi0 /mnt && (cd /mnt && tries --name=files --nrfiles=16 --size=24m --rw=randwrite --bs=4k \
        --direct=0 --ioengine=psync --verify=crc32c --do_verify=1 --fsync=64) && umount /mnt && checks
    say "and in files"
    rmmod kofi_blk && rmmod kofi_target
    say "all is unloaded after that"
fi

# Sockets that closed while the network was gone are not left to wait for ever.
sockets() { sed -n 's/^TCP: inuse \([0-9]*\) orphan \([0-9]*\) .*/\1+\2/p' /proc/net/sockstat; }
for wait in $(seq 300); do [ "$(sockets)" = 0+0 ] && break; sleep 0.2; done
grep TCP: /proc/net/sockstat
[ "$(sockets)" = 0+0 ]
say "no socket is left"
# Processors put off the release of what others allocated for packets: of up to 64 of these each, 4 MiB, until they handle packets again.
echo 0 > /proc/sys/net/core/skb_defer_max
for round in 1 2 3 4 5 6 7 8 9 10; do
    target memory=8 && disk && dd if=/from/random of=/dev/kofi0 bs=64k conv=fsync 2> /dev/null &&
        cmp -n 4194304 /from/random /dev/kofi0 && rmmod kofi_blk && rmmod kofi_target || break
    [ $round = 1 ] && before=$(memory-free 10)
done
[ $round = 10 ] && ! lsmod | grep -q 'kofi_blk\|kofi_target'
say "both are loaded, used and unloaded ten times"
# One forgotten buffer of a disk or a target has 8 MiB. What is freed after a grace period may take some seconds.
for wait in $(seq 50); do
    after=$(memory-free)
    [ $((before - after)) -lt 4096 ] && break
    sleep 0.2
done
echo "memory: $before KiB after one round, $after KiB after ten"
[ $((before - after)) -lt 4096 ]
say "and leave the memory as it was"
rmmod $PROVIDER && rmmod kofi
say "the provider is unloaded"
echo "guest: 1..$said"
