# A Rust program, static, with reheap's default allocator, and nothing else in the image but certificates.
# There is no release of reheap yet, so REHEAP is a server of yours with what `make dist` makes.
#
#   docker build -f rust-scratch.Dockerfile --build-arg NAME=my-program --build-arg REHEAP=https://example.org/reheap .
FROM rust:1.95-slim AS build
ARG NAME
ARG REHEAP
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl musl-tools \
    && curl -fsSL "$REHEAP/install.sh" | sh -s -- --from "$REHEAP" --prefix /usr/local \
    && rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /source
COPY . .
RUN cargo reheap build --release --locked --bin "$NAME" \
    && cp "target/$(uname -m)-unknown-linux-musl/release/$NAME" /program

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /program /program
# Nobody's number: the program needs no rights.
USER 65532:65532
ENTRYPOINT ["/program"]
