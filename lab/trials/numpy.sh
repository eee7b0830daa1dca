exec python3 - <<'PROGRAM'
import concurrent.futures
import hashlib
import multiprocessing

import numpy


def product(seed):
    numbers = numpy.random.default_rng(seed).integers(0, 1000, size=(120, 120))
    return int((numbers @ numbers.T).sum())


generator = numpy.random.default_rng(1)
numbers = generator.integers(0, 1 << 30, size=300_000)
print("sorted", hashlib.sha256(numpy.sort(numbers).tobytes()).hexdigest())
print("distinct", len(numpy.unique(numbers % 1000)))
grid = numpy.arange(40_000, dtype=numpy.int64).reshape(200, 200)
print("stacked", int(numpy.concatenate([grid[i::7].copy() for i in range(7)]).sum()))
print("words", hashlib.sha256(numpy.char.add("word", numbers[:5000].astype(str)).tobytes()).hexdigest())
print("solved", numpy.round(numpy.linalg.solve(numpy.eye(60) * 3 + 1, numpy.ones(60)), 9).sum())
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print("threads", list(pool.map(product, range(12))))
with multiprocessing.get_context("fork").Pool(3) as pool:
    print("forks", pool.map(product, range(6)))
PROGRAM
