#!/usr/bin/env bash
# Makes a Debian base image where no registry can be reached: debootstrap, trimmed the way the
# `slim` images are, imported as stoker/base:bookworm. Nothing to do when it is there already.
#
# Usage: docker/base/make-base.sh [--mirror URL] [--force]
#   --mirror URL   the Debian archive; otherwise the one this machine's apt uses
#   --force        make it again
# Exit codes: 0 the image is there, 2 usage, 3 it could not be made (the reason is printed).
set -euo pipefail

suite=bookworm
image=stoker/base:$suite
mirror=
force=no
docker=$(command -v /usr/bin/docker || command -v docker || true)

say() { echo "base: $*"; }
fail() {
    echo "base: $1" >&2
    echo "  fix: $2" >&2
    exit 3
}

# Addresses of this machine's apt sources, both file formats.
apt_addresses() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
        2>/dev/null | awk '
            $1 == "URIs:" { for (i = 2; i <= NF; i++) print $i }
            $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /:\/\//) { print $i; break } }
        ' | sed 's:/*$::' | sort -u
}

check_machine() {
    [ "$(id -u)" = 0 ] || fail "debootstrap needs root" "run as root, or pass a base: stoker build --base-image IMAGE"
    [ -n "$docker" ] || fail "no Docker client" "run docker/engine.sh"
    "$docker" version >/dev/null 2>&1 || fail "no Docker engine answers" "run docker/engine.sh"
    if [ -z "$mirror" ]; then
        mirror=$(apt_addresses | grep -E '/debian$' | head -n 1 || true)
    fi
    [ -n "$mirror" ] || fail "apt on this machine names no Debian archive" "pass one: $0 --mirror URL"
    if ! command -v debootstrap >/dev/null; then
        say "installing debootstrap"
        apt-get -o DPkg::Lock::Timeout=120 update -q >/dev/null \
            && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -y -q \
                --no-install-recommends debootstrap >/dev/null \
            || fail "apt-get could not install debootstrap" "install it by hand and try again"
    fi
}

# Packages installed later (by the Dockerfile) leave out the same files.
write_dpkg_rules() {
    cat > "$1/etc/dpkg/dpkg.cfg.d/slim" <<'RULES'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/linda/*
path-exclude /usr/share/lintian/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
RULES
    echo 'Acquire::Languages "none";' > "$1/etc/apt/apt.conf.d/no-languages"
    # No service is started while packages are installed.
    printf '#!/bin/sh\nexit 101\n' > "$1/usr/sbin/policy-rc.d"
    chmod 755 "$1/usr/sbin/policy-rc.d"
}

write_sources() {
    local root=$1 security
    security=$(apt_addresses | grep -E '/debian-security$' | head -n 1 || true)
    security=${security:-${mirror}-security}
    {
        echo "deb $mirror $suite main"
        echo "deb $mirror $suite-updates main"
        echo "deb $security $suite-security main"
    } > "$root/etc/apt/sources.list"
}

trim() {
    local root=$1
    find "$root/usr/share/doc" -mindepth 1 -not -type d -not -name copyright -delete
    find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete
    rm -rf "$root"/usr/share/{info,linda,lintian,locale,man}/* \
        "$root"/var/cache/{apt,debconf,ldconfig}/* "$root"/var/lib/apt/lists/* \
        "$root"/var/log/* "$root"/var/lib/dpkg/*-old "$root"/tmp/* "$root"/root/.[!.]*
    # debootstrap copies these two from this machine.
    rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
}

make_base() {
    local work root log
    work=$(mktemp -d "${TMPDIR:-/tmp}/stoker-base.XXXXXX")
    # shellcheck disable=SC2064 # the folder's name is wanted as it is now
    trap "umount '$work/root/proc' 2>/dev/null || true; rm -rf --one-file-system '$work'" EXIT
    root=$work/root
    log=$work/log
    say "debootstrap $suite (about a minute)"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" > "$log" 2>&1 \
        || { tail -n 20 "$log" >&2; fail "debootstrap failed" "check that the archive can be reached: $mirror"; }
    write_dpkg_rules "$root"
    write_sources "$root"
    say "security updates"
    { chroot "$root" apt-get update -q && DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get upgrade -y -q; } \
        > "$log" 2>&1 || { tail -n 20 "$log" >&2; fail "apt-get failed in the new base" "see the lines above"; }
    trim "$root"
    say "importing $(du -sm "$root" | cut -f1) MB as $image"
    tar -C "$root" --numeric-owner -c . | "$docker" import -c 'CMD ["bash"]' - "$image" >/dev/null
}

while [ $# -gt 0 ]; do
    case $1 in
        --mirror) mirror=${2:?--mirror needs an address}; shift 2 ;;
        --force) force=yes; shift ;;
        *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done

if [ "$force" = no ] && [ -n "$docker" ] && "$docker" image inspect "$image" >/dev/null 2>&1; then
    say "$image is there already"
    exit 0
fi
check_machine
make_base
say "$image is ready ($("$docker" image inspect --format '{{.Size}}' "$image" | awk '{printf "%.0f MB", $1 / 1e6}'))"
