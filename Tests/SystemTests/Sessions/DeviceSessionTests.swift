import AsyncHTTPClient
import Crypto
import Foundation
import FoundationNetworking
import MockAPI
import NIOCore
import NIOHTTP1
import Synchronization
import TestSupport
import Testing
import ThinClient

/// A scripted client with a key of its own, in another language and with another library, against the running program.
@Suite("Sessions that are bound to a device", .serialized, .timeLimit(.minutes(3)))
struct DeviceSessionTests {
    @Test("Rules 115 and 117: a client registers its key and refreshes, and a thief does neither")
    func theft() async throws {
        let settings = [
            "session.cookie.secure=true", "listeners.0.behindTLSProxy=true", "session.device.mode=auto",
            "session.device.settle=0s",
        ]
        try await GatewayProcess.running(set: settings) { gateway, mock in
            let python = try await Executables.python(with: "cryptography")
            let port = try require(gateway.clear.split(separator: ":").last)
            let result = try await ChildProgram.run(python, ["-c", Self.script, "\(port)"])
            let steps = try JSONDecoder().decode([Step].self, from: Data(result.output.utf8))
            expect(result.ending.status, equals: 0, "\(result.errors)")
            let expected = [
                Step("sign in", 200), Step("registered by a thief", 403), Step("registered", 200),
                Step("registered again", 200), Step("used", 200), Step("listed as bound", 200),
                Step("refreshed without a proof", 403), Step("refreshed", 204), Step("refreshed by another key", 403),
                Step("used with the copy", 200), Step("registered by a thief", 403), Step("used", 200),
                Step("signed out", 204), Step("refreshed after that", 401, "revoked"),
            ]
            expect(steps, equals: expected)
            expect(mock.observations.snapshot().count("GET", "/videos/1"), equals: 3)
        }
    }

    @Test("Rules 115 and 117: the client library binds its session, and proves it again with the next request")
    func library() async throws {
        let settings = [
            "session.cookie.secure=true", "listeners.0.behindTLSProxy=true", "session.device.mode=required",
            "session.device.lifetime=10s",
        ]
        try await GatewayProcess.running(set: settings) { gateway, _ in
            let (url, jar) = (try require(URL(string: gateway.clear)), CookieJar())
            let client = GatewayClient(gateway: url, transport: jar, deviceKey: SoftwareKey())
            _ = try await client.signIn(name: "jo@example.com", password: "secret", as: JSONUser.self)
            let bound = try require(jar.names.first { $0.hasSuffix("-bound") })
            try await client.data("GET", "/videos/1")
            let first = jar.remove(bound)
            // A proof of 10 s ends soon, so that the client gets the next one first.
            try await client.data("GET", "/videos/1")
            expect(first != nil && jar.names.contains(bound))
            try await client.signOut()
            let error = await clientError { try await client.data("GET", "/videos/1") }
            expect(error?.requiresSignIn == true && error?.reason != "unproven")
        }
    }

    private struct JSONUser: Decodable, Sendable {}

    private struct SoftwareKey: DeviceKey {
        private let key = P256.Signing.PrivateKey()
        var publicKey: Data { key.publicKey.x963Representation }
        func sign(_ message: Data) async throws -> Data { try key.signature(for: message).rawRepresentation }
    }

    /// Sends the cookies of a client, `Secure` ones too: TLS ends before the gateway.
    private final class CookieJar: Transport {
        private let cookies = Mutex<[String: String]>([:])

        var names: [String] { cookies.withLock { Array($0.keys) } }

        func remove(_ name: String) -> String? { cookies.withLock { $0.removeValue(forKey: name) } }

