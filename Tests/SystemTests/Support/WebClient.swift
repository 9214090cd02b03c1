import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Synchronization

/// A client of the gateway that stores its cookie and records every response.
final class WebClient: Sendable {
    /// The name of the session cookie over cleartext.
    static let cookieName = "cloakroom"

    private struct State {
        var cookie: String?
        var responses: [TestResponse] = []
    }

    let base: String
    private let http: HTTPClient
    private let state = Mutex(State())

    init(_ base: String, http: HTTPClient = .shared) {
        self.base = base
        self.http = http
    }

    var cookie: String? { state.withLock { $0.cookie } }

    /// All responses so far.
    var responses: [TestResponse] { state.withLock { $0.responses } }

    func get(_ path: String, _ fields: [(String, String)] = []) async throws -> TestResponse {
        try await send("GET", path, fields)
    }

    func signIn(email: String = "jo@example.com", password: String = "secret") async throws -> TestResponse {
        try await send("POST", "/auth", [("Authorization", Self.basic(email, password))])
    }

    static func basic(_ email: String, _ password: String) -> String {
        "Basic " + Data("\(email):\(password)".utf8).base64EncodedString()
    }

    /// Sends a request with the stored cookie, and stores the cookie that the response sets.
    func send(
        _ method: String, _ path: String, _ fields: [(String, String)] = [], body: String? = nil
    ) async throws -> TestResponse {
        var request = HTTPClientRequest(url: base + path)
        request.method = HTTPMethod(rawValue: method)
        for (name, value) in fields { request.headers.add(name: name, value: value) }
        if let cookie { request.headers.add(name: "Cookie", value: "\(Self.cookieName)=\(cookie)") }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await http.execute(request, timeout: .seconds(60))
        let bytes = try await response.body.collect(upTo: 1 << 22)
        let recorded = TestResponse(
            status: Int(response.status.code), fields: response.headers.map { ($0.name, $0.value) },
            body: String(buffer: bytes))
        state.withLock { state in
            if !recorded.values(of: "Set-Cookie").isEmpty { state.cookie = recorded.cookie }
            state.responses.append(recorded)
        }
        return recorded
    }

    /// Another client, with a given cookie.
    func other(cookie: String? = nil) -> WebClient {
        let client = WebClient(base, http: http)
        client.state.withLock { $0.cookie = cookie }
        return client
    }
}
