#!/usr/bin/env bash
# Makes sure that a Docker engine answers: the running one, else (as root on Debian or Ubuntu)
# docker.io is installed and dockerd started in the background. Safe to run any number of times.
#
# Usage: docker/engine.sh
#   STOKER_DOCKERD_LOG     where dockerd writes (default /var/log/stoker-dockerd.log)
#   STOKER_DOCKERD_FLAGS   further flags for dockerd
# Exit codes: 0 an engine answers, 3 none can be had (the reason is printed).
set -euo pipefail

wait_seconds=90
log=${STOKER_DOCKERD_LOG:-/var/log/stoker-dockerd.log}
read -r -a flags <<< "${STOKER_DOCKERD_FLAGS:-}"

say() { echo "engine: $*"; }
fail() {
    echo "engine: $1" >&2
    echo "  fix: $2" >&2
    exit 3
}

# Debian's own client is asked first: another `docker` on PATH may not fit the engine.
client() { command -v /usr/bin/docker || command -v docker; }
answers() { client >/dev/null && timeout 20 "$(client)" info >/dev/null 2>&1; }
version() { "$(client)" version --format '{{.Server.Version}}'; }

is_debian_like() {
    [ -r /etc/os-release ] && grep -Eq '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release
}

# Why the engine of a user who is not root does not answer.
explain_without_root() {
    if [ -S /var/run/docker.sock ] && [ ! -w /var/run/docker.sock ]; then
        fail "a Docker engine is there, but this user may not speak to it" \
            "add the user to the group 'docker' and log in again, or run as root"
    fi
    fail "no Docker engine answers, and only root can start one" "start Docker, or run this as root"
}

install_engine() {
    say "installing docker.io (a minute or two)"
    export DEBIAN_FRONTEND=noninteractive
    local apt=(apt-get -o DPkg::Lock::Timeout=120 -q) output
    output=$(mktemp)
    local packages=(docker.io iptables) extra
    if ! "${apt[@]}" update > "$output" 2>&1; then packages=(docker.io); fi
    # Newer releases put the client and BuildKit's client into packages of their own.
    for extra in docker-cli docker-buildx; do
        if apt-cache show "$extra" > /dev/null 2>&1; then packages+=("$extra"); fi
    done
    if ! "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >> "$output" 2>&1; then
        tail -n 15 "$output" >&2
        rm -f "$output"
        fail "apt-get could not install docker.io (its last lines are above)" \
            "check the package sources of this machine, or install Docker by hand"
    fi
    rm -f "$output"
}

# A machine that was switched off leaves a pid file; the number may belong to another process now.
remove_stale_pid() {
    local file=/var/run/docker.pid pid
    [ -f "$file" ] || return 0
    pid=$(cat "$file")
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] || rm -f "$file"
}

start_engine() {
    if [ -d /run/systemd/system ] && systemctl start docker >/dev/null 2>&1; then
        say "started by systemd"
        return
    fi
    remove_stale_pid
    say "starting dockerd, log: $log"
    mkdir -p "$(dirname "$log")"
    # Its own session and no terminal: it outlives this script and the shell that called it.
    setsid nohup dockerd "${flags[@]}" > "$log" 2>&1 < /dev/null &
    dockerd_pid=$!
}

wait_for_engine() {
    local waited=0
    until answers; do
        if [ -n "${dockerd_pid:-}" ] && ! kill -0 "$dockerd_pid" 2>/dev/null; then
            tail -n 15 "$log" >&2
            fail "dockerd ended (its last lines are above)" "see $log; a container or a confined machine may forbid an engine"
        fi
        if [ "$waited" -ge "$wait_seconds" ]; then
            [ ! -f "$log" ] || tail -n 15 "$log" >&2
            fail "no answer within $wait_seconds s" "see $log"
        fi
        sleep 1
        waited=$((waited + 1))
        [ $((waited % 10)) -ne 0 ] || say "waiting, $waited s"
    done
}

if ! answers; then
    [ "$(id -u)" = 0 ] || explain_without_root
    if ! command -v dockerd >/dev/null; then
        is_debian_like || fail "no Docker engine, and this is neither Debian nor Ubuntu" "install Docker and start it"
        install_engine
    fi
    answers || start_engine
    wait_for_engine
fi
say "Docker $(version) answers"
