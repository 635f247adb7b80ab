# SPDX-License-Identifier: MIT
# A read is decided before its cgroup is throttled or charged for it: a refused read has
# neither waited nor been charged, and an admitted one is not refused after it has waited.

null_disk nullb_c
disk=nullb_c
device=$(cat /sys/block/$disk/dev)
cgroup=/run/mnt/cgroup
mount_cgroups $cgroup
mkdir $cgroup/limited
echo "$device rbps=1048576" >$cgroup/limited/io.max || fail "no io.max"

# reads of a process in the cgroup
limited()
{
	sh -c "echo \$\$ >$cgroup/limited/cgroup.procs && exec \"$LCREAD\" -p \"\$@\"" limited "$@" ||
		fail "limited $*"
}
read_bytes() { sed -n "s/^$device .*rbytes=\([0-9]*\).*/\1/p" $cgroup/limited/io.stat; }

# as many bytes as its limit allows in ten seconds
use_model $disk slow enforce
before=$(uptime_ms)
expect "refused" "ok=0 busy=10 other=0" "$(limited -n 10 -s 1048576 /dev/$disk)"
waited=$(($(uptime_ms) - before))
[ $waited -lt 500 ] || fail "ten refused reads took $waited ms"
expect "charged to the cgroup" 0 "$(read_bytes | grep . || echo 0)"

# refused reads have also not used up the share of the next read
before=$(uptime_ms)
expect "unhinted" "ok=1 busy=0 other=0" "$(limited -u -s 65536 /dev/$disk)"
waited=$(($(uptime_ms) - before))
[ $waited -lt 500 ] || fail "the next read took $waited ms"
expect "charged to the cgroup" 65536 "$(read_bytes)"

# a trace shows the start and the end of a refused read
echo 1 >$trace/events/block/block_bio_queue/enable
echo 1 >$trace/events/block/block_bio_complete/enable
echo 1 >$trace/events/block/block_rq_issue/enable
lcread /dev/$disk >/dev/null
echo 0 >$trace/events/block/enable
expect "events of a refused read" "block_bio_queue block_bio_complete " \
	"$(grep -o 'block_[a-z_]*:' $trace/trace | tr ':\n' '  ' | tr -s ' ')"
grep -q 'block_bio_complete:.*\[-16\]' $trace/trace || fail "no EBUSY in the trace"

# an admitted read is charged like any other, and waiting does not change the decision
use_model $disk fast enforce
before=$(uptime_ms)
limited -n 2 -s 1048576 /dev/$disk >/run/tmp/waits &
sleep 0.3
expect "waiting for its cgroup" "0 pages, 0 reads" "$(in_flight $disk)"
use_model $disk slow enforce
wait
expect "waited" "ok=1 busy=1 other=0" "$(cat /run/tmp/waits)"
waited=$(($(uptime_ms) - before))
[ $waited -gt 500 ] || fail "an admitted read waited $waited ms only"
expect "charged to the cgroup" $((65536 + 1048576)) "$(read_bytes)"
expect_idle $disk

# a probe that waits while its disk is removed ends without a verdict and without a trace
echo 1 >/sys/block/$disk/linnos/probe_after_revokes
limited -n 2 -s 1048576 /dev/$disk >/run/tmp/waits 2>&1 &
sleep 0.3
remove_null_disk $disk
wait
umount $cgroup
# Before Linux 6.18 blk_throtl_exit() does not free the limits of a disk that is removed while it
# has some, because blkg_destroy_all() has already cleared the bit that says that there are limits.
no_leaks 512
