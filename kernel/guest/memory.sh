#!/bin/sh
# memory-free [READINGS]: prints how many KiB of the guest's memory are free, at most, of so many readings: in the zones, and at hand of each processor
# (`pagesets`: after fio these are 20 to 50 MiB, and so much moves to and fro between the two while nothing else changes). Both come from one reading of one
# file: pages that move between two readings would count twice. What is freed after a grace period is seen by a later reading.
most=0
for reading in $(seq ${1:-1}); do
    [ $reading = 1 ] || sleep 0.2
    sync
    echo 3 > /proc/sys/vm/drop_caches
    free=$(awk '$1 == "pages" && $2 == "free" { pages += $3 } $1 == "count:" { pages += $2 } END { print pages * 4 }' /proc/zoneinfo)
    [ $free -gt $most ] && most=$free
done
echo $most
