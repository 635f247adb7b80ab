# SPDX-License-Identifier: MIT
# A disk that cannot be an SSD has no policy by default, and refuses the hint. A disk
# behind a controller has one.

virtual=/sys/module/blk_linnos/parameters/virtual
echo N >$virtual
null_disk nullb_n
[ ! -e "$(linnos_dir nullb_n)" ] || fail "a null_blk disk has a policy unasked"
refuses "a disk without a policy" /dev/nullb_n
remove_null_disk nullb_n
scsi_disk 100000
[ -e "$(linnos_dir $disk)/mode" ] || fail "a SCSI drive has none"
no_scsi_disk
echo 1 >$host/removable
scsi_disk 100000
expect removable 1 "$(cat /sys/block/$disk/removable)"
[ ! -e "$(linnos_dir $disk)" ] || fail "a removable drive has a policy unasked"
no_scsi_disk

echo Y >$virtual
null_disk nullb_n
use_model nullb_n slow enforce
revokes 3 asked /dev/nullb_n
remove_null_disk nullb_n
