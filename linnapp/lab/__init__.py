# SPDX-License-Identifier: MIT
"""The lab: run any command on the patched kernel, on this machine, in virtual time.

`uml` boots a guest and does not depend on the command that runs in it; `array` sets up
the emulated drives; `cli` is `linnapp lab`. `guests` records and replays workloads in guests,
`places` gives their files fixed paths there, and `work` runs the steps of an experiment.
"""
