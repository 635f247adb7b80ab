# SPDX-License-Identifier: MIT
# WiredTiger, MongoDB's storage engine: reads of values by their key, by our own client
# (wiredtiger_client.c) with Debian's library.

client=/run/wiredtiger_client
values=/run/wiredtiger_values

# Compile the client in the guest, where that takes no virtual time.
built()
{
	cc -O2 -Wall -Werror -o $client $here/wiredtiger_client.c -lwiredtiger -lpthread -lm
}

make_data() # FOLDER VALUES
{
	built
	$client make "$1/db" "$2"
}

start_app()
{
	built
}

run_app() # EPOCH_S VALUES RATE SECONDS SEED
{
	echo "$2" >$values
	wait_until "$1"
	$client read $files/db "$2" "$3" "$4" "$5" "$LINNOS_OUT/reads.csv"
}

stop_app()
{
	$client check $files/db "$(cat $values)"
}
