# SPDX-License-Identifier: MIT
# Reads of a SCSI drive (scsi_debug) fail. The driver first completes their good part, of no bytes,
# without an error. This must not count as a completion with a latency.

scsi_disk 100000
use_model $disk fast enforce
dir=$(linnos_dir $disk)

bad=$((582 * 4096)) # medium errors are at sectors 4660 to 4669
admits 4 "good" /dev/$disk
histogram=$(cat $dir/latency_us_histogram)
echo 2 >$host/opts
for size in 4096 16384; do
	expect "bad, $size bytes" "ok=0 busy=0 other=1" \
		"$(lcread -o $((bad / size * size)) -s $size /dev/$disk)"
done
expect "bad, latencies" "$histogram" "$(cat $dir/latency_us_histogram)"

# a command that is never answered, and a read that fails meanwhile
echo 1 >$host/every_nth
echo 4 >$host/opts
"$LCREAD" -p -u /dev/$disk >$OUT/unanswered &
unanswered=$!
until [ "$(in_flight $disk)" = "1 pages, 1 reads" ]; do sleep 0.01; done
echo 2 >$host/opts
echo 0 >$host/every_nth
expect "bad meanwhile" "ok=0 busy=0 other=1" "$(lcread -u -o $bad /dev/$disk)"
expect "bad meanwhile, latencies" "$histogram" "$(cat $dir/latency_us_histogram)"
expect "in flight" "1 pages, 1 reads" "$(in_flight $disk)"
echo 0 >$host/opts
wait $unanswered
expect_idle $disk
admits 4 "good again" /dev/$disk
no_scsi_disk