        func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse) {
            let url = try require(request.url)
            var outgoing = HTTPClientRequest(url: url.absoluteString)
            outgoing.method = HTTPMethod(rawValue: request.httpMethod ?? "GET")
            for (name, value) in request.allHTTPHeaderFields ?? [:] { outgoing.headers.add(name: name, value: value) }
            let sent = cookies.withLock { $0.map { "\($0.key)=\($0.value)" } }.joined(separator: "; ")
            if !sent.isEmpty { outgoing.headers.add(name: "Cookie", value: sent) }
            if let body = request.httpBody { outgoing.body = .bytes(ByteBuffer(bytes: body)) }
            let response = try await HTTPClient.shared.execute(outgoing, timeout: .seconds(20))
            let body = try await response.body.collect(upTo: 1 << 20)
            for field in response.headers["Set-Cookie"] {
                let pair = field.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1).map(String.init)
                cookies.withLock { $0[pair[0]] = pair.count == 2 ? pair[1] : nil }
            }
            let fields = Dictionary(response.headers.map { ($0.name, $0.value) }) { $1 }
            let head = HTTPURLResponse(
                url: url, statusCode: Int(response.status.code), httpVersion: nil, headerFields: fields)
            return (Data(body.readableBytesView), try require(head))
        }
    }

    private struct Step: Decodable, Equatable {
        var name: String
        var status: Int
        var reason: String

        init(_ name: String, _ status: Int, _ reason: String = "") {
            (self.name, self.status, self.reason) = (name, status, reason)
        }
    }

    private static let script = #"""
        import base64, http.client, json, re, sys
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        def b64(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

        def signed(key, challenge, has_key):
            header = {"typ": "dbsc+jwt", "alg": "ES256"}
            if has_key:
                n = key.public_key().public_numbers()
                header["jwk"] = {"kty": "EC", "crv": "P-256", "x": b64(n.x.to_bytes(32, "big")),
                                 "y": b64(n.y.to_bytes(32, "big"))}
            text = b64(json.dumps(header).encode()) + "." + b64(json.dumps({"jti": challenge}).encode())
            r, s = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
            return text + "." + b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))

        steps, cookies, challenge, session = [], {}, None, None
        key, thief = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

        def ask(name, method, path, fields={}, body=None, jar=None):
            global challenge, session
            own = jar is None
            jar = cookies if own else jar
            connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
            head = dict(fields)
            if jar:
                head["Cookie"] = "; ".join(f"{n}={v}" for n, v in jar.items())
            connection.request(method, path, body=body, headers=head)
            response = connection.getresponse()
            text = response.read().decode()
            if own:
                for cookie in response.headers.get_all("Set-Cookie") or []:
                    name_, value = cookie.split(";")[0].split("=", 1)
                    cookies[name_] = value
                found = re.search(r'challenge="([^"]+)"', response.headers.get("Secure-Session-Registration") or "")
                found = found or re.match(r'"([^"]+)"', response.headers.get("Secure-Session-Challenge") or "")
                challenge = found[1] if found else challenge
                if path == "/auth/device" and response.status == 200:
                    session = json.loads(text)["session_identifier"]
            problem = json.loads(text) if text.startswith("{") and response.status >= 400 else {}
            if name == "listed as bound" and '"bound":true' not in text:
                name = "not listed as bound"
            steps.append({"name": name, "status": response.status, "reason": problem.get("reason", "")})

        def device(name, proof=None, jar=None):
            fields = {"Content-Length": "0"}
            if proof:
                fields["Secure-Session-Response"] = proof
            if session:
                fields["Sec-Secure-Session-Id"] = f'"{session}"'
            ask(name, "POST", "/auth/device", fields, jar=jar)

        ask("sign in", "POST", "/auth", {"Content-Type": "application/json"},
            json.dumps({"email": "jo@example.com", "password": "secret"}))
        offer, ticket = challenge, dict(cookies)
        device("registered by a thief", signed(thief, "invented", True), dict(ticket))
        device("registered", signed(key, offer, True))
        known, session = session, None
        device("registered again", signed(key, offer, True))
        ask("used", "GET", "/videos/1")
        ask("listed as bound", "GET", "/auth/sessions")
        device("refreshed without a proof")
        device("refreshed", signed(key, challenge, False))
        copy = dict(cookies)
        device("refreshed by another key", signed(thief, challenge, False), dict(copy))
        ask("used with the copy", "GET", "/videos/1", jar=dict(copy))
        known, session = session, None
        device("registered by a thief", signed(thief, offer, True), dict(ticket))
        session = known
        ask("used", "GET", "/videos/1")
        ask("signed out", "DELETE", "/auth", jar=dict(ticket))
        device("refreshed after that", signed(key, challenge, False))
        print(json.dumps(steps))
        """#
}
