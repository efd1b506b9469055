# What is run in a guest to hold messages over kofi_tcp against the same ping-pong over kernel sockets alone, in turns. Prints a line for each run: the
# message's size; by what; the nanoseconds that it took.
fails() { echo "compare: not ok - $1"; exit 1; }
ifconfig lo 127.0.0.1 up
mount -t debugfs debug /sys/kernel/debug
insmod /mod/kofi.ko && insmod /mod/kofi_tcp.ko || fails kofi_tcp
for round in $(seq ${ROUNDS:-2}); do
    for size in 1 4096 65536; do
        dmesg -c > /dev/null
        insmod /mod/kofi_sockets.ko rounds=2000 size=$size && rmmod kofi_sockets || fails kofi_sockets
        ns=$(dmesg | sed -n 's/.*kofi_sockets: rounds 2000 size [0-9]* ns //p')
        echo "compare: message $size sockets $ns"
        insmod /mod/kofi_pingpong.ko provider=kofi_tcp listen=127.0.0.1 connect=127.0.0.1 rounds=2000 size=$size || fails kofi_pingpong
        # A look at the result is counted, too, so that there is one only.
        sleep 3
        ns=$(sed -n 's/^connect 0 rounds 2000 of 2000 size [0-9]* ns //p' /sys/kernel/debug/kofi_pingpong)
        [ "$ns" ] || fails "kofi_pingpong with $size bytes has not ended"
        rmmod kofi_pingpong || fails kofi_pingpong
        echo "compare: message $size kofi_tcp $ns"
    done
done
rmmod kofi_tcp && rmmod kofi && echo "compare: done"
