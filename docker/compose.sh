#!/usr/bin/env bash
# Makes sure that the local mode of both SageMaker SDKs finds Docker Compose. SDK v2 knows the plugin only by the
# text "v2", which no Debian or Ubuntu package prints, so a standalone docker-compose on PATH is what serves both.
# As root on Debian or Ubuntu it is installed. Safe to run any number of times.
#
# Usage: docker/compose.sh
# Exit codes: 0 both SDKs find one, 3 none can be had (the reason is printed).
set -euo pipefail

fail() {
    echo "compose: $1" >&2
    echo "  fix: $2" >&2
    exit 3
}

found() { command -v docker-compose >/dev/null || docker compose version 2>/dev/null | grep -q v2; }

if ! found; then
    [ "$(id -u)" = 0 ] || fail "no docker-compose, and only root can install it" "install docker-compose"
    command -v apt-get >/dev/null || fail "no docker-compose, and no apt-get" "put docker-compose on PATH"
    echo "compose: installing docker-compose"
    export DEBIAN_FRONTEND=noninteractive
    apt=(apt-get -o DPkg::Lock::Timeout=120 -qq)
    "${apt[@]}" install -y --no-install-recommends docker-compose >/dev/null 2>&1 \
        || { "${apt[@]}" update >/dev/null && "${apt[@]}" install -y --no-install-recommends docker-compose >/dev/null; } \
        || fail "apt-get could not install docker-compose" "put a standalone docker-compose on PATH"
    found || fail "docker-compose was installed and is not found" "put it on PATH"
fi
echo "compose: $(docker-compose --version 2>/dev/null || docker compose version)"
