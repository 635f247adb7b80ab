# SPDX-License-Identifier: MIT
# Only root can write the files and read models; all users can read the other files.

null_disk nullb_u
use_model nullb_u slow observe
dir=$(linnos_dir nullb_u)

for file in mode probe_after_us probe_after_revokes failover_us; do
	as_nobody sh -c "echo 1 > $dir/$file" 2>/dev/null && fail "another user wrote $file"
done
as_nobody sh -c "cat $MODELS/fast.linnos > $dir/model" 2>/dev/null &&
	fail "another user wrote a model"
as_nobody cat "$dir/model" >/dev/null 2>&1 && fail "another user read the model"
for file in mode model_id threshold_us probe_after_us probe_after_revokes \
	failover_us stats/reads stats/inference_ns; do
	as_nobody cat "$dir/$file" >/dev/null || fail "another user cannot read $file"
done
for file in model_id threshold_us stats/reads; do
	(echo 1 >"$dir/$file") 2>/dev/null && fail "root wrote $file"
done
expect mode observe "$(cat $dir/mode)"
cmp $dir/model "$MODELS/slow.linnos" || fail "the model changed"

# invalid contents are refused
for value in on ENFORCE "" 1; do
	(echo "$value" >"$dir/mode") 2>/dev/null && fail "mode '$value' was taken"
done
for value in -1 4294967296 x; do
	(echo "$value" >"$dir/probe_after_us") 2>/dev/null &&
		fail "probe_after_us '$value' was taken"
done
for value in -1 1000001 x; do
	(echo "$value" >"$dir/failover_us") 2>/dev/null &&
		fail "failover_us '$value' was taken"
done
expect failover_us 15 "$(cat $dir/failover_us)"
echo 1000000 >$dir/failover_us || fail "failover_us of a second"
expect mode observe "$(cat $dir/mode)"
