"""Clients of another project, gRPC's own for Python, against a real daemon.

Needs KVASIR_TEST_MODEL (a GGUF) and the packages of requirements.txt; ctest runs
it with the folder of the programs and of the proto files as arguments.
"""
import os
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import harness
from harness import FOLDER, MODEL, PATIENCE, SKIPPED, Daemon
import grpc

if not MODEL:
    print("left out: needs KVASIR_TEST_MODEL")
    sys.exit(SKIPPED)
harness.make_stubs("kvasir/v1/common.proto", "kvasir/v1/inference.proto",
                   "kvasir/v1/cache_admin.proto")
from kvasir.v1 import cache_admin_pb2, cache_admin_pb2_grpc  # noqa: E402
from kvasir.v1 import common_pb2, inference_pb2, inference_pb2_grpc  # noqa: E402

CLIENTS = 64
TOKENS = 24
PROMPTS = ["The capital of France is", "Once upon a time there was a king who",
           "def fibonacci(n):", "Water boils at", "The three primary colours",
           "In the year 1969", "My favourite recipe needs", "1, 2, 3, 4,"]

def request(prompt, **stopping):
    stopping.setdefault("max_tokens", TOKENS)
    return inference_pb2.GenerateRequest(
        text=prompt, stream=True,
        sampling=inference_pb2.SamplingParams(temperature=0),
        stopping=inference_pb2.StoppingParams(**stopping),
        output=inference_pb2.OutputOptions(return_token_ids=True))


def generate(stub, prompt):
    """The ids and the joined text of one stream, and how it ended."""
    ids, text, finished = [], "", None
    for message in stub.Generate(request(prompt), timeout=PATIENCE):
        assert finished is None, "an event after the last one"
        if message.HasField("delta"):
            ids += message.delta.token_ids
            text += message.delta.text
        elif message.HasField("finished"):
            finished = message.finished
    return ids, text, finished


