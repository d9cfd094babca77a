"""A long mixed load: streams that are read, cancelled, cut off by deadlines, read
slowly or left; chats, several sequences, stops, log-probabilities; requests that
are wrong; flushes in between. At the end:

  - the daemon lives, and every finished answer is the one that the idle daemon
    gave before;
  - its memory has not grown by more than MAX_GROWTH_MIB since the warm-up;
  - nothing runs, and no block is used after a flush.

  soak.py PROGRAMS PROTO [--minutes 30] [--clients 24] [--seed 1]

On SmolLM2 where KVASIR_TEST_MODEL names its file, else on the made-up model.
"""
import argparse
import random
import sys
import threading
import time
from collections import Counter

import harness
from harness import MODEL, PATIENCE, Daemon, tiny_model, wait_until
import grpc

harness.make_stubs("kvasir/v1/common.proto", "kvasir/v1/inference.proto",
                   "kvasir/v1/cache_admin.proto")
from google.protobuf import text_format  # noqa: E402
from kvasir.v1 import cache_admin_pb2, cache_admin_pb2_grpc  # noqa: E402
from kvasir.v1 import inference_pb2, inference_pb2_grpc  # noqa: E402

# Allocators and gRPC keep some of what they once had. A leak of one small
# request in a thousand would pass this within half an hour.
MAX_GROWTH_MIB = 32
# The share of the time after which memory is to stay as it is.
WARM_UP_SHARE = 0.25
SAMPLE_SECONDS = 1
REPLY = 'sampling { %s } stopping { max_tokens: %d %s } output { %s }'

# What is asked, over and over. Text format, so that one line is one request.
PROMPTS = [
    'text: "The capital of France is"',
    'text: "Once upon a time there was a king who"',
    'text: "1, 2, 3, 4, 5, 6,"',
    'text: "%s"' % ("A ship left the harbour at dawn. " * 20),
    'token_ids { ids: [70, 71, 72, 100, 101, 102, 103, 90, 91, 92, 80, 81] }',
    'chat { messages { role: "user" content: "Name three colours." } }',
    'chat { messages { role: "system" content: "Be brief." }'
    ' messages { role: "user" content: "Was ist ein K\u00e4se? \U0001f600" } }',
]
SAMPLINGS = [
    'temperature: 0 seed: 1',
    'temperature: 0.8 seed: 3',
    'temperature: 1.2 top_k: 50 top_p: 0.9 min_p: 0.02 typical_p: 0.95 seed: 4',
    'temperature: 0 seed: 2 frequency_penalty: 0.7 presence_penalty: 0.2'
    ' repetition_penalty: 1.2 penalty_window: 64',
    'temperature: 1 seed: 5 n: 3',
    'temperature: 0.9 seed: 6 logit_bias { key: 100 value: 4 }'
    ' banned_token_ids: [2, 101]',
]
STOPPINGS = ['', 'ignore_eos: true', 'strings: ["e", ". "] min_tokens: 3',
             'strings: " the" include_stop: true', 'token_ids: [100, 101]']
OUTPUTS = ['return_token_ids: true', 'logprobs: 3 return_token_ids: true',
           'logprobs: 0 prompt_logprobs: 2 logprob_token_ids: [70, 71]',
           'stream_interval: 4 usage_every_chunk: true timings: true',
           'echo: true return_text: true progress: true']
SHAPES = 60  # distinct requests

# Bytes or requests that must be refused, with the codes that may do it.
BAD = [
    'text: ""', 'token_ids { ids: 4294967295 }', 'text: "x" adapter: "none"',
    'text: "x" sampling { temperature: nan }',
    'text: "x" sampling { top_p: 0 }', 'text: "x" stopping { max_tokens: 0 }',
    'text: "x" model: "no such model"', 'text: "x" request_id: "a b"',
    'text: "x" output { stream_interval: -1 }',
    'text: "x" stopping { strings: "" }',
    'text: "x" sampling { logit_bias { key: 4000000000 value: 1 } }',
    'chat { messages { role: "user" content: "x" } tools: "{" }',
    'text: "x" constraint { json_schema: "{}" }',
    'text: "x" max_time { seconds: -1 }',
]
REFUSALS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED,
            grpc.StatusCode.NOT_FOUND}
GENERATE = "/kvasir.v1.Inference/Generate"


