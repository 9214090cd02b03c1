import AsyncHTTPClient
import Foundation
import FoundationNetworking
import NIOCore
import NIOHTTP1
import NIOSSL
import ThinClient

/// Sends the client's requests over TLS and trusts one certificate. Foundation on Linux trusts the system's
/// certificates only, and a test does not change the system; Foundation's cookie storage is used unchanged.
final class CheckedTransport: Transport {
    let storage: HTTPCookieStorage
    private let http: HTTPClient

    private init(_ http: HTTPClient, _ storage: HTTPCookieStorage) {
        self.http = http
        self.storage = storage
    }

    /// Provides a transport while `body` runs.
    static func with<R: Sendable>(
        _ gateway: SampleAppGateway, body: (EpisodesClient, CheckedTransport) async throws -> R
    ) async throws -> R {
        guard let storage = URLSessionConfiguration.ephemeral.httpCookieStorage,
            let address = URL(string: gateway.address)
        else { throw URLError(.badURL) }
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(gateway.certificateFile)
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
        configuration.connectionPool.retryConnectionEstablishment = false
        return try await HTTPClient.withHTTPClient(configuration: configuration) { http in
            let transport = CheckedTransport(http, storage)
            return try await body(EpisodesClient(gateway: address, transport: transport), transport)
        }
    }

    func send(_ request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        guard let url = request.url else { throw URLError(.badURL) }
        var outgoing = HTTPClientRequest(url: url.absoluteString)
        outgoing.method = HTTPMethod(rawValue: request.httpMethod ?? "GET")
        for (name, value) in request.allHTTPHeaderFields ?? [:] { outgoing.headers.add(name: name, value: value) }
        for (name, value) in HTTPCookie.requestHeaderFields(with: storage.cookies(for: url) ?? []) {
            outgoing.headers.add(name: name, value: value)
        }
        if let body = request.httpBody { outgoing.body = .bytes(ByteBuffer(bytes: body)) }
        let response = try await http.execute(outgoing, timeout: .seconds(60))
        let bytes = try await response.body.collect(upTo: 1 << 22)
        var fields: [String: String] = [:]
        // HTTP/2 field names are lower case, and Foundation searches for `Set-Cookie`.
        for (name, value) in response.headers { fields[name.capitalized] = value }
        storage.setCookies(
            HTTPCookie.cookies(withResponseHeaderFields: fields, for: url), for: url, mainDocumentURL: nil)
        guard
            let response = HTTPURLResponse(
                url: url, statusCode: Int(response.status.code), httpVersion: nil, headerFields: fields)
        else { throw URLError(.badServerResponse) }
        return (Data(bytes.readableBytesView), response)
    }
}
