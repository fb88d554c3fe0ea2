# A conda prefix. Build: make dist && docker build -f examples/your_framework/conda.Dockerfile dist
ARG BASE_IMAGE=condaforge/miniforge3
FROM ${BASE_IMAGE}
COPY stoker-*.whl /tmp/
RUN /opt/conda/bin/python -m pip install --no-cache-dir "$(echo /tmp/stoker-*.whl)[container]" \
 && rm /tmp/stoker-*.whl
# The service runs `train` without a shell: no `conda activate`, so the prefix is put on PATH.
ENV PATH=/opt/conda/bin:$PATH
LABEL org.opencontainers.image.version="1" org.opencontainers.image.revision="your commit"
WORKDIR /opt/ml/code
# The base image has an entrypoint of its own; a training image must not.
ENTRYPOINT []
CMD ["train"]
