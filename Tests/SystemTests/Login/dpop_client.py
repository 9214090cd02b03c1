"""A client with a key of its own (RFC 9449): dpop_client.py KEY_FILE thumbprint, or KEY_FILE proof METHOD URL TOKEN [SKEW
[NONCE]], with the difference of its clock in seconds."""
import base64, hashlib, json, os, sys, time, uuid
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def pack(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


path, command, *arguments = sys.argv[1:]
if not os.path.exists(path):
    made = ec.generate_private_key(ec.SECP256R1())
    with open(path, "wb") as file:
        file.write(made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
with open(path, "rb") as file:
    key = serialization.load_pem_private_key(file.read(), None)
numbers = key.public_key().public_numbers()
jwk = {"kty": "EC", "crv": "P-256", "x": encode(numbers.x.to_bytes(32, "big")), "y": encode(numbers.y.to_bytes(32, "big"))}
if command == "thumbprint":
    print(encode(hashlib.sha256(pack(jwk)).digest()))
    sys.exit()
method, url, token = arguments[:3]
claims = {
    "htm": method, "htu": url, "jti": str(uuid.uuid4()), "ath": encode(hashlib.sha256(token.encode()).digest()),
    "iat": int(time.time()) + int((arguments[3:4] or ["0"])[0]),
}
if len(arguments) > 4:
    claims["nonce"] = arguments[4]
signed = encode(pack({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk})) + "." + encode(pack(claims))
r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
print(signed + "." + encode(r.to_bytes(32, "big") + s.to_bytes(32, "big")))
