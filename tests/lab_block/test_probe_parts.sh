# SPDX-License-Identifier: MIT
# A read that the device's limits split into requests of a smaller size class is probed as
# rarely as an unsplit one: at most one hinted read in fifty goes to a slow drive, and a
# fast drive whose model predicts slow serves them.

probing_disk()
{
	null_disk "$@"
	disk=$1
	cat "$MODELS/slow.linnos" >/sys/block/$disk/linnos/model || fail "$disk: model refused"
	echo enforce >/sys/block/$disk/linnos/mode
}

# admitted SKEW: print how many of 1000 hinted reads of 128 KiB are admitted, at each offset in turn
admitted()
{
	n=0
	for round in $(seq 4); do
		ran=$(lcread -n 250 -s 131072 -k $1 /dev/$disk)
		[ "${ran% other=0}" != "$ran" ] || fail "reads failed: $ran"
		ok=${ran%% *}
		n=$((n + ${ok#ok=}))
	done
	echo $n
}

# the drive is so slow that every read is late
probing_disk nullb_v virt_boundary=1 completion_nsec=2000000
before=$(requests $disk)
lcread -u -s 131072 -k 512 /dev/$disk >/dev/null
[ $(($(requests $disk) - before)) -gt 16 ] || fail "virt_boundary does not split the read"
for skew in 0 512; do
	n=$(admitted $skew)
	[ $n -ge 1 ] || fail "$skew bytes off: no probes, $n"
	[ $n -le 20 ] || fail "$skew bytes off: $n of 1000 reads went to a slow drive"
done
expect_idle $disk

# reads are in time: all are admitted except those before the first probe
probing_disk nullb_w virt_boundary=1
for skew in 0 512; do
	n=$(admitted $skew)
	[ $n -ge 850 ] || fail "$skew bytes off: a fast drive served $n of 1000 reads only"
done
expect_idle $disk

# a program that queries without reading is rarely asked to probe, and hinted reads still probe
probing_disk nullb_x completion_nsec=2000000
told=$(python3 -B $TESTS/ask.py probes 2000 /dev/$disk)
[ $told -ge 2 ] && [ $told -le 20 ] || fail "$told of 2000 queries were answered with a request to probe"
n=$(admitted 0)
[ $n -ge 1 ] && [ $n -le 20 ] || fail "after that $n of 1000 reads were admitted"
expect_idle $disk
