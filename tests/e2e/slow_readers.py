"""What slow readers cost the others (FIELD_CASES SRV-2): one stream of thousands
of tokens is read at one message a second, another one not at all, and four
clients go on as before. Prints by how much the daemon's memory grew meanwhile,
and how fast the four were with and without the two.

  slow_readers.py PROGRAMS PROTO [--seconds 60]

On SmolLM2 where KVASIR_TEST_MODEL names its file, else on the made-up model.
"""
import argparse
import sys
import threading
import time

import harness
from harness import MODEL, PATIENCE, Daemon, tiny_model, wait_until
import grpc

harness.make_stubs("kvasir/v1/common.proto", "kvasir/v1/inference.proto",
                   "kvasir/v1/cache_admin.proto")
from kvasir.v1 import cache_admin_pb2, cache_admin_pb2_grpc  # noqa: E402
from kvasir.v1 import inference_pb2, inference_pb2_grpc  # noqa: E402

CLIENTS = 4
ANSWER_TOKENS = 128
LONG_TOKENS = 20000  # or what the context has room for
SAMPLE_SECONDS = 0.2
FEW_BLOCKS = 4
# A client's library that reads no further ahead than it must.
SHORT_SIGHT = [("grpc.use_local_subchannel_pool", 1),
               ("grpc.http2.bdp_probe", 0),
               ("grpc.http2.lookahead_bytes", 1 << 16)]


def ask(text, tokens, logprobs=None):
    request = inference_pb2.GenerateRequest(
        text=text, stream=True,
        sampling=inference_pb2.SamplingParams(temperature=0),
        stopping=inference_pb2.StoppingParams(max_tokens=tokens,
                                              ignore_eos=True),
        output=inference_pb2.OutputOptions(return_token_ids=True))
    if logprobs is not None:
        request.output.logprobs = logprobs
    return request


class Reader:
    """A stream that is read at leisure, or not at all."""

    def __init__(self, daemon, tokens, pause):
        self.channel = grpc.insecure_channel(daemon.address, SHORT_SIGHT)
        # Messages of some hundred bytes, so that they fill what lies on the way.
        self.call = inference_pb2_grpc.InferenceStub(self.channel).Generate(
            ask("A long story:", tokens, logprobs=5), timeout=None)
        self.pause, self.read, self.stop = pause, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.stop.is_set():
                if self.pause is None:
                    self.stop.wait()
                    return
                next(self.call)
                self.read += 1
                self.stop.wait(self.pause)
        except (grpc.RpcError, StopIteration):
            pass

    def drain(self):
        """Reads on, as fast as it goes; how the call ends."""
        self.stop.set()
        self.thread.join()
        try:
            for _ in self.call:
                self.read += 1
        except grpc.RpcError:
            pass
        return self.call.code(), self.call.details()

    def close(self):
        self.stop.set()
        self.call.cancel()
        self.thread.join()
        self.channel.close()


class Group:
    """The clients that read as they should."""

    def __init__(self, daemon):
        self.channels = [grpc.insecure_channel(
            daemon.address, [("grpc.use_local_subchannel_pool", 1)])
            for _ in range(CLIENTS)]
        self.stubs = [inference_pb2_grpc.InferenceStub(channel)
                      for channel in self.channels]
        self.answers = [self.one(i) for i in range(CLIENTS)]
        self.wrong = 0

    def one(self, i):
        return [id for message in self.stubs[i].Generate(
            ask(f"Chapter {i}. The old", ANSWER_TOKENS), timeout=PATIENCE)
            for id in message.delta.token_ids]

    def run(self, seconds, sample=lambda: None):
        """Tokens a second, of all together, in `seconds`."""
        begun = time.monotonic()
        counts = [0] * CLIENTS

        def client(i):
            while time.monotonic() < begun + seconds:
                for message in self.stubs[i].Generate(
                        ask(f"Chapter {i}. The old", ANSWER_TOKENS),
                        timeout=PATIENCE):
                    ids = message.delta.token_ids
                    at = counts[i] % ANSWER_TOKENS
                    if list(ids) != self.answers[i][at:at + len(ids)]:
                        self.wrong += 1
                    counts[i] += len(ids)

        threads = [threading.Thread(target=client, args=(i,))
                   for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            sample()
            time.sleep(SAMPLE_SECONDS)
        return sum(counts) / (time.monotonic() - begun)

    def close(self):
        for channel in self.channels:
            channel.close()


class Case:
    def __init__(self, model, context, *arguments):
        self.daemon = Daemon(model, f"--context-limit={context}", *arguments)
        self.tokens = min(LONG_TOKENS, context - 64)
        self.channel = grpc.insecure_channel(self.daemon.address)
        self.admin = cache_admin_pb2_grpc.CacheAdminStub(self.channel)
        self.group = Group(self.daemon)

    def stats(self):
        return self.admin.GetCacheStats(
            cache_admin_pb2.GetCacheStatsRequest()).stats

    def touch_all_blocks(self):
        """The cache's memory is the system's until it is used the first time,
        which is no growth that slow readers cause."""
        stub = self.group.stubs[0]
        for number in range(10 ** 6):
            if self.stats().tiers[0].free_blocks < FEW_BLOCKS:
                return
            request = ask("", 1)
            request.token_ids.ids.extend(
                20 + (number * 7919 + i * (number + 3)) % 200
                for i in range(1024))
            list(stub.Generate(request, timeout=PATIENCE))

    def run(self, seconds):
        daemon = self.daemon
        self.touch_all_blocks()
        self.group.run(seconds / 6)  # warm
        before = self.group.run(seconds / 3)
        resident = daemon.resident_kib()
        most = [resident]
        self.slow = Reader(daemon, self.tokens, 1)
        self.stalled = Reader(daemon, self.tokens, None)
        beside = self.group.run(
            seconds, lambda: most.append(daemon.resident_kib()))
        # By now they have filled what they may, and are set aside.
        paused = self.group.run(
            seconds / 3, lambda: most.append(daemon.resident_kib()))
        self.slow_read = self.slow.read
        self.slow.close()
        self.stalled.close()
        after = self.group.run(seconds / 3)
        self.alone = (before + after) / 2
        self.speeds = [before, beside, paused, after]
        self.growth_kib = max(most) - resident

    def idle(self):
        stats = self.stats()
        return (stats.running_count + stats.waiting_count == 0
                and stats.tiers[0].pinned_blocks == 0)

    def close(self):
        wait_until(self.idle, "idle")
        self.group.close()
        self.channel.close()
        return self.daemon.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs=2)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    case = (Case(MODEL, 8192, "--cache-blocks=700") if MODEL
            else Case(tiny_model(), 32768, "--cache-blocks=4200"))
    case.run(options.seconds)
    for name, speed in zip(("alone", "beside the slow two",
                            "once they are paused", "alone again"),
                           case.speeds):
        print(f"{name:24}{speed:10.1f} tokens/s"
              f"{100 * speed / case.alone:8.1f} % of alone")
    print(f"{'memory grew by':24}{case.growth_kib / 1024:10.1f} MiB")
    print(f"{'slow one has read':24}{case.slow_read:10} messages")
    print(f"{'wrong answers':24}{case.group.wrong:10}")
    return case.close() or case.group.wrong > 0


if __name__ == "__main__":
    sys.exit(main())
