"""Writes the files of this folder: `python3 record.py`, with numpy. The test `programs::files` reads them."""

import numpy as np

matrix = np.arange(6, dtype="<f8").reshape(2, 3) - 2.5
np.save("fortran.npy", np.asfortranarray(matrix))
np.save("big_endian.npy", np.arange(24).reshape(2, 3, 4).astype(">i4", order="F"))
np.save("half.npy", np.array([0.0, -0.0, 1.0, -2.5, 65504, 6e-8, np.inf, np.nan], dtype="<f2"))
np.save("bytes.npy", np.array([[-128, 127], [0, -1]], dtype=np.int8))
np.save("scalar.npy", np.float32(1.5))
np.save("empty.npy", np.zeros((0, 3), dtype=np.uint64))
np.save("complex.npy", np.array([1 + 2j]))
np.savez("stored.npz", w=matrix, n=np.int64(7), mask=np.array([True, False]))
np.savez_compressed("compressed.npz", zeros=np.zeros((10, 10)), ramp=np.arange(5, dtype=np.uint16))
