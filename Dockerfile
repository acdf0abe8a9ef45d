# One image for the worker, its dashboard, the gateway and enqueue.
#
# It runs the agent echo as it is. For an agent of your own build on it:
#
#   FROM turnstile
#   USER root
#   RUN apk add --no-cache ...
#   USER 10001:10001
#   ENV TURNSTILE_AGENT=exec TURNSTILE_AGENT_COMMAND="my-agent --flag"

FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY *.go ./
COPY cmd ./cmd
COPY docs/openapi.go docs/openapi.yaml ./docs/
COPY internal ./internal
COPY pkg ./pkg
# Static: the binaries ask nothing of the image that they run in.
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/ ./cmd/worker ./cmd/gateway ./cmd/enqueue
# Whom it runs as cannot read it: agents are kept out from its first instant on.
RUN chmod 0711 /out/worker /out/gateway /out/enqueue

FROM alpine:3.22.1
RUN adduser -D -u 10001 turnstile
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/worker /out/gateway /out/enqueue /usr/local/bin/
USER 10001:10001
WORKDIR /home/turnstile
# SIGTERM drains. What starts the container must wait for TURNSTILE_DRAIN_TIMEOUT
# + TURNSTILE_INTERRUPT_GRACE + 5s before it kills.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/worker"]
