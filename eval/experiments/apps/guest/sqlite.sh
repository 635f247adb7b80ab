# SPDX-License-Identifier: MIT
# SQLite: reads of rows by their key, by our own client (sqlite_client.py) with Debian's library.

client="python3 -I $here/sqlite_client.py"

make_data() # FOLDER ROWS
{
	$client make "$1/kv.db" "$2"
}

start_app() { :; }

run_app() # EPOCH_S ROWS RATE SECONDS SEED
{
	wait_until "$1"
	$client read $files/kv.db "$2" "$3" "$4" "$5" "$LINNOS_OUT/reads.csv"
}

stop_app()
{
	$client check $files/kv.db
}