def make_requests(choose):
    requests = []
    for i in range(SHAPES):
        request = text_format.Parse(
            PROMPTS[i % len(PROMPTS)] + REPLY % (
                SAMPLINGS[i % len(SAMPLINGS)], choose.choice([8, 24, 120]),
                STOPPINGS[i % len(STOPPINGS)], choose.choice(OUTPUTS)),
            inference_pb2.GenerateRequest())
        request.stream = (request.output.progress
                          or request.output.stream_interval > 0 or i % 4 != 0)
        requests.append(request)
    return requests


def logprobs_of(positions):
    def one(logprob):
        return logprob.token_id, logprob.logprob, logprob.rank
    return [(one(p.chosen) if p.HasField("chosen") else None,
             tuple(one(top) for top in p.top)) for p in positions]


class Answer:
    """What must be equal each time: all but times and what was cached."""

    def __init__(self):
        self.text, self.ids, self.logprobs = {}, {}, {}
        self.prompt_logprobs, self.ends = [], {}

    def add(self, message):
        part = {"delta": message.delta, "finished": message.finished}.get(
            message.WhichOneof("event"))
        if part is None:
            return
        i = part.index
        self.text[i] = self.text.get(i, "") + part.text
        self.ids[i] = self.ids.get(i, []) + list(part.token_ids)
        self.logprobs[i] = (self.logprobs.get(i, [])
                            + logprobs_of(part.logprobs))
        self.prompt_logprobs += logprobs_of(part.prompt_logprobs)
        if message.HasField("finished"):
            self.ends[i] = (part.reason, part.matched_token_id,
                            part.matched_text, part.seed)

    def begins(self, whole):
        """Whether this is a part of `whole`, as of a call that was cut off."""
        return all(whole.text.get(i, "").startswith(text)
                   for i, text in self.text.items())

    def __eq__(self, other):
        return vars(self) == vars(other)


