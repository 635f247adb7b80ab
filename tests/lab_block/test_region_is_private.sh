# SPDX-License-Identifier: MIT
# Refusals of hinted reads do not reveal which blocks another user reads, whatever the
# model. md, and programs that may open the drive, can see that.

null_disk nullb_s
disk=nullb_s
mount_ext4 $disk
chmod 755 /run/mnt /run/mnt/fs
dd if=/dev/urandom of=/run/mnt/fs/secret bs=1M count=4 conv=fsync 2>/dev/null
chmod 600 /run/mnt/fs/secret
dd if=/dev/zero of=/run/mnt/fs/own bs=1M count=1 conv=fsync 2>/dev/null
# The model predicts slow where others read in the same 8 KiB of each 512 KiB.
use_model $disk region enforce

for block in 3 20 60; do
	"$LCREAD" -p -u -r -n 1000000 -o $((block * 8192)) /run/mnt/fs/secret >/dev/null &
	victim=$!
	sleep 0.05
	expect "block $block, what refusals tell another user" "" \
		"$(as_nobody python3 -B $TESTS/region_spy.py /run/mnt/fs/own)"
	expect "block $block, what a program that may read the drive is told" "1 of 64 regions" \
		"$(python3 -B $TESTS/ask.py regions /dev/$disk)"
	kill $victim
	wait $victim 2>/dev/null
done
umount /run/mnt/fs
expect_idle $disk
