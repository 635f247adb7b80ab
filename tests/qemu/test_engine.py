# SPDX-License-Identifier: MIT
"""The KUnit suites on x86-64 with SMP: among them, the AVX2 engine agrees with the scalar one."""
