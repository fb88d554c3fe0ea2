# Debian's own Python. Build: make dist && docker build -f examples/your_framework/plain.Dockerfile dist
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash ca-certificates python3 python3-pip tar \
 && rm -rf /var/lib/apt/lists/*
COPY stoker-*.whl /tmp/
# boto3, the extra's only package: to download code that an SDK has uploaded to S3.
RUN python3 -m pip install --no-cache-dir --break-system-packages "$(echo /tmp/stoker-*.whl)[container]" \
 && rm /tmp/stoker-*.whl
LABEL org.opencontainers.image.version="1" org.opencontainers.image.revision="your commit"
WORKDIR /opt/ml/code
CMD ["train"]
