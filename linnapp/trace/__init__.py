# SPDX-License-Identifier: MIT
"""I/Os: drives recorded, traces read and made; text formats are in :mod:`.formats`."""
