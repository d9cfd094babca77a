"""What proto/README.md tells authors of clients to type, typed.

Runs its Python and C++ against a real daemon. Needs KVASIR_TEST_MODEL (a GGUF)
and the packages of requirements.txt; ctest runs it with the folder of the
programs and the root of the sources as arguments.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN, ROOT = sys.argv[1:3]
MODEL = os.environ.get("KVASIR_TEST_MODEL")
SKIPPED = 77  # what ctest takes for "not run here"
PATIENCE = 240  # a bound on hanging, not on speed

try:
    import grpc  # noqa: F401
    import grpc_tools  # noqa: F401
except ImportError:
    MODEL = None
if not MODEL:
    print("left out: needs grpcio, grpcio-tools and KVASIR_TEST_MODEL")
    sys.exit(SKIPPED)


def blocks(language):
    with open(f"{ROOT}/proto/README.md", encoding="utf-8") as file:
        return re.findall(rf"```{language}\n(.*?)```", file.read(), re.S)


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kvasir_readme_")
        os.symlink(os.path.abspath(f"{ROOT}/proto"), f"{cls.folder}/proto")
        cls.log = open(f"{cls.folder}/log", "w+", encoding="utf-8")
        cls.daemon = subprocess.Popen(
            [f"{BIN}/kvasird", f"--model=smol={MODEL}", "--listen=127.0.0.1:0",
             "--metrics-listen=127.0.0.1:0", "--config=/dev/null"],
            stderr=cls.log, stdout=cls.log)
        end = time.monotonic() + PATIENCE
        cls.address = None
        while cls.address is None and time.monotonic() < end:
            time.sleep(0.05)
            with open(cls.log.name, encoding="utf-8") as log:
                found = re.search(r"kvasird is ready grpc=(\S+) ", log.read())
            cls.address = found and found[1]
        assert cls.address, "the daemon was never ready"

    @classmethod
    def tearDownClass(cls):
        cls.daemon.send_signal(signal.SIGTERM)
        code = cls.daemon.wait(PATIENCE)
        cls.log.close()
        shutil.rmtree(cls.folder, ignore_errors=True)
        assert code == 0, f"exit code {code}"

    def shell(self, text):
        """As a reader would, but for what installs."""
        lines = re.sub(r"\\\n\s*", " ", text).strip().split("\n")
        script = "\n".join(line for line in lines
                           if not re.match(r"(pip|apt-get) install", line))
        script = script.replace("python3", sys.executable)
        subprocess.run(["sh", "-ec", script], cwd=self.folder, check=True,
                       timeout=PATIENCE)

    def output(self, command):
        return subprocess.run(
            command, cwd=self.folder, check=True, timeout=PATIENCE,
            stdout=subprocess.PIPE, text=True).stdout

    def write(self, name, text):
        self.assertIn("localhost:8001", text)
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text.replace("localhost:8001", self.address))

    def test_python_client(self):
        self.shell(blocks("sh")[0])
        client, retries = blocks("python")
        self.assertLessEqual(len([line for line in client.split("\n")
                                  if line.strip()]), 10)
        self.write("client.py", client)
        said = self.output([sys.executable, "client.py"])
        self.assertRegex(said, r"\S.* -- \d+ tokens\n$")
        self.write("retries.py", retries)
        self.assertIn('name: "smol"',
                      self.output([sys.executable, "retries.py"]))

    def test_cpp_client(self):
        for tool in ("g++", "pkg-config", "protoc", "grpc_cpp_plugin"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        client, = blocks("cpp")
        self.assertLessEqual(client.strip().count("\n") + 1, 10)
        self.write("client.cc", client)
        self.shell(blocks("sh")[1])
        self.assertTrue(self.output(["./client"]).strip())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
