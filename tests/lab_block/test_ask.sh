# SPDX-License-Identifier: MIT
# Programs query which of their drives should serve a read (BLKEXPECT): the answers are the
# kernel's own predictions, permissions are checked, invalid queries fail, and drives can be
# removed.

null_disk nullb_a completion_nsec=40000
null_disk nullb_b completion_nsec=100000
null_disk nullb_c completion_nsec=110000
for disk in nullb_a nullb_b nullb_c; do
	expect "$disk, without a policy that is on" "0
off 0 0" "$(python3 $TESTS/ask.py /dev/$disk)"
	echo 0 >/sys/block/$disk/linnos/probe_after_us
	echo 0 >/sys/block/$disk/linnos/probe_after_revokes
	echo observe >/sys/block/$disk/linnos/mode
	expect "$disk, without a model" "0
no model 0 0" "$(python3 $TESTS/ask.py /dev/$disk)"
	use_model $disk last observe
done
null_disk nullb_y
dmsetup create stack --table "0 65536 linear /dev/nullb_y 0" --noudevsync --noudevrules ||
	fail "dmsetup"
dmsetup mknodes stack || true
export STACK=/dev/$(dmsetup info -c --noheadings -o blkdevname stack)
python3 -B $TESTS/ask_many.py || fail "see above"
dmsetup remove --noudevsync stack

# a drive is removed while it is queried as the first and as a later one
for disk in nullb_a nullb_b nullb_c; do
	rmdir /sys/kernel/config/nullb/$disk
done
null_disk nullb_p
use_model nullb_p last observe
for round in $(seq 5); do
	null_disk nullb_r
	use_model nullb_r last observe
	# so that it is the later one whether or not a read is in flight there
	lcread -u /dev/nullb_r >/dev/null
	python3 -B $TESTS/ask.py removed nullb_p nullb_r &
	asking=$!
	sleep 0.005
	lcread -u -n 500 /dev/nullb_r >/dev/null 2>&1 &
	sleep 0.0$round
	remove_null_disk nullb_r
	wait $asking || fail "round $round"
done
expect_idle nullb_p
