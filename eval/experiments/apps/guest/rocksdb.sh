# SPDX-License-Identifier: MIT
# RocksDB: db_bench's readrandom with direct reads on one thread without a rate, repeated for a second
# each. RocksDB compares the checksum of each block that it reads.

make_data() # FOLDER KEYS
{
	db_bench --db="$1/db" --benchmarks=fillseq,compact,waitforcompaction --num="$2" \
		--value_size=1000 --compression_type=none --seed=1 >/run/rocksdb.txt 2>&1 ||
		{ cat /run/rocksdb.txt && return 1; }
}

start_app() { :; }

run_app() # EPOCH_S KEYS SECONDS SEED
{
	wait_until "$1"
	db_bench --db=$files/db --use_existing_db=1 --benchmarks="readrandom[X$3]" --num="$2" \
		--value_size=1000 --compression_type=none --use_direct_reads=1 --threads=1 \
		--duration=1 --histogram=1 --seed="$4" \
		>"$LINNOS_OUT/db_bench.txt" 2>"$LINNOS_OUT/db_bench.err"
}

stop_app()
{
	db_bench --db=$files/db --use_existing_db=1 --benchmarks=verifychecksum \
		>"$LINNOS_OUT/verify.txt" 2>&1 || { cat "$LINNOS_OUT/verify.txt" >&2 && return 1; }
}
