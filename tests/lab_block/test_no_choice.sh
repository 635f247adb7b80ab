# SPDX-License-Identifier: MIT
# Models without trees: they tell how long a read would take, and nobody chooses by it.
# No read is refused, drives and md are as without a model.
. "$TESTS/lib.sh"

null_disk nullb_f
null_disk nullb_g completion_nsec=2000000
for disk in nullb_f nullb_g; do
	use_model $disk mean enforce
	lcread -u -n 4 /dev/$disk >/dev/null
done
events=/sys/kernel/debug/tracing
echo 1 >$events/events/linnos/enable
# slow by refuse_us, and by 20 times later than the other
expect "hinted" "ok=8 busy=0 other=0" "$(lcread -n 8 /dev/nullb_g)"
grep -q 'out_slow=[0-9]* revoked=0 reason=no-choice features' $events/trace ||
	fail "decisions: $(cat $events/trace)"
grep 'reason=' $events/trace | grep -v 'reason=no-choice' && fail "another reason"
expect "counted" "8 8 0 0 0" "$(stat_of nullb_g latency_critical) $(stat_of nullb_g admitted) \
$(stat_of nullb_g revoked) $(stat_of nullb_g probes) $(stat_of nullb_g false_submits)"

# a program that asks stays at home, wherever that is
asked=$(python3 -B $TESTS/ask.py /dev/nullb_f /dev/nullb_g)
expect "asked" "0 1" "$(echo "$asked" | head -n 1)"
echo "$asked" | sed 1d | grep -qv '^latency 16 ' && fail "told: $asked"
[ "$(echo "$asked" | awk 'END { print $3 }')" -gt 1000 ] || fail "told: $asked"

# md reads from where it would anyway: with one reader, the first mirror
mdadm --create /dev/md126 --run --metadata=1.2 --assume-clean --level=1 \
	--raid-devices=2 /dev/nullb_g /dev/nullb_f >/dev/null 2>&1 || fail mdadm
for i in $(seq 100); do [ -b /dev/md126 ] && break; sleep 0.1; done
reads_of() { awk '{ print $1 }' "/sys/block/$1/stat"; }
shares() # of 40 reads from the array
{
	g=$(reads_of nullb_g)
	f=$(reads_of nullb_f)
	lcread -u -n 40 -o 8388608 -s 4096 /dev/md126 >/dev/null
	echo $(($(reads_of nullb_g) - g)) $(($(reads_of nullb_f) - f))
}
for disk in nullb_g nullb_f; do use_model $disk mean observe; done
shares >/dev/null # the first to open it has partitions looked for
own=$(shares)
echo unguarded >/sys/block/md126/md/linnos
shares >/dev/null
: >$events/trace
expect "md, no trees" "$own" "$(shares)"
grep -c 'linnos_expected: .*expected=unknown latency_us=[1-9]' $events/trace >$OUT/told
expect "md has asked its own choice" 40 "$(cat $OUT/told)"
for disk in nullb_g nullb_f; do use_model $disk last observe; done
shares >/dev/null
expect "md, trees" "0 40" "$(shares)"
echo 0 >$events/events/linnos/enable
mdadm --stop /dev/md126 >/dev/null 2>&1 || fail "mdadm --stop"
for disk in nullb_f nullb_g; do
	expect_idle $disk
	remove_null_disk $disk
done
clean_log
