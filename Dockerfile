# Three images, each with `docker build --target NAME`. All run as 10001:10001 with a read-only root filesystem, a
# writable /tmp, and no capabilities; docker-compose.yml and deploy/compose-agents.yml show how.
#
#   worker         worker, gateway and enqueue, and nothing else: no shell. The default.
#   gateway        the same, which starts the gateway
#   worker-agents  worker and enqueue with Claude Code, Codex, Gemini CLI and OpenCode
#
# For an agent of your own add the worker to its image:
#
#   COPY --from=turnstile /usr/local/bin/worker /usr/local/bin/
#   USER 10001:10001
#   ENTRYPOINT ["/usr/local/bin/worker"]
#   STOPSIGNAL SIGTERM
#   ENV TURNSTILE_AGENT=exec TURNSTILE_AGENT_COMMAND="my-agent --flag"
#
# ENV says which agent runs, also under docker-compose.yml, unless agent.env or .env says otherwise (deploy/worker.env). Name it
# there in a file of yours, for `docker compose -f docker-compose.yml -f my.yml`:
#
#   services: {worker: {image: my-agent, pull_policy: missing}}
#
# SIGTERM drains. What starts the container must wait for TURNSTILE_DRAIN_TIMEOUT
# + TURNSTILE_INTERRUPT_GRACE + 5s before it kills.

FROM golang:1.26.11 AS build
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
RUN mkdir /out/empty && echo 'turnstile:x:10001:10001::/home/turnstile:/sbin/nologin' >/out/passwd

# The versions are those of `make real-agents`.
FROM node:22.23.3-bookworm-slim AS worker-agents
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates git ripgrep \
    && rm -rf /var/lib/apt/lists/*
RUN npm install --global --prefix /usr/local --no-fund --no-audit opencode-ai@1.18.33 @google/gemini-cli@0.61.0 @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 \
    && npm cache clean --force
RUN useradd --uid 10001 --no-create-home --home-dir /home/turnstile --shell /usr/sbin/nologin turnstile
COPY --from=build --chown=10001:10001 /out/empty /home/turnstile
COPY --from=build --chown=10001:10001 --chmod=0700 /out/empty /work
COPY --from=build /out/worker /out/enqueue /usr/local/bin/
USER 10001:10001
ENV HOME=/home/turnstile TURNSTILE_WORKSPACE_DIR=/work TURNSTILE_AGENT=echo
WORKDIR /home/turnstile
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/worker"]

FROM scratch AS programs
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/passwd /etc/passwd
COPY --from=build --chown=10001:10001 /out/empty /home/turnstile
COPY --from=build --chown=10001:10001 /out/empty /tmp
COPY --from=build /out/worker /out/gateway /out/enqueue /usr/local/bin/
USER 10001:10001
ENV PATH=/usr/local/bin HOME=/home/turnstile
WORKDIR /home/turnstile
STOPSIGNAL SIGTERM

FROM programs AS gateway
ENTRYPOINT ["/usr/local/bin/gateway"]

FROM programs AS worker
ENV TURNSTILE_AGENT=echo
ENTRYPOINT ["/usr/local/bin/worker"]
