#!/bin/sh
# memory-free [READINGS]: prints how many KiB of the guest's memory are free, at most, of so many readings. MemFree leaves out the free pages that each
# processor keeps at hand (`pagesets` in /proc/zoneinfo): after fio these are 20 to 50 MiB, and so much moves to and fro between the two while nothing else
# changes. What is freed after a grace period is seen by a later reading.
most=0
for reading in $(seq ${1:-1}); do
    [ $reading = 1 ] || sleep 0.2
    sync
    echo 3 > /proc/sys/vm/drop_caches
    at_hand=$(awk '$1 == "count:" { pages += $2 } END { print pages * 4 }' /proc/zoneinfo)
    free=$(($(sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo) + at_hand))
    [ $free -gt $most ] && most=$free
done
echo $most
