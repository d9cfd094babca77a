# Two stages: build on Debian, run on Debian's slim image with only the
# libraries that the programs load. CPU only.
#
#   docker build -t kvasir .
#   docker run -p 8001:8001 -p 8002:8002 -v ./models:/models:ro kvasir \
#     --model=/models/smollm2-135m-instruct.gguf

FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
      g++ cmake ninja-build pkg-config \
      libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc \
      libabsl-dev prometheus-cpp-dev libhwy-dev libpcre2-dev libssl-dev \
      nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libcpp-httplib-dev
COPY . /src
WORKDIR /src
RUN cmake --preset release -DKVASIR_TESTS=OFF && \
    cmake --build --preset release --target kvasird kvasir && \
    strip build/release/bin/kvasird build/release/bin/kvasir

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
      libgrpc++1.51 libgrpc29 libprotobuf32 libabsl20220623 \
      libprometheus-cpp-core1.0 libprometheus-cpp-pull1.0 \
      libhwy1 libpcre2-8-0 libssl3 libyaml-cpp0.7 libcpp-httplib0.11 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/release/bin/kvasird /src/build/release/bin/kvasir \
     /usr/local/bin/
USER 65532:65532
EXPOSE 8001 8002
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["/usr/local/bin/kvasir", "health", "--docker"]
# Inside a container loopback would be reachable by nobody.
ENTRYPOINT ["/usr/local/bin/kvasird", "--listen=0.0.0.0:8001", \
            "--metrics-listen=0.0.0.0:8002"]
