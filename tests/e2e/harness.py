"""What the Python tests share: stubs made of the proto files, a daemon.

A test is run with the folder of the programs and of the proto files as its
first two arguments. Without grpcio it ends here, as one that ctest skips.
"""
import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BIN, PROTO = sys.argv[1:3]
MODEL = os.environ.get("KVASIR_TEST_MODEL")
SKIPPED = 77  # what ctest takes for "not run here"
# Long enough for a busy machine: a bound on hanging, not on speed.
PATIENCE = 240

try:
    import grpc
    import grpc_tools
    from grpc_tools import protoc
except ImportError:
    print("left out: needs grpcio and grpcio-tools")
    sys.exit(SKIPPED)

# Protobuf's Python code imports its siblings by path, so the stubs get a folder
# of their own on the path.
FOLDER = tempfile.mkdtemp(prefix="kvasir_e2e_")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
sys.path.insert(0, FOLDER)
WELL_KNOWN = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")


def make_stubs(*names):
    """Makes them importable; a name is "kvasir/v1/common.proto"."""
    code = protoc.main(
        ["protoc", f"-I{PROTO}", f"-I{WELL_KNOWN}", f"--python_out={FOLDER}",
         f"--grpc_python_out={FOLDER}"] + [f"{PROTO}/{name}" for name in names])
    assert code == 0, names


def tiny_model():
    """The path of a model that is small enough for hundreds of streams."""
    path = os.path.join(FOLDER, "tiny.gguf")
    if not os.path.exists(path):
        subprocess.run([f"{BIN}/tiny_model", path], check=True)
    return path


class Daemon:
    """A kvasird of this test's own, on ports that the system picks."""

    def __init__(self, model, *arguments):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="kvasird_")
        self.process = subprocess.Popen(
            [f"{BIN}/kvasird", f"--model={model}", "--listen=127.0.0.1:0",
             "--metrics-listen=127.0.0.1:0", "--config=/dev/null", *arguments],
            stderr=self.log, stdout=self.log)
        ready = self.wait_for_line("kvasird is ready")
        fields = dict(word.split("=", 1) for word in ready.split()
                      if "=" in word)
        self.address, self.metrics = fields["grpc"], fields["metrics"]

    def wait_for_line(self, text):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            for line in self.lines():
                if text in line and line.endswith("\n"):
                    return line
            time.sleep(0.02)
        raise AssertionError(f"no {text!r}:\n" + "".join(self.lines()))

    def lines(self):
        with open(self.log.name, encoding="utf-8") as log:
            return log.readlines()

    def alive(self):
        return self.process.poll() is None

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file
                        if line.startswith("VmRSS:"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.log.close()
        return code


def wait_until(holds, what):
    """Statistics are a copy that is a few milliseconds old."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError(f"never came about: {what}")
