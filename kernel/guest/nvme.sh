# What is run in a guest to hold /dev/kofi0 over kofi_verbs against NVMe over fabrics over the same software RDMA device and the same ram disk: fio
# with either of them in turns. Prints a line for each run: what is read or written, in which sizes, how many requests at a time; by whom; its
# requests in a second.
fails() { echo "compare: not ok - $1"; exit 1; }
mount -t tmpfs tmp /tmp
rdma-up || fails "a software RDMA device"
for module in crct10dif_common crct10dif_generic crc-t10dif crc64 crc64_rocksoft_generic crc64-rocksoft t10-pi nvme-core nvme-fabrics nvme-rdma nvmet nvmet-rdma; do
    insmod /mod/$module.ko $([ $module != nvme-core ] || echo multipath=N) || fails $module
done
# What both export: a disk in memory, or a file in memory with BACKING=/tmp/disk.
insmod /mod/brd.ko rd_nr=1 rd_size=65536 || fails brd
BACKING=${BACKING:-/dev/ram0}
# Filled: a disk in memory has its pages from the first write.
dd if=/dev/zero of=$BACKING bs=1M count=64 2> /dev/null

mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nvmet && mkdir subsystems/disk subsystems/disk/namespaces/1 ports/1 || fails "a target of NVMe"
echo 1 > subsystems/disk/attr_allow_any_host
echo $BACKING > subsystems/disk/namespaces/1/device_path
[ -b $BACKING ] || echo 1 > subsystems/disk/namespaces/1/buffered_io
echo 1 > subsystems/disk/namespaces/1/enable
for is in trtype=rdma adrfam=ipv4 traddr=10.0.0.1 trsvcid=4420; do echo ${is#*=} > ports/1/addr_${is%=*}; done
ln -s /sys/kernel/config/nvmet/subsystems/disk ports/1/subsystems/disk || fails "NVMe over the device"
cd /
host=nqn.2014-08.org.nvmexpress:uuid:4ddcdd5a-ff66-4d5e-b1ec-e1a7be2ed9b0
echo "transport=rdma,traddr=10.0.0.1,trsvcid=4420,nqn=disk,hostnqn=$host,queue_size=${QUEUE:-128}" > /dev/nvme-fabrics || fails "a connection of NVMe"
for wait in $(seq 100); do [ -b /dev/nvme0n1 ] && break; sleep 0.1; done

insmod /mod/kofi.ko && insmod /mod/kofi_verbs.ko && insmod /mod/kofi_target.ko provider=kofi_verbs node=10.0.0.1 file=$BACKING &&
    insmod /mod/kofi_blk.ko provider=kofi_verbs node=10.0.0.1 longest=131072 || fails "a disk of kofi"
for disk in nvme0n1 kofi0; do
    [ -b /dev/$disk ] || fails $disk
    echo none > /sys/block/$disk/queue/scheduler
    echo "compare: $disk has $(ls /sys/block/$disk/mq | wc -w) queues, requests of $(cat /sys/block/$disk/queue/max_sectors_kb) KiB"
done

# What is read through the cache of a block device is in it from the first read on, as long as the device is open.
cat $BACKING > /dev/null

# kind, size, requests at a time, how many
run() {
    for round in $(seq ${ROUNDS:-2}); do
        for disk in nvme0n1 kofi0; do
            # Nothing of the run before is left to be written.
            sync
            fio --name=run --filename=/dev/$disk --direct=1 --ioengine=libaio --rw=$1 --bs=$2 --iodepth=$3 --size=32m --io_size=$(($4 * ${2%k}))k \
                --randrepeat=1 --eta=never --output-format=terse --terse-version=3 --output=/tmp/fio 2> /dev/null || fails "fio $*"
            rate=$(awk -F ';' '{ print $8 + $49 }' /tmp/fio)
            echo "compare: $1 $2 depth $3 $disk $rate"
        done
    done
}
# With QUICK, a depth, only what is slowest; with LONG only long requests.
for depth in ${QUICK:-1 32}; do
    if [ -z "$LONG" ]; then
        run randread 4k $depth 4000
        run randwrite 4k $depth 4000
    fi
    if [ -z "$QUICK" ]; then
        for size in 128k 1024k; do
            run read $size $depth $((65536 / ${size%k}))
            run write $size $depth $((65536 / ${size%k}))
        done
    fi
done
umount /sys/kernel/config
rmmod kofi_blk && rmmod kofi_target && rmmod kofi_verbs && rmmod kofi && echo "compare: done"
