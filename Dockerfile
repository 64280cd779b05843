# docker build -t warpsight . && docker run --rm [--gpus all] warpsight
FROM python:3.12-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ opencl-headers \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml CMakeLists.txt README.md LICENSE CHANGELOG.md ./
COPY native native
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
LABEL org.opencontainers.image.title="warpsight" \
      org.opencontainers.image.description="Records CUDA and OpenCL programs with the host stack of every launch, and answers from the recording" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.12-slim-bookworm"
RUN apt-get update \
 && apt-get install -y --no-install-recommends ocl-icd-libopencl1 pocl-opencl-icd \
 && rm -rf /var/lib/apt/lists/*
# The wheel is only looked at: it is in no layer of this image.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    wheel=$(ls /wheels/*.whl) && pip install --no-cache-dir "${wheel}[nvidia,opencl]"
# The NVIDIA container toolkit mounts the driver, with what CUPTI needs of it, for these capabilities.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --create-home --uid 1000 recorder
USER recorder
WORKDIR /home/recorder
CMD ["warpsight", "demo"]
