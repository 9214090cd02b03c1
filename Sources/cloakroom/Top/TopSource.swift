import ArgumentParser
import AsyncHTTPClient
import CloakroomCore
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL

/// Reads the status document of an admin listener.
struct TopSource {
    /// The address without a trailing slash.
    let address: String
    private let token: Secret?
    private let client: HTTPClient

    /// The maximum size of the document: more than that of 1,000 routes.
    private static let maximumBytes = 4 << 20
    private static let timeLimit: Duration = .seconds(5)

    /// - Parameter address: `http://host:port`, `https://host:port` or `host:port`.
    /// - Throws: `ValidationError` for an address that is invalid or that must not get the token.
    init(address: String, token: Secret?, caFile: String?) throws {
        let text = address.contains("://") ? address : "http://\(address)"
        guard let url = URLComponents(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
            let host = url.host, !host.isEmpty, url.user == nil, url.query == nil, url.fragment == nil
        else {
            throw ValidationError("--admin must be the URL of an admin listener (write --admin http://127.0.0.1:9464)")
        }
        guard token == nil || scheme == "https" || Self.isLoopback(host) else {
            throw ValidationError(
                "the admin token is not sent to another machine without TLS (write --admin https://…)")
        }
        // The client would print a token with a line break as the reason of its error.
        guard token?.bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) ?? true else {
            throw ValidationError(
                "the admin token contains a line break or another control character (write it in one line)")
        }
        self.address = text.hasSuffix("/") ? String(text.dropLast()) : text
        self.token = token
        var tls = TLSConfiguration.makeClientConfiguration()
        if let caFile { tls.trustRoots = .file(caFile) }
        // The admin listener never redirects, so a redirect comes from another server; it must not get the token.
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls, redirectConfiguration: .disallow)
        // Otherwise the reason of a refused connection is known only at the end of the time limit.
        configuration.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// - Throws: ``TopError``.
    func fetch() async throws -> TopDocument {
        var request = HTTPClientRequest(url: address + "/status.json")
        if let token {
            request.headers.add(name: "authorization", value: "Bearer " + String(decoding: token.bytes, as: UTF8.self))
        }
        let data: Data
        do {
            data = try await TimeLimit.run(Self.timeLimit) { [client, address, request] in
                let response = try await client.execute(request, timeout: TimeAmount(Self.timeLimit))
                try Self.check(response.status, of: address)
                return Data(try await response.body.collect(upTo: Self.maximumBytes).readableBytesView)
            }
        } catch let error as TopError {
            throw error
        } catch {
            throw TopError(AdminExchange.failure(error, at: address, limit: Self.timeLimit))
        }
        guard let document = TopDocument(json: data) else {
            throw TopError("\(address) is not an admin listener of this version: /status.json is not a status document")
        }
        return document
    }

    private static func check(_ status: HTTPResponseStatus, of address: String) throws(TopError) {
        switch status {
        case .ok: break
        case .unauthorized:
            throw TopError("\(address) requires the admin token: set CLOAKROOM_ADMIN_TOKEN or --token-file")
        case .misdirectedRequest:
            throw TopError("\(address) does not allow this host name: use the IP address, or list the name")
        default: throw TopError("\(address) is not an admin listener: \(status)")
        }
    }

    func shutdown() async throws { try await client.shutdown() }

    private static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || host == "::1" || host == "[::1]"
            || (host.hasPrefix("127.") && IPAddress.bytes(of: host)?.count == 4)
    }
}

/// Why there is no status, as one sentence.
struct TopError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The part of the status document that is shown. Not the type that the admin listener encodes: it requires only what is
/// shown, so that a gateway of another release can be read too.
struct TopDocument: Decodable, Equatable {
    var state: String
    var concerns: [Alert]
    var generatedAt: String
    var windowSeconds: Double
    var process: ProcessInfo
    var traffic: Requests
    var routes: [Route]
    var upstreams: [Upstream]
    var recentFailures: [Failure]?
    var sessions: Sessions

    struct Alert: Decodable, Equatable {
        var severity: String
        var text: String
    }

    struct ProcessInfo: Decodable, Equatable {
        var version: String
        var startedAt: String
        var uptimeSeconds: Int64
    }

    struct Requests: Decodable, Equatable {
        var total: UInt64
        var perSecond: Double
        var errorShare: Double?
        var errorsTotal: UInt64
        var latency: Latency?
    }

    struct Latency: Decodable, Equatable {
        var p50Ms: Double
        var p95Ms: Double
        var p99Ms: Double
        /// The names of percentiles that are only known to be at least their number.
        var atLeast: [String]?
    }

    struct Route: Decodable, Equatable {
        var name: String
        var requests: Requests
    }

    struct Upstream: Decodable, Equatable {
        var name: String
        var inFlight: UInt64
        var pending: UInt64
        var targets: [Target]

        struct Target: Decodable, Equatable {
            var address: String
            var peer: String?
            var state: String
            var inFlight: Int?
            var lastFailure: LastFailure?
        }

        struct LastFailure: Decodable, Equatable {
            var secondsAgo: Int64
            var reason: String
        }
    }

    struct Failure: Decodable, Equatable {
        var route: String
        var status: String?
        var reason: String
        var count: UInt64
        var lastAt: String
    }

    struct Sessions: Decodable, Equatable {
        var active: UInt64?
    }

    /// - Returns: `nil` if it is not a status document.
    init?(json: Data) {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        guard let document = try? decoder.decode(TopDocument.self, from: json) else { return nil }
        self = document
    }
}
