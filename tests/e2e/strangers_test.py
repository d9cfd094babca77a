"""Clients that know nothing of Kvasir: one speaks the standard health service
only, one finds out by reflection what there is and calls all of it.
"""
import threading
import unittest

import harness
from harness import PATIENCE, Daemon, tiny_model
import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

harness.make_stubs("grpc/health/v1/health.proto")
# The package `grpc` is taken by the library, so this one is imported by path.
import importlib.util  # noqa: E402
import os  # noqa: E402


def by_path(name):
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(harness.FOLDER, "grpc/health/v1", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


health = by_path("health_pb2")
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = ("/grpc.reflection.v1alpha.ServerReflection/"
              "ServerReflectionInfo")
# A request without a field may be refused, but by a word that helps. What takes
# a while or goes on for ever is cut off.
CALL_TIME = 2
REFUSALS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND,
            grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED,
            grpc.StatusCode.PERMISSION_DENIED,
            grpc.StatusCode.ALREADY_EXISTS}


def health_check(channel, service):
    call = channel.unary_unary(
        CHECK, health.HealthCheckRequest.SerializeToString,
        health.HealthCheckResponse.FromString)
    return call(health.HealthCheckRequest(service=service),
                timeout=PATIENCE).status


class HealthClient(unittest.TestCase):
    def test_health_is_all_it_needs_to_know(self):
        serving = health.HealthCheckResponse.SERVING
        daemon = Daemon(tiny_model())
        with grpc.insecure_channel(daemon.address) as channel:
            for service in ("", "kvasir.v1.Inference", "kvasir.v1.CacheAdmin"):
                self.assertEqual(health_check(channel, service), serving)
            with self.assertRaises(grpc.RpcError) as caught:
                health_check(channel, "no.such.Service")
            self.assertEqual(caught.exception.code(),
                             grpc.StatusCode.NOT_FOUND)
            watch = channel.unary_stream(
                WATCH, health.HealthCheckRequest.SerializeToString,
                health.HealthCheckResponse.FromString)
            told = watch(health.HealthCheckRequest(), timeout=PATIENCE)
            self.assertEqual(next(told).status, serving)
            # It hears of the end before the connection goes.
            stopped = []
            stopper = threading.Thread(
                target=lambda: stopped.append(daemon.stop()))
            stopper.start()
            self.assertEqual(next(told).status,
                             health.HealthCheckResponse.NOT_SERVING)
            told.cancel()
            stopper.join()
        self.assertEqual(stopped, [0])


def reflection_messages():
    """Request and response of the reflection service, as far as it is used:
    field numbers of grpc/reflection/v1alpha/reflection.proto."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="small_reflection.proto", package="small", syntax="proto3")

    def message(name, *fields):
        type = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            type.field.add(
                name=field, number=number, type=kind, type_name=of,
                label=kinds.LABEL_REPEATED if repeated
                else kinds.LABEL_OPTIONAL)

    text, part = kinds.TYPE_STRING, kinds.TYPE_MESSAGE
    message("Request", ("file_containing_symbol", 4, text, False, None),
            ("list_services", 7, text, False, None))
    message("Files", ("file", 1, kinds.TYPE_BYTES, True, None))
    message("Service", ("name", 1, text, False, None))
    message("Services", ("service", 1, part, True, ".small.Service"))
    message("Response", ("files", 4, part, False, ".small.Files"),
            ("services", 6, part, False, ".small.Services"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"small.{name}"))
        for name in ("Request", "Response")]


class ReflectionClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(tiny_model(), "--context-limit=256",
                            "--cache-blocks=64")
        cls.channel = grpc.insecure_channel(cls.daemon.address)
        cls.Request, cls.Response = reflection_messages()
        cls.ask_server = cls.channel.stream_stream(
            REFLECTION, cls.Request.SerializeToString, cls.Response.FromString)
        cls.pool, cls.known = descriptor_pool.DescriptorPool(), set()

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        assert cls.daemon.stop() == 0

    def ask(self, **question):
        return next(self.ask_server(iter([self.Request(**question)]),
                                    timeout=PATIENCE))

    def learn(self, symbol):
        """Adds the file of `symbol`, and all that it needs, to the pool."""
        files = [descriptor_pb2.FileDescriptorProto.FromString(file) for file
                 in self.ask(file_containing_symbol=symbol).files.file]
        by_name = {file.name: file for file in files}

        def add(name):
            if name in self.known or name not in by_name:
                return
            self.known.add(name)
            for needed in by_name[name].dependency:
                add(needed)
            self.pool.Add(by_name[name])

        for file in files:
            add(file.name)

    def call_empty(self, service, method):
        """How a call ends whose request has no field; None: it was cut off."""
        path = f"/{service}/{method.name}"
        kind = {(False, False): self.channel.unary_unary,
                (False, True): self.channel.unary_stream,
                (True, True): self.channel.stream_stream}[
                    method.client_streaming, method.server_streaming]
        request = message_factory.GetMessageClass(method.input_type)()
        answer = message_factory.GetMessageClass(method.output_type)
        call = kind(path, type(request).SerializeToString, answer.FromString)
        try:
            got = call(iter([request]) if method.client_streaming else request,
                       timeout=CALL_TIME)
            if method.server_streaming:
                for _ in got:
                    pass
            return grpc.StatusCode.OK, ""
        except grpc.RpcError as error:
            return error.code(), error.details()

    def test_calls_everything_that_is_there(self):
        services = [service.name for service in
                    self.ask(list_services="all").services.service]
        self.assertLessEqual(
            {"kvasir.v1.Inference", "kvasir.v1.CacheAdmin",
             "grpc.health.v1.Health"}, set(services))
        outcomes = {}
        for service in services:
            self.learn(service)
            for method in self.pool.FindServiceByName(service).methods:
                outcomes[f"{service}/{method.name}"] = self.call_empty(
                    service, method)
                self.assertTrue(self.daemon.alive(), method.full_name)
        self.assertGreater(len(outcomes), 20)
        for name, (code, details) in sorted(outcomes.items()):
            print(f"{name}: {code.name} {details}")
            if code in (grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED):
                continue
            self.assertIn(code, REFUSALS, name)
            self.assertTrue(details.strip(), name)
        self.assertEqual(health_check(self.channel, ""),
                         health.HealthCheckResponse.SERVING)


if __name__ == "__main__":
    unittest.main(argv=["strangers_test"], verbosity=2)
