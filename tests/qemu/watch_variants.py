# SPDX-License-Identifier: MIT
"""In the guest: have the kernel load the programs of `linnapp watch` in every variant.

What is recorded is a constant to the verifier, which looks at other paths through the programs for
each. Prints how many variants were loaded; each that was not, with what the kernel said.
"""

from __future__ import annotations

import itertools
import sys

from linnapp.errors import DeviceError
from linnapp.insight.calls import Reader, Wanted

PATHS = ((), tuple(f"/run/mnt/{k}" for k in range(8)))
CALLS = ((), ("fsync",))
#: Names of processes, and of threads.
WHOSE = (((), ()), (("python3",), ()), ((), ("python3",)))


def main() -> int:
    """Status 1 if there is one that was not."""
    loaded, refused = 0, 0
    for paths, calls, (processes, threads), arguments, follows_all in itertools.product(
        PATHS, CALLS, WHOSE, (None, "raw", "detailed"), (False, True)
    ):
        wanted = Wanted(calls=calls, paths=paths, processes=processes, threads=threads)
        with Reader(rows=1) as reader:
            reader.choose(wanted)
            if arguments:
                reader.keep_arguments(arguments)
            if follows_all:
                reader.follow_all()
            try:
                reader.attach(1 << 16)
                loaded += 1
            except DeviceError as error:
                refused += 1
                print(wanted, arguments, follows_all, error, file=sys.stderr)
    print(loaded)
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main())
