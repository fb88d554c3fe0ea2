# MXNet, retired in 2023. Build: make dist && docker build -f examples/your_framework/mxnet.Dockerfile dist
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash ca-certificates libgomp1 libquadmath0 python3 python3-venv tar \
 && rm -rf /var/lib/apt/lists/*
# Its last release needs a NumPy of before 1.24.
RUN python3 -m venv /opt/mxnet && /opt/mxnet/bin/pip install --no-cache-dir mxnet==1.9.1 numpy==1.23.5
COPY stoker-*.whl /tmp/
RUN /opt/mxnet/bin/pip install --no-cache-dir "$(echo /tmp/stoker-*.whl)[container]" && rm /tmp/stoker-*.whl
ENV PATH=/opt/mxnet/bin:$PATH
LABEL org.opencontainers.image.version="1" org.opencontainers.image.revision="your commit"
WORKDIR /opt/ml/code
CMD ["train"]
