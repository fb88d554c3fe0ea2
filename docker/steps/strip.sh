#!/bin/sh
# Removes from a virtual environment what is used at build time only, and says how much it saved.
# Usage: strip.sh VENV COMPILER   (COMPILER=1: the image has a compiler, so headers stay)
set -eu
site=$(echo "$1"/lib/python3*/site-packages)
compiler=$2
before=$(du -sm "$1" | cut -f1)

# Static libraries: for linking C programs.
find "$site" -name '*.a' -delete

# Tests that packages install next to their code. Only whole packages that nothing at run time
# imports: torch.testing and numpy.testing are interfaces and stay.
for package in numpy pandas scipy psutil greenlet gevent zope networkx sympy mpmath tensorboard; do
    [ -d "$site/$package" ] || continue
    find "$site/$package" -type d -name tests -prune -exec rm -rf {} +
done

# AMD's half of triton, which an NVIDIA machine cannot load. triton finds its backends by their
# entry points, so that line goes too, or importing triton would look for the folder.
if [ -d "$site/triton/backends/amd" ]; then
    rm -rf "$site/triton/backends/amd"
    sed -i '/^amd *=/d' "$site"/triton-*.dist-info/entry_points.txt
fi

# NVSHMEM's bitcode (for linking own GPU kernels against it), its examples, and its host programs.
find "$site" -path '*nvshmem*' -name '*.bc' -delete

# torch's own test programs. torch_shm_manager shares tensors between DataLoader workers.
if [ -d "$site/torch/bin" ]; then
    find "$site/torch/bin" -mindepth 1 -not -name torch_shm_manager -delete
    rm -rf "$site/torch/test"
fi

# TensorFlow comes with symbol tables, which only a debugger reads, and with libraries that nothing
# at run time opens: libclang, StableHLO's Python bindings, and TensorBoard's faster reader of logs
# (it has one in Python as well). Libraries in *.libs were edited after linking: strip breaks them.
if [ -d "$site/tensorflow" ]; then
    find "$site" -name '*.so*' -type f -size +16k -not -path '*.libs/*' \
        -exec strip --strip-unneeded {} +
    rm -rf "$site/clang/native" "$site/tensorboard_data_server/bin"
    rm -f "$site/tensorflow/compiler/mlir/stablehlo/stablehlo_extension.so"
    find "$site/tensorflow" "$site/keras" "$site/h5py" -name '*_test.py' -delete
    rm -rf "$site/h5py/tests"
    find "$site" \( -name '*.pyi' -o -name '*.pyx' -o -name '*.c' \) -delete
fi

# Headers: torch.compile on a CPU and C++ extensions compile against them, and there is no
# compiler in the image. The build argument COMPILER=1 brings both. triton keeps its own: small,
# and the first thing a user needs who adds a compiler.
if [ "$compiler" != 1 ]; then
    rm -rf "$site/torch/include" "$site/torch/share/cmake" "$site/tensorflow/include"
    find "$site/nvidia" -type d -name include -prune -exec rm -rf {} + 2>/dev/null || true
fi

echo "strip: ${before} MB before, $(du -sm "$1" | cut -f1) MB after"