class Soak:
    def __init__(self, options):
        self.options = options
        # Less than 24 clients want at a time, so that some wait and some lose
        # what they have for a while.
        self.daemon = Daemon(MODEL or tiny_model(), "--cache-blocks=64",
                             "--context-limit=1024")
        self.requests = make_requests(random.Random(options.seed))
        self.lock = threading.Lock()
        self.calls, self.faults = Counter(), []
        self.tokens, self.until = 0, 0
        self.channel = self.connect()
        self.stub = inference_pb2_grpc.InferenceStub(self.channel)
        self.admin = cache_admin_pb2_grpc.CacheAdminStub(self.channel)

    def connect(self):
        return grpc.insecure_channel(
            self.daemon.address, [("grpc.use_local_subchannel_pool", 1)])

    def read(self, stub, request, timeout=PATIENCE, pause=0, most=None):
        """The answer, as far as it came, and the code that it ended with."""
        answer, count = Answer(), 0
        stream = stub.Generate(request, timeout=timeout)
        try:
            for message in stream:
                answer.add(message)
                count += 1
                if most is not None and count > most:
                    stream.cancel()
                time.sleep(pause)
        except grpc.RpcError as error:
            return answer, error.code(), error.details()
        return answer, grpc.StatusCode.OK, ""

    def compute_references(self):
        self.references = []
        for request in self.requests:
            answer, code, details = self.read(self.stub, request)
            assert code == grpc.StatusCode.OK, f"{details}: {request}"
            self.references.append(answer)

    def note(self, kind, code, fault=None):
        with self.lock:
            self.calls[kind, code.name] += 1
            if fault:
                self.faults.append(f"{kind} {code.name}: {fault}")

    def generate(self, choose, stub):
        number = choose.randrange(len(self.requests))
        whole, request = self.references[number], self.requests[number]
        kind = choose.choices(["read", "cancel", "deadline", "slow"],
                              [60, 20, 12, 8])[0]
        how = {"read": {}, "cancel": {"most": choose.randrange(8)},
               "deadline": {"timeout": choose.uniform(0.001, 2)},
               "slow": {"pause": choose.uniform(0.02, 0.2)}}[kind]
        answer, code, details = self.read(stub, request, **how)
        cut = {"cancel": "CANCELLED", "deadline": "DEADLINE_EXCEEDED"}
        if code == grpc.StatusCode.OK:
            right = answer == whole
        else:
            right = code.name == cut.get(kind) and answer.begins(whole)
        with self.lock:
            self.tokens += sum(len(one) for one in answer.ids.values())
        self.note(kind, code, None if right else
                  f"request {number}: {details} {vars(answer)} for "
                  f"{vars(whole)}")

    def leave(self, choose, stub):
        """A client that goes without a word, with its connection."""
        channel = self.connect()
        stream = inference_pb2_grpc.InferenceStub(channel).Generate(
            choose.choice(self.requests))
        time.sleep(choose.uniform(0, 0.3))
        channel.close()
        del stream
        self.note("leave", grpc.StatusCode.CANCELLED)

    def wrong(self, choose, stub):
        if choose.random() < 0.5:
            wire = text_format.Parse(
                choose.choice(BAD),
                inference_pb2.GenerateRequest()).SerializeToString()
        else:
            # A length that nothing follows makes sure that it is no message.
            wire = choose.randbytes(choose.randrange(200)) + b"\x1a\x7f"
        call = self.channel.unary_stream(GENERATE, lambda wire: wire)
        try:
            for _ in call(wire, timeout=PATIENCE):
                pass
            self.note("wrong", grpc.StatusCode.OK, f"{wire!r} was served")
        except grpc.RpcError as error:
            right = error.code() in REFUSALS and error.details()
            self.note("wrong", error.code(),
                      None if right else f"{wire!r}: {error.details()}")

    def operate(self, choose, stub):
        if choose.random() < 0.2:
            self.admin.FlushCache(cache_admin_pb2.FlushCacheRequest())
        else:
            self.stats()
            stub.Tokenize(inference_pb2.TokenizeRequest(text="The old " * 50))
        self.note("operate", grpc.StatusCode.OK)

    def client(self, number):
        choose = random.Random(self.options.seed * 1000 + number)
        with self.connect() as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)
            while time.monotonic() < self.until and self.daemon.alive():
                act = choose.choices(
                    [self.generate, self.wrong, self.leave, self.operate],
                    [80, 12, 4, 4])[0]
                try:
                    act(choose, stub)
                except grpc.RpcError as error:
                    self.note(act.__name__, error.code(), error.details())

    def stats(self):
        return self.admin.GetCacheStats(
            cache_admin_pb2.GetCacheStatsRequest()).stats

    def run(self):
        seconds = self.options.minutes * 60
        begun = time.monotonic()
        self.until = begun + seconds
        threads = [threading.Thread(target=self.client, args=(i,))
                   for i in range(self.options.clients)]
        for thread in threads:
            thread.start()
        samples = []
        while any(thread.is_alive() for thread in threads):
            if self.daemon.alive():
                samples.append((time.monotonic() - begun,
                                self.daemon.resident_kib() / 1024))
            time.sleep(SAMPLE_SECONDS)
        warm_up = seconds * WARM_UP_SHARE
        self.warm = max(mib for at, mib in samples if at <= warm_up)
        self.most = max(mib for at, mib in samples if at > warm_up)
        self.seconds = time.monotonic() - begun

    def judge(self):
        """All that is wrong at the end."""
        faults = self.faults
        if not self.daemon.alive():
            return faults + [f"the daemon ended with "
                             f"{self.daemon.process.returncode}",
                             *self.daemon.lines()[-30:]]
        if self.most > self.warm + MAX_GROWTH_MIB:
            faults.append(f"memory grew from {self.warm:.1f} MiB to "
                          f"{self.most:.1f} MiB, by more than "
                          f"{MAX_GROWTH_MIB} MiB")
        wait_until(lambda: self.stats().running_count == 0
                   and self.stats().waiting_count == 0
                   and self.stats().tiers[0].pinned_blocks == 0, "idle")
        self.preemptions = self.stats().preemption_count
        self.admin.FlushCache(cache_admin_pb2.FlushCacheRequest())
        used = self.stats().tiers[0].used_bytes
        if used:
            faults.append(f"{used} bytes are used after a flush")
        self.channel.close()
        code = self.daemon.stop()
        if code:
            faults.append(f"the daemon ended with {code}")
        return faults

    def report(self):
        print(f"\n{self.options.clients} clients, {self.seconds:.0f} s, "
              f"seed {self.options.seed}, {len(self.requests)} distinct "
              f"requests, {'SmolLM2' if MODEL else 'the made-up model'}")
        print(f"{'call':10}{'ended with':20}{'count':>8}")
        for (kind, code), count in sorted(self.calls.items()):
            print(f"{kind:10}{code:20}{count:8}")
        print(f"{'tokens with ids':30}{self.tokens:8}")
        print(f"{'preemptions':30}{getattr(self, 'preemptions', '?'):>8}")
        print(f"{'memory warm / most, MiB':30}{self.warm:8.1f}"
              f"{self.most:8.1f}")
        print(f"{'faults':30}{len(self.faults):8}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs=2)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    soak = Soak(parser.parse_args())
    soak.compute_references()
    soak.run()
    faults = soak.judge()
    soak.report()
    for fault in faults[:20]:
        print("FAULT", fault[:2000])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
