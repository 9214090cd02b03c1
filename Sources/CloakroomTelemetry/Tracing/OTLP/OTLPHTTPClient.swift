import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import FoundationEssentials
import NIOCore
import NIOHTTP1
import Tracing

/// Posts batches to a collector (OTLP/HTTP), one attempt at a time.
///
/// Underlying errors are discarded: errors of HTTP libraries may contain header field values, some of which are keys.
struct OTLPHTTPClient: Sendable {
    /// The result of an attempt.
    enum Outcome: Sendable {
        /// The collector accepted the batch, except for the given number of spans.
        case accepted(rejected: Int)
        /// A retry may succeed, after the delay requested by the collector, if any.
        case failed(reason: String, retryAfter: Duration?)
        /// A retry would fail too.
        case rejected(reason: String)
    }

    /// The maximum size of a response body, in bytes.
    private static let bodyLimit = 65_536
    /// The retryable statuses (OTLP specification, "Retryable Response Codes").
    private static let retryable: Set<UInt> = [429, 502, 503, 504]

    private let client: HTTPClient
    private let otlp: OTLPConfiguration
    private let userAgent: String

    /// - Throws: ``UpstreamTLSError`` if the file of trusted certificates is invalid.
    init(_ otlp: OTLPConfiguration, version: String) throws(UpstreamTLSError) {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        // Tracing the export would create spans endlessly.
        configuration.tracing.tracer = nil
        configuration.httpVersion = .http1Only
        configuration.tlsConfiguration = try UpstreamTLS.configuration(otlp.tls)
        if let verifier = Self.verifier(otlp.endpoint) {
            configuration.http1_1ConnectionDebugInitializer = { channel in
                verifier.rejection(of: channel) ?? channel.eventLoop.makeSucceededVoidFuture()
            }
        }
        configuration.timeout.connect = TimeAmount(otlp.timeout)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1
        configuration.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        self.otlp = otlp
        userAgent = "cloakroom/\(version)"
    }

    /// Verifies the name of an `https` collector; `nil` for `http` and for an IP address.
    private static func verifier(_ endpoint: String) -> ServerNameVerifier? {
        let components = URLComponents(string: endpoint)
        guard components?.scheme?.lowercased() != "http" else { return nil }
        let host = (components?.host ?? "").filter { $0 != "[" && $0 != "]" }
        return ServerNameVerifier(host: host.hasSuffix(".") ? String(host.dropLast()) : host)
    }

    /// Closes the connection. Must be called once, at the end.
    func shutdown() async {
        // Only a second shutdown throws, when nothing is left to close.
        try? await client.shutdown()
    }

    /// Sends one batch, once.
    func post(_ body: [UInt8]) async -> Outcome {
        let end = ContinuousClock.now + otlp.timeout
        do {
            // This timeout covers the request up to the response head.
            let response = try await client.execute(request(body), timeout: TimeAmount(otlp.timeout))
            return await outcome(of: response, until: end)
        } catch {
            return Self.outcome(of: error)
        }
    }

    private func request(_ body: [UInt8]) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: otlp.endpoint)
        request.method = .POST
        request.headers.add(name: "User-Agent", value: userAgent)
        for header in otlp.headers {
            request.headers.replaceOrAdd(name: header.name, value: String(decoding: header.value.bytes, as: UTF8.self))
        }
        request.headers.replaceOrAdd(name: "Content-Type", value: "application/x-protobuf")
        request.body = .bytes(ByteBuffer(bytes: body))
        return request
    }

    private func outcome(of response: HTTPClientResponse, until end: ContinuousClock.Instant) async -> Outcome {
        let status = response.status.code
        if (200...299).contains(status) {
            // An accepted batch stays accepted even if the response body is invalid: sending it again would duplicate
            // its spans.
            let body = await Self.body(of: response, until: end)
            return .accepted(rejected: OTLPResponse.rejectedSpans(Array(body?.readableBytesView ?? ByteBufferView())))
        }
        guard Self.retryable.contains(status) else { return .rejected(reason: "\(status)") }
        let wallClock = WallTime(milliseconds: Int64(clamping: DefaultTracerClock.now.millisecondsSinceEpoch))
        let retryAfter = response.headers.first(name: "Retry-After").flatMap { RetryAfter.read($0, now: wallClock) }
        return .failed(reason: "\(status)", retryAfter: retryAfter)
    }

    /// The whole response body; `nil` if it is late, too long or incomplete.
    private static func body(of response: HTTPClientResponse, until end: ContinuousClock.Instant) async -> ByteBuffer? {
        try? await TimeLimit.run(end - .now) { try await response.body.collect(upTo: bodyLimit) }
    }

    private static func outcome(of error: any Error) -> Outcome {
        guard let error = error as? HTTPClientError else { return .failed(reason: "connection", retryAfter: nil) }
        switch error {
        case .invalidURL, .emptyHost, .emptyScheme, .missingSocketPath:
            return .rejected(reason: "configuration")
        case .connectTimeout, .deadlineExceeded, .readTimeout, .writeTimeout, .tlsHandshakeTimeout,
            .getConnectionFromPoolTimeout:
            return .failed(reason: "timeout", retryAfter: nil)
        default:
            return .failed(reason: "connection", retryAfter: nil)
        }
    }
}
