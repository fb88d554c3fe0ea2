# A framework in a virtual environment. Build: make dist && docker build -f …/tensorflow.Dockerfile dist
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash ca-certificates python3 python3-venv tar \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/tf && /opt/tf/bin/pip install --no-cache-dir tensorflow-cpu==2.21.0
COPY stoker-*.whl /tmp/
RUN /opt/tf/bin/pip install --no-cache-dir "$(echo /tmp/stoker-*.whl)[container]" && rm /tmp/stoker-*.whl
# `train` is found on PATH, and runs scripts with the Python next to it.
ENV PATH=/opt/tf/bin:$PATH
LABEL org.opencontainers.image.version="1" org.opencontainers.image.revision="your commit"
WORKDIR /opt/ml/code
CMD ["train"]
