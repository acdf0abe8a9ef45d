#!/bin/sh
# The smallest agent: the message on stdin, the reply on stdout. To run it:
# TURNSTILE_AGENT=exec TURNSTILE_AGENT_COMMAND='sh examples/shell-agent/agent.sh' go run ./cmd/worker
message=$(cat)
echo "In session $TURNSTILE_SESSION you said: $message"
