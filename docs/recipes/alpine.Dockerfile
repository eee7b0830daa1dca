# An allocator for all dynamic programs of an image with musl. The library is another one than for glibc.
#
#   reheap preload -a mimalloc --libc musl -o .
#   docker build -f alpine.Dockerfile --build-arg BASE=python:3.13-alpine .
ARG BASE=alpine:3
FROM $BASE
COPY libmimalloc-*.so /usr/local/lib/reheap/libmimalloc.so
ENV LD_PRELOAD=/usr/local/lib/reheap/libmimalloc.so
