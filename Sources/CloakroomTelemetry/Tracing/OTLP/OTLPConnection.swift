import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import FoundationEssentials
import NIOCore
import NIOHTTP1
import Tracing

/// Posts batches to a collector (OTLP/HTTP), one attempt at a time.
///
/// What went wrong below is dropped here: errors of HTTP libraries may hold the values of header fields, and some of ours
/// are keys.
struct OTLPHTTPClient: Sendable {
    /// What came of an attempt.
    enum Outcome: Sendable {
        /// The collector has the batch, but for some spans that it did not want.
        case accepted(rejected: Int)
        /// Another attempt may succeed, after the time that the collector asked for if it did.
        case failed(reason: String, retryAfter: Duration?)
        /// No other attempt would end differently.
        case rejected(reason: String)
    }

    /// The largest answer that is read, in bytes.
    private static let bodyLimit = 65_536
    /// The statuses after which a batch is sent again (OTLP specification, "Retryable Response Codes").
    private static let retryable: Set<UInt> = [429, 502, 503, 504]

    private let client: HTTPClient
    private let otlp: OTLPConfiguration
    private let userAgent: String

    /// - Throws: ``UpstreamTLSError`` if the file of trusted certificates is invalid.
    init(_ otlp: OTLPConfiguration, version: String) throws(UpstreamTLSError) {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        // Spans about exporting spans would never come to an end.
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

    /// Verifies the name of an `https` collector; `nil` for clear text and for an IP address.
    private static func verifier(_ endpoint: String) -> ServerNameVerifier? {
        let components = URLComponents(string: endpoint)
        guard components?.scheme?.lowercased() != "http" else { return nil }
        let host = (components?.host ?? "").filter { $0 != "[" && $0 != "]" }
        return ServerNameVerifier(host: host.hasSuffix(".") ? String(host.dropLast()) : host)
    }

    /// Closes the connection. It must be called once, at the end.
    func shutdown() async {
        // Only a second shutdown throws, and then there is nothing left to close.
        try? await client.shutdown()
    }

    /// Sends one batch, once.
    func post(_ body: [UInt8]) async -> Outcome {
        let end = ContinuousClock.now + otlp.timeout
        do {
            // This bound ends with the head of the answer.
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
            // A batch that was accepted stays so, whatever is wrong with the rest of the answer: sent again, each of its
            // spans would be there twice.
            let body = await Self.body(of: response, until: end)
            return .accepted(rejected: OTLPResponse.rejectedSpans(Array(body?.readableBytesView ?? ByteBufferView())))
        }
        guard Self.retryable.contains(status) else { return .rejected(reason: "\(status)") }
        let wallClock = Timestamp(milliseconds: Int64(clamping: DefaultTracerClock.now.millisecondsSinceEpoch))
        let retryAfter = response.headers.first(name: "Retry-After").flatMap { RetryAfter.read($0, now: wallClock) }
        return .failed(reason: "\(status)", retryAfter: retryAfter)
    }

    /// The whole body of an answer; `nil` if it does not come in time, is too long or breaks off.
    private static func body(of response: HTTPClientResponse, until end: ContinuousClock.Instant) async -> ByteBuffer? {
        await withTaskGroup(of: ByteBuffer?.self) { group in
            defer { group.cancelAll() }
            group.addTask { try? await response.body.collect(upTo: bodyLimit) }
            group.addTask {
                // Cut short by a cancellation it says the same: there is no more time.
                try? await Task.sleep(until: end, clock: .continuous)
                return nil
            }
            return await group.next() ?? nil
        }
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
