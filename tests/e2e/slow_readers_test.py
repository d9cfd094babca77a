"""Slow readers beside clients that read as they should, in short: the others'
answers are right, memory stays, and who does not read loses the call and the
blocks. How fast the others are slow_readers.py measures, by hand.
"""
import unittest

import harness
from harness import MODEL, tiny_model, wait_until
import grpc

from slow_readers import Case, Reader

SECONDS = 3
# What they may keep waiting is 1 MiB each, at both ends; the rest is slack for
# allocators, and a queue without a bound would hold tens of MiB.
MAX_GROWTH_KIB = 10 * 1024


class SlowReadersTest(unittest.TestCase):
    def check(self, model, context, *arguments):
        case = Case(model, context, *arguments)
        case.run(SECONDS)
        self.assertEqual(case.group.wrong, 0)
        self.assertLess(case.growth_kib, MAX_GROWTH_KIB)
        wait_until(case.idle, "what the slow ones held is free")
        self.assertEqual(case.close(), 0)

    def test_made_up_model(self):
        self.check(tiny_model(), 32768, "--cache-blocks=4200")

    @unittest.skipUnless(MODEL, "KVASIR_TEST_MODEL is not set")
    def test_real_model(self):
        self.check(MODEL, 8192, "--cache-blocks=700")

    def test_who_does_not_read_loses_the_call(self):
        case = Case(tiny_model(), 32768, "--cache-blocks=4200",
                    "--stream-queue=64", "--slow-reader-timeout=200ms")
        reader = Reader(case.daemon, case.tokens, None)
        wait_until(lambda: case.stats().running_count == 1, "it runs")
        wait_until(case.idle, "its blocks are free")
        code, details = reader.drain()
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("server.slow_reader_timeout", details)
        self.assertLess(reader.read, case.tokens)
        reader.close()
        self.assertEqual(case.close(), 0)


if __name__ == "__main__":
    unittest.main(argv=["slow_readers_test"], verbosity=2)
