# SPDX-License-Identifier: MIT
"""Load every variant of the BPF programs of `linnapp watch` in the guest.

The options are constants to the verifier, so that it checks other paths through the programs for
each variant. Prints the number of loaded variants, and the kernel's message for each failure.
"""

from __future__ import annotations

import itertools
import sys

from linnapp.errors import DeviceError
from linnapp.insight.calls import Filters, Reader

PATHS = ((), tuple(f"/run/mnt/{k}" for k in range(8)))
CALLS = ((), ("fsync",))
#: Names of processes, and of threads.
WHOSE = (((), ()), (("python3",), ()), ((), ("python3",)))


def main() -> int:
    """Return 1 if any variant did not load."""
    loaded, refused = 0, 0
    for paths, calls, (processes, threads), arguments, follows_all in itertools.product(
        PATHS, CALLS, WHOSE, (None, "raw", "detailed"), (False, True)
    ):
        wanted = Filters(calls=calls, paths=paths, processes=processes, threads=threads)
        with Reader(rows=1) as reader:
            try:
                reader.attach(1 << 16, wanted, every=follows_all, arguments=arguments)
                loaded += 1
            except DeviceError as error:
                refused += 1
                print(wanted, arguments, follows_all, error, file=sys.stderr)
    print(loaded)
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main())
