# SPDX-License-Identifier: MIT
"""The lab: run any command on the patched kernel, on this machine, in virtual time.

`uml` boots a guest and knows nothing of what runs in it; `array` brings up
the emulated drives; `cli` is `linnapp lab`.
"""
