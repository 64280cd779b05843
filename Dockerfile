# docker build -t warpsight . && docker run --rm [--gpus all] warpsight
FROM python:3.12-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ opencl-headers \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends ocl-icd-libopencl1 pocl-opencl-icd \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN wheel=$(ls /wheels/*.whl) && pip install --no-cache-dir "${wheel}[nvidia,opencl]" && rm -rf /wheels
# The NVIDIA container toolkit mounts the driver, with what CUPTI needs of it, for these capabilities.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --create-home recorder
USER recorder
WORKDIR /home/recorder
CMD ["warpsight", "demo"]
