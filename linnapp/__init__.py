# SPDX-License-Identifier: MIT
"""LinnApp: the user-space side of LinnOS.

Tracing, labelling, training, quantising and uploading of the models with which the kernel
predicts whether a drive would serve a read fast or slow.
"""

__version__ = "0.1.0"
