public import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A client for the API behind the gateway.
///
/// After sign-in, the transport sends a cookie with every request. The client has no tokens, API keys, expiry times or
/// token refresh: the gateway handles them. Every method throws only ``ClientError``.
///
/// Module `ThinClient`: an example of a client of the gateway, without tokens.
public struct EpisodesClient: Sendable {
    private let gateway: URL
    private let transport: any Transport

    /// Creates a client for a gateway URL such as `https://courses.example.com`.
    /// - Parameter transport: Sends requests and stores cookies; two clients of one user can share it.
    public init(gateway: URL, transport: any Transport = URLSessionTransport()) {
        self.gateway = gateway
        self.transport = transport
    }

    /// Signs in. An existing session ends.
    public func signIn(email: String, password: String) async throws(ClientError) -> User {
        let body = try Self.encode(Credentials(email: email, password: password))
        return try await response(SignedIn.self, to: "POST", "/auth", body: body).user
    }

    /// The signed-in user. This request does not extend the session.
    public func me() async throws(ClientError) -> User {
        try await response(SignedIn.self, to: "GET", "/auth").user
    }

    /// The list of episodes; requires no session.
    public func episodes() async throws(ClientError) -> [Episode] {
        try await response([Episode].self, to: "GET", "/episodes").map { $0.resolved(against: gateway) }
    }

    /// The video of an episode, by its ``Episode/videoID``. Requires a session.
    public func video(id: Int) async throws(ClientError) -> Video {
        try await response(Video.self, to: "GET", "/videos/\(id)").resolved(against: gateway)
    }

    /// Signs out at the gateway and the API. Not an error without a session.
    public func signOut() async throws(ClientError) {
        _ = try await send("DELETE", "/auth")
    }

    private func response<T: Decodable>(
        _ type: T.Type, to method: String, _ path: String, body: Data? = nil
    ) async throws(ClientError) -> T {
        let body = try await send(method, path, body: body)
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        do { return try decoder.decode(type, from: body) } catch { throw ClientError(code: .invalidResponse) }
    }

    private func send(_ method: String, _ path: String, body: Data? = nil) async throws(ClientError) -> Data {
        var request = URLRequest(url: gateway.appending(path: path))
        request.httpMethod = method
        request.httpBody = body
        if body != nil { request.setValue("application/json", forHTTPHeaderField: "Content-Type") }
        request.setValue("application/json", forHTTPHeaderField: "Accept")
        let (data, response) = try await perform(request)
        guard (200..<300).contains(response.statusCode) else { throw ClientError(response, body: data) }
        return data
    }

    private func perform(_ request: URLRequest) async throws(ClientError) -> (Data, HTTPURLResponse) {
        do { return try await transport.send(request) } catch {
            throw ClientError(code: Task.isCancelled ? .cancelled : .network)
        }
    }

    private static func encode(_ credentials: Credentials) throws(ClientError) -> Data {
        do { return try JSONEncoder().encode(credentials) } catch { throw ClientError(code: .invalidInput) }
    }

    private struct Credentials: Encodable {
        let email: String
        let password: String
    }

    private struct SignedIn: Decodable {
        let user: User
    }
}
