"""Programs with joserfc, a library of other authors: a client with a key of its own (RFC 9449), and an upstream that
verifies assertions.

usage: joserfc_peer.py thumbprint KEY_FILE
       joserfc_peer.py proof KEY_FILE METHOD URL [TOKEN [SKEW [NONCE]]]     TOKEN is empty for a token request
       joserfc_peer.py upstream GATEWAY

SKEW is the difference of the client's clock in seconds. The upstream prints its port. The last part of a path is the name of
a service, which is its audience; `later=N` moves its clock.
"""
import base64, hashlib, http.server, json, os, sys, time, urllib.parse, urllib.request, uuid

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet


def load_key(path):
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(ECKey.generate_key("P-256").as_pem(private=True))
    with open(path, "rb") as file:
        return ECKey.import_key(file.read())


def proof(key, method, url, token="", skew="0", nonce=None):
    claims = {"htm": method, "htu": url, "jti": str(uuid.uuid4()), "iat": int(time.time()) + int(skew)}
    if token:
        digest = hashlib.sha256(token.encode()).digest()
        claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if nonce:
        claims["nonce"] = nonce
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False)}
    return jwt.encode(header, claims, key)


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway = None

    def verify(self, assertion, service, later):
        # For each request: the test changes the keys.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.gateway + "/auth/keys", timeout=10) as response:
            keys = KeySet.import_key_set(json.load(response))
        token = jwt.decode(assertion, keys, algorithms=["ES256"])
        jwt.JWTClaimsRegistry(
            now=int(time.time()) + later, iss={"essential": True, "value": self.gateway},
            aud={"essential": True, "value": service}, sub={"essential": True}, iat={"essential": True},
            exp={"essential": True}).validate(token.claims)
        kid = token.header["kid"]
        return {
            "assertion": assertion, "kid": kid, "thumbprint": keys.get_by_kid(kid).thumbprint(),
            "type": token.header["typ"], "keys": len(keys.keys), "claims": token.claims}

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        later = int(dict(urllib.parse.parse_qsl(url.query)).get("later", 0))
        try:
            status, result = 200, self.verify(self.headers["X-Identity"] or "", url.path.rsplit("/", 1)[1], later)
        except (JoseError, ValueError) as error:
            status, result = 403, {"error": type(error).__name__}
        body = json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    command, place, *arguments = sys.argv[1:]
    if command == "thumbprint":
        print(load_key(place).thumbprint())
    elif command == "proof":
        print(proof(load_key(place), *arguments))
    elif command == "upstream":
        Upstream.gateway = place
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
