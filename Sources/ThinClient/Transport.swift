public import Foundation

#if canImport(FoundationNetworking)
    public import FoundationNetworking
#endif

/// Sends requests to the gateway, with cookies.
public protocol Transport: Sendable {
    /// Sends a request and returns the whole response, regardless of its status.
    ///
    /// Throws any error if there is no response.
    func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse)
}

/// A `URLSession` that keeps cookies.
public struct URLSessionTransport: Transport {
    private let session: URLSession

    /// Creates a transport with a new session whose cookies are in memory, or with an existing one that accepts cookies.
    public init(_ session: URLSession = URLSession(configuration: .ephemeral)) {
        self.session = session
    }

    /// A transport whose cookies remain after the app has ended, in `HTTPCookieStorage.shared`, if the gateway sets
    /// persistent ones: see `session.cookie.persistent` in its configuration. Responses are not cached on disk.
    public static var keepingCookies: URLSessionTransport {
        let configuration = URLSessionConfiguration.default
        configuration.urlCache = nil
        return URLSessionTransport(URLSession(configuration: configuration))
    }

    /// Sends a request; throws `URLError` if there is no response.
    public func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        let (data, response) = try await session.data(for: request)
        guard let response = response as? HTTPURLResponse else { throw URLError(.badServerResponse) }
        return (data, response)
    }
}
