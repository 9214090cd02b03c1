#!/usr/bin/env bash
# Makes the secrets that compose.yaml mounts: passwords, keys, and a certificate for localhost. What is there already stays.
#
# usage: deploy/compose/secrets.sh [FOLDER]        by default `secrets` beside this script
set -euo pipefail

folder=${1:-"$(dirname "${BASH_SOURCE[0]}")/secrets"}

# Only its owner gets into the folder. The files themselves are readable by all, because Compose mounts them one by one as
# they are, and the users in the containers are others.
umask 077
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"
umask 022

# made FILE COMMAND...: FILE holds what COMMAND prints.
made() {
    local file=$1
    shift
    if [[ ! -e $file ]]; then
        "$@" >"$file.part"
        mv "$file.part" "$file"
    fi
}

# What may be done in Valkey, by whom: the gateway no more than it needs, the health check nothing but PING.
valkey_users() {
    local password
    password=$(sha256sum <"$1" | cut -d ' ' -f 1)
    local -a commands=(
        +hello '+client|tracking' '+client|setname' +ping +role +evalsha +eval +exists +type +hset +hget +hmget +hgetall
        +hexists +hincrby +pexpire +pttl +del +get +set +time +zadd +zrem +zrange +zscore +zremrangebyscore
    )
    echo "user default off"
    echo "user health on nopass resetchannels -@all +ping"
    echo "user cloakroom on #$password ~cloakroom:* resetchannels -@all ${commands[*]}"
}

# Without a line break at its end: the server's list of users holds the hash of all there is.
valkey_password() {
    printf %s "$(openssl rand -hex 32)"
}

# What the gateway shows the mock API. A real API's key goes here instead.
made api-token openssl rand -hex 32
made session-secrets openssl rand -base64 48
made admin-token openssl rand -hex 32
made grafana-password openssl rand -hex 16
made valkey-password valkey_password
made valkey-users.acl valkey_users valkey-password

if [[ ! -e tls.crt || ! -e tls.key ]]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1 -keyout tls.key -out tls.crt 2>/dev/null
    chmod 644 tls.key
fi

echo "secrets: in $PWD"
