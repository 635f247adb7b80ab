# SPDX-License-Identifier: MIT
# WiredTiger, what MongoDB stores its collections with: values of one table by their key, through a
# client of our own (wiredtiger_client.c) that uses Debian's library.

client=/run/wiredtiger_client
values=/run/wiredtiger_values

# The header is compiled in, so it is compiled where it runs: that takes no virtual time.
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