# Run with two arguments more, this file is a client that streams until killed.
def stream_for_ever(address):
    stub = inference_pb2_grpc.InferenceStub(grpc.insecure_channel(address))
    for _ in stub.Generate(request("Once", max_tokens=4000, ignore_eos=True)):
        print("token", flush=True)


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(f"smol={MODEL}")
        cls.channel = grpc.insecure_channel(cls.daemon.address)
        cls.stub = inference_pb2_grpc.InferenceStub(cls.channel)
        cls.admin = cache_admin_pb2_grpc.CacheAdminStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.daemon.stop()
        assert code == 0, f"exit code {code}"

    def stats(self):
        return self.admin.GetCacheStats(
            cache_admin_pb2.GetCacheStatsRequest()).stats

    def await_stats(self, holds):
        """Statistics are a copy that is a few milliseconds old."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if holds(stats := self.stats()):
                return
            time.sleep(0.005)
        self.fail(f"never came about: {stats}")

    def await_running(self):
        """Before an end is awaited, so that it is not one from before."""
        self.await_stats(lambda stats: stats.running_count == 1
                         and stats.tiers[0].pinned_blocks > 0)

    def await_idle(self):
        """Nothing runs and no block is held: memory came back (LEAK-1)."""
        self.await_stats(lambda stats: stats.running_count == 0
                         and stats.tiers[0].pinned_blocks == 0)

    def test_64_clients_at_once_get_what_each_gets_alone(self):
        alone = {prompt: generate(self.stub, prompt) for prompt in PROMPTS}
        self.admin.FlushCache(cache_admin_pb2.FlushCacheRequest())
        results, start = [None] * CLIENTS, threading.Barrier(CLIENTS)

        def client(i):
            # A channel of its own, as another process would have.
            options = [("grpc.use_local_subchannel_pool", 1)]
            with grpc.insecure_channel(self.daemon.address,
                                       options) as channel:
                stub = inference_pb2_grpc.InferenceStub(channel)
                start.wait()
                results[i] = generate(stub, PROMPTS[i % len(PROMPTS)])

        threads = [threading.Thread(target=client, args=(i,))
                   for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, result in enumerate(results):
            self.assertIsNotNone(result, f"client {i}")
            ids, text, finished = result
            prompt = PROMPTS[i % len(PROMPTS)]
            self.assertEqual(ids, alone[prompt][0], prompt)
            self.assertEqual(text, alone[prompt][1], prompt)
            self.assertEqual(finished.usage.completion_tokens, len(ids))
        self.await_idle()

    def test_text_is_what_its_ids_decode_to(self):
        for prompt in PROMPTS[:3]:
            ids, text, _ = generate(self.stub, prompt)
            decoded = self.stub.Detokenize(inference_pb2.DetokenizeRequest(
                token_ids=ids, skip_special_tokens=True))
            self.assertEqual(decoded.text, text)

    def test_killed_client_frees_its_blocks(self):
        for _ in range(5):
            client = subprocess.Popen(
                [sys.executable, *sys.argv[:3], "--stream",
                 self.daemon.address], stdout=subprocess.PIPE)
            client.stdout.readline()
            self.await_running()
            client.kill()
            client.wait()
            client.stdout.close()
            self.await_idle()

    def test_cancel_and_deadline_free_their_blocks(self):
        call = self.stub.Generate(
            request("Once", max_tokens=4000, ignore_eos=True))
        self.await_running()
        call.cancel()
        self.await_idle()
        with self.assertRaises(grpc.RpcError) as caught:
            for _ in self.stub.Generate(
                    request("Once", max_tokens=8000, ignore_eos=True),
                    timeout=0.5):
                pass
        self.assertEqual(caught.exception.code(),
                         grpc.StatusCode.DEADLINE_EXCEEDED)
        self.await_idle()

    def test_flush_leaves_no_used_block(self):
        generate(self.stub, PROMPTS[0])
        self.await_idle()
        self.admin.FlushCache(cache_admin_pb2.FlushCacheRequest())
        self.assertEqual(self.stats().tiers[0].used_bytes, 0)

    def test_bad_requests_name_the_field_and_harm_nobody(self):
        good = generate(self.stub, PROMPTS[0])
        far = 1 << 31
        bad = [
            (request(""), "prompt"),
            (inference_pb2.GenerateRequest(), "prompt"),
            (inference_pb2.GenerateRequest(
                token_ids=common_pb2.TokenIds(ids=[1, far])), "token_ids"),
            (inference_pb2.GenerateRequest(
                token_ids=common_pb2.TokenIds(ids=[5] * 9000)), "8192"),
            (request("x", max_tokens=-1), "max_tokens"),
        ]
        for message, named in bad:
            with self.assertRaises(grpc.RpcError) as caught:
                list(self.stub.Generate(message, timeout=PATIENCE))
            error = caught.exception
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT,
                             error.details())
            self.assertIn(named, error.details())
            self.assertNotIn("\n", error.details())
        self.assertEqual(generate(self.stub, PROMPTS[0])[:2], good[:2])

    def test_versions_change_over_and_back_under_a_stream(self):
        """Of the same weights twice: answers agree, cached blocks do not."""
        prompt = "A ship that left the harbour at dawn " * 8
        alone = generate(self.stub, prompt)
        before = self.admin.ListCacheVersions(
            cache_admin_pb2.ListCacheVersionsRequest()).versions
        self.assertEqual([v.state for v in before],
                         [cache_admin_pb2.CACHE_VERSION_STATE_ACTIVE])
        running = self.stub.Generate(request(prompt, max_tokens=300,
                                             ignore_eos=True))
        self.await_running()
        made = list(self.admin.CreateCacheVersion(
            cache_admin_pb2.CreateCacheVersionRequest(label="green"),
            timeout=PATIENCE))[-1]
        self.assertEqual(made.progress.phase, "done")
        self.assertEqual(made.version.version, before[0].version)
        self.admin.ActivateCacheVersion(
            cache_admin_pb2.ActivateCacheVersionRequest(version="green"))
        for cached in (False, True):
            ids, _, finished = generate(self.stub, prompt)
            self.assertEqual(ids, alone[0])
            self.assertEqual(finished.usage.cached_tokens > 0, cached)
        stream = [id for message in running
                  for id in message.delta.token_ids]
        self.assertEqual(len(stream), 300)
        # The one that minds its end token may have ended with it.
        shared = len(alone[0]) - 1
        self.assertEqual(stream[:shared], alone[0][:shared])
        back = self.admin.RollbackCacheVersion(
            cache_admin_pb2.RollbackCacheVersionRequest()).version
        self.assertEqual(back.label, before[0].label)
        ids, _, finished = generate(self.stub, prompt)
        self.assertEqual(ids, alone[0])
        self.assertGreater(finished.usage.cached_tokens, 0)
        self.admin.DeleteCacheVersion(
            cache_admin_pb2.DeleteCacheVersionRequest(version="green"))
        end = time.monotonic() + PATIENCE
        while (len(self.admin.ListCacheVersions(
                cache_admin_pb2.ListCacheVersionsRequest()).versions) > 1
               and time.monotonic() < end):
            time.sleep(0.01)
        self.assertEqual([v.label for v in self.admin.ListCacheVersions(
            cache_admin_pb2.ListCacheVersionsRequest()).versions],
                         [before[0].label])
        self.await_idle()

    def test_metrics_count_what_was_asked(self):
        def value(name):
            page = urllib.request.urlopen(
                f"http://{self.daemon.metrics}/metrics").read().decode()
            return sum(float(line.rsplit(" ", 1)[1])
                       for line in page.split("\n")
                       if line.split("{")[0].split(" ")[0] == name)

        # The page shows a copy that the engine publishes when it goes idle.
        self.await_idle()
        before = value("kvasir_generation_tokens_total")
        ids, _, finished = generate(self.stub, PROMPTS[3])
        wanted = before + finished.usage.completion_tokens
        end = time.monotonic() + PATIENCE
        while (value("kvasir_generation_tokens_total") != wanted
               and time.monotonic() < end):
            time.sleep(0.02)
        self.assertEqual(value("kvasir_generation_tokens_total"), wanted)
        self.assertEqual(value("kvasir_requests_running"), 0)


class SeveralModels(unittest.TestCase):
    def test_two_files_are_two_models_in_one_daemon(self):
        """Of equal weights: answers agree, cached blocks do not."""
        second = os.path.join(FOLDER, "second.gguf")
        os.symlink(os.path.abspath(MODEL), second)
        daemon = Daemon(f"smol={MODEL}", f"--model=other={second}")
        with grpc.insecure_channel(daemon.address) as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)
            models = stub.ListModels(inference_pb2.ListModelsRequest()).models
            self.assertEqual([m.name for m in models], ["smol", "other"])
            prompt = "A ship that left the harbour at dawn " * 4
            answers = []
            for model, cached in [("", False), ("other", False),
                                  ("smol", True), ("other", True)]:
                asked = request(prompt)
                asked.model, asked.stream = model, False
                finished = [m.finished for m in stub.Generate(
                    asked, timeout=PATIENCE) if m.HasField("finished")][0]
                self.assertEqual(finished.usage.cached_tokens > 0, cached)
                answers.append(finished.text)
            self.assertEqual(len(set(answers)), 1, answers)
            asked.model = "third"
            with self.assertRaises(grpc.RpcError) as caught:
                list(stub.Generate(asked, timeout=PATIENCE))
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.NOT_FOUND)
        self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    if "--stream" in sys.argv:
        stream_for_ever(sys.argv[-1])
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
