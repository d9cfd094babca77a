"""200 streams at once that end as clients please: read to the end, cancelled,
over their deadline. What is finished is right, and nothing is left behind.

On the made-up model, and on SmolLM2 where KVASIR_TEST_MODEL names its file.
"""
import random
import threading
import time
import unittest
from collections import Counter

import harness
from harness import MODEL, PATIENCE, Daemon, tiny_model, wait_until
import grpc

harness.make_stubs("kvasir/v1/common.proto", "kvasir/v1/inference.proto",
                   "kvasir/v1/cache_admin.proto")
from kvasir.v1 import cache_admin_pb2, cache_admin_pb2_grpc  # noqa: E402
from kvasir.v1 import inference_pb2, inference_pb2_grpc  # noqa: E402

STREAMS = 200
CALLS_EACH = 3
CHANNELS = 8
SEED = 20

PROMPTS = ["The capital of France is", "Once upon a time there was a king",
           "def fibonacci(n):", "Water boils at", "In the year 1969, a crew",
           "The three primary colours are", "1, 2, 3, 4, 5,", "My recipe:"]


def ask(prompt, i, tokens):
    sampling = inference_pb2.SamplingParams(
        temperature=0 if i % 2 else 0.9, seed=i % 5)
    return inference_pb2.GenerateRequest(
        text=prompt, stream=True, sampling=sampling,
        stopping=inference_pb2.StoppingParams(max_tokens=tokens,
                                              ignore_eos=True),
        output=inference_pb2.OutputOptions(return_token_ids=True))


def ids_of(messages):
    return [id for message in messages for id in message.delta.token_ids]


class Load:
    """Clients of one daemon, and what became of their calls."""

    def __init__(self, daemon, tokens):
        self.tokens = tokens
        self.channels = [grpc.insecure_channel(
            daemon.address, [("grpc.use_local_subchannel_pool", 1)])
            for _ in range(CHANNELS)]
        self.stubs = [inference_pb2_grpc.InferenceStub(channel)
                      for channel in self.channels]
        self.lock = threading.Lock()
        self.outcomes, self.wrong = Counter(), []
        self.alone = {}

    def key(self, number):
        return number % len(PROMPTS), number % 10

    def request(self, number):
        prompt, i = self.key(number)
        return ask(PROMPTS[prompt], i, self.tokens)

    def compute_alone(self):
        for number in range(STREAMS * CALLS_EACH):
            if self.key(number) not in self.alone:
                self.alone[self.key(number)] = ids_of(self.stubs[0].Generate(
                    self.request(number), timeout=PATIENCE))

    def note(self, outcome, wrong=None):
        with self.lock:
            self.outcomes[outcome] += 1
            if wrong:
                self.wrong.append(wrong)

    def client(self, number, start):
        choose = random.Random(SEED * 1000 + number)
        stub = self.stubs[number % CHANNELS]
        start.wait()
        for call in range(CALLS_EACH):
            self.one_call(stub, number * CALLS_EACH + call, choose)

    def one_call(self, stub, number, choose):
        how = choose.choice(["read", "read", "cancel", "deadline", "leave"])
        timeout = choose.uniform(0.001, 3) if how == "deadline" else PATIENCE
        cancel_after = choose.randrange(self.tokens) if how == "cancel" else None
        if how == "leave":
            cancel_after = 0  # before anything has come
        want, ids = self.alone[self.key(number)], []
        try:
            stream = stub.Generate(self.request(number), timeout=timeout)
            if cancel_after == 0:
                stream.cancel()
            for message in stream:
                ids += message.delta.token_ids
                if cancel_after is not None and len(ids) >= cancel_after:
                    stream.cancel()
            self.note("OK", f"{number}: {ids}" if ids != want else None)
        except grpc.RpcError as error:
            expected = {"cancel": ["CANCELLED"], "leave": ["CANCELLED"],
                        "deadline": ["DEADLINE_EXCEEDED"], "read": []}[how]
            name = error.code().name
            # What came before is the beginning of what there is.
            right = name in expected and ids == want[:len(ids)]
            self.note(name, None if right else
                      f"{number} {how}: {name} {error.details()} {ids}")

    def run(self):
        start = threading.Barrier(STREAMS)
        threads = [threading.Thread(target=self.client, args=(i, start))
                   for i in range(STREAMS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self):
        for channel in self.channels:
            channel.close()


class ManyStreams(unittest.TestCase):
    def check(self, model, tokens, *arguments):
        daemon = Daemon(model, *arguments)
        load = Load(daemon, tokens)
        load.compute_alone()
        begun = time.monotonic()
        load.run()
        print(f"seed {SEED}, {time.monotonic() - begun:.1f} s:",
              dict(load.outcomes))
        admin = cache_admin_pb2_grpc.CacheAdminStub(load.channels[0])

        def tier():
            return admin.GetCacheStats(
                cache_admin_pb2.GetCacheStatsRequest()).stats

        self.assertEqual(load.wrong, [])
        self.assertEqual(sum(load.outcomes.values()), STREAMS * CALLS_EACH)
        self.assertGreater(load.outcomes["OK"], STREAMS // 2)
        self.assertGreater(load.outcomes["CANCELLED"], STREAMS // 4)
        wait_until(lambda: tier().running_count + tier().waiting_count == 0
                   and tier().tiers[0].pinned_blocks == 0, "idle")
        admin.FlushCache(cache_admin_pb2.FlushCacheRequest())
        self.assertEqual(tier().tiers[0].used_bytes, 0)
        load.close()
        self.assertEqual(daemon.stop(), 0)

    def test_made_up_model(self):
        # Less memory than the streams want at a time, so that some wait and
        # some lose theirs for a while.
        self.check(tiny_model(), 40, "--cache-blocks=300",
                   "--context-limit=2048")

    @unittest.skipUnless(MODEL, "KVASIR_TEST_MODEL is not set")
    def test_real_model(self):
        self.check(MODEL, 12, "--cache-blocks=600")


if __name__ == "__main__":
    unittest.main(argv=["load_test"], verbosity=2)
