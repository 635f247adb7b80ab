# SPDX-License-Identifier: MIT
# fio: random direct reads of 4 KiB, one after the other. Every block has a checksum.

layout="--name=reads --filesize=256M --verify=crc32c --verify_interval=4k --thread
	--verify_state_save=0 --clocksource=clock_gettime --ioengine=psync"

make_data() # FOLDER
{
	fio $layout --directory="$1" --rw=write --bs=256k --do_verify=0 --output=/run/fio.txt ||
		{ cat /run/fio.txt && return 1; }
}

start_app() { :; }

run_app() # EPOCH_S SECONDS SEED
{
	wait_until "$1"
	fio $layout --directory=$files --rw=randread --bs=4k --direct=1 --verify_fatal=1 \
		--norandommap=1 --time_based --runtime="$2" --randseed="$3" \
		--write_lat_log="$LINNOS_OUT/fio" --log_avg_msec=0 --disable_slat=1 --disable_clat=1 \
		--output-format=json --output="$LINNOS_OUT/fio.json"
}

stop_app() { :; }
