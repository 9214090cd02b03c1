#!/usr/bin/env bash
# Creates the secrets that compose.yaml mounts: passwords, keys, and a certificate for localhost. Existing files are kept.
#
# usage: deploy/compose/secrets.sh [FOLDER]        default: `secrets` next to this script
set -euo pipefail

folder=${1:-"$(dirname "${BASH_SOURCE[0]}")/secrets"}

# Only the owner can access the folder. The files are world-readable, because Compose mounts each file with its
# permissions, and the containers run as other users.
umask 077
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"
umask 022

# made FILE COMMAND...: writes the output of COMMAND to FILE, unless FILE exists.
made() {
    local file=$1
    shift
    if [[ ! -e $file ]]; then
        "$@" >"$file.part"
        mv "$file.part" "$file"
    fi
}

# The Valkey users and their permissions: the commands that the gateway uses, and only PING for the health check.
valkey_users() {
    local password
    password=$(sha256sum <"$1" | cut -d ' ' -f 1)
    local -a commands=(
        +hello '+client|tracking' '+client|setname' +ping +role +evalsha +eval +exists +type +hset +hget +hmget +hgetall
        +hexists +hincrby +pexpire +pttl +del +get +set +time +zadd +zrem +zrange +zscore +zremrangebyscore +wait
        '+cluster|slots' +asking
    )
    echo "user default off"
    echo "user health on nopass resetchannels -@all +ping"
    echo "user cloakroom on #$password ~cloakroom:* resetchannels -@all ${commands[*]}"
}

# Without a trailing line break: the hash in the server's user list covers all bytes of the file.
valkey_password() {
    printf %s "$(openssl rand -hex 32)"
}

# The token that the gateway sends to the mock API. Replace it with the key of your API.
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
