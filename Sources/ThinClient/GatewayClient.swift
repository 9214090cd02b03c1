public import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A client for an API behind the gateway.
///
/// After sign-in, the transport sends a cookie with every request. The client has no tokens, API keys, expiry times or
/// token refresh: the gateway handles them. Every method throws only ``ClientError``.
///
/// ```swift
/// let client = GatewayClient(gateway: url)  // such as https://courses.example.com
/// let user = try await client.signIn(name: email, password: password, as: User.self).user
/// let episodes = try await client.request("GET", "/episodes", as: [Episode].self)
/// ```
///
/// Module `ThinClient`: a client library without tokens, for apps and for programs. It depends on Foundation only.
public struct GatewayClient: Sendable {
    /// The URL of the gateway.
    public let gateway: URL
    private let accounts: String
    private let nameMember: String
    private let fields: [String: String]
    private let transport: any Transport
    private let prover: DeviceProver?

    /// Creates a client.
    /// - Parameters:
    ///   - gateway: The URL of the gateway, such as `https://courses.example.com`. A path is put before all others.
    ///   - accounts: The path of the account endpoints: `accounts.prefix` in the configuration of the gateway.
    ///   - nameMember: The member with the user name: `accounts.name.member`.
    ///   - fields: Fields of every request, such as that of `csrf.requireHeader`.
    ///   - transport: Sends requests and keeps cookies. Two clients of one user can share it; two users cannot.
    ///   - deviceKey: Sessions are bound to this key if the gateway offers it: `device` of the app, or
    ///     `session.device.mode`. One client has the transport then.
    public init(
        gateway: URL, accounts: String = "/auth", nameMember: String = "email", fields: [String: String] = [:],
        transport: any Transport = URLSessionTransport(), deviceKey: (any DeviceKey)? = nil
    ) {
        self.gateway = gateway
        self.accounts = accounts
        self.nameMember = nameMember
        self.fields = fields
        self.transport = transport
        prover = deviceKey.map { key in
            var request = URLRequest(url: gateway.appending(path: accounts + "/device"))
            request.httpMethod = "POST"
            for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
            return DeviceProver(key, request, transport)
        }
    }

    // MARK: - The API

    /// Sends a request to a path of the API and decodes its JSON response. Dates are in ISO 8601.
    /// - Parameters:
    ///   - path: Not percent-encoded, such as `/videos/1`.
    ///   - query: Names and values, not percent-encoded.
    /// - Throws: ``ClientError``; of the code ``ClientError/Code/unauthorized`` if the user has to sign in.
    public func request<Response: Decodable>(
        _ method: String, _ path: String, query: [URLQueryItem] = [], as type: Response.Type = Response.self
    ) async throws(ClientError) -> Response {
        try Self.decode(type, try await data(method, path, query: query))
    }

    /// Sends a request with a JSON body and decodes its JSON response. Dates are in ISO 8601.
    public func request<Response: Decodable>(
        _ method: String, _ path: String, query: [URLQueryItem] = [], body: some Encodable,
        as type: Response.Type = Response.self
    ) async throws(ClientError) -> Response {
        let body = try Self.encode(body)
        return try Self.decode(
            type, try await data(method, path, query: query, body: body, contentType: "application/json"))
    }

    /// Sends a request and returns the body of its response.
    /// - Throws: ``ClientError`` also for every status that is not 2xx.
    @discardableResult
    public func data(
        _ method: String, _ path: String, query: [URLQueryItem] = [], body: Data? = nil, contentType: String? = nil
    ) async throws(ClientError) -> Data {
        var url = gateway.appending(path: path)
        if !query.isEmpty { url.append(queryItems: query) }
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.httpBody = body
        request.setValue("application/json", forHTTPHeaderField: "Accept")
        if let contentType { request.setValue(contentType, forHTTPHeaderField: "Content-Type") }
        for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
        let (data, response) = try await perform(request)
        guard (200..<300).contains(response.statusCode) else { throw ClientError(response, body: data) }
        return data
    }

    // MARK: - The session

    /// Signs in with a password. An existing session ends.
    /// - Parameters:
    ///   - staysSignedIn: Whether to stay signed in after the app has ended. Has an effect if the gateway's
    ///     `session.cookie.persistent` is `onRequest`, with a transport that keeps cookies
    ///     (``URLSessionTransport/keepingCookies``).
    ///   - app: The name in `accounts.apps` whose lifetimes the session gets; `nil` for those of `session`.
    ///   - user: The type of the user's document, which is the API's own.
    public func signIn<User: Decodable>(
        name: String, password: String, staysSignedIn: Bool = false, app: String? = nil,
        as user: User.Type = User.self
    ) async throws(ClientError) -> SignedIn<User> {
        var body: [String: JSONText] = [nameMember: .text(name), "password": .text(password)]
        if staysSignedIn { body["persistent"] = .flag(true) }
        if let app { body["app"] = .text(app) }
        return try await request("POST", accounts, body: body)
    }

    /// The signed-in user and the times of the session. This request does not extend the session.
    public func currentSession<User: Decodable>(
        as user: User.Type = User.self
    ) async throws(ClientError) -> SignedIn<User> {
        try await request("GET", accounts)
    }

    /// Signs out at the gateway, and at the API. Not an error without a session.
    /// - Returns: The URL to open within a minute, in a browser that has the cookies of the transport, in order to sign
    ///   out at the identity provider too; `nil` if there is nothing to sign out from.
    @discardableResult
    public func signOut() async throws(ClientError) -> URL? {
        let body = try await data("DELETE", accounts)
        guard !body.isEmpty else { return nil }
        return try Self.decode(Continuation.self, body).next
    }

