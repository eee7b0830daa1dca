# An allocator for all dynamic programs of an image with glibc: Debian, Ubuntu, Fedora and what is based on them.
#
#   reheap preload -a jemalloc -o .
#   docker build -f debian.Dockerfile --build-arg BASE=python:3.13-slim .
ARG BASE=debian:12-slim
FROM $BASE
COPY libjemalloc-*.so /usr/local/lib/reheap/libjemalloc.so
ENV LD_PRELOAD=/usr/local/lib/reheap/libjemalloc.so
