"""Hashes a buffer with SHA-256 for so many seconds and prints the bytes a second: the limit of one core."""
import hashlib
import sys
import time

if hashlib.sha256().__class__.__module__ != "_hashlib":
    sys.exit("error: this Python has no OpenSSL, whose SHA-256 uses what the processor has for it")
buffer = memoryview(bytearray(64 << 20))
buffer[::4096] = bytes(len(buffer[::4096]))     # touched, so that no page is made while the clock runs
hashed, start = 0, time.perf_counter()
while (elapsed := time.perf_counter() - start) < float(sys.argv[1]):
    hashlib.sha256(buffer)
    hashed += len(buffer)
print(hashed / elapsed)