    /// All sessions of the user, the most recent first.
    public func sessions() async throws(ClientError) -> [SessionSummary] {
        try await request("GET", accounts + "/sessions", as: Sessions.self).sessions
    }

    /// Ends one session of the user. Ending the current one signs out.
    /// - Parameter id: ``SessionSummary/id``.
    public func endSession(id: SessionSummary.ID) async throws(ClientError) {
        try await data("DELETE", accounts + "/sessions/" + id)
    }

    /// Ends all sessions of the user but the current one.
    /// - Returns: The number of sessions that were ended.
    @discardableResult
    public func endOtherSessions() async throws(ClientError) -> Int {
        try await request("DELETE", accounts + "/sessions", as: EndedSessions.self).ended
    }

    /// The page of the gateway to sign in with, for a browser: with a password or at an identity provider.
    /// - Parameter path: The path and query of the gateway where the browser continues afterwards.
    public func signInPage(returningTo path: String = "/") -> URL {
        gateway.appending(path: accounts + "/page").appending(queryItems: [URLQueryItem(name: "returnTo", value: path)])
    }

    // MARK: - The browser of the system

    /// Begins a sign-in at an identity provider in the browser of the system, for a native app (RFC 8252). Call
    /// ``completeSignIn(_:as:)`` with the URL at which the browser returns. Of several sign-ins, only the latest can be
    /// completed.
    /// - Parameters:
    ///   - app: The name in `accounts.apps` of the gateway.
    ///   - identity: The name of the provider; `nil` for the default one.
    ///   - route: The name of a route whose authentication requirement has to be met, after ``ClientError/Code/stepUp``.
    ///   - staysSignedIn: See ``signIn(name:password:staysSignedIn:as:)``.
    ///   - port: The port at which the app listens, if its redirect is one of loopback.
    ///   - parameters: Those of `passParameters`, such as `login_hint`.
    /// - Returns: The URL to open within 10 minutes: in `ASWebAuthenticationSession`, a custom tab or a browser, not in a
    ///   web view.
    public func beginSignIn(
        app: String, identity: String? = nil, for route: String? = nil, staysSignedIn: Bool = false, port: Int? = nil,
        parameters: [String: String] = [:]
    ) async throws(ClientError) -> URL {
        let body = AppSignIn(
            app: app, identity: identity, route: route, persistent: staysSignedIn, port: port,
            parameters: parameters.isEmpty ? nil : parameters)
        return try await request("POST", accounts + "/app", body: body, as: BeginningSignIn.self).url
    }

    /// Completes a sign-in within a minute after the browser has returned. An existing session ends. The session is a
    /// cookie of the transport, as after a sign-in with a password.
    /// - Parameter callback: The URL at which the browser returned.
    /// - Throws: ``ClientError``; with the code of the gateway if the sign-in failed in the browser.
    public func completeSignIn<User: Decodable>(
        _ callback: URL, as user: User.Type = User.self
    ) async throws(ClientError) -> SignedIn<User> {
        let items = URLComponents(url: callback, resolvingAgainstBaseURL: false)?.queryItems ?? []
        let value = { (name: String) in items.first { $0.name == name }?.value }
        if let error = value("error") { throw ClientError(code: ClientError.Code(rawValue: error)) }
        guard let code = value("code") else { throw ClientError(code: .invalidResponse) }
        return try await request("POST", accounts + "/app/code", body: ["code": code])
    }

    // MARK: - Requests

    /// Sends a request, and once more if its session needed a new proof: the gateway has not forwarded it then.
    private func perform(_ request: URLRequest) async throws(ClientError) -> (Data, HTTPURLResponse) {
        guard let prover else { return try await send(request) }
        let proofs = await prover.prepare()
        let (data, response) = try await send(request)
        let lacksProof = response.statusCode == 401 && ClientError(response, body: data).reason == "unproven"
        guard await prover.received(response, lacksProof: lacksProof, after: proofs) else { return (data, response) }
        return try await send(request)
    }

    private func send(_ request: URLRequest) async throws(ClientError) -> (Data, HTTPURLResponse) {
        do { return try await transport.send(request) } catch {
            throw ClientError(code: Task.isCancelled ? .cancelled : .network)
        }
    }

    private static func encode(_ body: some Encodable) throws(ClientError) -> Data {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        do { return try encoder.encode(body) } catch { throw ClientError(code: .invalidInput) }
    }

    private static func decode<T: Decodable>(_ type: T.Type, _ body: Data) throws(ClientError) -> T {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        do { return try decoder.decode(type, from: body) } catch { throw ClientError(code: .invalidResponse) }
    }

    /// A member of a sign-in.
    private enum JSONText: Encodable {
        case text(String)
        case flag(Bool)

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .flag(let flag): try container.encode(flag)
            }
        }
    }

    /// The members of a request that begins a sign-in.
    private struct AppSignIn: Encodable {
        let app: String
        let identity: String?
        let route: String?
        let persistent: Bool
        let port: Int?
        let parameters: [String: String]?

        private enum CodingKeys: String, CodingKey {
            case app, identity, persistent, port, parameters
            case route = "for"
        }
    }

    private struct BeginningSignIn: Decodable {
        let url: URL
    }

    private struct Continuation: Decodable {
        let next: URL
    }

    private struct Sessions: Decodable {
        let sessions: [SessionSummary]
    }

    private struct EndedSessions: Decodable {
        let ended: Int
    }
}
