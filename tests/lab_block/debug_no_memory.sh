# SPDX-License-Identifier: MIT
# Each allocation fails once: in hinted reads by every interface, on the disk, on files and
# on dm-crypt, in the upload of a model, and when a policy is switched on. The
# faults with which null_blk loses or returns a request occur once, too.

for kind in failslab fail_page_alloc; do
	dir=/sys/kernel/debug/$kind
	echo 0 >$dir/verbose || fail "no $kind"
	echo N >$dir/ignore-gfp-wait
	echo -1 >$dir/times
done

# sweep WHAT FILE READS INTERFACES [OPTION...]: the nth allocation fails in the nth read
sweep()
{
	what=$1 file=$2 reads=$3 interfaces=$4
	shift 4
	for interface in $interfaces; do
		output=$("$LCREAD" -p -N -n $reads -e $interface "$@" "$file") ||
			fail "$what, $interface: $output"
		failed=${output#*failed=}
		echo "$what, $interface:" $output
		# a revoked read may allocate nothing
		[ "$failed" -gt 0 ] || [ $model = slow ] ||
			fail "$what, $interface: no allocation failed"
		# otherwise there may be more allocations, which were not reached
		[ "$failed" -lt $reads ] || fail "$what, $interface: not all were reached"
		expect_idle $disk
	done
}

null_disk nullb_y size=512 submit_queues=1 poll_queues=1 max_sectors=64
disk=nullb_y
# fail-nth also counts these faults of null_blk, which must not print messages
for kind in timeout requeue; do
	echo 0 >/sys/kernel/config/nullb/$disk/${kind}_inject/verbose || fail "no $kind faults"
done
for model in fast slow; do
	use_model $disk $model enforce
	sweep "disk, $model" /dev/$disk 40 "preadv2 uring poll aio" -s 16384
	sweep "disk, split, $model" /dev/$disk 120 "preadv2 uring aio" -s 524288
done

for fs in ext4 xfs; do
	echo off >/sys/block/$disk/linnos/mode
	mkdir -p /run/mnt/fs
	case $fs in
	ext4)	mkfs.ext4 -q -F /dev/$disk ;;
	xfs)	mkfs.xfs -q -f /dev/$disk ;;
	esac || fail "mkfs.$fs"
	mount -t $fs /dev/$disk /run/mnt/fs || fail "mount $fs"
	dd if=/dev/zero of=/run/mnt/fs/file bs=1M count=8 conv=fsync 2>/dev/null
	for model in fast slow; do
		use_model $disk $model enforce
		sweep "$fs, $model" /run/mnt/fs/file 60 "preadv2 uring aio" -s 16384
	done
	umount /run/mnt/fs || fail "umount $fs"
done

dmsetup create crypt --noudevsync --table "0 65536 crypt aes-cbc-plain64 \
	00112233445566778899aabbccddeeff 0 /dev/$disk 0" || fail dmsetup
dmsetup mknodes
device=/dev/$(dmsetup info -c --noheadings -o blkdevname crypt)
for model in fast slow; do
	use_model $disk $model enforce
	sweep "dm-crypt, $model" $device 60 "preadv2 uring aio" -s 65536
done
dmsetup remove --noudevsync crypt

# an upload of a model: it is accepted, or refused and the old model stays active
dir=/sys/block/$disk/linnos
id_of() { od -An -tx4 -j16 -N4 "$MODELS/$1.linnos" | tr -d ' '; }
refused=0
n=1
while :; do
	cat "$MODELS/fast.linnos" >$dir/model || fail "model fast"
	output=$("$TOOLS/failnth" $n "$MODELS/slow.linnos" $dir/model) || fail failnth
	case $output in
	ok*)	expect "model, allocation $n" "$(id_of slow)" "$(cat $dir/model_id)" ;;
	ENOMEM*)
		refused=$((refused + 1))
		expect "model, allocation $n" "$(id_of fast)" "$(cat $dir/model_id)" ;;
	*)	fail "model, allocation $n: $output" ;;
	esac
	case $output in *struck) n=$((n + 1)) ;; *) break ;; esac
	[ $n -lt 300 ] || fail "a model takes more than 300 allocations"
done
echo "model: $((n - 1)) allocations, $refused refused it"
[ $refused -gt 0 ] || fail "no allocation failed"
remove_null_disk $disk

# a policy is switched on: it is on, or off as before
refused=0
n=1
echo enforce >/run/enforce
while :; do
	null_disk nullb_v
	dir=/sys/block/nullb_v/linnos
	cat "$MODELS/slow.linnos" >$dir/model
	output=$("$TOOLS/failnth" $n /run/enforce $dir/mode) || fail failnth
	case $output in
	ok*)	expect "mode, allocation $n" enforce "$(cat $dir/mode)"
		revokes 2 "mode, allocation $n, hinted" /dev/nullb_v
		# the policy works without its debugfs file
		[ ! -e /sys/kernel/debug/block/nullb_v/rqos/linnos/in_flight ] ||
			expect_idle nullb_v ;;
	*)	refused=$((refused + 1))
		expect "mode, allocation $n" off "$(cat $dir/mode)"
		admits 2 "mode, allocation $n, hinted" /dev/nullb_v ;;
	esac
	remove_null_disk nullb_v
	case $output in *struck) n=$((n + 1)) ;; *) break ;; esac
	[ $n -lt 300 ] || fail "a mode takes more than 300 allocations"
done
echo "mode: $((n - 1)) allocations, $refused refused it"
[ $refused -gt 0 ] || fail "no allocation failed"
no_leaks
