# SPDX-License-Identifier: MIT
# SQLite: rows of one table by their key, through a client of our own (sqlite_client.py) that uses
# Debian's library.

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
