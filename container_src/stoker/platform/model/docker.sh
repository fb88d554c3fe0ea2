#!/bin/sh
# `docker` in a shell with `stoker local env`. Images of the platform's own registry (account
# 000000000000) stay in this machine's Docker, where jobs find them: push, pull and login need no
# network. AWS's registries give no login, because AWS is this machine in such a shell. Any other
# command is Docker's own. `open_root` copies this file to bin/docker of the platform's folder.

here=$(cd "$(dirname "$0")" && pwd -P)

# The next one in PATH: behind this folder, or else the first.
docker=
IFS=:
for folder in $PATH; do
    if [ "$folder" -ef "$here" ]; then
        docker=
    elif [ -z "$docker" ] && [ -x "$folder/docker" ]; then
        docker=$folder/docker
    fi
done
unset IFS
if [ -z "$docker" ]; then
    echo "docker: command not found; fix: install Docker, or add its folder to PATH" >&2
    exit 127
fi

verb=$1
[ "$1" = image ] && verb=$2
name=
for argument; do
    name=$argument
done

case $verb in
login)
    case ${name#https://} in
    [0-9]*.dkr.ecr.*)
        echo "stoker: no login is needed: AWS is the local platform in this shell, which pulls nothing" \
            "from ${name#https://} and keeps images of account 000000000000 in this machine's Docker"
        exit 0
        ;;
    esac
    ;;
push | pull)
    case $name in
    000000000000.dkr.ecr.*/*)
        found=$("$docker" image ls --quiet --no-trunc "$name" | head -n 1)
        repository=${name#*/}
        repository=${repository%%[:@]*}
        if [ "$verb" = push ] && [ ! -e "$here/../repositories/$(echo "$repository" | tr / :)" ]; then
            echo "name unknown: the repository '$repository' does not exist in the registry" \
                "000000000000; fix: aws ecr create-repository --repository-name $repository" >&2
            exit 1
        elif [ -z "$found" ]; then
            echo "this machine's Docker has no image $name;" \
                "fix: docker tag IMAGE $name, or docker build --tag $name ." >&2
            exit 1
        fi
        echo "stoker: $name stays in this machine's Docker, where jobs of the local platform find it"
        echo "digest: $found"
        exit 0
        ;;
    esac
    ;;
esac
exec "$docker" "$@"
